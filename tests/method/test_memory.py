"""Memory: skeleton and references of a reviewed set of attempts, the size of the prompt however long the chain, snapshots, refusals."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capex.errors import CapexError
from capex.method.calibrator import Calibrator
from capex.method.memory import Memory
from capex.method.memory.context import Context, build
from capex.method.memory.failures import SIZE_MAX as FAILURES_SIZE
from capex.method.memory.failures import digest_failure, failures_page
from capex.method.memory.references import base_poses, carry, choose, digest, text, versions
from capex.method.memory.skeleton import Skeleton, median, phases, verdict
from capex.method.presets import preset
from capex.method.prompts import SIZE_MAX, system_prompt
from capex.method.record import EpisodeRecord, LocatedPoint, Turn, WaypointRecord, from_json
from capex.plan import ArmTarget, BaseMotion, Waypoint
from toy import Toy, ToyEnv

GOLDEN = Path(__file__).parents[1] / "golden"
LABELS = {"reached": 1, "stalled": 0, "finger contact": 0, "contact": 0, "timeout": 0}
PNG = {camera: f"the {camera} picture".encode() for camera in ("left", "right")}
IMAGES = {camera: hashlib.sha256(png).hexdigest() for camera, png in PNG.items()}
BY_HASH = {hashlib.sha256(png).hexdigest(): png for png in PNG.values()}


def row(
    at_cm,
    status="reached",
    report="",
    *,
    turn="keep",
    grip="keep",
    label="by status",
    confidence=0.9,
):
    """One arm waypoint."""
    known = LABELS.get(status) if label == "by status" else label
    return WaypointRecord(
        waypoint=Waypoint({"arm": ArmTarget(_m(at_cm), turn, grip)}, confidence=confidence),
        status=status,
        report=report
        or {"deferred": "not executed (deferred: low confidence)"}.get(status, status),
        label=known,
        steps=0 if status in ("not executed", "deferred") else 12,
        calibrated=0.8,
        features=(1.0, 2.0, 0.0, 0.25, 0.5, -0.1, 2.0, 0.25),
        clamped_m={"arm": _m(at_cm)} if at_cm else {},
        tips={"arm": {"position_m": [0.4, 0.0, 0.5], "quaternion_xyzw": [1.0, 0.0, 0.0, 0.0]}},
    )


def drive(forward_cm, left_cm, turn_deg, moved, *, status="base", report="", grip="keep"):
    """One base motion."""
    targets = {"arm": ArmTarget(gripper=grip)} if grip != "keep" else {}
    return WaypointRecord(
        waypoint=Waypoint(
            targets, BaseMotion(forward_cm / 100, left_cm / 100, math.radians(turn_deg))
        ),
        status=status,
        report=report,
        label=None,
        steps=30,
        tips={"arm": {"position_m": [0.4, 0.0, 0.5], "quaternion_xyzw": [1.0, 0.0, 0.0, 0.0]}},
        base_moved=moved,
    )


def at(*cm, camera="left"):
    return LocatedPoint(camera, 100.0, 200.0, _m(cm))


def attempt(start, success, turns, **facts):
    turns = tuple(replace(t, decision=k) for k, t in enumerate(turns, start=1))
    known = {
        "steps": 100,
        "end": "success" if success else "horizon",
        "scene": "layout 1",
        "images": IMAGES,
        "extra": {"labels_before": 0},
    }
    return EpisodeRecord(
        world="toy", task="Fetch", arm="capex", start=start, seed=0, model="script:x", success=success, requests=3, cost_usd=0.25,
        instruction="fetch it", horizon=600, turns=turns, **(known | facts),
    )  # fmt: skip


def decision(calls, *rows, located=(), base=None):
    ran = sum(r.status != "deferred" for r in rows)
    return Turn(1, 0, calls, tuple(rows), ran, tuple(located), base)


def shelf(start=0):
    """A success with a retried stall, a close on finger contact, a deferred tail, and a release lost to a contact stop."""
    nothing = LocatedPoint("right", 1.0, 2.0, None, "No position: nothing is seen.")
    return attempt(
        start,
        True,
        [
            decision(
                2,
                row(
                    (16, -1, 63),
                    turn="forward",
                    grip="open",
                    report="reached; open skipped (already open)",
                ),
                row((8, -5, 63), "stalled", "stalled 1.6 cm from target"),
                row((8, -15, 63), "not executed"),
                row((8, -25, 63), "not executed", grip="close"),
                row((8, -25, 70), "deferred"),
                located=(at(17, -40, 54), nothing, at(47, -41, 60, camera="right")),
            ),
            decision(
                1,
                row((8, -6, 63)),
                row(
                    (8, -25, 63),
                    "finger contact",
                    "stopped by finger contact 1.2 cm from target; close: opening 3.1 cm",
                    grip="close",
                ),
                row((8, -25, 70), "not executed"),
            ),
            decision(
                3,
                row((30, -20, 70), turn=(180.0, 45.0, 0.0)),
                row(
                    (42, -30, 66),
                    "contact",
                    "stopped by contact (forearm on cabinet)",
                    grip="release",
                ),
                row((42, -30, 80), "not executed"),
            ),
            decision(
                1,
                row((42, -30, 66), grip="release", report="reached; release: opening 8.0 cm"),
                row((42, -30, 80), "terminal"),
            ),
        ],
        steps=210,
    )


def tray(start=2):
    """A success without located points, with a stall near enough to count as reached."""
    return attempt(
        start,
        True,
        [
            decision(
                1,
                row((40, 0, 60), turn="down", grip="open"),
                row((40, 0, 50)),
                row((40, 0, 45), grip="close"),
                row((40, 0, 55)),
                row((40, 0, 65), "stalled", "stalled 0.7 cm from target", label=1),
            ),
            decision(
                1, row((50, 5, 65)), row((50, 5, 60), grip="release"), row((40, 0, 80), "terminal")
            ),
        ],
        steps=150,
        scene="layout 2",
    )


def driven(start=3, poses=True):
    """A success with two base motions; L1 is located before the first and carried through both."""
    stood = (
        [(1.0, 2.0, 0.0), (1.3, 2.0, 0.0), (1.3, 2.0, 0.0), (1.1, 2.0, math.pi / 2)]
        if poses
        else [None] * 4
    )
    return attempt(
        start,
        True,
        [
            decision(
                2,
                drive(
                    30,
                    0,
                    0,
                    (0.3, 0.0, 0.0),
                    grip="open",
                    report="base moved 30 cm forward, 0 cm left, turned 0 deg left",
                ),
                located=(at(90, 20, 50),),
                base=stood[0],
            ),
            decision(1, row((60, 20, 55)), row((60, 20, 50), grip="close"), base=stood[1]),
            decision(
                1,
                drive(
                    -20,
                    0,
                    90,
                    (-0.2, 0.0, math.pi / 2),
                    report="base moved -20 cm forward, 0 cm left, turned 90 deg left",
                ),
                base=stood[2],
            ),
            decision(
                2,
                row((50, 0, 45), "terminal", grip="release"),
                located=(at(50, 0, 40),),
                base=stood[3],
            ),
        ],
        steps=300,
    )


def stuck(start=1):
    """A failure that stalls twice at one point on its way to a close, and then cannot drive."""
    return attempt(
        start,
        False,
        [
            decision(
                1,
                row((40, 0, 60), grip="open"),
                row((40, 0, 50), "stalled"),
                row((40, 0, 45), "not executed", grip="close"),
            ),
            decision(
                1, row((41, 0, 50), "stalled"), row((40, 0, 45), "not executed", grip="close")
            ),
            decision(
                1,
                drive(
                    20,
                    0,
                    0,
                    (0.1, 0.0, 0.0),
                    status="contact",
                    report="stopped by contact (chassis on fridge)",
                ),
            ),
        ],
        steps=600,
    )


def slow(start=4):
    """A failure that times out at once."""
    return attempt(
        start, False, [decision(1, row((40, 0, 60), "timeout", grip="close"))], end="decisions"
    )


def _m(cm):
    return None if cm is None else tuple(v / 100 for v in cm)


def remembering(*records):
    memory = Memory()
    for record in records:
        memory.add(record, BY_HASH)
    return memory


def same_as_golden(name, found):
    """Compare with a reviewed file. To renew one, write `found` into it and check every number against the records above."""
    assert found + "\n" == (GOLDEN / name).read_text(encoding="utf-8")


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


def test_references_of_the_reviewed_attempts():
    for name, record, same in (
        ("shelf", shelf(), True),
        ("tray", tray(), False),
        ("driven", driven(), True),
    ):
        same_as_golden(f"memory_reference_{name}.txt", text(digest(record, BY_HASH), 1, same))


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
        *[(_random(random.Random(k), k),) for k in range(20)],
    ):
        found = remembering(*records).skeleton.text()
        assert not re.search(r"\[|\d\s*,\s*-?\d|\bcm\b|\d\.\d\d", found), found


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
        written = text(digest(_random(draw, k, success=True), BY_HASH), 1, True)
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


def test_context_of_the_reviewed_attempts():
    spec = ToyEnv(Toy(arms=("left",))).spec
    memory = remembering(shelf(), stuck(), tray(), driven(), slow())
    context = build(memory, preset("capex"), spec, 7, "layout 1")
    assert context.references == (
        text(digest(driven(), BY_HASH), 1, True),
        text(digest(tray(), BY_HASH), 2, False),
    )
    assert context.skeleton_text == memory.skeleton.text()
    assert [p.label for p in context.pictures] == [
        f"Reference episode {n}, start, camera {c}:" for n in (1, 2) for c in ("left", "right")
    ]
    assert [p.sha256 for p in context.pictures] == [*IMAGES.values()] * 2
    assert context.labels == memory.labels == len(memory.labelled()[1])
    prompt = system_prompt(
        spec,
        preset("capex"),
        labels=context.labels,
        references=context.references_text,
        skeleton=context.skeleton_text,
    )
    assert len(prompt) <= SIZE_MAX
    assert context.skeleton_text in prompt


def test_what_an_arm_leaves_out_is_not_shown():
    spec, memory = ToyEnv(Toy()).spec, remembering(shelf(), tray())
    assert build(memory, preset("capex-no-references"), spec, 7, "").references == ()
    assert build(memory, preset("capex-no-skeleton"), spec, 7, "").skeleton_text == ""
    assert len(build(memory, preset("capex", references=1), spec, 7, "").pictures) == 2
    assert build(memory, preset("capex-stated"), spec, 7, "").labels == 0
    assert build(Memory(), preset("capex-fresh"), spec, 7, "") == Context()
    assert build(Memory(), preset("base"), spec, 7, "") == Context()


def test_a_page_of_failures_is_shown_to_the_method_that_asks_for_it():
    spec, memory = ToyEnv(Toy()).spec, remembering(shelf(), stuck(), tray(), slow())
    context = build(memory, preset("capex-failures"), spec, 7, "")
    assert context.failures_text.splitlines()[2:] == [
        "Failed attempt 1 (start 4): 1 phase begun, the last close#0; ended by decisions after 100"
        " steps",
        "- close#0, 1 time: [40,0,60] close timeout",
        "Failed attempt 2 (start 1): 2 phases begun, the last close#1; ended by horizon after 600"
        " steps",
        "- close#1, 2 times: [41,0,50] stalled",
        "- close#1, 1 time: base forward 20 cm, left 0 cm, turn 0 deg: stopped by contact (chassis"
        " on fridge)",
    ]
    assert f"{context.skeleton_text}\n{context.failures_text}" in context.system
    one = build(memory, preset("capex", failures=1), spec, 7, "").failures_text
    assert one.count("Failed attempt") == 1
    usual = build(memory, preset("capex"), spec, 7, "")
    assert not usual.failures_text
    assert context.system.replace(f"\n{context.failures_text}", "") == usual.system
    assert build(memory.snapshot(), preset("capex-failures"), spec, 7, "") == context


def test_a_page_of_failures_is_bounded():
    failures = [replace(digest_failure(stuck(k)), stops=(f"- {'x' * 300}",) * 3) for k in range(9)]
    page = failures_page(failures, 8)
    assert 0 < len(page) <= FAILURES_SIZE
    assert "Failed attempt 1 (start 8)" in page
    assert len(failures_page(failures, 8, 400)) <= 400
    assert failures_page(failures, 8, 10) == failures_page([], 8) == ""


def test_the_prompt_is_bounded_with_ten_thousand_attempts():
    spec, settings, draw = ToyEnv(Toy()).spec, preset("capex"), random.Random(1)
    usual = [_random(draw, k, turns=1) for k in range(40)]
    longest = [_random(draw, k, turns=80, success=True) for k in range(2)]
    looks = (1, 2, 3, 10, 100, 1000, 10_000)
    memory = Memory()
    weights = [-12.345] * 8
    for k in range(10_000):
        about_to_look = k + 1 in looks or k + 2 in looks
        memory.add(
            replace(longest[k % 2] if about_to_look else usual[k % len(usual)], start=k), BY_HASH
        )
        if k + 1 in looks:
            context = build(memory, settings, spec, k + 1, "layout 1", weights=weights)
            prompt = system_prompt(
                spec,
                settings,
                labels=context.labels,
                weights=weights,
                references=context.references_text,
                skeleton=context.skeleton_text,
            )
            assert len(prompt) <= SIZE_MAX
            assert len(context.references) == min(k + 1, 2)
    assert memory.attempts == 10_000
    assert len(re.findall(r"^Phase", context.skeleton_text, re.M)) == 8
    assert len(memory.successes) == 3


def test_the_least_is_cut_first_whatever_room_a_template_leaves(tmp_path):
    spec, settings = ToyEnv(Toy()).spec, preset("capex")
    memory = remembering(stuck(1), shelf(0), tray(2), slow(4), shelf(3))
    whole = build(memory, settings, spec, 7, "layout 1")
    lines = {
        line for part in (*whole.references, whole.skeleton_text) for line in part.splitlines()
    }
    seen = []
    for filler in range(12_000, SIZE_MAX - 1000, 60):
        own = tmp_path / "own.txt"
        own.write_text("x" * filler + "\n<<SETTINGS>>\n<<REFERENCES>><<SKELETON>>")
        context = build(memory, settings, spec, 7, "layout 1", template=own)
        prompt = system_prompt(
            spec,
            settings,
            labels=context.labels,
            references=context.references_text,
            skeleton=context.skeleton_text,
            template=own,
        )
        assert len(prompt) <= SIZE_MAX
        shown = [
            line
            for part in (*context.references, context.skeleton_text)
            for line in part.splitlines()
        ]
        assert all(
            line in lines or re.match(r"\(calls? |Located points|Phase ", line) for line in shown
        )
        assert len(context.pictures) == 2 * len(context.references)
        newer, older, skeleton = (
            (*context.references, "", "")[0],
            (*context.references, "", "")[1],
            context.skeleton_text,
        )
        seen.append(
            (
                skeleton == whole.skeleton_text,
                newer == whole.references[0],
                older == whole.references[1],
            )
        )
        assert (
            newer == whole.references[0]
            or older == ""
            or older == list(versions(memory.successes[-2], 2, False))[-1]
        )
        assert skeleton == whole.skeleton_text or newer in (
            "",
            list(versions(memory.successes[-1], 1, True))[-1],
        )
    assert seen[0] == (True, True, True)
    assert {(True, True, False), (True, False, False), (False, False, False)} <= set(seen)
    own.write_text("x" * SIZE_MAX)
    with pytest.raises(
        CapexError,
        match=r"the system prompt has 18001 characters without any memory; at most 18000 are allowed",
    ):
        build(Memory(), settings, spec, 7, "", template=own)


def test_a_template_that_shows_memory_twice_is_bounded_too(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("x" * 15_000 + "<<REFERENCES>><<REFERENCES>><<SKELETON>>")
    spec, settings = ToyEnv(Toy()).spec, preset("capex")
    context = build(remembering(shelf(0), tray(2)), settings, spec, 7, "", template=own)
    prompt = system_prompt(
        spec,
        settings,
        references=context.references_text,
        skeleton=context.skeleton_text,
        template=own,
    )
    assert len(prompt) <= SIZE_MAX
    assert context.references


def test_labelled_rows_grow_in_order_and_snapshots_stay():
    memory = Memory()
    assert [a.shape for a in memory.labelled()] == [(0, 8), (0,)]
    expected: list[tuple[float, int]] = []
    snapshots = []
    for k in range(300):
        number = float(k)
        rows = [
            replace(row((40, 0, 60), status), features=(number,) * 8)
            for status in ("reached", "stalled")
        ]
        rows.append(
            replace(row((40, 0, 60)), features=None)
        )  # a label without features, as on the base arm
        memory.add(attempt(k, False, [decision(1, *rows, row((40, 0, 60), "deferred"))]))
        expected += [(number, 1), (number, 0)]
        if k % 50 == 0:
            snapshots.append((memory.snapshot(), len(expected), memory.skeleton.text()))
    for frozen, count, skeleton in snapshots:
        features, labels = pickle.loads(pickle.dumps(frozen)).labelled()
        assert features[:, 3].tolist() == [f for f, _ in expected[:count]]
        assert labels.tolist() == [y for _, y in expected[:count]]
        assert frozen.skeleton.text() == skeleton
        assert frozen.snapshot() is frozen
    with pytest.raises(ValueError, match="read-only"):
        memory.labelled()[0][0, 0] = 1.0
    with pytest.raises(CapexError, match="a snapshot of memory does not learn"):
        snapshots[0][0].add(stuck())


def test_what_a_worker_gets_does_not_grow_with_the_attempts_and_predicts_the_same():
    memory, capex, sizes = Memory(), preset("capex"), []
    assert memory.fitted(capex).calibrator(capex, "toy:Fetch") == Calibrator()
    for k in range(400):
        phi = (1.0, 0.01 * k, 0.0, 0.25, 0.5, -0.1, 2.0, 0.25)
        waypoints = [
            replace(row((40, 0, 60), s), features=phi) for s in ("reached", "stalled", "reached")
        ]
        memory.add(attempt(k, False, [decision(1, *waypoints)]))
        if k % 100 == 99:
            sent = pickle.dumps(memory.fitted(capex))
            fitted = pickle.loads(sent)
            sizes.append(len(sent))
            known = memory.calibrator(capex, "toy:Fetch")
            assert fitted.calibrator(capex, "toy:Fetch") == known
            assert known.labels == fitted.labels == memory.labels == 3 * (k + 1)
            assert fitted.skeleton.text() == memory.skeleton.text()
            assert fitted.fitted(capex) is fitted
            assert fitted.calibrator(preset("capex-stated"), "toy:Fetch").weights is None
    assert max(sizes) < 1.1 * min(sizes)
    with pytest.raises(CapexError, match="a snapshot of memory does not learn"):
        fitted.add(stuck())


def test_memory_and_its_snapshots_travel_between_processes():
    memory = remembering(shelf(), tray(), driven())
    spec = ToyEnv(Toy()).spec
    copied = pickle.loads(pickle.dumps(memory.snapshot()))
    assert build(copied, preset("capex"), spec, 7, "layout 1") == build(
        memory, preset("capex"), spec, 7, "layout 1"
    )


def test_start_images_are_read_when_shown_and_must_be_the_recorded_ones(tmp_path):
    paths = {}
    for camera, png in PNG.items():
        paths[IMAGES[camera]] = tmp_path / f"{IMAGES[camera]}.png"
        paths[IMAGES[camera]].write_bytes(png)
    memory, spec = Memory(), ToyEnv(Toy()).spec
    memory.add(shelf(), paths)
    assert [p.png for p in build(memory, preset("capex"), spec, 7, "").pictures] == list(
        PNG.values()
    )
    paths[IMAGES["right"]].write_bytes(b"another")
    with pytest.raises(
        CapexError, match=r"the start image of camera right has sha256 \w+; the record says"
    ):
        build(memory, preset("capex"), spec, 7, "")
    paths[IMAGES["right"]].unlink()
    with pytest.raises(CapexError, match="the start image of camera right cannot be read"):
        build(memory, preset("capex"), spec, 7, "")


def test_refused_attempts_leave_memory_as_it_was():
    memory = remembering(shelf())
    before = (memory.attempts, memory.labels, memory.skeleton.text())
    for record, images, sentence in (
        (replace(tray(), error="PhysicsDiverged"), BY_HASH, "start 2 of toy:Fetch was invalidated"),
        (
            replace(tray(), task="Push"),
            BY_HASH,
            "about toy:Fetch; an attempt at toy:Push does not belong",
        ),
        (tray(), {}, "start 2 of Fetch comes without the start image of left, right"),
        (
            attempt(5, False, [decision(1, replace(row((40, 0, 60)), features=(1.0,)))]),
            {},
            "has 1 features; the calibrator has 8",
        ),
    ):
        with pytest.raises(CapexError, match=sentence):
            memory.add(record, images)
    assert (memory.attempts, memory.labels, memory.skeleton.text()) == before
    memory.add(replace(tray(), success=None), {})
    assert "2 earlier attempts, 1 succeeded, 0 failed, 1 not judged yet" in memory.skeleton.text()
    assert len(memory.successes) == 1


@pytest.mark.parametrize(
    "record",
    [shelf(), tray(), driven(), driven(poses=False), stuck(), slow(), attempt(5, None, [])],
    ids=lambda r: f"start {r.start}",
)
def test_records_survive_json(record):
    data = json.loads(json.dumps(record.as_json()))
    assert from_json(data) == record
    assert from_json(data).as_json() == record.as_json()


def _random(draw, start, success=None, turns=4):
    """An attempt of any length, with located points, base motions, and every outcome."""
    made, pose = [], (0.0, 0.0, 0.0)
    for _ in range(turns):
        located = tuple(
            at(*(draw.randrange(-60, 90) for _ in range(3))) for _ in range(draw.randrange(3))
        )
        if draw.random() < 0.1:
            moved = (draw.uniform(-0.3, 0.3), draw.uniform(-0.3, 0.3), draw.uniform(-1, 1))
            made.append(
                decision(2, drive(10, 0, 0, moved, report="base moved"), located=located, base=pose)
            )
            pose = base_poses([made[-1], decision(1)])[1]
            continue
        rows = [
            row(
                tuple(draw.uniform(-60, 90) for _ in range(3)),
                draw.choice((*LABELS, "deferred", "not executed")),
                "stopped by contact (forearm on the upper cabinet door); shortened to 10 cm",
                grip=draw.choice(("keep", "keep", "open", "close", "release", "reclose")),
            )
            for _ in range(draw.randrange(1, 25))
        ]
        made.append(decision(draw.randrange(1, 7), *rows, located=located, base=pose))
    return attempt(
        start, draw.random() < 0.5 if success is None else success, made, steps=draw.randrange(600)
    )
