"""What the pilot reads: the page of text, the system prompt and the tools of a request, exactly the
words a remote model receives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from capex.models import Request, Text, UserMessage
from capex.plan import CEILING_M
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
    r"^Phase \d+ \(([\w +]+)#(\d+),.*?(observe after each waypoint|chunk-safe|chunk with a stop on"
    r" stall)",
    re.M,
)
# "close#0 (3 stops in 2 attempts)"
EARLIER = re.compile(r"(\d+) earlier attempts?, (\d+) succeeded, (\d+) failed")
STOPS = re.compile(r"([\w ]+)#(\d+) \((\d+) stops? in (\d+) attempts?\)")


# "Failed attempt 1 (start 7): ..", "- close#1, 2 times: [47,-41,60] down stalled .."
FAILED = re.compile(r"^Failed attempt \d+ \(", re.M)
FAILED_STOPS = re.compile(r"^- ([\w ]+)#(\d+), (\d+) times?: ", re.M)


# "Camera front stands across the table .. faces the robot."
CAMERA = re.compile(r"\bCamera (\w+) (.+?)\.(?=\s|$)")
TABLE = re.compile(r"table's top is at z = (-?[\d.]+) cm")
# "A gripper can point straight down only while its tip is low: up to about z = 16 cm at x = 30 cm"
DOWNWARD = re.compile(r"straight down only while its tip is low: ([^;]*\d+ cm at x = \d+ cm[^;]*);")
HIGH_AT = re.compile(r"(\d+) cm at x = (\d+) cm")
HAND = re.compile(
    r"^(?:Arm (?P<arm>\w+): g|G)ripper tip \[(-?\d+),(-?\d+),(-?\d+)\] cm, roll (-?\d+), pitch"
    r" (-?\d+), yaw (-?\d+) deg\n.*?ripper: (open|closed|holding) \((?:empty\), )?"
    r"opening ([\d.]+) cm(, finger contact)?",
    re.M,
)
PERSON = "A person judges"
OPENING = re.compile(r": opening ([\d.]+) cm")
EMPTY_CM = (
    0.35  # fingers that close this far hold nothing; the thinnest wall that they hold is 4 mm
)


@dataclass(frozen=True)
class ReportedWaypoint:
    """A waypoint as the harness prints it back, with its outcome: cm, base frame of its time."""

    target_cm: tuple[int, int, int] | None
    offset_cm: tuple[int, int, int] | None  # from the nearest located point, in references
    gripper: str
    status: str
    report: str
    base: bool = False
    arms: Mapping[str, ReportedWaypoint] = field(default_factory=dict)  # each one's, of several

    @property
    def empty(self) -> bool:
        """Whether it closed the fingers on nothing: on each other, whatever they brushed."""
        found = OPENING.search(self.report)
        if self.gripper not in ("close", "reclose") or found is None:
            return False
        return float(found[1]) < EMPTY_CM or "finger contact" not in self.report[found.end() :]


@dataclass(frozen=True)
class ReportedAct:
    """An earlier act on the page."""

    number: int
    waypoints: tuple[ReportedWaypoint, ...]


def targets_m(waypoints: Sequence[ReportedWaypoint]) -> list[Array]:
    """Where waypoints sent the tip, in metres; those without a target are left out."""
    return [np.array(w.target_cm) / 100 for w in waypoints if w.target_cm is not None]


def of_arm(waypoints: Sequence[ReportedWaypoint], arm: str) -> tuple[ReportedWaypoint, ...]:
    """What waypoints asked of one of several arms."""
    return tuple(w.arms[arm] for w in waypoints if arm in w.arms)


@dataclass(frozen=True)
class Hand:
    """One arm's gripper as the page describes it."""

    tip_m: Array
    rotation: Array
    word: str  # open, closed or holding
    opening_m: float
    touching: bool


@dataclass(frozen=True)
class Page(Hand):
    """The present observation; with several arms, as the first one of them or `of` another."""

    instruction: str
    steps_left: int
    acts: tuple[ReportedAct, ...]
    pictures: Mapping[str, bytes]
    hands: Mapping[str, Hand] = field(default_factory=dict)  # by arm, where there are several

    def of(self, arm: str) -> Page:
        """The page as one of several arms reads it: its own gripper, and what it was asked."""
        acts = tuple(ReportedAct(a.number, of_arm(a.waypoints, arm)) for a in self.acts)
        return replace(self, **vars(self.hands[arm]), acts=acts)

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
        return sum(w.empty for w in self.executed)

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
    # (command, commands before) -> how often a failed attempt was stopped there
    stops: Mapping[tuple[str, int], float] = field(default_factory=dict)
    succeeded: int = 0  # earlier attempts, as the skeleton counts them
    failed: int = 0
    may_end: bool = False  # an act can say that the attempt is done
    done: bool = False  # a person judges: the attempt goes on until it is said to be done
    cameras: Mapping[str, str] = field(default_factory=dict)  # where each stands, in words
    table_m: float = 0.0  # height of the table's top; an arm is mounted level with it unless told
    ceiling_m: tuple[tuple[float, ...], tuple[float, ...]] = CEILING_M  # of a hand pointing down

    def of(self, arm: str) -> Brief:
        """The references as one of several arms reads them."""
        return replace(self, references=tuple(of_arm(row, arm) for row in self.references))

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
    hands = {match["arm"] or "": _hand(match) for match in HAND.finditer(text)}
    if not hands:
        raise Unreadable("the page does not say where a gripper's tip is")
    budget = _search(r"Budget: (\d+) of", text)
    arms = tuple(filter(None, hands))
    return Page(
        **vars(next(iter(hands.values()))),
        instruction=lines[0].removeprefix("Instruction:").strip(),
        steps_left=int(budget[1]),
        acts=tuple(_act(line, arms) for line in lines if re.match(r"Act \d+:", line)),
        pictures=pictures,
        hands=hands if arms else {},
    )


def _hand(match: re.Match[str]) -> Hand:
    x, y, z, roll, pitch, yaw = (float(match[k]) for k in range(2, 8))
    word, opening, contact = match[8], match[9], match[10]
    return Hand(
        tip_m=np.array([x, y, z]) / 100,
        rotation=euler_to_matrix((roll, pitch, yaw)),
        word=word,
        opening_m=float(opening) / 100,
        touching=contact is not None or word == "holding",
    )


def read_brief(request: Request) -> Brief:
    """The harness as the request describes it."""
    tools: dict[str, Any] = {tool.name: tool.parameters for tool in request.tools}
    act = tools.get("act", {}).get("properties", {})
    arms = tuple(name for name, schema in act.items() if schema.get("type") == "object")
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
            references[-1] += tuple(_waypoint(piece, arms) for piece in match[1].split(" | "))
    table = TABLE.search(request.system)
    earlier = EARLIER.search(request.system)
    return Brief(
        locate="locate_pixel" in tools,
        plan_max=int(settings.get("plan_max", 24)) if "chunk" in act else 1,
        confidence="confidence" in act,
        base_motion="base_forward_cm" in act,
        several_arms=arms,
        references=tuple(references),
        phases={(match[1], int(match[2])): match[3] for match in PHASE.finditer(request.system)},
        stops=_stops(request.system),
        succeeded=int(earlier[2]) if earlier else 0,
        failed=int(earlier[3]) if earlier else len(FAILED.findall(request.system)),
        may_end="done" in act,
        done="done" in act and PERSON in request.system,
        cameras={match[1]: match[2] for match in CAMERA.finditer(request.system)},
        table_m=float(table[1]) / 100 if table else 0.0,
        ceiling_m=_ceiling(request.system),
    )


def _stops(system: str) -> dict[tuple[str, int], float]:
    """How often a failed attempt was stopped, by phase: as the page of failures says of those that
    it names, since it is about the latest, and as the skeleton says of the others.
    """
    stops = {(m[1].strip(), int(m[2])): int(m[3]) / int(m[4]) for m in STOPS.finditer(system)}
    attempts = len(FAILED.findall(system))
    shown: dict[tuple[str, int], float] = {}
    for match in FAILED_STOPS.finditer(system):
        key = match[1].strip(), int(match[2])
        shown[key] = shown.get(key, 0.0) + int(match[3]) / max(attempts, 1)
    return stops | shown


def _ceiling(system: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """By distance ahead, how high a hand that points down can be, as the prompt says it; a Panda's
    unless told.
    """
    told = DOWNWARD.search(system)
    if told is None:
        return CEILING_M
    rows = [(float(x) / 100, float(z) / 100) for z, x in HIGH_AT.findall(told[1])]
    ahead, high = zip(*sorted(rows), strict=True)
    return ahead, high


def _search(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise Unreadable(f"the page does not say {pattern.split(' ')[0].strip('(')}...")
    return found


def _act(line: str, arms: Sequence[str] = ()) -> ReportedAct:
    head, _, rest = line.partition(": ")
    number = int(head.split()[1])
    if rest.startswith(("spent without", "said done")):
        return ReportedAct(number, ())
    rest = re.sub(r" \((?:\w+ )?tip now \[[^)]*\)$", "", rest)
    return ReportedAct(number, tuple(_waypoint(piece, arms) for piece in rest.split(" | ")))


def _waypoint(piece: str, arms: Sequence[str] = ()) -> ReportedWaypoint:
    if match := BASE.match(piece):
        return ReportedWaypoint(None, None, "", _status(match[1]) or "reached", match[1], base=True)
    asked: dict[str, ReportedWaypoint] = {}
    rest = piece
    while name := next((a for a in arms if rest.startswith(f"{a} ") and a not in asked), ""):
        asked[name] = _one(rest.removeprefix(name).lstrip())
        rest = asked[name].report
        if not rest.startswith("+ "):
            break
        rest = rest.removeprefix("+ ")
    if not asked:
        return _one(piece)
    own = {a: replace(w, report=_own(rest, a, arms)) for a, w in asked.items()}
    own = {a: replace(w, status=_status(rest)) for a, w in own.items()}
    return replace(next(iter(own.values())), report=rest, arms=own)


def _one(piece: str) -> ReportedWaypoint:
    """A waypoint of a single arm."""
    match = WAYPOINT.match(piece)
    assert match is not None
    x, y, z, located, dx, dy, dz, gripper, report = match.groups()
    target = (int(x), int(y), int(z)) if x is not None else None
    offset = (int(dx), int(dy), int(dz)) if located is not None else None
    return ReportedWaypoint(target, offset, gripper or "keep", _status(report), report)


def _own(report: str, arm: str, arms: Sequence[str]) -> str:
    """A report without what it notes about other arms."""
    others = tuple(f"{a} " for a in arms if a != arm)
    return "; ".join(note for note in report.split("; ") if not note.startswith(others))


def _status(report: str) -> str:
    return next((status for words, status in STATUSES if report.startswith(words)), "")
