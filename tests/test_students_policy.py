"""A trained policy in use: as an object, served, and rolled out on starts it has not seen."""

from __future__ import annotations

import base64
import http.client
import io
import json

import numpy as np
import pytest
import torch

import student_data
from capex.errors import CapexError
from capex.store import read_json
from capex.students import data
from capex.students.evaluate import Rollouts, evaluate
from capex.students.policy import load_policy
from capex.students.serve import serve
from capex.students.settings import make_settings
from capex.students.tables import Cell, cells, chain_summary, compare, figure, markdown
from capex.students.train import Job, train


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    torch.set_num_threads(1)
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
    assert np.allclose(together, runs[0], atol=1e-4)


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
        body = json.dumps({"images": images, "state": seen["state"].tolist(), "instruction": seen["instruction"]})
        assert post("/reset", '{"seed": 7}') == (200, {"ok": True})
        assert np.allclose(post("/act", body)[1]["action"], wanted)
        packed = io.BytesIO()
        np.savez(packed, state=seen["state"], instruction=seen["instruction"], **{f"image_{c}": i for c, i in seen["images"].items()})
        post("/reset", '{"seed": 7}')
        assert np.allclose(post("/act", packed.getvalue(), "application/x-npz")[1]["action"], wanted)
        for path, body, sentence in (
            ("/act", "{", "Expecting"),
            ("/fly", "{}", "there is no /fly"),
            ("/act", '{"images": {"left": "AAAA"}}', "3 bytes"),
        ):
            status, answer = post(path, body)
            assert status == 400
            assert sentence in answer["error"]


def test_rollouts_do_not_depend_on_the_number_of_processes(pack, tmp_path):
    out = tmp_path / "diffusion"
    train(Job((pack,), make_settings("diffusion", student_data.SMALL["diffusion"]), 1, out))
    for parallel in (1, 2):
        done = list(
            evaluate(Rollouts(out, "kitchen:TurnOnMicrowave", (1000, 1001), tmp_path / f"run{parallel}", parallel=parallel, device="cpu"))
        )
        assert sorted(r.index for r in done) == [1000, 1001]
    folder = "chains/kitchen--TurnOnMicrowave--diffusion-1/episodes"
    for index in ("1000", "1001"):
        one, two = (tmp_path / run / folder / index / "record.json" for run in ("run1", "run2"))
        assert one.read_bytes() == two.read_bytes()
    record = read_json(tmp_path / "run1" / folder / "1000" / "record.json")
    assert record["end"] in ("horizon", "success")
    assert record["student"]["policy"] == "diffusion"
    assert record["stand_in"]
    assert list(evaluate(Rollouts(out, "kitchen:TurnOnMicrowave", (1000, 1001), tmp_path / "run1", device="cpu"))) == []
    assert chain_summary(tmp_path / "run1")[0][1].endswith("/2")
    assert cells(tmp_path / "run1")[0].rollouts == 2


def test_starts_that_were_trained_on_are_refused(tmp_path):
    pack = student_data.write(tmp_path / "pack", task="Go")
    meta = read_json(pack / "pack.json")
    for e in meta["episodes"]:
        e |= {"world": "kitchen", "task": "TurnOnMicrowave"}
    (pack / "pack.json").write_text(json.dumps(meta))
    train(Job((pack,), make_settings("act", student_data.SMALL["act"]), 1, tmp_path / "act"))
    with pytest.raises(CapexError, match="2 of the starts were trained on"):
        list(evaluate(Rollouts(tmp_path / "act", "kitchen:TurnOnMicrowave", (3, 4, 9), tmp_path / "run")))


def test_the_table_has_means_deviations_and_both_tests(tmp_path):
    def cell(task, source, seed, solved):
        return Cell(f"kitchen:{task}", source, "act", seed, 20_000, solved, 50, 49, "random", True)

    found = [cell("A", "pilot", 0, 30), cell("A", "pilot", 1, 20), cell("A", "expert", 0, 45), cell("A", "expert", 1, 45)]
    found += [cell("B", "pilot", 0, 10), cell("B", "expert", 0, 10)]
    rows = compare(found, ("pilot", "expert"))
    assert rows[0].by_source["pilot"][:2] == (0.5, pytest.approx(0.1414, abs=1e-3))
    assert rows[0].p_value < 1e-6
    assert rows[1].p_value == pytest.approx(1.0)
    text = markdown(found, ("pilot", "expert"))
    assert "| kitchen:A (49) | act (random) | 20,000 | 0.50 ± 0.14 (50/100) | **0.90 ± 0.00** (90/100) |" in text
    assert "Cochran-Mantel-Haenszel" in text
    assert "stand-ins" in text
    assert figure(found, ("pilot", "expert"), tmp_path / "budget.png").stat().st_size > 5000
