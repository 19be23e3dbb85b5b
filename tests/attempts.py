"""Attempts for the tests of memory: a reviewed set, single rows and decisions, and random ones."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path

from capex.method.memory import Memory
from capex.method.memory.references import base_poses
from capex.method.record import (
    EndReason,
    EpisodeRecord,
    LocatedPoint,
    TipPose,
    Turn,
    WaypointRecord,
)
from capex.plan import ArmTarget, BaseMotion, Waypoint, WaypointStatus

GOLDEN = Path(__file__).parent / "golden"
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
        status=WaypointStatus(status),
        report=report
        or {"deferred": "not executed (deferred: low confidence)"}.get(status, status),
        label=known,
        steps=0 if status in ("not executed", "deferred") else 12,
        calibrated=0.8,
        features=(1.0, 2.0, 0.0, 0.25, 0.5, -0.1, 2.0, 0.25),
        clamped_m={"arm": _m(at_cm)} if at_cm else {},
        tips={"arm": TipPose((0.4, 0.0, 0.5), (1.0, 0.0, 0.0, 0.0))},
    )


def drive(forward_cm, left_cm, turn_deg, moved, *, status="base", report="", grip="keep"):
    """One base motion."""
    targets = {"arm": ArmTarget(gripper=grip)} if grip != "keep" else {}
    return WaypointRecord(
        waypoint=Waypoint(
            targets, BaseMotion(forward_cm / 100, left_cm / 100, math.radians(turn_deg))
        ),
        status=WaypointStatus(status),
        report=report,
        label=None,
        steps=30,
        tips={"arm": TipPose((0.4, 0.0, 0.5), (1.0, 0.0, 0.0, 0.0))},
        base_moved=moved,
    )


def at(*cm, camera="left"):
    return LocatedPoint(camera, 100.0, 200.0, _m(cm))


def attempt(start, success, turns, **facts):
    turns = tuple(replace(t, decision=k) for k, t in enumerate(turns, start=1))
    known = {
        "steps": 100,
        "end": EndReason.SUCCESS if success else EndReason.HORIZON,
        "scene": "layout 1",
        "images": IMAGES,
        "labels_before": 0,
    }
    return EpisodeRecord(
        world="toy", task="Fetch", arm="capex", start=start, seed=0, model="script:x", success=success, requests=3, cost_usd=0.25,
        instruction="fetch it", horizon=600, turns=turns, decisions=len(turns), **(known | facts),
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


def random_attempt(draw, start, success=None, turns=4):
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
