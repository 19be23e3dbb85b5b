"""The apprentice: biases drawn per task and seed, bent by nothing but what the request says."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from capex import models, worlds
from capex.errors import ErrorCode
from capex.method.context import EpisodeContext
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.presets import preset
from capex.models import AssistantMessage, Reply, Request, Text, ToolResult, UserMessage
from capex.pilot import Pilot, serve
from capex.pilot.biases import TUNED, Biases, draw, task_of
from capex.pilot.prompt_parser import parse
from capex.worlds import Start
from refusals import refuses

REFERENCE = """REFERENCE EPISODES
Reference episode 1 (same kitchen): success in 4 calls, 2 of them acts
Located points (base cm): L1 [55,-15,68]
Call 2: [45,-15,68]=L1+[-10,0,0] forward reached | [{x},-15,68]=L1+[{off},0,0] forward stopped by finger contact 0.9 cm from target
"""
SKELETON = """RELIABILITY OF YOUR EARLIER ATTEMPTS
TurnOnMicrowave: 2 earlier attempts, 0 succeeded, 2 failed. A phase ends with a gripper command.
Nothing has succeeded yet, so no phase is known to work; this is what the failures tell.
Failed attempts stalled or were stopped most in: keep#1 (4 stops in 2 attempts).
"""
FAILURES = """WHAT STOPPED EARLIER ATTEMPTS
Failed attempt 1 (start 7): 1 phase begun, the last keep#1; ended by horizon after 600 steps
- keep#1, 4 times: [55,-15,68] forward stalled 3.6 cm from target
"""


class Tape:
    """Asks a model and keeps its requests and replies."""

    def __init__(self, model):
        self.model = model
        self.name, self.price_name, self.stand_in = model.name, model.price_name, model.stand_in
        self.asked: list[tuple[Request, Reply]] = []

    def complete(self, request, observer=None):
        self.asked.append((request, self.model.complete(request, observer)))
        return self.asked[-1][1]


def looking(wanted: bool) -> int:
    """The first seed whose apprentice of skill 0.3 does or does not look again at the button."""
    press = "Press the start button on the microwave."
    return next(s for s in range(50) if draw(0.3, s, press).looks is wanted)


def first_decision(seed):
    tape = Tape(models.make(f"apprentice:0.3,{seed}"))
    env = worlds.make("kitchen:TurnOnMicrowave")
    try:
        start = Start("TurnOnMicrowave", 1)
        done = run_episode(
            env, start, tape, preset("capex", decisions=1), Memory(), EpisodeContext()
        )
    finally:
        env.close()
    return tape, done.record


@pytest.fixture(scope="module")
def careful():
    """The last request of a first decision that located the button, and who answered it."""
    tape, record = first_decision(looking(True))
    assert record.stand_in
    assert record.turns[0].located
    return tape.model, tape.asked[-1][0]


@pytest.fixture(scope="module")
def careless():
    tape, record = first_decision(looking(False))
    assert not record.turns[0].located
    return tape.model, tape.asked[0][0]


def goals(model, request):
    """Where an act sends the tip, in cm."""
    (call,) = model.answer(request)
    act = json.loads(call.arguments)
    return np.array([w["target_cm"] for w in (act, *act.get("chunk", ()))])


def with_page(request, more):
    first, *rest = request.messages
    parts = [
        Text(p.text + more) if isinstance(p, Text) and p.text.startswith("Instruction:") else p
        for p in first.parts
    ]
    return parse(replace(request, messages=(UserMessage(tuple(parts)), *rest)))


def with_system(request, more):
    return parse(replace(request, system=f"{request.system}\n{more}"))


def farther(request, by_cm):
    """The request with every located point that much farther away."""

    def moved(message):
        if not isinstance(message, ToolResult):
            return message
        return replace(
            message, text=re.sub(r"^\[(\d+)", lambda m: f"[{int(m[1]) + by_cm}", message.text)
        )

    return parse(replace(request, messages=tuple(moved(m) for m in request.messages)))


def test_a_report_alone_changes_the_plan(careful):
    model, request = careful
    x, y, z = goals(model, request)[-1]
    pressed = f"\nAct 1: [{x:.0f},{y:.0f},{z:.0f}] forward {{}} | [20,{y:.0f},{z:.0f}] reached"
    missed = with_page(request, pressed.format("reached"))
    touched = with_page(request, pressed.format("stopped by finger contact 0.9 cm from target"))
    assert goals(model, missed)[-1][0] > goals(model, touched)[-1][0] + 0.5  # not felt: deeper


def test_references_pull_a_push_to_the_depth_that_worked(careful):
    model, request = careful
    ends = [
        goals(model, with_system(request, REFERENCE.format(x=55 + off, off=off)))[-1][0]
        for off in (-3, 0, 3)
    ]
    assert ends[0] < ends[1] < ends[2]
    usual = Pilot(seed=model.seed)
    known = [
        goals(usual, with_system(request, REFERENCE.format(x=55 + o, off=o)))[-1][0]
        for o in (-3, 3)
    ]
    assert ends[2] - ends[0] > known[1] - known[0]  # the pilot has values of its own


def test_the_skeleton_alone_changes_the_plan(careful, careless):
    model, request = careful
    warned = goals(model, with_system(request, SKELETON))
    assert warned[-1][0] < goals(model, request)[-1][0] - 0.5  # failures were stopped: less deep
    model, request = careless
    assert [c.name for c in model.answer(request)] == ["act"]
    assert {c.name for c in model.answer(with_system(request, SKELETON))} == {"locate_pixel"}


def test_the_page_of_failures_alone_changes_the_plan(careful, careless):
    model, request = careful
    warned = goals(model, with_system(request, FAILURES))
    assert warned[-1][0] < goals(model, request)[-1][0] - 0.5
    model, request = careless
    assert {c.name for c in model.answer(with_system(request, FAILURES))} == {"locate_pixel"}


def test_a_hasty_one_goes_straight_and_too_deep_until_something_stops_it(careful):
    model, request = careful
    hasty = models.make(f"{model.name},haste=20")
    calm, quick = goals(model, request), goals(hasty, request)
    assert len(quick) < len(calm)
    assert quick[-1][0] > calm[-1][0] + 1
    act = "\nAct 1: [45,-15,68] forward stalled 3.0 cm from target"
    stopped = with_page(request, act)
    assert len(goals(hasty, stopped)) == len(goals(model, stopped))
    with refuses(ErrorCode.BAD_SETTING, "'pilot:0,haste=20' has 'haste=20'"):
        models.make("pilot:0,haste=20")


def test_a_located_point_alone_changes_the_plan(careful, careless):
    model, request = careful
    shift = goals(model, farther(request, 4))[-1] - goals(model, request)[-1]
    assert shift == pytest.approx([4, 0, 0], abs=0.2)
    # One who would not ask uses points that are there.
    model, request = careless
    by_eye = goals(model, request)[-1]
    asking = Pilot(seed=model.seed).answer(request)
    results = (
        ToolResult(c.id, "[55, -15, 68] cm in the base frame, 57 cm from the mount.")
        for c in asking
    )
    messages = (*request.messages, AssistantMessage(asking), *results)
    told = parse(replace(request, messages=messages))
    assert not np.allclose(goals(model, told)[-1], by_eye, atol=0.5)


def test_a_deferral_makes_a_careless_one_look(careless):
    model, request = careless
    act = "Act 1: [45,-15,68] forward reached | [55,-15,68] forward not executed (deferred)"
    more = f"\nYour last acts, oldest first:\n{act} (tip now [45,-15,68])"
    assert {c.name for c in model.answer(with_page(request, more))} == {"locate_pixel"}


def test_a_request_has_one_answer_and_the_server_gives_it(careful):
    model, request = careful
    assert model.answer(request) == models.make(model.name).answer(request)
    assert model.name.startswith("apprentice:")
    kind, _, rest = model.name.partition(":")
    assert serve.STAND_INS[kind](rest).answer(request) == model.answer(request)
    other = models.make(f"apprentice:0.3,{model.seed + 1}")
    assert other.answer(request) != model.answer(request)


def test_full_skill_is_the_pilot(careful):
    _, request = careful
    assert models.make("apprentice:1,4").answer(request) == Pilot(seed=4).answer(request)
    assert draw(1.0, 4, "Close the fridge door.") == replace(TUNED)


def test_habits_are_kept_through_the_starts_of_a_task():
    same = {
        task_of(f"Pick the {item} from the plate and place it in the pan.")
        for item in ("eggplant", "red bell pepper")
    }
    assert len(same) == 1
    assert task_of("Open the left cabinet.") == task_of("Open the middle cabinet.")
    assert task_of("Close the fridge door.") != task_of("Close the oven door.")
    draws = [draw(0.2, s, "Close the fridge door.") for s in range(200)]
    assert draws[3] == draw(0.2, 3, "Close the fridge door.")
    spread = [_size(draw(skill, s, "x")) for skill in (0.0, 0.9) for s in range(40)]
    assert np.mean(spread[:40]) > 5 * np.mean(spread[40:])
    assert 0.2 < np.mean([d.turns_wrong for d in draws]) < 0.7


def _size(biases: Biases) -> float:
    return sum(abs(v) for v in (*biases.depth_m.values(), *biases.sight_m.values()))


@pytest.mark.parametrize("name", ["apprentice", "apprentice:", "apprentice:7,1", "apprentice:much"])
def test_a_wrong_skill_is_named(name):
    with refuses(ErrorCode.BAD_SETTING, r"number from 0 to 1.*apprentice:0\.3,1"):
        models.make(name)


def test_a_wrong_setting_is_named():
    with refuses(ErrorCode.BAD_SETTING, r"'apprentice:0\.3,1,colour=red' has 'colour=red'"):
        models.make("apprentice:0.3,1,colour=red")
