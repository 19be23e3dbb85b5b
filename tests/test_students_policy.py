"""A trained policy in use: as an object and served."""

from __future__ import annotations

import base64
import http.client
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import student_data
from capex.errors import CapexError
from capex.students import data
from capex.students.policy import load_policy
from capex.students.serve import serve
from capex.students.settings import make_settings
from capex.students.train import Job, train

EXAMPLE = Path(__file__).parent.parent / "examples" / "run_policy.py"


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return student_data.write(tmp_path_factory.mktemp("data") / "pack")


@pytest.fixture(scope="module", params=["act", "diffusion"])
def trained(request, pack, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / request.param
    train(Job((pack,), make_settings(request.param, student_data.SMALL[request.param]), 3, out))
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


def test_wrong_observations_are_refused_with_a_sentence(trained, pack):
    policy, seen = load_policy(trained, "cpu"), observation(pack)
    with pytest.raises(CapexError, match="call reset"):
        policy.act(seen)
    policy.reset()
    for change, sentence in (
        ({"images": {}}, "no image of camera 'left'"),
        ({"images": {c: np.zeros((8, 8, 3), dtype=np.uint8) for c in student_data.CAMERAS}}, "image 'left' is 8x8x3"),
        ({"state": [0.0] * 3}, "must be 9 finite numbers"),
        ({"state": {"eef_x": 0.0}}, "has no 'eef_y'"),
    ):
        with pytest.raises(CapexError, match=sentence):
            policy.act(seen | change)


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
        sent = json.dumps({"images": images, "state": seen["state"].tolist(), "instruction": seen["instruction"]})
        assert post("/reset", '{"seed": 7}') == (200, {"ok": True})
        assert np.allclose(post("/act", sent)[1]["action"], wanted)
        packed = io.BytesIO()
        np.savez(packed, state=seen["state"], instruction=seen["instruction"], **{f"image_{c}": i for c, i in seen["images"].items()})
        post("/reset", '{"seed": 7}')
        assert np.allclose(post("/act", packed.getvalue(), "application/x-npz")[1]["action"], wanted)
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
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (out.returncode, out.stdout) == (0, "(512, 512, 3)\n"), out.stderr


@pytest.mark.parametrize("trained", ["diffusion"], indirect=True)
def test_the_example_drives_a_world_with_a_served_policy(trained):
    with serve(load_policy(trained, "cpu")) as server:
        command = [sys.executable, str(EXAMPLE), "kitchen:TurnOnMicrowave", "--start", "1000", "--port", str(server.port), "--steps", "3"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "kitchen:TurnOnMicrowave start 1000: no success after 3 steps" in out
