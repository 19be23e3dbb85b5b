"""What the pilot reads: the page of text, the system prompt and the tools of a request, exactly the
words a remote model receives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capex.models import Request, Text, UserMessage
from capex.pose import Array, euler_to_matrix

NUMBERS = r"\[(-?\d+),(-?\d+),(-?\d+)\]"
WAYPOINT = re.compile(
    rf"^(?:{NUMBERS})?(?:=L(\d+)\+{NUMBERS})?\s*(?:down\b|forward\b|euler\[[^\]]*\])?\s*(open\b|close\b|release\b|reclose\b)?\s*(.*)$",
    re.S,
)
BASE = re.compile(r"^base forward -?\d+ cm, left -?\d+ cm, turn -?\d+ deg:?\s*(.*)$", re.S)
STATUSES = (
    ("not executed (deferred", "deferred"),
    ("not executed", "not executed"),
    ("stopped by finger contact", "finger contact"),
    ("stopped by contact", "contact"),
    ("stopped by the guard", "guard stop"),
    ("timeout", "timeout"),
    ("stalled", "stalled"),
    ("reached", "reached"),
)
PHASE = re.compile(
    r"^Phase \d+ \((\w+)#(\d+),.*?(observe after each waypoint|chunk-safe|chunk with a stop on"
    r" stall)",
    re.M,
)


# "Camera front stands across the table .. faces the robot."
CAMERA = re.compile(r"\bCamera (\w+) (.+?)\.(?=\s|$)")
TABLE = re.compile(r"table's top is at z = (-?[\d.]+) cm")
PERSON = "A person judges"


@dataclass(frozen=True)
class ReportedWaypoint:
    """A waypoint as the harness prints it back, with its outcome: cm, base frame of its time."""

    target_cm: tuple[int, int, int] | None
    offset_cm: tuple[int, int, int] | None  # from the nearest located point, in references
    gripper: str
    status: str
    report: str
    base: bool = False


@dataclass(frozen=True)
class ReportedAct:
    """An earlier act on the page."""

    number: int
    waypoints: tuple[ReportedWaypoint, ...]


def targets_m(waypoints: Sequence[ReportedWaypoint]) -> list[Array]:
    """Where waypoints sent the tip, in metres; those without a target are left out."""
    return [np.array(w.target_cm) / 100 for w in waypoints if w.target_cm is not None]


@dataclass(frozen=True)
class Page:
    """The present observation."""

    instruction: str
    steps_left: int
    tip_m: Array
    rotation: Array
    word: str  # open, closed or holding
    opening_m: float
    touching: bool
    acts: tuple[ReportedAct, ...]
    pictures: Mapping[str, bytes]

    @property
    def executed(self) -> list[ReportedWaypoint]:
        """Every waypoint on the page that ran, oldest first."""
        reported = [w for act in self.acts for w in act.waypoints]
        return [w for w in reported if w.status not in ("deferred", "not executed")]

    @property
    def holding(self) -> bool:
        """Whether the fingers are closed on something."""
        return self.word == "holding"

    @property
    def drives(self) -> int:
        """How many base motions the page shows."""
        return sum(w.base for w in self.executed)

    @property
    def released(self) -> bool:
        """Whether the page shows a release that ran."""
        return any(
            w.gripper in ("release", "open") and w.target_cm is not None for w in self.executed
        )

    @property
    def empty_closes(self) -> int:
        """How many grasps on the page closed on nothing."""
        closes = [w for w in self.executed if w.gripper in ("close", "reclose")]
        return sum("finger contact" not in w.report.partition(": opening")[2] for w in closes)

    @property
    def odd(self) -> bool:
        """Whether the last act has an odd number: what is tried in vain changes sides with it."""
        return bool(self.acts) and self.acts[-1].number % 2 == 1

    def since_base_motion(self) -> list[ReportedWaypoint]:
        """The waypoints that ran in the present base frame."""
        executed = self.executed
        last = max((k for k, w in enumerate(executed) if w.base), default=-1)
        return executed[last + 1 :]

    def goals_m(self) -> list[Array]:
        """Where the tip was sent in the present base frame."""
        return targets_m(self.since_base_motion())

    def recent_m(self) -> list[Array]:
        """Where the last six waypoints that ran sent the tip."""
        return targets_m(self.executed[-6:])

    def deferred_m(self) -> list[Array]:
        """Where the last act would have sent the tip, had it not been deferred."""
        last = self.acts[-1].waypoints if self.acts else ()
        return targets_m([w for w in last if w.status == "deferred"])


@dataclass(frozen=True)
class Brief:
    """What the system prompt and the tools say of the harness and of earlier attempts."""

    locate: bool
    plan_max: int
    confidence: bool
    base_motion: bool
    several_arms: tuple[str, ...]
    references: tuple[tuple[ReportedWaypoint, ...], ...]  # newest first
    phases: Mapping[tuple[str, int], str]  # (command, commands before) -> the skeleton's advice
    done: bool = False  # a person judges: the attempt goes on until it is said to be done
    cameras: Mapping[str, str] = field(default_factory=dict)  # where each stands, in words
    table_m: float = 0.0  # height of the table's top; an arm is mounted level with it unless told

    @property
    def by_eye(self) -> bool:
        """Whether a rig's pictures are all there is: nothing can be located."""
        return self.done and not self.locate

    def learned_heights_m(self, gripper: str, axes: int, within_cm: int) -> list[float]:
        """By reference, newest first: how far over the nearest located point the tip was at its
        last waypoint with a gripper command; left out where that point is too far on the first
        axes.
        """
        offsets = [
            [w.offset_cm for w in reference if w.gripper == gripper and w.offset_cm is not None]
            for reference in self.references
        ]
        last = [row[-1] for row in offsets if row]
        return [o[2] / 100 for o in last if max(map(abs, o[:axes])) <= within_cm]


class Unreadable(ValueError):
    """The request is not one of this harness."""


def read_page(request: Request) -> Page:
    """The observation of a request: its first message."""
    first = request.messages[0] if request.messages else None
    if not isinstance(first, UserMessage):
        raise Unreadable("the request begins with no observation")
    pictures: dict[str, bytes] = {}
    text = ""
    for part in first.parts:
        if isinstance(part, Text):
            text = part.text if part.text.startswith("Instruction:") else text
        elif match := re.fullmatch(r"Camera (\S+):", part.label):
            pictures[match[1]] = part.png
    lines = text.splitlines()
    if not lines:
        raise Unreadable("the request holds no page that begins with 'Instruction:'")
    tip = _search(
        r"ripper tip \[(-?\d+),(-?\d+),(-?\d+)\] cm, roll (-?\d+), pitch (-?\d+), yaw (-?\d+)", text
    )
    hand = _search(
        r"ripper: (open|closed|holding) \((?:empty\), )?opening ([\d.]+) cm(, finger contact)?",
        text,
    )
    budget = _search(r"Budget: (\d+) of", text)
    angles = (float(tip[4]), float(tip[5]), float(tip[6]))
    return Page(
        instruction=lines[0].removeprefix("Instruction:").strip(),
        steps_left=int(budget[1]),
        tip_m=np.array([float(tip[k]) for k in (1, 2, 3)]) / 100,
        rotation=euler_to_matrix(angles),
        word=hand[1],
        opening_m=float(hand[2]) / 100,
        touching=hand[3] is not None or hand[1] == "holding",
        acts=tuple(_act(line) for line in lines if re.match(r"Act \d+:", line)),
        pictures=pictures,
    )


def read_brief(request: Request) -> Brief:
    """The harness as the request describes it."""
    tools: dict[str, Any] = {tool.name: tool.parameters for tool in request.tools}
    act = tools.get("act", {}).get("properties", {})
    settings: dict[str, Any] = {}
    for line in request.system.splitlines():
        if line.startswith('{"history"'):
            settings = json.loads(line)
            break
    references: list[tuple[ReportedWaypoint, ...]] = []
    for line in request.system.splitlines():
        if re.match(r"Reference episode \d+ \(", line):
            references.append(())
        elif references and (match := re.match(r"Call \d+: (.*)", line)):
            references[-1] += tuple(_waypoint(piece) for piece in match[1].split(" | "))
    arms = tuple(name for name, schema in act.items() if schema.get("type") == "object")
    table = TABLE.search(request.system)
    return Brief(
        locate="locate_pixel" in tools,
        plan_max=int(settings.get("plan_max", 24)) if "chunk" in act else 1,
        confidence="confidence" in act,
        base_motion="base_forward_cm" in act,
        several_arms=arms,
        references=tuple(references),
        phases={(match[1], int(match[2])): match[3] for match in PHASE.finditer(request.system)},
        done="done" in act and PERSON in request.system,
        cameras={match[1]: match[2] for match in CAMERA.finditer(request.system)},
        table_m=float(table[1]) / 100 if table else 0.0,
    )


def _search(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise Unreadable(f"the page does not say {pattern.split(' ')[0].strip('(')}...")
    return found


def _act(line: str) -> ReportedAct:
    head, _, rest = line.partition(": ")
    number = int(head.split()[1])
    if rest.startswith(("spent without", "said done")):
        return ReportedAct(number, ())
    rest = re.sub(r" \(tip now \[[^)]*\)$", "", rest)
    return ReportedAct(number, tuple(_waypoint(piece) for piece in rest.split(" | ")))


def _waypoint(piece: str) -> ReportedWaypoint:
    if match := BASE.match(piece):
        return ReportedWaypoint(None, None, "", _status(match[1]) or "reached", match[1], base=True)
    match = WAYPOINT.match(piece)
    assert match is not None
    x, y, z, located, dx, dy, dz, gripper, report = match.groups()
    target = (int(x), int(y), int(z)) if x is not None else None
    offset = (int(dx), int(dy), int(dz)) if located is not None else None
    return ReportedWaypoint(target, offset, gripper or "keep", _status(report), report)


def _status(report: str) -> str:
    return next((status for words, status in STATUSES if report.startswith(words)), "")
