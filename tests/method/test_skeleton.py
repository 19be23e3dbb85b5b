"""The reliability skeleton: of a reviewed set of attempts, phases, verdicts, and what it leaves out."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from attempts import (
    BY_HASH,
    at,
    attempt,
    decision,
    drive,
    driven,
    random_attempt,
    remembering,
    row,
    same_as_golden,
    shelf,
    slow,
    stuck,
    tray,
)
from capex.method.memory.references import digest, text
from capex.method.memory.skeleton import Skeleton, median, phases, verdict
from capex.method.record import WaypointRecord
from capex.plan import ArmTarget, Waypoint


def test_skeleton_of_the_reviewed_attempts():
    skeleton = Skeleton()
    for record in (shelf(), stuck(), tray(), driven(), slow()):
        skeleton.add(record)
    same_as_golden("memory_skeleton.txt", skeleton.text())


def test_skeleton_before_any_success():
    skeleton = Skeleton()
    assert skeleton.text() == ""
    for record in (stuck(), slow(), attempt(5, None, [decision(1, row((40, 0, 60)))])):
        skeleton.add(record)
    same_as_golden("memory_failures.txt", skeleton.text())


def test_phases_count_what_was_meant_for_them():
    counted = {
        f"{p.key[1]}#{p.key[0]}": (p.proposed, p.reached, p.labelled, p.retried, p.stalls, p.stops)
        for p in phases(shelf())
    }
    assert counted == {
        "open#0": (1, 1, 1, 0, 0, 0),
        "close#1": (5, 1, 3, 1, 2, 2),
        "release#2": (5, 2, 3, 0, 0, 1),
        "keep#3": (2, 0, 0, 0, 0, 0),
    }
    # the failure's last phase is named after the close it never came to; the base that could not drive is a stop without a label
    assert [(p.key, p.proposed, p.labelled, p.stops) for p in phases(stuck())] == [
        ((0, "open"), 1, 1, 0),
        ((1, "close"), 5, 2, 3),
    ]


def test_a_phase_that_never_began_is_left_out():
    ended = attempt(
        0,
        True,
        [
            decision(
                1,
                row((40, 0, 60)),
                row((40, 0, 50), "terminal"),
                row((40, 0, 45), "not executed", grip="release"),
                row((40, 0, 70), "not executed"),
            )
        ],
    )
    assert [(p.key, p.proposed) for p in phases(ended)] == [((0, "keep"), 3)]


def test_a_drive_between_a_stall_and_the_same_point_is_no_retry():
    stall = row((40, 0, 50), "stalled")
    apart = attempt(
        0,
        False,
        [
            decision(1, stall),
            decision(1, drive(1, 0, 0, (0.01, 0.0, 0.0))),
            decision(1, stall),
            decision(1, row((43, 0, 50))),
        ],
    )
    (only,) = phases(apart)
    assert (only.stalls, only.retried) == (2, 0)


def test_several_arms_name_their_commands_and_targets():
    both = WaypointRecord(
        Waypoint({"left": ArmTarget((0.4, 0.2, 0.3), "down", "close"), "right": ArmTarget(None, "keep", "open")}),
        "reached", "reached", 1, 10, tips={"left": {}, "right": {}},
    )  # fmt: skip
    record = attempt(
        0,
        True,
        [
            decision(
                1, both, replace(both, status="terminal", label=None), located=(at(40, 10, 30),)
            )
        ],
    )
    assert [p.key for p in phases(record)] == [
        (0, "left close+right open"),
        (2, "left close+right open"),
    ]
    assert "Call 1: left [40,20,30]=L1+[0,10,0] down close + right open reached | " in text(
        digest(record, BY_HASH), 1, True
    )


@pytest.mark.parametrize(
    ("rate", "typical", "words"),
    [
        (17 / 20, 2, "chunk-safe"),
        (1.0, 1.5, "chunk with a stop on stall"),
        (0.849, 4, "chunk with a stop on stall"),
        (7 / 10, 4, "chunk with a stop on stall"),
        (0.699, 4, "observe after each waypoint"),
        (0.0, 1, "observe after each waypoint"),
    ],
)
def test_verdicts_by_the_papers_thresholds(rate, typical, words):
    assert verdict(rate, typical) == words


def test_median_of_counts():
    draw = random.Random(3)
    for size in range(1, 40):
        values = [draw.randrange(12) for _ in range(size)]
        assert median(Counter(values)) == np.median(values)


def test_at_most_eight_phases_those_of_the_most_successes():
    words = ["open", "close"] * 6
    skeleton = Skeleton()
    skeleton.add(attempt(0, True, [decision(1, *(row((40, 0, 50), grip=word) for word in words))]))
    skeleton.add(
        attempt(
            1,
            True,
            [
                decision(
                    1,
                    *(row((40, 0, 50), grip=word) for word in ("close", "open")),
                    row((40, 0, 60)),
                )
            ],
        )
    )
    skeleton.add(
        attempt(
            2,
            True,
            [
                decision(
                    1,
                    *(row((40, 0, 50), grip=word) for word in ("close", "open")),
                    row((40, 0, 60)),
                )
            ],
        )
    )
    listed = re.findall(r"Phase \d+ \((\S+), in (\d) of 3", skeleton.text())
    assert listed == [
        ("close#0", "2"),
        ("open#0", "1"),
        ("close#1", "1"),
        ("open#1", "2"),
        ("keep#2", "2"),
        ("open#2", "1"),
        ("close#3", "1"),
        ("open#4", "1"),
    ]


def test_the_skeleton_holds_no_coordinates():
    for records in (
        (shelf(), stuck(), tray(), driven(), slow()),
        (stuck(), slow()),
        *[(random_attempt(random.Random(k), k),) for k in range(20)],
    ):
        found = remembering(*records).skeleton.text()
        assert not re.search(r"\[|\d\s*,\s*-?\d|\bcm\b|\d\.\d\d", found), found
