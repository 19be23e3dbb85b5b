"""What the pilot reads: the page of text, the system prompt and the tools of a request, exactly the
words a remote model receives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from capex.models import Request, Text, UserMessage
from capex.pose import Array, euler_to_matrix

NUMBERS = r"\[(-?\d+),(-?\d+),(-?\d+)\]"
WAYPOINT = re.compile(
    rf"^(?:{NUMBERS})?(?:=L(\d+)\+{NUMBERS})?\s*(down\b|forward\b|euler\[[^\]]*\])?\s*(open\b|close\b|release\b|reclose\b)?\s*(.*)$",
    re.S,
)
BASE = re.compile(r"^base forward (-?\d+) cm, left (-?\d+) cm, turn (-?\d+) deg:?\s*(.*)$", re.S)
STATUSES = (
    ("not executed (deferred", "deferred"),
    ("not executed", "not executed"),
    ("stopped by finger contact", "finger contact"),
    ("stopped by contact", "contact"),
    ("timeout", "timeout"),
    ("stalled", "stalled"),
    ("reached", "reached"),
)
PHASE = re.compile(
    r"^Phase \d+ \((\w+)#(\d+),.*?(observe after each waypoint|chunk-safe|chunk with a stop on"
    r" stall)",
    re.M,
)


@dataclass(frozen=True)
class Told:
    """A waypoint as the harness prints it back: what was asked for and what became of it.
    Centimetres, base frame of its time.
    """

    target_cm: tuple[int, int, int] | None
    offset_cm: tuple[int, int, int] | None  # from the nearest located point, in references
    orientation: str
    gripper: str
    status: str
    report: str
    base: bool = False


@dataclass(frozen=True)
class Act:
    """An earlier act on the page."""

    number: int
    waypoints: tuple[Told, ...]


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
    acts: tuple[Act, ...]
    pictures: Mapping[str, bytes]

    @property
    def told(self) -> list[Told]:
        """Every waypoint on the page that ran, oldest first."""
        return [
            w
            for act in self.acts
            for w in act.waypoints
            if w.status not in ("deferred", "not executed")
        ]

    def since_base_motion(self) -> list[Told]:
        """The waypoints that ran in the present base frame."""
        told = self.told
        last = max((k for k, w in enumerate(told) if w.base), default=-1)
        return told[last + 1 :]


@dataclass(frozen=True)
class Brief:
    """What the system prompt and the tools say about the harness, and what they tell of earlier
    attempts.
    """

    locate: bool
    plan_max: int
    confidence: bool
    base_motion: bool
    several_arms: tuple[str, ...]
    references: tuple[tuple[Told, ...], ...]  # newest first
    phases: Mapping[tuple[str, int], str]  # (command, commands before) -> the skeleton's advice

    def references_with(self, gripper: str) -> list[Told]:
        """The last waypoint with a gripper command of each reference that has one, newest reference
        first.
        """
        found = [
            [w for w in reference if w.gripper == gripper and w.offset_cm is not None]
            for reference in self.references
        ]
        return [waypoints[-1] for waypoints in found if waypoints]


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
    references: list[tuple[Told, ...]] = []
    for line in request.system.splitlines():
        if re.match(r"Reference episode \d+ \(", line):
            references.append(())
        elif references and (match := re.match(r"Call \d+: (.*)", line)):
            references[-1] += tuple(_told(piece) for piece in match[1].split(" | "))
    arms = tuple(name for name, field in act.items() if field.get("type") == "object")
    return Brief(
        locate="locate_pixel" in tools,
        plan_max=int(settings.get("plan_max", 24)) if "chunk" in act else 1,
        confidence="confidence" in act,
        base_motion="base_forward_cm" in act,
        several_arms=arms,
        references=tuple(references),
        phases={(match[1], int(match[2])): match[3] for match in PHASE.finditer(request.system)},
    )


def _search(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise Unreadable(f"the page does not say {pattern.split(' ')[0].strip('(')}...")
    return found


def _act(line: str) -> Act:
    head, _, rest = line.partition(": ")
    rest = re.sub(r" \(tip now \[[^)]*\)$", "", rest)
    number = int(head.split()[1])
    return Act(
        number,
        (
            ()
            if rest.startswith(("spent without", "said done"))
            else tuple(_told(piece) for piece in rest.split(" | "))
        ),
    )


def _told(piece: str) -> Told:
    if match := BASE.match(piece):
        return Told(None, None, "", "", _status(match[4]) or "reached", match[4], base=True)
    match = WAYPOINT.match(piece)
    assert match is not None
    groups = match.groups()
    target = (int(groups[0]), int(groups[1]), int(groups[2])) if groups[0] is not None else None
    offset = (int(groups[4]), int(groups[5]), int(groups[6])) if groups[3] is not None else None
    return Told(
        target, offset, groups[7] or "keep", groups[8] or "keep", _status(groups[9]), groups[9]
    )


def _status(report: str) -> str:
    return next((status for words, status in STATUSES if report.startswith(words)), "")
