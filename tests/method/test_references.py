"""References: own successes as the prompt shows them, their points, their lengths, and which are chosen."""

from __future__ import annotations

import json
import random
import re

import numpy as np

from attempts import (
    BY_HASH,
    at,
    attempt,
    decision,
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
from capex.method.memory.references import base_poses, carry, choose, digest, text


def test_references_of_the_reviewed_attempts():
    for name, record, same in (
        ("shelf", shelf(), True),
        ("tray", tray(), False),
        ("driven", driven(), True),
    ):
        same_as_golden(f"memory_reference_{name}.txt", text(digest(record, BY_HASH), 1, same))


def test_located_points_are_carried_by_poses_or_by_measured_motions():
    by_pose, by_motion = (
        text(digest(driven(poses=poses), BY_HASH), 1, True) for poses in (True, False)
    )
    assert by_pose == by_motion
    # 90 cm ahead and 20 cm left; after 30 cm forward, 60 ahead; after 20 cm back and a quarter turn left, 20 ahead and 80 to the right
    assert re.findall(r"L1 (\[\S+\])", by_pose) == ["[90,20,50]", "[60,20,50]", "[20,-80,50]"]
    there = carry((0.9, 0.2, 0.5), *(base_poses(driven().turns)[k] for k in (0, 3)))
    np.testing.assert_allclose(there, (0.2, -0.8, 0.5), atol=1e-12)


def test_offsets_add_up_as_printed():
    draw = random.Random(5)
    for k in range(30):
        written = text(digest(random_attempt(draw, k, success=True), BY_HASH), 1, True)
        points: dict[str, list[int]] = {}
        for line in written.splitlines():
            if "located points" in line.lower():
                points = {n: json.loads(p) for n, p in re.findall(r"(L\d+) (\[\S+?\])", line)}
            for target, name, offset in re.findall(r"(\[\S+?\])=(L\d+)\+(\[\S+?\])", line):
                there = json.loads(target)
                assert [
                    a + b for a, b in zip(points[name], json.loads(offset), strict=True)
                ] == there


def test_a_waypoint_before_the_first_located_point_is_written_against_a_later_one():
    late = attempt(
        0,
        True,
        [
            decision(1, row((40, 0, 60))),
            decision(2, row((40, 0, 50), "terminal"), located=(at(40, 0, 45),)),
        ],
    )
    assert "Call 1: [40,0,60]=L1+[0,0,15] reached" in text(digest(late, BY_HASH), 1, True)


def test_shortened_references_lose_their_middle_in_whole_lines():
    turns = [
        decision(1, row((40, k, 60)), located=(at(40, k, 50), at(90, k, 50))) for k in range(9)
    ]
    reference = digest(
        attempt(0, True, [*turns, decision(1, row((40, 9, 60), "terminal"))]), BY_HASH
    )
    whole = text(reference, 1, True)
    for limit in range(len(whole), 0, -7):
        cut = text(reference, 1, True, limit)
        assert len(cut) <= limit
        if not cut:
            continue
        calls = [int(n) for n in re.findall(r"^Call (\d+):", cut, re.M)]
        gap = [n for n in range(1, 11) if n not in calls]
        head, tail = (gap[0] - 1, 10 - gap[-1]) if gap else (5, 5)
        assert gap == list(range(head + 1, 11 - tail))
        assert tail - head in (0, 1)
        sentence = (
            f"(calls {gap[0]} to {gap[-1]} are left out)"
            if len(gap) > 1
            else f"(call {gap[0]} is left out)"
            if gap
            else ""
        )
        assert sentence in cut
        assert set(re.findall(r"^Call.*$", cut, re.M)) <= set(whole.splitlines())
    assert cut == ""


def test_references_are_the_latest_from_other_starts():
    memory = remembering(shelf(0), stuck(1), tray(2), driven(3), slow(4), shelf(5))
    assert [r.start for r in memory.successes] == [2, 3, 5]
    assert [r.start for r in choose(memory.successes, 9)] == [5, 3]
    assert [r.start for r in choose(memory.successes, 5)] == [3, 2]
    assert [r.start for r in choose(memory.successes, 3, limit=1)] == [5]
    memory.add(shelf(3), BY_HASH)  # a start solved again counts once, as its latest success
    assert [r.start for r in memory.successes] == [2, 5, 3]
