"""The typed values of a request are those that its texts print: the parser reads the same ones, and the pilot replies the same."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from capex import models, worlds
from capex.method.demonstrator import run_episode
from capex.method.executor import Outcome
from capex.method.hooks import Hooks
from capex.method.memory import Memory
from capex.method.observation import Observation, PastAct
from capex.method.prefix import Prefix
from capex.method.presets import preset
from capex.models import ToolResult, openai_chat, openai_responses
from capex.models.exchanges import describe
from capex.pilot import Pilot, serve
from capex.pilot.prompt import pictures
from capex.pilot.prompt_parser import parse, parse_observation
from capex.plan import ArmTarget, BaseMotion, Waypoint
from capex.pose import DOWN, FORWARD, Pose
from capex.rigs.env import RigEnv
from capex.worlds import ArmState, Start


class Tape:
    """Asks a model and keeps its requests and replies."""

    def __init__(self, model):
        self.model = model
        self.name, self.price_name, self.stand_in = model.name, model.price_name, model.stand_in
        self.asked = []

    def complete(self, request, observer=None):
        reply = self.model.complete(request, observer)
        self.asked.append((request, reply))
        return reply


class Recording:
    """Short episodes of the pilot, and everything that it was asked in them."""

    def __init__(self):
        self.tape = Tape(Pilot())

    def run(self, env, task, start, method, memory=None, prefix=None):
        hooks = Hooks(prefix=prefix)
        return run_episode(env, Start(task, start), self.tape, method, memory or Memory(), hooks)

    def kitchen(self, task, chain=((0, 2), (0, 40), (1, 3)), base=8):
        """A chain in which a cut attempt fails, another one succeeds and the last one is shown both;
        then a fork of the success, and the base method.
        """
        env, memory = worlds.make(f"kitchen:{task}"), Memory()
        try:
            for start, decisions in chain:
                method = preset("capex-failures", decisions=decisions, image_size=320)
                done = self.run(env, task, start, method, memory)
                png = done.pictures
                memory.add(done.record, png)
                if done.record.success and len(done.record.turns) > 1:
                    prefix = Prefix(done.record, done.steps, len(done.record.turns))
                    self.run(
                        env,
                        task,
                        start,
                        replace(method, decisions=len(done.record.turns)),
                        prefix=prefix,
                    )
            if base:
                self.run(env, task, 1, preset("base", decisions=base, image_size=320))
        finally:
            env.close()
        return memory

    def two_arms(self, task, methods):
        env = worlds.make(f"yam-twin:{task}")
        assert isinstance(env, RigEnv)
        env.open()
        try:
            for name, decisions in methods:
                env.room_hand().arrange(task, 0)
                self.run(env, task, 0, preset(name, decisions=decisions))
        finally:
            env.close()


@pytest.fixture(scope="module")
def recorded():
    """At least 100 requests: kitchen tasks with memory and without, a fork, two arms."""
    recording = Recording()
    for task in ("TurnOnMicrowave", "PickPlaceSinkToCounter", "CloseFridge", "TurnOffStove"):
        recording.kitchen(task)
    recording.two_arms("BreadAndCorn", (("base", 12), ("capex", 6)))
    recording.two_arms("BowlHandover", (("capex", 5),))
    return recording.tape.asked


@pytest.fixture(scope="module")
def received(recorded):
    """The same requests as `capex pilot serve` receives them: bytes of a wire, without values."""
    chat = openai_chat.make("pilot@http://127.0.0.1:9/v1")
    bodies = [{k: v for k, v in chat.body(r).items() if k != "extra_body"} for r, _ in recorded]
    return [serve.read_chat(json.loads(json.dumps(body))) for body in bodies]


def test_there_are_enough_requests_with_everything_in_them(recorded):
    assert len(recorded) >= 100
    values = [request.values for request, _ in recorded]
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
    assert any(m.position_cm for r, _ in recorded for m in r.messages if isinstance(m, ToolResult))


def test_the_parser_reads_the_values_that_the_text_prints(recorded, received):
    for (request, _), bare in zip(recorded, received, strict=True):
        assert bare.values is None
        parsed = parse(bare)
        assert parsed.values == request.values
        assert [p.camera for p in pictures(parsed)] == [p.camera for p in pictures(request)]
        located = [
            [m.position_cm for m in r.messages if isinstance(m, ToolResult)]
            for r in (parsed, request)
        ]
        assert located[0] == located[1]


def test_the_pilot_replies_the_same_to_values_and_to_text(recorded, received):
    for (_, reply), bare in zip(recorded, received, strict=True):
        assert Pilot().answer(parse(bare)) == reply.calls


def test_an_apprentice_replies_the_same_to_values_and_to_text(recorded, received):
    apprentice = models.make("apprentice:0.3,1")
    for (request, _), bare in list(zip(recorded, received, strict=True))[::5]:
        assert apprentice.answer(parse(bare)) == apprentice.answer(request)


def test_values_are_neither_sent_nor_logged_nor_hashed_and_cross_processes(recorded, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    request = next(r for r, _ in recorded if len(r.messages) > 1)
    bare = replace(request, values=None)
    assert request == bare
    assert (request.hash, describe(request)) == (bare.hash, describe(bare))
    for client in (openai_responses.make("pilot"), openai_chat.make("pilot@http://127.0.0.1:9/v1")):
        assert client.body(request) == client.body(bare)
        assert "position_cm" not in json.dumps(client.body(request))
    assert "values" not in repr(request)
    there = pickle.loads(pickle.dumps(request))
    assert there.values == request.values
    assert Pilot().answer(there) == Pilot().answer(request)


def test_without_values_the_pilot_says_so(received):
    (call,) = Pilot().answer(received[0])
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
    return Outcome(status, report, None, 0, {}, tips, grips=grips)


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
                ran = {names[0]: grip} if grip and gripper == "close" else {}
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
    grips = {"left": (0.004, True), "right": (0.0951, False)}
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
    grips = {"arm": (0.02, True)} if gripper == "close" and status in ("base", "stalled") else {}
    report += "; close: opening 2.0 cm, finger contact" * bool(grips)
    motion = Waypoint({"arm": ArmTarget(gripper=gripper)}, base=BaseMotion(0.2, 0.0, 0.08))
    done = outcome(status, report, grips, ("arm",))
    seen = observation(("arm",), [PastAct(1, (motion,), (done,))])
    assert parse_observation([seen.message]) == seen.values
