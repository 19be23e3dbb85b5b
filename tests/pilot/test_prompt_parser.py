"""The typed values of a request are those that its texts print: the parser reads the same ones, and the pilot replies the same."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from capex import models, worlds
from capex.method.context import AttemptExtension, EpisodeContext, Prefix
from capex.method.demonstrator import run_episode
from capex.method.executor import Outcome
from capex.method.memory import Memory
from capex.method.motion import GripperResult
from capex.method.observation import Observation, PastAct
from capex.method.presets import preset
from capex.models import ToolResult, openai_chat, openai_responses
from capex.models.exchanges import describe
from capex.pilot import Pilot, serve
from capex.pilot.prompt import pictures
from capex.pilot.prompt_parser import parse_observation
from capex.plan import ArmTarget, BaseMotion, Waypoint
from capex.pose import DOWN, FORWARD, Pose
from capex.rigs.env import RigFileEnv
from capex.worlds import ArmState, Start

APPRENTICE, PILOT = models.make("apprentice:0.3,1"), Pilot()
# Of a chain: model, start and decisions. The first one fails, the second succeeds, and the third is
# shown both.
CHAIN = ((APPRENTICE, 0, 4), (PILOT, 0, 40), (PILOT, 1, 3))


class Tape:
    """Asks a model and keeps it with its requests and replies."""

    def __init__(self, model, asked):
        self.model, self.asked = model, asked
        self.name, self.price_name, self.stand_in = model.name, model.price_name, model.stand_in

    def complete(self, request, observer=None):
        reply = self.model.complete(request, observer)
        self.asked.append((self.model, request, reply))
        return reply


class Resume(AttemptExtension):
    def __init__(self, prefix: Prefix):
        self._prefix = prefix

    @property
    def prefix(self) -> Prefix:
        return self._prefix


def kitchen(task, asked, chain=CHAIN, base=12, fork=False):
    """A chain with memory, the base method, and a fork of the chain's success."""
    env, memory = worlds.make(f"kitchen:{task}"), Memory()
    method = preset("capex-failures", image_size=320)
    try:
        for model, start, decisions in chain:
            limited = replace(method, decisions=decisions)
            done = run_episode(env, Start(task, start), Tape(model, asked), limited, memory)
            memory.add(done.record, done.pictures)
            if fork and model is PILOT and done.record.success:
                resume = Resume(Prefix(done.record, done.steps, len(done.record.turns)))
                context = EpisodeContext(extensions=[resume])
                run_episode(env, Start(task, start), Tape(PILOT, asked), method, Memory(), context)
        alone = preset("base", decisions=base, image_size=320)
        run_episode(env, Start(task, 1), Tape(PILOT, asked), alone, Memory())
    finally:
        env.close()


def two_arms(task, asked, methods):
    env = worlds.make(f"yam-twin:{task}")
    assert isinstance(env, RigFileEnv)
    env.open()
    try:
        for name, decisions in methods:
            env.room_hand().arrange(task, 0)
            method = preset(name, decisions=decisions)
            run_episode(env, Start(task, 0), Tape(PILOT, asked), method, Memory())
    finally:
        env.close()


@pytest.fixture(scope="module")
def recorded():
    """At least 100 requests: kitchen tasks with memory and without, a fork, two arms."""
    asked = []
    for task in ("TurnOnMicrowave", "CloseFridge", "TurnOffStove"):
        kitchen(task, asked)
    kitchen("PickPlaceSinkToCounter", asked, CHAIN[1:], fork=True)
    two_arms("BreadAndCorn", asked, (("base", 4), ("capex", 1)))
    return asked


@pytest.fixture(scope="module")
def received(recorded):
    """The same requests as `capex pilot serve` receives them, from the bytes of an API."""
    chat = openai_chat.make("pilot@http://127.0.0.1:9/v1")
    bodies = [{k: v for k, v in chat.body(r).items() if k != "extra_body"} for _, r, _ in recorded]
    return [serve.read_chat(json.loads(json.dumps(body))) for body in bodies]


def test_there_are_enough_requests_with_everything_in_them(recorded):
    assert len(recorded) >= 100
    values = [request.values for _, request, _ in recorded]
    assert {len(v.observation.hands) for v in values} == {1, 2}
    assert any(v.system.references for v in values)
    assert any(v.system.skeleton and v.system.skeleton.advice for v in values)
    assert any(v.system.skeleton and v.system.skeleton.stops for v in values)
    assert any(v.system.failures for v in values)
    acted = [w for v in values for act in v.observation.acts for w in act.waypoints]
    assert any(w.base for w in acted)
    assert any(w.arms for w in acted)
    assert any(w.opening_cm is not None for w in acted)
    assert len({w.status for w in acted}) >= 4
    assert any(
        m.position_cm for _, r, _ in recorded for m in r.messages if isinstance(m, ToolResult)
    )


def test_the_parser_reads_the_values_that_the_text_prints(recorded, received):
    for (_, request, _), parsed in zip(recorded, received, strict=True):
        assert parsed.values == request.values
        assert [p.camera for p in pictures(parsed)] == [p.camera for p in pictures(request)]
        located = [
            [m.position_cm for m in r.messages if isinstance(m, ToolResult)]
            for r in (parsed, request)
        ]
        assert located[0] == located[1]


def test_replies_to_values_and_to_text_are_the_same(recorded, received):
    for (model, _, reply), parsed in zip(recorded, received, strict=True):
        assert model.answer(parsed) == reply.calls


def test_values_are_neither_sent_nor_logged_nor_hashed_and_cross_processes(recorded, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    request = next(r for _, r, _ in recorded if len(r.messages) > 1)
    bare = replace(request, values=None)
    assert request == bare
    assert (request.hash, describe(request)) == (bare.hash, describe(bare))
    for client in (openai_responses.make("pilot"), openai_chat.make("pilot@http://127.0.0.1:9/v1")):
        assert client.body(request) == client.body(bare)
        assert "position_cm" not in json.dumps(client.body(request))
    assert "PromptValues" not in repr(request)
    there = pickle.loads(pickle.dumps(request))
    assert there.values == request.values
    assert Pilot().answer(there) == Pilot().answer(request)


def test_without_values_the_pilot_says_so(received):
    (call,) = Pilot().answer(replace(received[0], values=None))
    assert "cannot read" in json.loads(call.arguments)["reasoning"]


ARMS = ("left", "right")
# status, report, and the openings of the grippers that ran
ENDS = (
    ("reached", "reached", {}),
    (
        "reached",
        "reached; shortened to 10 cm; close: opening 0.4 cm, finger contact",
        (0.004, True),
    ),
    ("stalled", "stalled 3.6 cm and 12 deg from target; close: opening 8.0 cm", (0.08, False)),
    ("stalled", "stalled: joint limit (joint4), 3.6 cm from target", {}),
    (
        "finger contact",
        "stopped by finger contact 0.9 cm from target; close skipped (already closed)",
        {},
    ),
    ("contact", "stopped by contact (forearm on cabinet)", {}),
    ("timeout", "timeout 4.0 cm from target; guard: slowed in 3 ticks", {}),
    ("guard stop", "stopped by the guard: too fast", {}),
    ("gripper", "close: opening 1.2 cm; guard: slowed in 1 tick", (0.0119, False)),
    ("out of steps", "cut short: no control steps left", {}),
    ("ended", "cut short by the operator", {}),
    ("not executed", "not executed", {}),
    ("deferred", "not executed (deferred: low confidence)", {}),
)


def outcome(status, report, grips, names):
    tips = {n: Pose(np.array([0.4, 0.1, 0.5]), DOWN) for n in names}
    return Outcome(status, report, None, 0, {}, tips, grippers=grips)


def observation(names, history):
    arms = {n: ArmState(Pose(np.array([0.4, 0.125, 0.5]), FORWARD), 0.0049, False) for n in names}
    opening = dict.fromkeys(names, 0.08)
    return Observation("Close the door.", 100, 900, 5, arms, opening, tuple(history), {})


@pytest.mark.parametrize("names", [("arm",), ARMS])
def test_every_way_in_which_a_waypoint_ends_is_read_back(names):
    several = len(names) > 1
    history = [PastAct(1, (), (), "said done"), PastAct(2, (), (), "spent without motion: no act")]
    for gripper, position in (
        ("close", (0.41, -0.004, 0.5)),
        ("close", None),
        ("keep", (0.3, 0, 1)),
    ):
        for orientation in ("keep", "down", (179.6, -0.2, 12.0)):
            waypoints, outcomes = [], []
            for status, report, grip in ENDS:
                if gripper == "keep" and "close" in report:
                    continue
                ran = {names[0]: GripperResult(*grip)} if grip and gripper == "close" else {}
                if several:
                    report = report.replace("close", f"{names[0]} close")
                waypoints.append(Waypoint({names[0]: ArmTarget(position, orientation, gripper)}))
                outcomes.append(outcome(status, report, ran, names))
            history.append(PastAct(len(history) + 1, tuple(waypoints), tuple(outcomes)))
    seen = observation(names, history)
    assert parse_observation([seen.message], names if several else ()) == seen.values


def test_both_arms_of_a_waypoint_are_read_back():
    both = Waypoint(
        {
            "left": ArmTarget((0.3, 0.2, 0.1), "down", "close"),
            "right": ArmTarget(None, "keep", "open"),
        }
    )
    grips = {"left": GripperResult(0.004, True), "right": GripperResult(0.0951, False)}
    report = "reached; left close: opening 0.4 cm, finger contact; right open: opening 9.5 cm"
    idle = Waypoint({"left": ArmTarget(), "right": ArmTarget((0.3, -0.2, 0.1))})
    outcomes = (
        outcome("reached", report, grips, ARMS),
        outcome("stalled", "stalled 2.0 cm from target (right)", {}, ARMS),
    )
    seen = observation(ARMS, [PastAct(1, (both, idle), outcomes)])
    values = seen.values
    assert parse_observation([seen.message], ARMS) == values
    first = values.acts[0].waypoints[0]
    assert (first.arms["left"].opening_cm, first.arms["right"].opening_cm) == (0.4, 9.5)


@pytest.mark.parametrize(
    ("status", "report"),
    [
        ("base", "base moved 20 cm forward, 0 cm left, turned 5 deg left"),
        ("stalled", "base stalled, base moved 3 cm forward, 0 cm left, turned 0 deg left"),
        ("timeout", "base timeout, base moved 3 cm forward, 0 cm left, turned 0 deg left"),
        (
            "contact",
            "stopped by contact (base on wall), base moved 3 cm forward, 0 cm left, turned 0 deg left",
        ),
        ("deferred", "not executed (deferred: low confidence)"),
    ],
)
@pytest.mark.parametrize("gripper", ["keep", "close"])
def test_base_motions_are_read_back(status, report, gripper):
    grips = (
        {"arm": GripperResult(0.02, True)}
        if gripper == "close" and status in ("base", "stalled")
        else {}
    )
    report += "; close: opening 2.0 cm, finger contact" * bool(grips)
    motion = Waypoint({"arm": ArmTarget(gripper=gripper)}, base=BaseMotion(0.2, 0.0, 0.08))
    done = outcome(status, report, grips, ("arm",))
    seen = observation(("arm",), [PastAct(1, (motion,), (done,))])
    assert parse_observation([seen.message]) == seen.values
