"""A trained policy in use: as an object and served."""

from __future__ import annotations

import base64
import http.client
import io
import json
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import student_data
from capex.errors import ErrorCode
from capex.students import data
from capex.students.policy import BEFORE, load_policy
from capex.students.serve import serve
from capex.students.settings import make_settings
from capex.students.train import TrainingJob, train
from refusals import refuses

EXAMPLE = Path(__file__).parents[2] / "examples" / "run_policy.py"


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return student_data.write(tmp_path_factory.mktemp("data") / "pack")


@pytest.fixture(scope="module", params=["act", "diffusion"])
def trained(request, pack, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / request.param
    train(
        TrainingJob(
            (pack,), make_settings(request.param, student_data.SMALL[request.param]), 3, out
        )
    )
    return out


def observation(pack, t=0):
    shown = data.open_pack(pack)
    return {
        "images": dict(zip(shown.cameras, shown.images[0][t], strict=True)),
        "state": shown.states[t],
        "instruction": "go to the square",
    }


def test_the_same_seed_gives_the_same_actions_and_a_batch_the_same_as_one(trained, pack):
    policy = load_policy(trained, "cpu")
    runs = []
    for _ in range(2):
        policy.reset(seed=4)
        runs.append([policy.act(observation(pack, t)) for t in range(10)])
    assert np.array_equal(runs[0], runs[1])
    minds = [policy.begin(seed=4), policy.begin(seed=5)]
    together = [policy.act_many(minds, [observation(pack, t)] * 2)[0] for t in range(10)]
    assert np.array_equal(together, runs[0])
    mind, ahead, chunk = policy.begin(seed=4), [], []
    while len(ahead) < 10:  # asked only where the network is
        assert mind.wants_images()
        looks = min(len(chunk), policy.spec.looks) or 1
        *before, now = (observation(pack, len(ahead) - later) for later in reversed(range(looks)))
        chunk = [*policy.act_many([mind], [now | {BEFORE: before}]), *mind.ahead()]
        ahead += chunk
    assert np.array_equal(ahead[:10], runs[0])


@pytest.mark.parametrize("kind", ["act", "diffusion"])
def test_images_need_not_be_square(tmp_path, kind):
    wide = student_data.write(tmp_path / "wide", 2, size=48, height=27)
    settings = make_settings(kind, student_data.SMALL[kind] | {"crop": 24})
    train(TrainingJob((wide,), settings, 2, tmp_path / "out"))
    policy = load_policy(tmp_path / "out", "cpu")
    assert (policy.spec.image_size, policy.spec.size_json) == ((48, 27), [48, 27])
    policy.reset()
    assert np.all(np.isfinite(policy.act(observation(wide))))
    turned = {c: np.zeros((48, 27, 3), dtype=np.uint8) for c in student_data.CAMERAS}
    policy.reset()
    with refuses(ErrorCode.MISMATCH, "trained on 27x48x3"):
        policy.act(observation(wide) | {"images": turned})


def test_wrong_observations_are_refused_with_a_sentence(trained, pack):
    policy, seen = load_policy(trained, "cpu"), observation(pack)
    with refuses(ErrorCode.WRONG_ORDER, "call reset"):
        policy.act(seen)
    policy.reset()
    for change, sentence in (
        ({"images": {}}, "no image of camera 'left'"),
        (
            {"images": {c: np.zeros((8, 8, 3), dtype=np.uint8) for c in student_data.CAMERAS}},
            "image 'left' is 8x8x3",
        ),
        ({"state": [0.0] * 3}, "must be 9 finite numbers"),
        ({"state": {"eef_x": 0.0}}, "has no 'eef_y'"),
    ):
        with refuses(ErrorCode.MISMATCH, sentence):
            policy.act(seen | change)


def test_a_web_page_cannot_reset_a_served_policy(trained):
    with serve(load_policy(trained, "cpu")) as server:
        for name, value in (("Origin", "http://evil.example"), ("Host", "evil.example:80")):
            link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            link.request("POST", "/reset", '{"seed": 7}', {name: value})
            reply = link.getresponse()
            assert reply.status in (403, 421)
            assert "evil.example" in json.loads(reply.read())["error"]


def test_a_served_policy_answers_as_the_object_does(trained, pack):
    policy, seen = load_policy(trained, "cpu"), observation(pack)
    policy.reset(seed=7)
    wanted = policy.act(seen)
    with serve(load_policy(trained, "cpu")) as server:
        link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

        def post(path, body, kind="application/json"):
            link.request("POST", path, body, {"Content-Type": kind})
            reply = link.getresponse()
            return reply.status, json.loads(reply.read())

        link.request("GET", "/spec")
        assert json.loads(link.getresponse().read())["cameras"] == list(student_data.CAMERAS)
        images = {c: base64.b64encode(i.tobytes()).decode() for c, i in seen["images"].items()}
        sent = json.dumps(
            {"images": images, "state": seen["state"].tolist(), "instruction": seen["instruction"]}
        )
        assert post("/reset", '{"seed": 7}') == (200, {"ok": True})
        assert np.allclose(post("/act", sent)[1]["action"], wanted)
        packed = io.BytesIO()
        np.savez(
            packed,
            state=seen["state"],
            instruction=seen["instruction"],
            **{f"image_{c}": i for c, i in seen["images"].items()},
        )
        post("/reset", '{"seed": 7}')
        assert np.allclose(
            post("/act", packed.getvalue(), "application/x-npz")[1]["action"], wanted
        )
        for path, body, sentence in (
            ("/act", "{", "the body is no JSON"),
            ("/act", "[]", "must be a JSON object"),
            ("/reset", '{"seed": "x"}', "must be a whole number"),
            ("/fly", "{}", "there is no /fly"),
            ("/act", '{"images": {"left": "AAAA"}}', "3 bytes"),
            ("/act", '{"images": {"left": "?"}}', "no base64"),
            ("/act", '{"images": [1]}', "images must be an object"),
        ):
            status, answer = post(path, body)
            assert status == 400
            assert sentence in answer["error"]
        assert "no .npz" in post("/act", b"PK", "application/x-npz")[1]["error"]
        post("/reset", '{"seed": 7}')
        assert np.allclose(post("/act", sent)[1]["action"], wanted)  # it still answers


def test_students_can_be_imported_after_a_picture_was_drawn():
    drawn = "from capex import worlds; env = worlds.make('kitchen:CloseFridge'); env.reset(worlds.Start('CloseFridge', 0)); env.observe()"
    script = f"{drawn}; import capex.students.policy; print(env.observe()['left'].shape)"
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (out.returncode, out.stdout) == (0, "(512, 512, 3)\n"), out.stderr


def npy(shape, dtype="|u1", body=b""):
    """An array's header, whatever follows it."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return out.getvalue() + body


def archive(*entries, packing=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as zipped:
        for name, content in entries:
            zipped.writestr(name, content)
    return out.getvalue()


def savez(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def understated(content, size):
    """A zip archive of one entry whose directory and header say that it unpacks to `size` bytes."""
    packed = archive(("state.npy", content))
    right, wrong = (struct.pack("<I", n) for n in (len(content), size))
    assert packed.count(right) == 2
    return packed.replace(right, wrong)


@pytest.mark.parametrize("trained", ["act"], indirect=True)
def test_a_served_policy_answers_whatever_it_is_sent(trained, pack):
    """An error with a sentence on the same connection, without the memory that the sender asks for; then it acts as before."""
    seen = observation(pack)
    arrays = {"state": seen["state"], **{f"image_{c}": i for c, i in seen["images"].items()}}
    many = bytes(100_000_000)
    bomb = archive(("image_left.npy", npy((len(many),), body=many)))
    assert len(bomb) < 200_000
    sent = {
        "images": {c: base64.b64encode(i.tobytes()).decode() for c, i in seen["images"].items()},
        "state": seen["state"].tolist(),
    }
    whole = "a whole number from 0 to 9223372036854775807"
    cases = [
        *(
            ("/reset", json.dumps({"seed": odd}), whole)
            for odd in (-1, 2**63, 10**300, 1.5, 7.0, "7", True, None, [1], {"a": 1})
        ),
        ("/reset", '{"seed": 1' + "0" * 5000 + "}", "the body is no JSON"),
        ("/reset", '{"seed": NaN}', whole),
        ("/reset", "[" * 100_000, "nested too deeply"),
        ("/reset", '{"seed": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("/act", '{"images": ' + '{"a": ' * 100_000 + "}" * 100_001, "nested too deeply"),
        ("/act", b"\xff\xfe\x00", "the body is no JSON"),
        ("/act", json.dumps(sent | {"state": [10**400] * 9}), "9 finite numbers"),
        ("/act", json.dumps(sent | {"state": {"eef_x": [[[]]]}}), "has no 'eef_y'"),
        ("/act", json.dumps(sent | {"state": "near"}), "9 finite numbers"),
        ("/act", json.dumps(sent | {"instruction": {"go": [1]}}), "the instruction must be text"),
        ("/act", json.dumps(sent | {"images": {"left": [1, 2]}}), "no base64"),
    ]
    packed = [
        (bomb, "it unpacks to 100000128 bytes; at most 67108864 are read"),
        (understated(npy((len(many),), body=many), 1000), "no .npz archive"),
        (understated(npy((872,), body=many), 1000), "Bad CRC-32"),
        (archive(("state.npy", npy((10**12,)))), "does not hold the array that it names"),
        (archive(("state.npy", npy((2**64, 0)))), "no .npz archive"),
        (archive(("state.npy", npy((-1,), body=b"1"))), "does not hold the array that it names"),
        (
            archive(("state.npy", npy((1,), "|O", b"12345678"))),
            "does not hold the array that it names",
        ),
        (archive(("state.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16)), "no .npz archive"),
        (
            archive(("state.npy", npy((1,), body=b"1")), packing=zipfile.ZIP_LZMA),
            "packed in a way that numpy does not use",
        ),
        (archive(("state.npy", npy((1,), body=b"1")))[:-30], "no .npz archive"),
        (archive(), "no image of camera 'left'"),
        (savez(state=arrays["state"]), "no image of camera 'left'"),
        (savez(**arrays | {"state": np.array(["a"] * 9)}), "9 finite numbers"),
        (savez(**arrays | {"image_left": np.zeros((4, 4))}), "image 'left' is 4x4 float64"),
        (savez(**arrays, instruction=np.arange(3)), "the instruction must be text"),
    ]
    policy = load_policy(trained, "cpu")
    policy.reset(seed=7)
    wanted = policy.act(seen)
    with serve(load_policy(trained, "cpu")) as server:
        link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

        def post(path, body, kind="application/json"):
            link.request("POST", path, body, {"Content-Type": kind})
            reply = link.getresponse()
            return reply.status, json.loads(reply.read())

        post("/reset", "{}")
        connection = link.sock
        tracemalloc.start()
        json_cases = [(path, body, "application/json", sentence) for path, body, sentence in cases]
        npz_cases = [("/act", body, "application/x-npz", sentence) for body, sentence in packed]
        for path, body, kind, sentence in [*json_cases, *npz_cases]:
            status, answer = post(path, body, kind)
            assert (status, list(answer)) == (400, ["error"]), (body[:100], answer)
            assert sentence in answer["error"], (body[:100], answer)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
        tracemalloc.stop()
        assert link.sock is connection  # none of them dropped the connection
        post("/reset", '{"seed": 7}')
        assert np.allclose(post("/act", savez(**arrays), "application/x-npz")[1]["action"], wanted)
        for name, value in (
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "99999999999"),
            ("Content-Length", "many"),
        ):
            link.putrequest("POST", "/act")
            link.putheader(name, value)
            link.endheaders()
            reply = link.getresponse()
            assert (reply.status, "its length must be given" in reply.read().decode()) == (
                413,
                True,
            )


@pytest.mark.parametrize("trained", ["diffusion"], indirect=True)
def test_the_example_drives_a_world_with_a_served_policy(trained):
    with serve(load_policy(trained, "cpu")) as server:
        command = [
            sys.executable,
            str(EXAMPLE),
            "kitchen:TurnOnMicrowave",
            "--start",
            "1000",
            "--port",
            str(server.port),
            "--steps",
            "3",
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "kitchen:TurnOnMicrowave start 1000: no success after 3 steps" in out
