"""Replies are read without raising and without silent guesses; every refusal is a sentence that names the waypoint and the field."""

from __future__ import annotations

import copy
import json
import math
import random
import time
from dataclasses import replace

import numpy as np
import pytest

from capex.method.presets import preset
from capex.method.reading import Act, Defects, Locate, read_act, read_calls, read_locate
from capex.method.tools import Interface, interface, schemas
from capex.models import ToolCall
from capex.plan import PLAN_MAX, ArmTarget

SIZES = dict.fromkeys(("left", "right", "wrist"), (512, 512))
CAPEX = Interface(("arm",), SIZES, PLAN_MAX, True, True, True, False, False)
BASE = Interface(("arm",), {}, 1, False, False, True, True, False)
TWO = Interface(("left", "right"), {"front": (512, 512)}, PLAN_MAX, True, True, False, True, True)
TIPS = {
    "arm": np.array([0.4, 0.0, 0.6]),
    "left": np.array([0.4, 0.2, 0.6]),
    "right": np.array([0.4, -0.2, 0.6]),
}


def act(face: Interface = CAPEX, **arguments):
    return read_act(json.dumps({"reasoning": "because", **arguments}), face, TIPS)


def waypoints(read) -> list:
    assert isinstance(read, Act), str(read)
    return list(read.plan.waypoints)


def test_a_plan_is_read_in_metres_with_deltas_resolved():
    chunk = [
        {"delta_cm": [0, 0, -9], "gripper": "close", "confidence": 0.7},
        {"target_cm": [30, 10, 50], "orientation": [180, 0, 45], "confidence": 1},
    ]
    first, second, third = waypoints(
        act(target_cm=[40, 0, 30], orientation="down", confidence=0.9, chunk=chunk)
    )
    assert first.targets["arm"].position_m == (0.4, 0.0, 0.3)
    assert first.confidence == 0.9
    assert np.allclose(second.targets["arm"].position_m, (0.4, 0.0, 0.21))
    assert second.targets["arm"].gripper == "close"
    assert third.targets["arm"].orientation == (180.0, 0.0, 45.0)


def test_a_first_delta_starts_at_the_tip():
    (waypoint,) = waypoints(act(delta_cm=[5, 0, 0], confidence=0.9))
    assert np.allclose(waypoint.targets["arm"].position_m, (0.45, 0, 0.6))


def test_a_base_motion_stands_alone_and_is_capped_with_a_note():
    read = act(base_forward_cm=100, base_turn_deg=-120, gripper="open")
    (waypoint,) = waypoints(read)
    assert math.isclose(waypoint.base.forward_m, 0.6)
    assert math.isclose(waypoint.base.turn_rad, -math.pi / 2)
    assert waypoint.targets["arm"].gripper == "open"
    assert read.repairs == (
        "base translation of 100 cm shortened to 60 cm",
        "base turn of -120 degrees shortened to 90",
    )
    chunk = [{"delta_cm": [0, 0, 5], "confidence": 0.9}]
    assert "send it in an act of its own" in str(act(base_left_cm=10, chunk=chunk))


@pytest.mark.parametrize("face", [CAPEX, BASE])
@pytest.mark.parametrize("target", [[40, 0, 30], "the same as before", {"x": 1}])
def test_a_target_beside_a_base_motion_is_ignored_with_a_note(face, target):
    read = act(
        face,
        base_left_cm=10,
        target_cm=target,
        delta_cm=[0, 0, 5],
        orientation="sideways",
        gripper="close",
    )
    (waypoint,) = waypoints(read)
    assert math.isclose(waypoint.base.left_m, 0.1)
    assert waypoint.targets["arm"] == ArmTarget(gripper="close")  # runs after the drive
    ignored = [
        f"{name} was ignored beside a base motion"
        for name in ("target_cm", "delta_cm", "orientation")
    ]
    assert list(read.repairs) == ignored


def test_targets_of_both_arms_beside_a_base_motion_are_ignored_with_a_note():
    face = replace(TWO, base_motion=True)
    read = act(
        face,
        base_forward_cm=10,
        left={"target_cm": [40, 20, 50], "gripper": "open"},
        right={"delta_cm": [0, 0, 5]},
    )
    (waypoint,) = waypoints(read)
    assert waypoint.targets == {"left": ArmTarget(gripper="open")}
    assert read.repairs == (
        "target_cm was ignored beside a base motion",
        "delta_cm was ignored beside a base motion",
    )


def test_two_arms_have_a_group_of_fields_each():
    read = act(
        TWO,
        left={"target_cm": [40, 20, 50]},
        right={"gripper": "close"},
        confidence=0.9,
        chunk=[{"right": {"delta_cm": [0, 0, 5]}, "confidence": 1}],
    )
    first, second = waypoints(read)
    assert set(first.targets) == {"left", "right"}
    assert first.targets["right"].position_m is None
    assert np.allclose(second.targets["right"].position_m, (0.4, -0.2, 0.65))


def test_nothing_about_an_arm_is_dropped_in_silence():
    read = act(
        TWO,
        left='{"target_cm": [40, 20, 50]}',
        right={"gripper": "open", "grip": 1},
        confidence=0.9,
    )
    assert set(waypoints(read)[0].targets) == {"left", "right"}
    assert {"left was a JSON text", "right: ignored unknown fields grip"} <= set(read.repairs)
    assert "right is 7; it must be an object" in str(
        act(TWO, left={"target_cm": [40, 20, 50]}, right=7, confidence=0.9)
    )
    beside = act(base_forward_cm=10, orientation="down", confidence=0.5)
    assert beside.repairs == (
        "orientation was ignored beside a base motion",
        "confidence was ignored beside a base motion",
    )


def test_done_and_notes_where_they_are_offered():
    read = act(BASE, done=True)
    assert isinstance(read, Act)
    assert read.done
    assert read.plan is None
    assert "done is not offered" in str(act(done=True))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"target_cm": [40, 0, 30]},
            "confidence is missing; every waypoint needs one between 0 and 1.",
        ),
        (
            {"target_cm": [40, 0, 30], "confidence": 1.5},
            "confidence is 1.5; it must be a number between 0 and 1.",
        ),
        (
            {"target_cm": [40, 0], "confidence": 1},
            "target_cm is [40, 0]; it must be three finite numbers [x, y, z].",
        ),
        ({"target_cm": ["a", 0, 1], "confidence": 1}, 'target_cm is ["a", 0, 1]; it must be three'),
        ({"target_cm": [40, 0, 30], "delta_cm": [1, 1, 1], "confidence": 1}, "both given"),
        (
            {"target_cm": [40, 0, 30], "gripper": "grab", "confidence": 1},
            "gripper is 'grab'; it must be one of open, close, release, reclose, keep.",
        ),
        (
            {"target_cm": [40, 0, 30], "orientation": "up", "confidence": 1},
            "orientation is 'up'; it must be keep, down, forward or three Euler",
        ),
        ({"confidence": 0.5}, "nothing to do here"),
        ({}, "nothing to do here"),
        (
            {"target_cm": [1, 2, 3], "confidence": 1, "chunk": 7},
            "chunk is 7; it must be a list of waypoints.",
        ),
        (
            {
                "target_cm": [1, 2, 3],
                "confidence": 1,
                "chunk": [{"delta_cm": [1, 0, 0], "confidence": 1}] * 24,
            },
            "the plan has 25 waypoints; at most 24 are allowed",
        ),
        (
            {
                "target_cm": [1, 2, 3],
                "confidence": 1,
                "chunk": [{"delta_cm": [1, 0, 0], "confidence": 1}, {"delta_cm": [1, 0, 0]}],
            },
            "waypoint 3: confidence is missing",
        ),
        (
            {"target_cm": [1, 2, 3], "confidence": 1, "chunk": ["go"]},
            "waypoint 2: 'go' is not an object",
        ),
        (
            {"done": "perhaps", "target_cm": [1, 2, 3], "confidence": 1},
            "done is 'perhaps'; it must be true or false.",
        ),
    ],
)
def test_a_defect_becomes_a_sentence(arguments, sentence):
    read = act(**arguments)
    assert isinstance(read, Defects)
    assert sentence in str(read)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (
            {"target_cm": ["40", "0", "30.5"], "confidence": "0.9"},
            "target_cm was not a list of numbers",
        ),
        ({"target_cm": "[40, 0, 30.5]", "confidence": 0.9}, "target_cm was not a list of numbers"),
        ({"target_cm": "40, 0, 30.5", "confidence": 0.9}, "target_cm was not a list of numbers"),
        (
            {"target_cm": {"x": 40, "y": 0, "z": 30.5}, "confidence": 0.9},
            "target_cm was not a list of numbers",
        ),
        (
            {
                "target_cm": [40, 0, 30.5],
                "confidence": 0.9,
                "chunk": '[{"delta_cm": [0,0,1], "confidence": 1}]',
            },
            "chunk was a JSON text",
        ),
        (
            {
                "target_cm": [40, 0, 30.5],
                "confidence": 0.9,
                "chunk": {"delta_cm": [0, 0, 1], "confidence": 1},
            },
            "chunk was a single waypoint",
        ),
        (
            {"target_cm": [40, 0, 30.5], "confidence": 0.9, "speed": 3},
            "act: ignored unknown fields speed",
        ),
        (
            {
                "target_cm": [40, 0, 30.5],
                "confidence": 0.9,
                "chunk": [{"delta_cm": [0, 0, 1], "confidence": 1, "speed": 3}],
            },
            "waypoint 2: ignored unknown fields speed",
        ),
        (
            {"target_cm": [40, 0, 30.5], "confidence": 0.9, "done": "false"},
            "done was the text false",
        ),
    ],
)
def test_a_harmless_slip_is_repaired_and_noted(arguments, note):
    read = act(**arguments)
    assert waypoints(read)[0].targets["arm"].position_m == (0.4, 0.0, 0.305)
    assert note in read.repairs


def test_null_words_from_lossy_parsers_mean_missing():
    read = act(
        target_cm=[40, 0, 30],
        delta_cm="null",
        orientation="None",
        gripper="",
        chunk="null",
        confidence=0.9,
    )
    (waypoint,) = waypoints(read)
    assert waypoint.targets["arm"].orientation == "keep"


def test_perception_may_be_batched_and_the_first_command_ends_the_reply():
    calls = [
        ToolCall("1", "locate_pixel", '{"camera": "left", "u": 10, "v": 20}'),
        ToolCall("2", "locate_pixel", '{"camera": "lefft", "u": 10, "v": 20}'),
        ToolCall("3", "remember", "{}"),
        ToolCall("4", "act", '{"reasoning": "", "target_cm": [40, 0, 30], "confidence": 0.9}'),
        ToolCall("5", "act", '{"reasoning": "", "target_cm": [0, 0, 0], "confidence": 0.9}'),
    ]
    read = read_calls(calls, CAPEX, TIPS)
    assert [r.call.id for r in read] == ["1", "2", "3", "4"]
    assert isinstance(read[0].meaning, Locate)
    assert "camera is 'lefft'; it must be one of left, right, wrist" in str(read[1].meaning)
    assert "There is no tool 'remember'; the tools are: locate_pixel, act." in str(read[2].meaning)
    assert isinstance(read[3].meaning, Act)


def test_a_pixel_outside_the_image_is_refused():
    assert "the image is 512x512, so u must lie between 0 and 511" in str(
        read_locate('{"camera": "left", "u": 512, "v": 0}', CAPEX)
    )
    assert "v is null" in str(read_locate('{"camera": "left", "u": 5}', CAPEX))


def test_each_camera_has_the_bounds_of_its_own_image():
    sizes = {"front": (640, 360), "left_wrist": (640, 480), "right_wrist": (640, 480)}
    face = replace(CAPEX, cameras=sizes)
    fields = schemas(face)[0].parameters["properties"]
    assert fields["u"]["description"] == "pixels from the left edge, 0 to 639"
    assert fields["v"]["description"] == (
        "pixels from the top edge, 0 to 359 (front) or 0 to 479 (left_wrist, right_wrist)"
    )
    assert isinstance(read_locate('{"camera": "left_wrist", "u": 639, "v": 479}', face), Locate)
    assert "the image is 640x360, so v must lie between 0 and 359" in str(
        read_locate('{"camera": "front", "u": 639, "v": 479}', face)
    )
    assert "camera is 'up'" in str(read_locate('{"camera": "up", "u": 9, "v": 9999}', face))


def test_schemas_come_from_the_same_fields_that_are_read(stove):
    face = interface(stove.spec, preset("capex"))
    locate, command = schemas(face)
    assert locate.parameters["properties"]["camera"]["enum"] == ["left", "right", "wrist"]
    fields = {f.name for f in (*face.act_fields, *face.target_fields, *face.waypoint_fields)}
    assert set(command.parameters["properties"]) == fields
    assert json.dumps(schemas(face)[1].parameters) == json.dumps(command.parameters)
    base = schemas(interface(stove.spec, preset("base")))
    assert [t.name for t in base] == ["act"]
    assert {"chunk", "confidence"}.isdisjoint(base[0].parameters["properties"])
    assert "done" in base[0].parameters["properties"]
    assert set(schemas(TWO)[1].parameters["properties"]) >= {"left", "right", "confidence", "notes"}


VALUES = [
    None, True, False, 0, -1, 1e309, -0.0, 10**400, 1e-320, "", "null", "NaN", "Infinity", "-inf", "40", "4e5", "\u0000", "\ud800", "😀" * 50, "a" * 5000,
    [], [[]], {}, {"x": 1}, [1, 2, 3], [1, 2, None], ["1", "2", "3"], [1] * 40, {"target_cm": [1, 2, 3]}, [{"delta_cm": [0, 0, 1], "confidence": 0.5}],
    "[1,2,3]", "{", "[[[[", '{"a":', "down", "forward", "KEEP", "close", "true", "0.5", 0.5, 1.0001, -0.2, "50%", [0, float("nan"), 1], float("inf"),
]  # fmt: skip
NAMES = ["reasoning", "target_cm", "delta_cm", "orientation", "gripper", "confidence", "chunk", "base_forward_cm", "base_turn_deg", "done", "notes", "left", "u", "v",
         "camera", "__class__", "x"]  # fmt: skip


def _generated(rng: random.Random) -> str:
    """Arguments from a plausible plan, with values swapped for odd ones, then with the text itself damaged."""
    row = lambda: {  # noqa: E731
        "delta_cm": [rng.uniform(-20, 20) for _ in range(3)], "confidence": rng.random(), "gripper": rng.choice(["open", "close", "keep"]),
    }  # fmt: skip
    plan = {
        "reasoning": "x",
        "target_cm": [rng.uniform(-90, 90) for _ in range(3)],
        "confidence": rng.random(),
    }
    plan["chunk"] = [row() for _ in range(rng.choice((0, 0, 2, 5, 9, 23, 24, 40)))]
    for _ in range(rng.randrange(4)):
        plan[rng.choice(NAMES)] = copy.deepcopy(rng.choice(VALUES))
    if plan["chunk"] and isinstance(plan["chunk"], list) and rng.random() < 0.4:
        k = rng.randrange(len(plan["chunk"]))
        plan["chunk"][k] = (
            copy.deepcopy(rng.choice(VALUES))
            if rng.random() < 0.3
            else {**row(), rng.choice(NAMES): rng.choice(VALUES)}
        )
    text = json.dumps(plan)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 3, 10))):
        at, what = rng.randrange(len(text) + 1), rng.random()
        if what < 0.4:
            text = text[:at] + text[at + rng.randrange(1, 20) :]
        elif what < 0.8:
            text = text[:at] + rng.choice('{}[]",:\\0e-\n\x00') + text[at:]
        else:
            text = text[:at] + text[rng.randrange(len(text) + 1) :]
    return text


def test_no_reply_raises_hangs_or_is_refused_without_a_sentence():
    rng = random.Random(4)
    outcomes = {Act: 0, Locate: 0, Defects: 0}
    slowest = 0.0
    for k in range(22_000):
        face = (CAPEX, BASE, TWO)[k % 3]
        arguments = _generated(rng)
        began = time.process_time()  # of this process: others may be busy
        read = read_calls(
            [ToolCall("1", rng.choice(["act", "act", "act", "locate_pixel", "other"]), arguments)],
            face,
            TIPS,
        )[0].meaning
        slowest = max(slowest, time.process_time() - began)
        outcomes[type(read)] += 1
        if isinstance(read, Defects):
            assert read.sentences
            assert all(s.strip().endswith(".") and len(s) < 500 for s in read.sentences)
            assert len(str(read)) < 4500
        elif isinstance(read, Act) and read.plan is not None:
            for w in read.plan.waypoints:
                assert all(math.isfinite(c) for t in w.targets.values() for c in t.position_m or ())
                assert (
                    not face.confidence
                    or w.base
                    or w.confidence is not None
                    or all(t.position_m is None for t in w.targets.values())
                )
    assert outcomes[Act] > 800
    assert outcomes[Defects] > 2000
    assert slowest < 1.0  # unbounded time would show here; nothing is timed finer


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000,
        "1" * 190_000,
        '"' + "\\u0000" * 30_000 + '"',
        "x" * 300_000,
        '{"target_cm": [1e999, 1, 1]}',
    ],
)
def test_hostile_texts_are_refused_with_a_sentence(text):
    assert isinstance(read_act(text, CAPEX, TIPS), Defects)
