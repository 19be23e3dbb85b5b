"""The pilot: replies that follow from the request alone, eyes that ground what they see, wires that carry the same plans, episodes that work."""

from __future__ import annotations

import ast
import json
import math
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import capex.pilot
from capex import models, worlds
from capex.campaign.ledger import Ledger
from capex.errors import ErrorCode
from capex.method.context import Committed, EpisodeContext, Replied
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.observation import encode_png
from capex.method.presets import preset
from capex.models import (
    Picture,
    Reply,
    Request,
    Text,
    UserMessage,
    openai_chat,
    openai_responses,
    prices,
)
from capex.models.probe import probe
from capex.pilot import Pilot, serve
from capex.pilot.appearance import coloured
from capex.pilot.biases import Noise, Overconfidence
from capex.pilot.cameras import GuessedCameras
from capex.pilot.grounding import Located, round_middle
from capex.pilot.prompt import read_brief, read_page
from capex.pilot.prompt_parser import parse
from capex.pilot.segmentation import ellipse, regions, see
from capex.pilot.table_objects import plates
from capex.worlds import Start
from refusals import refuses

TASKS = (
    "CloseFridge",
    "CloseToasterOvenDoor",
    "TurnOnMicrowave",
    "PickPlaceCounterToStove",
    "PickPlaceToasterToCounter",
    "PickPlaceSinkToCounter",
    "TurnOnElectricKettle",
    "TurnOnSinkFaucet",
    "TurnOffStove",
    "OpenStandMixerHead",
)


class Tape:
    """Asks a model and keeps its requests and replies."""

    def __init__(self, model, change=lambda request: request):
        self.model, self.change = model, change
        self.name, self.price_name, self.stand_in = model.name, model.price_name, model.stand_in
        self.requests: list[Request] = []
        self.replies: list[Reply] = []

    def complete(self, request, observer=None):
        self.requests.append(request)
        self.replies.append(self.model.complete(self.change(request), observer))
        return self.replies[-1]


def episode(task, model, *, start=0, arm_name="capex", memory=None, **overrides):
    env = worlds.make(f"kitchen:{task}")
    plans = []

    def keep(event):
        if isinstance(event, Committed):
            plans.append((event.plan, event.count))

    try:
        done = run_episode(
            env,
            Start(task, start),
            model,
            preset(arm_name, **overrides),
            memory or Memory(),
            EpisodeContext(subscribers=[keep]),
        )
        return done, plans
    finally:
        env.close()


@pytest.fixture(scope="module")
def taped():
    """One whole episode in process with everything that was asked and answered."""
    tape = Tape(Pilot())
    done, plans = episode("CloseFridge", tape)
    return tape, done, plans


@pytest.mark.parametrize("task", TASKS)
def test_it_solves_a_start_of_every_task(task):
    done, _ = episode(task, Pilot(), start=3 if task == "OpenStandMixerHead" else 0)
    assert done.record.success is True
    assert done.record.stand_in is True
    assert done.record.model == "pilot"


def test_the_base_arm_works_with_one_waypoint_and_no_locate_pixel():
    tape = Tape(Pilot())
    done, plans = episode("TurnOnMicrowave", tape, start=1, arm_name="base")
    assert done.record.success is True
    assert all(
        len(plan.waypoints) == 1 and plan.waypoints[0].confidence is None for plan, _ in plans
    )
    assert {call.name for reply in tape.replies for call in reply.calls} == {"act"}


@pytest.mark.parametrize("task", ["TurnOnMicrowave", "PickPlaceToasterToCounter"])
def test_blindfolded_it_fails(task):
    blank = encode_png(np.full((512, 512, 3), 128, np.uint8))

    def blindfold(request):
        parts = [
            replace(p, png=blank) if isinstance(p, Picture) else p
            for p in request.messages[0].parts
        ]
        return replace(request, messages=(UserMessage(tuple(parts)), *request.messages[1:]))

    done, _ = episode(task, Tape(Pilot(), blindfold), decisions=12)
    assert done.record.success is False


def test_a_request_has_one_answer_and_a_seed_changes_it(taped):
    tape, _, _ = taped
    for request, reply in zip(tape.requests, tape.replies, strict=True):
        assert Pilot().answer(request) == reply.calls
    assert any(
        Pilot(seed=3).answer(request) != reply.calls
        for request, reply in zip(tape.requests, tape.replies, strict=True)
    )


def test_the_order_of_requests_does_not_matter(taped):
    tape, _, _ = taped
    pilot = Pilot()
    backwards = [pilot.answer(request) for request in reversed(tape.requests)]
    assert backwards == [reply.calls for reply in reversed(tape.replies)]


def test_it_receives_only_what_travels_on_the_wires(taped, monkeypatch):
    """Every request, reduced to the bytes of either wire and read back, has the same answer: nothing else reaches the pilot."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    responses = openai_responses.make("pilot")
    chat = openai_chat.make("pilot@http://127.0.0.1:9/v1")
    tape, _, _ = taped
    for request, reply in zip(tape.requests, tape.replies, strict=True):
        for body, read in (
            (responses.body(request), serve.read_responses),
            (chat.body(request), serve.read_chat),
        ):
            received = read(
                json.loads(json.dumps({k: v for k, v in body.items() if k != "extra_body"}))
            )
            assert Pilot().answer(received) == reply.calls


def test_it_imports_nothing_of_worlds_tasks_or_episodes():
    allowed = (
        "capex.pilot",
        "capex.models",
        "capex.errors",
        "capex.loopback",
        "capex.plan",
        "capex.pose",
    )
    for path in Path(capex.pilot.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert all(not n.startswith("capex") or n.startswith(allowed) for n in names), (
                f"{path.name} imports {names}"
            )


@pytest.fixture(scope="module")
def service():
    with serve.server(0) as running:
        thread = threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/v1"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_over_http_the_official_client_gets_the_same_plans(wire, service, taped, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", service)
    model = models.make("openai:pilot" if wire == "responses" else f"chat:pilot@{service}")
    _, done, plans = taped
    remote, remote_plans = episode("CloseFridge", model)
    assert model.stand_in
    assert remote_plans == plans
    here, there = done.record.as_json(), remote.record.as_json()
    for told in (here, there):
        for key in ("model",):
            told.pop(key)
    assert here == there


def post(url, body):
    asked = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_server_refuses_with_sentences(service):
    assert post(f"{service}/responses", {"model": "gpt", "input": []})[0] == 404
    status, body = post(
        f"{service}/chat/completions", {"model": "pilot", "stream": True, "messages": []}
    )
    assert status == 400
    assert "does not stream" in body["error"]["message"]
    status, body = post(
        f"{service}/chat/completions",
        {
            "model": "pilot",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "http://a/b.png"}}],
                }
            ],
        },
    )
    assert status == 400
    assert "nothing is fetched" in body["error"]["message"]
    assert post(f"{service}/nothing", {})[0] == 404
    assert post(f"{service}/chat/completions", {"model": "pilot:x=1", "messages": []})[0] == 400
    with urllib.request.urlopen(f"{service}/models") as answer:
        assert json.loads(answer.read())["data"][0]["id"] == "pilot"


HOSTILE = [
    b'{"a":' * 50_000,
    b"[" * 2_000_000,
    b'{"model": "pilot", "messages": [{"role": "assistant", "tool_calls": 5}]}',
    b'{"model": "pilot", "messages": [{"role": "assistant", "tool_calls": [5]}]}',
    b'{"model": "pilot", "messages": 7}',
    b'{"model": "pilot", "tools": [{"function": {"name": "act", "parameters": {"properties": 3}}}], "messages": []}',
    b'{"model": "pilot", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}],'
    b' "tools": [{"function": {"name": "report_colour"}}]}',
    b'{"model": {"a": 1}, "messages": []}',
    b"\xff\xfe\x00",
    b"",
    b'{"model": "pilot", "messages": [{"role": "user", "content": "Instruction: x"}], "tools": [{"function": {"name": "act", "parameters": []}}]}',
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_the_server_is_sent_it_answers(service, body):
    import http.client

    address = service.removeprefix("http://").removesuffix("/v1")
    for path in ("/v1/chat/completions", "/v1/responses"):
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("POST", path, body)
        reply = connection.getresponse()
        said = json.loads(reply.read())
        assert reply.status in (200, 400, 404, 500)
        assert reply.status == 200 or len(said["error"]["message"]) > 10
        connection.close()


@pytest.mark.parametrize("length", ["-1", "\u00b2".encode("latin-1"), "9" * 5000, str(65 * 2**20)])
def test_a_length_that_is_none_or_too_large_is_answered(service, length):
    import http.client

    address = service.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.putrequest("POST", "/v1/responses")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    if length == str(65 * 2**20):
        for _ in range(65):
            connection.send(bytes(2**20))
    reply = connection.getresponse()
    assert reply.status == 413
    assert "it must be a number of at most" in json.loads(reply.read())["error"]["message"]
    connection.close()


@pytest.mark.parametrize("name", ["pilot", "chat:pilot@{}", "openai:pilot"])
def test_the_doctor_finds_it_well(service, name, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", service)
    found = probe(models.make(name.format(service)))
    assert [what for what, _, _ in found] == [
        "reachable",
        "takes pictures",
        "calls tools",
        "reports usage",
    ]
    assert all(works for _, works, _ in found), found
    assert not {what: works for what, works, _ in probe(Pilot(blind=True))}["takes pictures"]


def test_a_page_that_is_not_ours_gets_an_act_all_the_same():
    (call,) = Pilot().answer(Request("", (UserMessage((Text("hello"),)),), ()))
    assert call.name == "act"
    assert "cannot read" in json.loads(call.arguments)["reasoning"]


def test_settings_are_part_of_the_name_and_bad_ones_get_a_sentence():
    pilot = models.make("pilot:3,blur=2,usual=0.9,price=gpt-x")
    assert (
        pilot.seed,
        pilot.blur_px,
        pilot.overconfidence.usual,
        pilot.price_name,
        pilot.name,
    ) == (3, 2.0, 0.9, "gpt-x", "pilot:3,blur=2,usual=0.9,price=gpt-x")
    for bad in ("pilot:x", "pilot:blur=-1", "pilot:colour=2", "pilot:usual=2"):
        with refuses(ErrorCode.BAD_SETTING, "write pilot, pilot:3"):
            models.make(bad)


def test_usage_is_counted_and_priced_only_when_asked(taped):
    tape, _, _ = taped
    assert all(r.usage.fresh > 3000 and r.usage.output > 5 for r in tape.replies)
    table = prices.load_prices()
    assert table.find(Pilot().price_name) is None
    known = table.rows[0].model
    ledger = Ledger(table.find(known))
    models.make(f"pilot:price={known}").complete(tape.requests[0], ledger)
    assert ledger.totals.cost_usd > 0


def test_stated_confidences_are_high_whatever_happens():
    stated = [Overconfidence().state(Noise(0, str(n)), n % 6, n % 4 == 0) for n in range(4000)]
    assert 0.92 < np.mean(stated) < 0.96
    assert np.mean(np.array(stated) < 0.8) < 0.05
    assert max(stated) <= 0.99


def test_stated_confidences_depend_on_no_outcome(taped):
    """The same page with another history of reports is stated the same way: only pictures and pose enter the noise."""
    tape, _, _ = taped
    request = tape.requests[-1]
    assert request.values.observation.acts
    old = json.loads(Pilot().answer(request)[0].arguments)
    parts = tuple(
        Text(p.text.replace(" reached", " timeout")) if isinstance(p, Text) else p
        for p in request.messages[0].parts
    )
    new = json.loads(
        Pilot()
        .answer(parse(replace(request, messages=(UserMessage(parts), *request.messages[1:]))))[0]
        .arguments
    )
    assert old["confidence"] == new["confidence"]


def disc(image, centre, half, colour):
    rows, columns = np.indices(image.shape[:2])
    image[((columns - centre[0]) / half[0]) ** 2 + ((rows - centre[1]) / half[1]) ** 2 <= 1] = (
        colour
    )


def test_eyes_find_a_plate_and_what_lies_on_it():
    image = np.full((256, 256, 3), (200, 198, 190), np.uint8)
    disc(image, (120, 140), (50, 30), (77, 107, 158))
    disc(image, (120, 140), (46, 27), (240, 240, 235))
    disc(image, (130, 138), (9, 8), (224, 36, 20))
    view = see("left", encode_png(image))
    (plate,) = plates(view)
    assert np.allclose(plate.centre, (120, 140), atol=1.5)
    assert np.allclose(plate.half, (49, 29), atol=2)
    (tomato,) = coloured(view, "tomato")
    assert np.allclose(tomato.centre, (130.5, 138.5), atol=1)
    assert plate.contains(tomato.centre)
    assert coloured(view, "cucumber") == []


def test_an_ellipse_is_fitted_through_a_part_of_it():
    angle = np.linspace(0.3, 3.9, 80)
    found = ellipse(100 + 40 * np.cos(angle), 90 + 22 * np.sin(angle))
    assert found is not None
    assert np.allclose(found.centre, (100.5, 90.5), atol=0.5)
    assert np.allclose(found.half, (40, 22), atol=0.5)
    assert ellipse(np.arange(30.0), np.arange(30.0)) is None


def test_regions_of_an_empty_picture_are_none():
    view = see("left", encode_png(np.zeros((64, 64, 3), np.uint8)))
    assert regions(view.between(0.5, 1.0)) == []


def test_views_that_disagree_are_told_apart():
    near, far = np.array([0.5, 0.1, 0.5]), np.array([0.9, 0.1, 0.5])
    assert np.allclose(Located({"left": [near], "right": [near + 0.01]}).agreed(), near + 0.005)
    assert np.allclose(Located({"left": [far], "right": [near]}).agreed(), near)
    assert Located({"left": [None]}).agreed() is None


def test_two_lines_of_sight_meet_where_the_point_is():
    rig = GuessedCameras({"left": (512, 512), "right": (512, 512)}, {})
    point = np.array([0.55, 0.1, 0.5])
    assert np.allclose(
        rig.between(rig.project("left", point), rig.project("right", point)), point, atol=1e-6
    )
    assert rig.between((10, 10), (10, 400)) is None
    assert np.allclose(rig.on_height("left", rig.project("left", point), 0.5), point, atol=1e-6)


def test_the_page_and_the_brief_are_read(taped):
    tape, done, _ = taped
    request = tape.requests[-1]
    page = read_page(request.values.observation, request)
    brief = read_brief(request.values.system, request)
    assert page.instruction == "Close the fridge door."
    assert set(page.pictures) == {"left", "right", "wrist"}
    assert len(page.acts) == len(done.record.turns) - 1
    assert page.acts[0].waypoints[0].status == "base"  # it drives to the fridge first
    assert brief.locate
    assert brief.base_motion
    assert brief.plan_max == 24


def test_memory_changes_what_it_does():
    """A reference's grasp that went deeper is taken over, relative to the point located anew."""
    tape = Tape(Pilot())
    episode("PickPlaceSinkToCounter", tape, decisions=2)
    asked = next(
        r
        for r, said in zip(tape.requests, tape.replies, strict=True)
        if '"close"' in said.calls[0].arguments
    )

    def grasp(offset):
        reference = f"\nReference episode 1 (same kitchen): success in 4 calls, 2 of them acts\nCall 2: [45,0,{50 + offset}]=L1+[0,0,{offset}] close reached | [45,0,60]=L1+[0,0,10] reached\n"
        arguments = json.loads(
            Pilot().answer(parse(replace(asked, system=asked.system + reference)))[0].arguments
        )
        return min(
            w["target_cm"][2]
            for w in (arguments, *arguments["chunk"])
            if w.get("gripper") == "close"
        )

    assert grasp(-1) - grasp(-2) == pytest.approx(1.0, abs=0.11)


def test_the_skeletons_advice_shortens_plans(taped):
    tape, _, _ = taped
    pushes = [
        r
        for r, said in zip(tape.requests, tape.replies, strict=True)
        if "chunk" in said.calls[0].arguments
    ]
    request = pushes[0]
    advice = "\n".join(
        f"Phase {n} ({word}#{n}, in 3 of 3 successes): 4 waypoints typical; observe after each waypoint."
        for n in range(3)
        for word in ("keep",)
    )
    advice = f"3 earlier attempts, 3 succeeded, 0 failed.\n{advice}"
    whole = json.loads(Pilot().answer(request)[0].arguments)
    short = json.loads(
        Pilot().answer(parse(replace(request, system=f"{request.system}\n{advice}")))[0].arguments
    )
    assert len(short.get("chunk", [])) < len(whole["chunk"])


def test_another_image_size_works():
    done, _ = episode("TurnOnMicrowave", Pilot(), image_size=384)
    assert done.record.success is True


def test_pictures_are_decoded_as_any_client_sends_them(tmp_path):
    Image.new("RGB", (32, 32), (0, 255, 0)).save(tmp_path / "a.png")
    assert see("left", (tmp_path / "a.png").read_bytes()).hue[0, 0] == pytest.approx(120)


def test_replies_reach_subscribers():
    env = worlds.make("kitchen:TurnOnMicrowave")
    seen = []
    context = EpisodeContext(subscribers=[seen.append])
    run_episode(env, Start("TurnOnMicrowave", 1), Pilot(), preset("capex"), Memory(), context)
    env.close()
    assert any(isinstance(event, Replied) for event in seen)


def test_a_round_thing_is_placed_by_its_shell_better_than_its_spots_are_located():
    rng = np.random.default_rng(0)
    angles = rng.uniform(1.8, 4.5, 12)  # the side that two cameras see
    shell = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1) * 0.056
    located = [np.round(p + np.array([0.40, 0.07, 0.60]), 2) for p in shell]  # whole centimetres
    located.append(np.array([0.60, 0.20, 0.60]))  # one fell on the wall behind
    assert math.dist(round_middle(located, 0.056, np.array([0.41, 0.09])), (0.40, 0.07)) < 0.005
