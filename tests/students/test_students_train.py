"""Training: it learns, it resumes exactly, and it refuses what it cannot use with a sentence."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import demos
import student_data
from capex.dataset import Filters, Pipeline, export_run
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.run.steps import read_steps
from capex.students import checkpoint, curves, data
from capex.students.batches import Batches, Order
from capex.students.graph import Stepper
from capex.students.policy import load_policy
from capex.students.resnet import ResNet18
from capex.students.settings import ActSettings, DiffusionSettings, make_settings, parse_changes
from capex.students.train import TrainingJob, describe, train, train_together
from capex.students.trainer import Trainer
from refusals import refuses


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return student_data.write(tmp_path_factory.mktemp("data") / "pack")


def job(pack, out, policy="act", steps=6, **changes):
    settings = {
        k: changes.pop(k) for k in list(changes) if k in (*student_data.SMALL[policy], "still")
    }
    return TrainingJob(
        (pack,),
        make_settings(policy, student_data.SMALL[policy] | settings),
        steps,
        out,
        save_every=3,
        **changes,
    )


class Killed(Exception):
    """Stands for a kill: raised between two steps."""


def kill_at(step):
    def report(now):
        if now.step == step:
            raise Killed

    return report


def test_a_small_act_learns_five_demonstrations_by_heart(tmp_path):
    pack = student_data.write(tmp_path / "pack", cameras=("left",))
    settings = student_data.SMALL["act"] | {
        "dim": 64,
        "feedforward": 128,
        "chunk": 4,
        "batch": 16,
        "lr": 2e-3,
        "schedule": "cosine",
        "warmup": 50,
    }
    train(  # so long that it ends far below the bounds, whichever way a machine rounds
        TrainingJob(
            (pack,),
            make_settings("act", settings),
            500,
            tmp_path / "act",
            save_every=500,
            keep=(5,),
        )
    )
    rows = curves.read(tmp_path / "act" / "curve.csv")
    assert [row["step"] for row in rows] == [5, 100, 200, 300, 400, 500]
    assert rows[0]["l1"] > 10 * rows[-1]["l1"]
    assert rows[0]["loss"] > 10 * rows[-1]["loss"]
    policy, shown = load_policy(tmp_path / "act", "cpu"), data.open_pack(pack)
    errors = []
    for episode in shown.episodes:
        policy.reset()
        for t in range(episode.begin, episode.end):
            images = dict(zip(shown.cameras, shown.images[0][t], strict=True))
            action = policy.act(
                {"images": images, "state": shown.states[t], "instruction": episode.instruction}
            )
            errors.append(np.abs(action - shown.actions[t]))
    spread = np.abs(shown.actions - shown.actions.mean(axis=0)).mean(axis=0)
    moving = spread > 0.01
    assert moving.sum() == 3  # two directions and the gripper
    assert np.all(
        np.mean(errors, axis=0)[moving] < 0.15 * spread[moving]
    )  # open loop, against always giving the mean action
    assert np.mean(errors) < 0.01


@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_a_killed_training_continues_to_the_same_weights(pack, tmp_path, policy):
    def asked(name):
        return replace(job(pack, tmp_path / name, policy, steps=4, dropout=0.1), save_every=2)

    train(asked("whole"))
    with pytest.raises(Killed):
        train(asked("killed"), kill_at(4))
    assert checkpoint.steps(tmp_path / "killed") == [2]
    train(asked("killed"))
    whole, killed = (
        checkpoint.load_policy_files(tmp_path / name)[1] for name in ("whole", "killed")
    )
    assert all(torch.equal(whole[name], killed[name]) for name in whole)


def test_trainings_side_by_side_keep_to_themselves(pack, tmp_path):
    """Two seeds together differ from each other and resume as exactly as one."""
    train_together([job(pack, tmp_path / "a", seed=0), job(pack, tmp_path / "b", seed=1)])
    a, b = (checkpoint.load_policy_files(tmp_path / name)[1] for name in "ab")
    assert not torch.equal(a["action_head.weight"], b["action_head.weight"])
    elsewhere = replace(job(pack, tmp_path / "d"), device="cuda")
    with refuses(ErrorCode.CONFLICTING_SETTINGS, "need the same device"):
        train_together([job(pack, tmp_path / "c"), elsewhere])


def test_trainings_of_different_kind_and_length_share_a_device(pack, tmp_path):
    """The shorter one ends first; begun ones join at their step, and ended ones stay as they are."""
    jobs = [job(pack, tmp_path / "a", steps=6), job(pack, tmp_path / "b", "diffusion", steps=3)]
    assert [path.name for path in train_together(jobs)] == ["000006", "000003"]
    assert [curve_of(j).splitlines()[-1].split(",")[0] for j in jobs] == ["6", "3"]
    with pytest.raises(Killed):
        train(replace(job(pack, tmp_path / "c", steps=4), save_every=2), kill_at(4))
    killed = replace(job(pack, tmp_path / "c", steps=4), save_every=2)
    jobs, seen = [*jobs, killed, job(pack, tmp_path / "d", steps=4)], []
    before = [contents(j.out) for j in jobs[:2]]
    paths = train_together(jobs, seen.append)
    assert [path.name for path in paths] == ["000006", "000003", "000004", "000004"]
    assert [now.step for now in seen] == [4, 3, 4]  # c goes on at 2, d begins
    assert [contents(j.out) for j in jobs[:2]] == before


def curve_of(asked):
    return (asked.out / "curve.csv").read_text()


def contents(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_dataset_that_changed_is_not_continued_on(tmp_path):
    pack = student_data.write(tmp_path / "pack")
    with pytest.raises(Killed):
        train(job(pack, tmp_path / "act"), kill_at(6))
    student_data.write(tmp_path / "pack", episodes=4)
    with refuses(ErrorCode.OTHER_SETTINGS, "the dataset has changed since"):
        train(job(pack, tmp_path / "act"))


@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_a_copy_of_the_weights_in_another_type_trains_the_weights(pack, tmp_path, policy):
    """As in bf16 on a GPU, here in float64, which every CPU can multiply: the copy computes, the weights themselves are updated."""
    losses, weights = {}, {}
    shown = data.load([pack], window=10)
    for dtype in (torch.float32, torch.float64):
        spec, _ = describe(job(pack, tmp_path / "out", policy), shown)
        torch.manual_seed(0)
        batches = Batches(shown, spec, torch.device("cpu"), 0, on_device=True)
        trainer = Trainer(spec.network(), spec.settings, batches, 2, torch.device("cpu"), dtype)
        stepper = Stepper([trainer], torch.device("cpu"))
        for _ in range(2):
            stepper.advance()
        losses[dtype] = trainer.log[:2].numpy()
        weights[dtype] = trainer.weights()
    assert losses[torch.float64] == pytest.approx(losses[torch.float32], rel=1e-4)
    for name, tensor in weights[torch.float64].items():
        assert tensor.dtype == torch.float32
        # Adam's first steps go by the signs of the gradients, and a gradient that is only rounding has either sign: 2 steps of lr at most.
        assert torch.allclose(tensor, weights[torch.float32][name], atol=4.1 * spec.settings.lr)


def test_a_checkpoint_holds_no_pickle_and_tells_what_it_is(pack, tmp_path):
    place = train(job(pack, tmp_path / "act", steps=3))
    assert sorted(p.name for p in place.iterdir()) == [
        "model.safetensors",
        "policy.json",
        "training.json",
        "training.safetensors",
    ]
    told = json.loads((place / "policy.json").read_text())
    assert told["initialisation"] == "random"
    assert told["training"]["episodes"] == 5
    assert told["training"]["starts"][0] == ["toy", "Go", 0, 0]
    assert told["normalizer"]["statistics"]["action"]["std"][6] == pytest.approx(1.0, abs=0.01)
    assert not any(name.startswith("base_") for name in told["state_names"])
    (tmp_path / "act" / "checkpoints" / ".writing-1-000009").mkdir()  # what a kill leaves
    assert checkpoint.find(tmp_path / "act") == place


def test_other_settings_into_the_same_folder_are_refused(pack, tmp_path):
    train(job(pack, tmp_path / "act", steps=3))
    with refuses(ErrorCode.OTHER_SETTINGS, "holds a training with other seed"):
        train(job(pack, tmp_path / "act", steps=3, seed=1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").write_text("mine")
    with refuses(ErrorCode.ALREADY_EXISTS):
        train(job(pack, tmp_path / "full"))


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"nan": True}, ErrorCode.DAMAGED_FILE, "action 'eef_dy' of frame 3 is nan"),
        ({"certified": False}, ErrorCode.NOT_PERMITTED, "5 of 5 episodes have no certificate"),
        ({"length": 6}, ErrorCode.NO_DATA, "episode 0 has 6 frames and the policy looks 8 ahead"),
    ],
)
def test_bad_data_is_refused_with_a_sentence(tmp_path, changes, code, sentence):
    bad = student_data.write(tmp_path / "bad", **changes)
    with refuses(code, sentence):
        train(job(bad, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_datasets_that_differ_are_not_trained_together(tmp_path, pack):
    order = student_data.write(
        tmp_path / "order", action_names=[*student_data.ACTION[6:], *student_data.ACTION[:6]]
    )
    size = student_data.write(tmp_path / "size", size=48)
    with refuses(ErrorCode.MISMATCH, "has action_names gripper"):
        data.load([pack, order], window=8)
    with refuses(ErrorCode.MISMATCH, r"has images 48x48 and .* 32x32"):
        data.load([pack, size], window=8)
    both = data.load([pack, student_data.write(tmp_path / "more", episodes=2)], window=8)
    assert len(both.episodes) == 7
    assert both.episodes[5].begin == 5 * 24
    assert data.load([pack], window=8, only=(1, 3)).numbers()[0].shape == (48, 9)
    with refuses(ErrorCode.WRONG_CONTENT, "is no dataset"):
        data.load([tmp_path], window=8)


def test_every_window_is_seen_once_per_pass_whatever_the_step_asked_for_first(pack):
    shown = data.load([pack], window=8)
    order, again = Order(shown, 1, 8, seed=3), Order(shown, 1, 8, seed=3)
    whole = order.rows(0, 15)
    assert sorted(whole.ravel()) == list(range(120))
    assert np.array_equal(again.rows(7, 2), whole[7:9])
    last = DiffusionSettings().last_step
    assert max(Order(shown, last, 8, seed=0).rows(0, 50).ravel() % 24) == 24 - last


@pytest.mark.parametrize("on_device", [True, False])
def test_frames_in_which_a_demonstrator_waits_can_be_left_out(tmp_path, on_device):
    """Two datasets: in each episode it moves for ten frames, closes the gripper, waits nine frames and moves on. Images tell frames apart."""
    actions, states = np.zeros((60, 12), dtype=np.float32), np.zeros((60, 12), dtype=np.float32)
    actions[:, 0], actions[:, 6] = 0.5, -1.0
    for begin in (0, 30):
        actions[begin + 10 : begin + 20, 0], actions[begin + 10 : begin + 30, 6] = 0.0, 1.0
        states[begin : begin + 30, 0] = np.cumsum(actions[begin : begin + 30, 0]) * 0.05
        states[begin + 11 : begin + 30, 7] = 0.02  # the fingers close in one step
    head = {
        "cameras": ["left"],
        "state_names": list(student_data.STATE),
        "action_names": list(student_data.ACTION),
        "fps": 20,
    }
    for name, first in (("one", 0), ("two", 100)):
        frames = (np.full((1, 32, 32, 3), first + k, dtype=np.uint8) for k in range(60))
        rows = [
            data.Demonstration(b, b + 30, "wait", "toy", "Go", first + b, certified=True)
            for b in (0, 30)
        ]
        data.write_pack(tmp_path / name, head, frames, states, actions, rows)
    packs = [tmp_path / "one", tmp_path / "two"]
    moving = data.load(packs, window=8, drop_still=True)
    once = [*range(12), *range(20, 30), *range(30, 42), *range(50, 60)]
    assert moving.rows.tolist() == [*once, *(60 + k for k in once)]
    assert [(e.begin, e.end) for e in moving.episodes] == [(0, 22), (22, 44), (44, 66), (66, 88)]
    assert len(data.load(packs, window=8).rows) == 120
    spec, _ = describe(job(packs[0], tmp_path / "act", still="drop", batch=4), moving)
    batches = Batches(moving, spec, torch.device("cpu"), 0, on_device=on_device)
    try:
        for step in range(4):
            batches.prepare(step)
            shown = batches.load(torch.tensor(step)).images[:, 0, 0, 0, 0]
            seen = np.round(
                (shown.numpy() - spec.normalizer.image.offset[0]) / spec.normalizer.image.scale[0]
            ).astype(int)
            wanted = moving.rows[batches.order.rows(step, 1)[0]]
            assert seen.tolist() == [row if row < 60 else row + 40 for row in wanted]
    finally:
        batches.close()


def test_packs_of_several_tasks_stream_what_the_device_would_hold(pack, tmp_path):
    more = student_data.write(tmp_path / "more", episodes=2, task="toy:Stay")
    shown = data.load([pack, more], window=10)
    spec, _ = describe(job(pack, tmp_path / "out", "diffusion"), shown)
    cpu = torch.device("cpu")
    held, streamed = (Batches(shown, spec, cpu, 0, on_device=here) for here in (True, False))
    # A graph is warmed up with step 0, and a training that continues begins anywhere.
    for step in (0, 0, 1, 2, 3, 30, 31):
        batches = []
        for source in (held, streamed):
            source.prepare(step)
            torch.manual_seed(step)  # of the crops
            batches.append(source.load(torch.tensor(step)))
        assert all(torch.equal(*pair) for pair in zip(*batches, strict=True))
    streamed.close()


def test_quaternions_are_turned_to_one_side(pack):
    from capex.students import normalizer

    shown = data.load([pack], window=8)
    fitted = normalizer.fit("diffusion", shown.states, shown.actions, shown.state_names)
    turned = fitted.one_sided(shown.states)
    assert np.ptp(turned[:, 3]) < 1e-6 < np.ptp(shown.states[:, 3])
    again = normalizer.Normalizer.from_json(json.loads(json.dumps(fitted.as_json())))
    assert np.array_equal(again.state_in(shown.states), fitted.state_in(shown.states))


TIP = ("x", "y", "z", "qx", "qy", "qz", "qw", "opening")
STEP = ("dx", "dy", "dz", "rx", "ry", "rz", "gripper")
ROBOTS = {
    "one fixed arm": (TIP, STEP),
    "two fixed arms": tuple(
        tuple(f"{arm}_{n}" for arm in ("left", "right") for n in names) for names in (TIP, STEP)
    ),
    "a mobile arm": (
        (*TIP, "base_x", "base_y", "base_yaw"),
        (*STEP, "base_vx", "base_vy", "base_wz", "mode"),
    ),
}


@pytest.mark.parametrize("robot", ROBOTS)
def test_states_and_actions_go_by_name_for_any_robot(robot, tmp_path):
    """Pictures are 48x32; each arm's quaternion is turned to its side; the base is not looked at."""
    states, actions = ROBOTS[robot]
    rng = np.random.default_rng(0)
    numbers = rng.uniform(-1, 1, (48, len(states))).astype(np.float32)
    for at in (k for k, name in enumerate(states) if name.endswith("qx")):
        numbers[:, at : at + 4] = [0.1, 0.7, 0.0, 0.7] * rng.choice([-1, 1], 48)[:, None]
    commands = rng.choice([-1.0, 1.0], (48, len(actions))).astype(np.float32)
    head = {
        "cameras": ["front"],
        "state_names": list(states),
        "action_names": list(actions),
        "fps": 20,
    }
    frames = (rng.integers(0, 256, (1, 32, 48, 3), dtype=np.uint8) for _ in numbers)
    episodes = [data.Demonstration(0, 48, "go", "toy", "Go", 0, certified=True)]
    data.write_pack(tmp_path / "pack", head, frames, numbers, commands, episodes)
    for policy, changes in (("act", {"commands": "classify"}), ("diffusion", {"crop": 0})):
        settings = make_settings(policy, {**student_data.SMALL[policy], **changes})
        out = tmp_path / policy
        train(TrainingJob((tmp_path / "pack",), settings, 1, out, device="cpu"))
        student = load_policy(out, "cpu")
        spec = student.spec
        seen = tuple(name for name in states if not name.startswith("base_"))
        assert (spec.state_names, spec.action_names, spec.image_size) == (seen, actions, (48, 32))
        turned = spec.normalizer.one_sided(numbers[:, : len(seen)])
        for at in (k for k, name in enumerate(seen) if name.endswith("qx")):
            assert np.ptp(turned[:, at + 1]) < 1e-6
        image = np.zeros((32, 48, 3), dtype=np.uint8)
        student.reset()
        named = dict(zip(reversed(states), range(len(states)), strict=True))  # in any order
        action = student.act({"images": {"front": image}, "state": named, "instruction": "go"})
        assert action.shape == (len(actions),)
        if policy == "act":
            classes = [k for k, name in enumerate(actions) if name.endswith(("gripper", "mode"))]
            assert [k for k, *_ in spec.commands] == classes
            assert all(action[k] in (-1.0, 1.0) for k in classes)


def test_demonstrations_may_be_chosen_for_agreement(pack):
    every = data.load([pack], window=8)
    some = data.load([pack], window=8, agree=3)
    assert len(some.episodes) == 3
    assert set(some.episodes) < set(every.episodes)
    paths = {e.start: np.cumsum(every.actions[e.begin : e.end, :2], axis=0) for e in every.episodes}
    near = {
        start: np.mean([np.abs(path - other).mean() for other in paths.values()])
        for start, path in paths.items()
    }
    assert max(near, key=lambda start: near[start]) not in {e.start for e in some.episodes}


def test_settings_are_the_papers_and_any_can_be_changed():
    act, diffusion = ActSettings(), DiffusionSettings()
    assert (act.chunk, act.latent, act.lr, act.schedule, act.batch) == (
        20,
        32,
        1e-5,
        "constant",
        16,
    )
    assert (diffusion.horizon, diffusion.execute, diffusion.diffusion_steps, diffusion.warmup) == (
        10,
        8,
        100,
        500,
    )
    assert (diffusion.lr, diffusion.schedule, diffusion.batch) == (1e-4, "cosine", 16)
    assert make_settings("act", parse_changes(["lr=1e-4", "norm=frozen"])).lr == 1e-4
    with pytest.raises(UnknownName, match="learning_rate"):
        make_settings("act", {"learning_rate": 1})
    for changes, code, sentence in (
        ({"chunk": "2.5"}, ErrorCode.BAD_SETTING, "a whole number"),
        ({"norm": "batch"}, ErrorCode.BAD_SETTING, "valid: auto"),
        ({"lr": -1}, ErrorCode.BAD_SETTING, "negative"),
        ({"dim": 33}, ErrorCode.CONFLICTING_SETTINGS, "multiple of heads"),
    ):
        with refuses(code, sentence):
            make_settings("act", changes)
    with refuses(ErrorCode.BAD_SETTING, "--set 'lr' is no setting"):
        parse_changes(["lr"])


def test_instructions_come_from_a_file_or_are_learned(pack, tmp_path):
    from capex.students import language

    language.write(tmp_path / "words.npz", {"go to the square": np.arange(8, dtype=np.float32)})
    place = train(
        job(pack, tmp_path / "given", "diffusion", steps=3, instructions=tmp_path / "words.npz")
    )
    spec, weights = checkpoint.load_policy_files(place)
    assert not spec.learned_language
    assert torch.equal(weights["instructions.weight"][0], torch.arange(8.0))
    language.write(tmp_path / "other.npz", {"stand still": np.zeros(8, dtype=np.float32)})
    with refuses(ErrorCode.MISMATCH, "has no embedding of 'go to the square'"):
        train(job(pack, tmp_path / "missing", "diffusion", instructions=tmp_path / "other.npz"))


def test_fine_tuning_begins_from_a_policy_trained_on_several_datasets(pack, tmp_path):
    more = student_data.write(tmp_path / "more", episodes=2, task="toy:Stay")
    settings = make_settings("diffusion", student_data.SMALL["diffusion"])
    first = train(TrainingJob((pack, more), settings, 3, tmp_path / "first"))
    plain = make_settings("diffusion", {"batch": 4, "warmup": 2})  # sizes come from the checkpoint
    tuned = train(
        TrainingJob((more,), plain, 1, tmp_path / "tuned", init=tmp_path / "first", task="toy:Stay")
    )
    spec, weights = checkpoint.load_policy_files(tuned)
    assert spec.initialisation == "fine-tuned from a policy of ours (3 steps)"
    assert spec.settings.dim == 32
    begun = checkpoint.load_policy_files(first)[1]
    assert (weights["model.head.weight"] - begun["model.head.weight"]).abs().max() < 0.01
    assert (
        weights["instructions.weight"][0] - begun["instructions.weight"][0]
    ).abs().max() < 0.01  # it keeps what it knew
    assert ["toy", "Go", 4, 0] in [
        list(s) for s in spec.training["starts"]
    ]  # no start of the first training is new to it
    with refuses(ErrorCode.MISMATCH, "is a policy of kind diffusion"):
        train(job(pack, tmp_path / "wrong", "act", init=tmp_path / "first"))
    with refuses(ErrorCode.MISMATCH, r"setting dim is 64 and .* has 32"):
        train(job(pack, tmp_path / "wrong", "diffusion", init=tmp_path / "first", dim=64))
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"steps": 0}, ErrorCode.BAD_SETTING, "--steps is 0"),
        ({"save_every": 0}, ErrorCode.BAD_SETTING, "--save-every is 0"),
        ({"device": "cuda:9"}, ErrorCode.NOT_AVAILABLE, "--device cuda:9"),
        ({"device": "toaster"}, ErrorCode.UNKNOWN_NAME, "there is no device 'toaster'"),
        ({"backbone": "nothing.pth"}, ErrorCode.NOT_FOUND, "there is no weights file nothing.pth"),
        (
            {"instructions": "words.npz"},
            ErrorCode.NOT_APPLICABLE,
            "--instructions is for Diffusion Policy",
        ),
        (
            {"init": "nowhere"},
            ErrorCode.NOT_FOUND,
            "--init nowhere: there is no such file or folder",
        ),
        ({"seed": -1}, ErrorCode.BAD_SETTING, "--seed is -1"),
        ({"seed": 2**63}, ErrorCode.BAD_SETTING, "--seed is 9223372036854775808"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(pack, tmp_path, changes, code, sentence):
    paths = {
        k: Path(v) if k in ("backbone", "instructions", "init") else v for k, v in changes.items()
    }
    with refuses(code, sentence):
        train(replace(job(pack, tmp_path / "out"), **paths))
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def small_policy(pack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    return {kind: train(job(pack, folder / kind, kind, steps=1)) for kind in ("act", "diffusion")}


OF_FILES = (
    ErrorCode.NOT_FOUND,
    ErrorCode.UNREADABLE_FILE,
    ErrorCode.WRONG_CONTENT,
    ErrorCode.MISMATCH,
    ErrorCode.DAMAGED_FILE,
    ErrorCode.CONFLICTING_SETTINGS,  # --trust-pickle is missing
)


def junk(folder, suffix):
    """Paths that hold nothing of use, by what is wrong with them."""
    empty, noise, text, zipped = (
        folder / f"{name}{suffix}" for name in ("empty", "noise", "text", "zipped")
    )
    empty.write_bytes(b"")
    noise.write_bytes(np.random.default_rng(0).bytes(3000))
    text.write_text('{"format": 1}')
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x04]." + bytes(1000))
        archive.writestr("embeddings.npy", b"\x93NUMPY\x01\x00")
    (folder / "folder").mkdir()
    return {
        "missing": folder / "none",
        "empty": empty,
        "noise": noise,
        "text": text,
        "zipped": zipped,
        "folder": folder / "folder",
    }


def wrong_tensors(folder):
    """Readable files of tensors that belong to something else."""
    strange = {"strange": torch.zeros(3)}
    for name, value in (
        ("other.pth", strange),
        ("list.pth", [1, 2]),
        ("numbered.pth", {1: torch.zeros(2)}),
        ("code.pth", {"weight": Path("x")}),
    ):
        torch.save(value, folder / name)
    save_file(strange, folder / "other.safetensors")
    (folder / "cut.safetensors").write_bytes((folder / "other.safetensors").read_bytes()[:-4])
    resnet = ResNet18("frozen", 16).state_dict()
    save_file(
        resnet | {"conv1.weight": torch.full_like(resnet["conv1.weight"], torch.nan)},
        folder / "nan.safetensors",
    )
    return [
        folder / n
        for n in (
            "other.pth",
            "list.pth",
            "numbered.pth",
            "code.pth",
            "other.safetensors",
            "cut.safetensors",
            "nan.safetensors",
        )
    ]


def refused(asked):
    """The sentence with which a training is refused for a file's sake; nothing is written."""
    with pytest.raises(CapexError) as error:
        train(asked)
    assert error.value.code in OF_FILES
    assert not asked.out.exists()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_a_backbone_of_junk_is_refused_with_a_sentence(pack, tmp_path, suffix):
    for path in [*junk(tmp_path, suffix).values(), *wrong_tensors(tmp_path)]:
        assert str(path) in refused(job(pack, tmp_path / "out", backbone=path, width=16))


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".npy"])
def test_instructions_of_junk_are_refused_with_a_sentence(pack, tmp_path, suffix):
    paths = [*junk(tmp_path, suffix).values(), *wrong_tensors(tmp_path)]
    words = np.array(["go to the square"])
    for name, arrays in (
        ("one", {"instructions": words}),
        ("flat", {"instructions": words, "embeddings": np.zeros(8)}),
        ("more", {"instructions": words, "embeddings": np.zeros((2, 8))}),
        ("text", {"instructions": words, "embeddings": np.array([["a"] * 8])}),
        ("size", {"instructions": words, "embeddings": np.zeros((1, 9))}),
        ("nan", {"instructions": words, "embeddings": np.full((1, 8), np.nan)}),
        ("numbers", {"instructions": np.zeros(1), "embeddings": np.zeros((1, 8))}),
    ):
        paths.append(tmp_path / f"{name}.npz")
        np.savez(paths[-1], **arrays)
    paths.append(tmp_path / "objects.npz")
    np.savez(paths[-1], instructions=words, embeddings=np.array([[None] * 8], dtype=object))
    for path in paths:
        assert str(path) in refused(job(pack, tmp_path / "out", "diffusion", instructions=path))


@pytest.mark.parametrize("trust", [False, True])
def test_a_beginning_of_junk_is_refused_with_a_sentence(pack, tmp_path, trust):
    paths = [*junk(tmp_path, ".ckpt").values(), *wrong_tensors(tmp_path)]
    for number, states in enumerate(
        (
            [],
            {"model": 3},
            {"model": {"model.a": 1}},
            {"ema_model": {"model.cond_obs_emb.weight": torch.zeros(2)}},
        )
    ):
        paths.append(tmp_path / f"{number}.ckpt")
        torch.save({"state_dicts": states}, paths[-1])
    for path in paths:
        assert str(path) in refused(
            job(pack, tmp_path / "out", "diffusion", init=path, trust_pickle=trust)
        )
        assert str(path) in refused(
            job(pack, tmp_path / "out", "act", init=path, trust_pickle=trust)
        )


DAMAGE = {  # of policy.json
    "open braces": lambda told: "{" * 100_000,
    "deep lists": lambda told: "[" * 100_000 + "]" * 100_000,
    "a list": lambda told: "[]",
    "empty": lambda told: "",
    "nothing in it": lambda told: {},
    "another format": lambda told: told | {"format": 99},
    "settings a number": lambda told: told | {"settings": 3},
    "dim a word": lambda told: told | {"settings": told["settings"] | {"dim": "wide"}},
    "dim huge": lambda told: told | {"settings": told["settings"] | {"dim": 10**9}},
    "another kind": lambda told: told | {"policy": "walker"},
    "no cameras": lambda told: told | {"cameras": None},
    "size a word": lambda told: told | {"image_size": "large"},
    "unknown norm": lambda told: told | {"norm": "batch"},
    "training a list": lambda told: told | {"training": []},
    "starts numbers": lambda told: told | {"training": told["training"] | {"starts": [1]}},
    "normaliser too short": lambda told: (
        told | {"normalizer": told["normalizer"] | {"state": {"scale": [1], "offset": [0]}}}
    ),
    "normaliser a number": lambda told: told | {"normalizer": {"state": 1}},
    "no normaliser": lambda told: {k: v for k, v in told.items() if k != "normalizer"},
}


@pytest.mark.parametrize("kind", ["act", "diffusion"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_policy_is_refused_with_a_sentence(pack, small_policy, tmp_path, kind, damage):
    shutil.copytree(small_policy[kind], tmp_path / "policy")
    changed = DAMAGE[damage](json.loads((tmp_path / "policy" / "policy.json").read_text()))
    (tmp_path / "policy" / "policy.json").write_text(
        changed if isinstance(changed, str) else json.dumps(changed)
    )
    assert str(tmp_path / "policy") in refused(
        job(pack, tmp_path / "out", kind, init=tmp_path / "policy")
    )
    with refuses(ErrorCode.UNREADABLE_FILE, str(tmp_path)):
        load_policy(tmp_path / "policy", "cpu")


def test_weights_that_are_not_the_policys_are_refused_with_a_sentence(pack, small_policy, tmp_path):
    shutil.copytree(small_policy["act"], tmp_path / "policy")
    place = tmp_path / "policy" / "model.safetensors"
    weights = load_file(place)
    for change, sentence in (
        (
            {"action_head.weight": torch.zeros(2, 2)},
            "'action_head.weight' is 2x2 in the file and 12x32 in the network",
        ),
        ({"more": torch.zeros(1)}, "'more' is 1 in the file and missing in the network"),
        ({"action_head.bias": torch.full((12,), torch.inf)}, "not finite"),
    ):
        save_file(weights | change, place)
        assert sentence in refused(job(pack, tmp_path / "out", init=tmp_path / "policy"))
        with refuses(ErrorCode.UNREADABLE_FILE, re.escape(sentence)):
            load_policy(tmp_path / "policy", "cpu")
    place.write_bytes(b"noise")
    assert "cannot be read as .safetensors" in refused(
        job(pack, tmp_path / "out", init=tmp_path / "policy")
    )


def test_a_dataset_as_capex_exports_it_is_what_training_reads(tmp_path):
    run = demos.expert_run(tmp_path / "run", [0])
    export_run(
        run,
        tmp_path / "dataset",
        pipeline=Pipeline((32, 32), ("left",)),
        filters=Filters(uncertified=True),
    )
    with refuses(ErrorCode.NOT_PERMITTED, "1 of 1 episodes have no certificate"):
        data.load([tmp_path / "dataset"], window=8)
    shown = data.load([tmp_path / "dataset"], window=8, uncertified=True)
    steps = read_steps(run / "chains" / f"kitchen--{demos.TASK}--expert" / "episodes" / "0000")
    assert np.allclose(shown.actions, steps["actions"])
    assert (shown.size, shown.cameras, shown.fps) == ((32, 32), ("left",), 20.0)
    assert (
        len(np.unique(shown.images[0].reshape(len(shown.states), -1), axis=0)) > 20
    )  # the pictures are those of a moving arm
    episode = shown.episodes[0]
    assert (episode.world, episode.task, episode.start, episode.source, episode.stand_in) == (
        "kitchen",
        demos.TASK,
        0,
        "expert",
        True,
    )
    assert "microwave" in episode.instruction
    assert (
        data.load([tmp_path / "dataset"], window=8, uncertified=True).images[0].filename
    )  # a second time from the unpacked frames
