"""RoboCasa's adapter in parts: a small dataset in its layout, restored through the same code in robosuite's environments.

RoboCasa itself is not installed here: its assets are ten gigabytes from a file host. What is run is everything but its own kitchens;
those were run with placeholder assets (docs/robocasa.md), and robocasa_trace.json holds a little of what they did.
"""

from __future__ import annotations

import ast
import dataclasses
import gzip
import io
import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

pytest.importorskip("robosuite")

import robosuite
from robosuite.environments.manipulation.lift import Lift

import capex
from capex import worlds
from capex.campaign.api import demonstrate
from capex.errors import CapexError, ErrorCode, StateMismatch
from capex.method.context import NO_CONTEXT
from capex.method.memory import Memory
from capex.operators.human import Person
from capex.pose import PlanarPose
from capex.worlds import FRESH, ArmCommand, Command, Start
from capex.worlds.robocasa.dataset import RobocasaDataset, find_dataset, open_dataset
from capex.worlds.robocasa.fresh import KitchenSettings, KitchenStarts
from capex.worlds.robocasa.human import read_human
from capex.worlds.robocasa.order import ENVIRONMENT, to_environment
from capex.worlds.robocasa.restored import RecordedStarts, settings_parsed_once
from capex.worlds.robocasa.tasks import TASKS
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.robots import MOBILE
from capex.worlds.robosuite.starts import QUIET
from refusals import refuses

ROOT = Path(__file__).parents[2]
STORED = {  # the order of RoboCasa's own datasets: the base first
    "base_motion": (0, 4),
    "control_mode": (4, 5),
    "end_effector_position": (5, 8),
    "end_effector_rotation": (8, 11),
    "gripper_close": (11, 12),
}
AS_STORED = [7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6]  # the environment's numbers in that order
KITCHENS = [(7, 7), (1, 1), (7, 7), (7, 3)]
STEPS = 6


class Fixture:
    """The common base, as in RoboCasa: it keeps no state."""

    def __init__(self) -> None:
        self._size = 1.0

    def update_state(self, env: Any) -> None:
        return


class Button(Fixture):
    """Switched on by a closed gripper, for a while; remembers it where no MuJoCo state does."""

    def __init__(self) -> None:
        super().__init__()
        self._turned_on = False
        self._steps_on = 0
        self._since: float | None = None
        self._slots = {0: {"lever": 0.0}}

    def update_state(self, env: Any) -> None:
        left, right = (
            float(env.sim.data.get_joint_qpos(f"gripper0_right_finger_joint{i}")) for i in (1, 2)
        )
        self._slots = {0: {"lever": left - right}}
        if (
            env.timestep and left - right < 0.01 and not self._turned_on
        ):  # before its first step a robosuite gripper stands closed
            self._turned_on, self._since = True, float(env.sim.data.time)
        self._steps_on += self._turned_on


class Appliance(Fixture):
    """Something that stands on a counter, placed at random as RoboCasa places a toaster."""

    root_body = "toaster_main"

    def set_pos(self, pos: Any) -> None:
        self.pos = list(pos)

    def set_euler(self, euler: Any) -> None:
        self.euler = list(euler)


class LatchedLift(Lift):  # registered with robosuite by its metaclass, as RoboCasa's kitchens are
    """A robosuite environment with fixtures: done when the button is on and the gripper open again."""

    def _load_model(self) -> None:
        super()._load_model()
        toaster = Appliance()
        self.fixtures = {"wall": Fixture(), "button": Button(), "toaster": toaster}
        place = [float(self.rng.uniform(0.1, 0.3)), 0.4, 0.9]
        toaster.set_pos(place)
        toaster.set_euler([0.0, 0.0, float(self.rng.uniform(-1.0, 1.0))])
        self.fxtr_placements = {"toaster": (place, None, toaster)}
        placed = {"name": "toaster_main", "pos": written(toaster.pos)}
        ET.SubElement(self.model.worldbody, "body", placed, euler=written(toaster.euler))
        self._setup_kitchen_references()

    def _setup_kitchen_references(self) -> None:
        self.goal = list(self.fixtures["toaster"].pos)  # what a task measures from it

    def get_ep_meta(self) -> dict[str, Any]:
        kitchen = {"layout_id": 7, "style_id": 7, "lang": "Press the button."}
        return {**super().get_ep_meta(), **kitchen}

    def _post_action(self, action: Any) -> Any:
        told = super()._post_action(action)
        self.update_state()
        return told

    def update_state(self) -> None:
        super().update_state()
        for fixture in self.fixtures.values():
            fixture.update_state(self)

    def _check_success(self) -> bool:
        return (
            self.fixtures["button"]._turned_on and self.fixtures["button"]._slots[0]["lever"] > 0.05
        )


def written(numbers: list[float]) -> str:
    return " ".join(map(repr, numbers))


def record(folder: Path) -> tuple[Path, list[np.ndarray]]:
    """Four short demonstrations in RoboCasa's layout, and their actions in the environment's order."""
    path = folder / "v1.0" / "target" / "atomic" / "TurnOnMicrowave" / "20250813" / "lerobot"
    kwargs = {
        "robots": "PandaOmron",
        "controller_configs": MOBILE.controllers(robosuite),
        "control_freq": 20,
    }
    (path / "meta").mkdir(parents=True)
    (path / "extras").mkdir()
    (path / "data" / "chunk-000").mkdir(parents=True)
    spans = {
        name: {"original_key": "action", "start": start, "end": end}
        for name, (start, end) in STORED.items()
    }
    (path / "meta" / "modality.json").write_text(json.dumps({"action": spans}))
    told = {
        "env_args": {
            "env_name": "LatchedLift",
            "type": 1,
            "env_version": "1.5.2",
            "env_kwargs": {"env_name": "LatchedLift", **kwargs},
        }
    }
    (path / "extras" / "dataset_meta.json").write_text(json.dumps(told))
    rng, taken = np.random.default_rng(5), []
    for episode, (layout, style) in enumerate(KITCHENS):
        env = robosuite.make("LatchedLift", seed=episode, **json.loads(json.dumps(kwargs)), **QUIET)
        actions = rng.uniform(-0.5, 0.5, (STEPS, 12))
        actions[:, 11] = -1.0
        states = []
        for action in actions:
            states.append(env.sim.get_state().flatten())
            env.step(action.copy())
        extras = path / "extras" / f"episode_{episode:06d}"
        extras.mkdir()
        np.savez_compressed(extras / "states.npz", states=np.array(states))
        (extras / "model.xml.gz").write_bytes(gzip.compress(env.model.get_xml().encode()))
        meta = {"layout_id": layout, "style_id": style, "lang": f"Press the button ({episode})."}
        (extras / "ep_meta.json").write_text(json.dumps(meta))
        table = pa.table({"action": actions[:, AS_STORED].tolist()})
        parquet.write_table(table, path / "data" / "chunk-000" / f"episode_{episode:06d}.parquet")
        taken.append(actions)
        env.close()
    return path, taken


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[RobocasaDataset, list[np.ndarray]]:
    path, actions = record(tmp_path_factory.mktemp("datasets"))
    return open_dataset(path), actions


def make(dataset: RobocasaDataset, stepping: str = "fast") -> SuiteEnv:
    views = {"left": "frontview", "right": "agentview", "wrist": "robot0_eye_in_hand"}
    starts = RecordedStarts(robosuite, dataset, 7, 7, views)
    workspace = ((0.2, -0.4, -0.1), (0.8, 0.4, 0.5))
    return SuiteEnv(
        "robocasa",
        TASKS["TurnOnMicrowave"],
        MOBILE,
        starts,
        workspace,
        stepping=stepping,
        sites=True,
    )


@pytest.fixture(scope="module")
def env(recorded: tuple[RobocasaDataset, list[np.ndarray]]) -> Iterator[SuiteEnv]:
    made = make(recorded[0])
    yield made
    made.close()


def squeeze(env: SuiteEnv, gripper: float, ticks: int = 12) -> None:
    for _ in range(ticks):
        env.step(Command({"arm": ArmCommand(gripper=gripper)}))


def test_the_papers_tasks_and_horizons() -> None:
    assert len(TASKS) == 18
    assert {name: TASKS[name].horizon for name in ("CoffeeSetupMug", "CloseFridge", "OpenCabinet", "NavigateKitchen")} == {
        "CoffeeSetupMug": 600, "CloseFridge": 900, "OpenCabinet": 1050, "NavigateKitchen": 450,
    }  # fmt: skip
    assert worlds.tasks("robocasa") is TASKS


def test_starts_are_the_demonstrations_in_the_papers_kitchen(
    recorded: tuple[RobocasaDataset, list[np.ndarray]], env: SuiteEnv
) -> None:
    dataset, _ = recorded
    assert dataset.episodes == (0, 1, 2, 3)
    assert env.spec.starts == 2
    for index, episode in enumerate((0, 2)):
        env.reset(Start("TurnOnMicrowave", index))
        assert env.instruction == f"Press the button ({episode})."
        assert env.scene == "layout 7, style 7"
        given = worlds.model_file(env)
        assert given is not None
        flat = env.save_state().vector[: given.state_size]
        assert np.allclose(flat, dataset.states(episode)[0], atol=1e-12)
        assert given.env_args == dataset.env_args
        assert given.xml == dataset.model_xml(episode)
        assert given.episode_meta == dataset.meta(episode)
        assert json.loads(env.save_state().header)["demonstration"] == episode
        assert not env.success()
    assert dataset.starts(7, None) == (0, 2, 3)
    assert find_dataset(dataset.path.parents[5], "TurnOnMicrowave").path == dataset.path
    with refuses(ErrorCode.NO_DATA, "4 demonstrations, none in layout 9"):
        dataset.starts(9, 9)
    with refuses(ErrorCode.NOT_FOUND, "download it: python -m robocasa"):
        find_dataset(dataset.path.parents[5], "CloseFridge")
    with refuses(ErrorCode.UNKNOWN_START, "starts are 0 to 1"):
        env.reset(Start("TurnOnMicrowave", 2))


def test_restoring_repeats_to_the_bit_and_the_fast_step_too(
    recorded: tuple[RobocasaDataset, list[np.ndarray]], env: SuiteEnv
) -> None:
    dataset, actions = recorded
    ends = []
    for tried in (env, env, make(dataset, "original")):
        tried.reset(Start("TurnOnMicrowave", 1))
        for action in actions[2]:
            tried.apply(action)
        ends.append(tried.save_state().vector)
    assert np.array_equal(ends[0], ends[1])
    assert np.array_equal(ends[0], ends[2])


def test_appliances_stand_where_they_were_recorded(
    recorded: tuple[RobocasaDataset, list[np.ndarray]], env: SuiteEnv
) -> None:
    """A reload draws again where they stand; what a task measures must be from the recorded place."""
    env.reset(Start("TurnOnMicrowave", 1))
    bodies = {b.get("name"): b for b in ET.fromstring(recorded[0].model_xml(2)).iter("body")}
    place = [float(number) for number in bodies["toaster_main"].get("pos", "").split()]
    inner = env.built.env
    assert inner.fixtures["toaster"].pos == pytest.approx(place)
    assert inner.goal == pytest.approx(place)
    assert written([inner.fixtures["toaster"].euler[2]]) in str(bodies["toaster_main"].get("euler"))


class Kitchen(LatchedLift):
    """RoboCasa's Kitchen as an older version might name its settings: without clutter."""

    def __init__(
        self, layout_ids: Any, style_ids: Any, obj_instance_split: Any = None, **kwargs: Any
    ):
        self.told = (layout_ids, style_ids, obj_instance_split)
        kwargs.pop("translucent_robot")
        super().__init__(**kwargs)


def test_settings_are_parsed_once_and_read_as_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def safe_load(file: io.TextIOBase | str) -> dict[str, list[int]]:
        parsed.append(file if isinstance(file, str) else file.read())
        return {"size": [1, 2]}

    module, text = ModuleType("scene_utils"), tmp_path / "sink.yaml"
    parser = module.yaml = SimpleNamespace(safe_load=safe_load)
    monkeypatch.setitem(sys.modules, "robocasa.models.scenes.scene_utils", module)
    text.write_text("size: [1, 2]")
    with settings_parsed_once(), settings_parsed_once():
        for _ in range(3):
            with text.open() as file:
                settings = module.yaml.safe_load(file)
            assert settings == {"size": [1, 2]}
            settings["size"].append(3)
    assert len(parsed) == 1
    assert module.yaml is parser


def test_fresh_starts_are_drawn_by_number_and_repeat(
    recorded: tuple[RobocasaDataset, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, module = ModuleType("robocasa"), ModuleType("robocasa.environments.kitchen.kitchen")
    package.__version__ = "1.0.1"  # type: ignore[attr-defined]
    module.Kitchen = Kitchen  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "robocasa", package)
    monkeypatch.setitem(sys.modules, "robocasa.environments.kitchen.kitchen", module)
    views = {"left": "frontview", "right": "agentview", "wrist": "robot0_eye_in_hand"}
    monkeypatch.setattr("capex.worlds.robocasa.fresh.CAMERAS", views)
    workspace = ((0.2, -0.4, -0.1), (0.8, 0.4, 0.5))

    def made(**settings: Any) -> SuiteEnv:
        none = CapexError("there is no dataset")
        starts = KitchenStarts(robosuite, "Kitchen", KitchenSettings(**settings), none)
        info = dataclasses.replace(TASKS["TurnOnMicrowave"], name="Kitchen")
        return SuiteEnv("robocasa", info, MOBILE, starts, workspace)

    env = made(clutter=False)
    ends = []
    for index in (FRESH, FRESH + 1, FRESH):
        env.reset(Start("Kitchen", index))
        squeeze(env, 0.0, 2)
        ends.append(env.save_state())
    assert env.built.env.told == ([7], [7], "target")
    assert (ends[0].header, np.array_equal(ends[0].vector, ends[2].vector)) == (
        ends[2].header,
        True,
    )
    assert not np.array_equal(ends[0].vector, ends[1].vector)
    given = worlds.model_file(env)
    assert given is not None
    assert "toaster_main" in given.xml
    assert given.episode_meta["lang"] == env.instruction == "Press the button."
    with refuses(ErrorCode.UNKNOWN_START, r"fresh:0 to fresh:9999 \(none is recorded: there is no"):
        env.reset(Start("Kitchen", 0))
    with refuses(ErrorCode.MISSING_PACKAGE, "has no setting clutter_mode, which was to be 1"):
        made().reset(Start("Kitchen", FRESH))
    env.close()


def test_native_numbers_do_here_what_they_did_in_robocasa() -> None:
    """A drive in RoboCasa's kitchen, recorded, repeated in robosuite's own world: the arm rides along."""
    trace = json.loads((Path(__file__).parent / "robocasa_trace.json").read_text())
    env = worlds.make("robosuite:Lift")
    env.reset(Start("Lift", 0))
    before, tip = PlanarPose(*env.robot_state().base), env.robot_state().arms["arm"].T_base_tip
    for action in trace["actions"]:
        env.apply(np.array(action))
    drove = before.inverse() @ PlanarPose(*env.robot_state().base)
    moved = env.robot_state().arms["arm"].T_base_tip.position_m - tip.position_m
    env.close()
    assert drove.x == pytest.approx(trace["drove"][0], abs=0.02)
    assert drove.y == pytest.approx(trace["drove"][1], abs=0.02)
    assert np.allclose(moved, trace["tip_moved_m"], atol=0.02)


def test_latches_are_saved_with_the_state(env: SuiteEnv) -> None:
    env.reset(Start("TurnOnMicrowave", 0))
    before = env.save_state()
    squeeze(env, 1.0)
    on = env.save_state()
    button = env.built.env.fixtures["button"]
    kept = (button._turned_on, button._steps_on, button._since)
    assert kept[0]
    squeeze(env, -1.0, 14)
    assert env.success()
    done, later = env.save_state(), button._steps_on
    env.load_state(before)
    assert (button._turned_on, button._steps_on, button._since) == (False, 0, None)
    assert not env.success()
    squeeze(env, -1.0)
    assert not env.success()  # nothing was pressed
    env.load_state(on)
    assert (button._turned_on, button._steps_on, button._since) == kept
    squeeze(env, -1.0, 14)
    assert np.array_equal(env.save_state().vector, done.vector)
    assert button._steps_on == later
    assert env.success()


def test_a_flat_state_of_others_is_shown_or_refused(
    recorded: tuple[RobocasaDataset, list[np.ndarray]], env: SuiteEnv
) -> None:
    env.reset(Start("TurnOnMicrowave", 0))
    state = recorded[0].states(0)[3]
    env.show(state)
    assert np.allclose(env.save_state().vector[: len(state)], state, atol=1e-12)
    with pytest.raises(StateMismatch, match="finite numbers"):
        env.show(state[:-1])


def test_orders_are_converted_by_name() -> None:
    actions = np.arange(24.0).reshape(2, 12)
    stored = actions[:, AS_STORED]
    assert np.array_equal(to_environment(stored, STORED), actions)
    assert np.array_equal(
        to_environment(actions, ENVIRONMENT), actions
    )  # a dataset that was put up again arm first
    with refuses(ErrorCode.DAMAGED_FILE, "overlap or leave gaps"):
        to_environment(actions, STORED | {"gripper_close": (10, 11)})
    with refuses(ErrorCode.MISMATCH, "made of"):
        to_environment(actions, {"base_motion": (0, 12)})


def test_a_human_demonstration_becomes_an_episode(
    recorded: tuple[RobocasaDataset, list[np.ndarray]], env: SuiteEnv, tmp_path: Path
) -> None:
    dataset, actions = recorded
    assert np.allclose(read_human(dataset, 2).actions, actions[2])
    episode = Person().attempt(env, Start(env.spec.task, 1), Memory(), NO_CONTEXT)
    kept, steps = episode.record, episode.steps
    assert (kept.arm, kept.start, kept.success, kept.instruction) == (
        "human",
        1,
        False,
        "Press the button (2).",
    )
    assert kept.recorded  # so that a certificate does not ask for bits that nobody recorded
    assert np.allclose(steps["actions"], actions[2])
    recorded_states = dataset.states(2)
    assert steps["states"].shape[0] == STEPS + 1
    assert np.allclose(
        steps["states"][:STEPS, : recorded_states.shape[1]], recorded_states, atol=1e-12
    )
    with refuses(ErrorCode.UNSUPPORTED):
        demonstrate("human", "robosuite:Lift", starts=[0], out=tmp_path / "run")


def test_no_environment_reads_what_the_person_did() -> None:
    """Only the module that takes human demonstrations into runs imports them, and nothing on a model's way imports that."""
    importing: dict[str, set[str]] = {}
    for path in Path(capex.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for name in (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            ):
                importing.setdefault(name, set()).add(
                    path.relative_to(Path(capex.__file__).parent).as_posix()
                )
    assert importing["capex.worlds.robocasa.human"] == {"worlds/robocasa/__init__.py"}
    assert "capex.operators.human" not in importing  # by name alone, where it is asked for


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("extras/dataset_meta.json", "{", "damaged"),
        ("extras/dataset_meta.json", "[]", "no JSON object"),
        ("extras/dataset_meta.json", "{}", "no env_args"),
        ("meta/modality.json", "{}", "names no action"),
    ],
)
def test_damaged_datasets_are_refused(
    name: str, content: str, sentence: str, tmp_path: Path
) -> None:
    for folder in ("extras", "meta"):
        (tmp_path / folder).mkdir()
    (tmp_path / "extras" / "dataset_meta.json").write_text("{}")
    (tmp_path / name).write_text(content)
    dataset = open_dataset(tmp_path)
    with refuses(ErrorCode.DAMAGED_FILE, sentence):
        _ = dataset.action_order if "modality" in name else dataset.env_args
    with refuses(ErrorCode.NOT_FOUND):
        open_dataset(tmp_path / "elsewhere")
