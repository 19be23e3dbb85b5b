"""The texts of a request read back into typed values, for requests that arrive as text
(`capex pilot serve`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from capex.models import Message, Picture, Request, Text, ToolResult, UserMessage
from capex.models.prompt_values import (
    Centimetres,
    HandValues,
    HandWord,
    ObservationValues,
    PhaseKey,
    PhaseStops,
    PromptValues,
    ReportedAct,
    ReportedWaypoint,
    SkeletonValues,
    SystemValues,
)
from capex.plan import PLAN_MAX, Gripper, WaypointStatus

NUMBERS = r"\[(-?\d+),(-?\d+),(-?\d+)\]"
PAGE = re.compile(r"Instruction: (.*?)\nBudget: (\d+) of", re.S)
HAND = re.compile(
    r"^(?:Arm (?P<arm>\w+): g|G)ripper tip \[(-?\d+),(-?\d+),(-?\d+)\] cm, roll (-?\d+), pitch"
    r" (-?\d+), yaw (-?\d+) deg\n.*?ripper: (open|closed|holding) \((?:empty\), )?"
    r"opening ([\d.]+) cm(, finger contact)?",
    re.M,
)
ACT = re.compile(r"^Act (\d+): (.*)$", re.M)
WITHOUT_MOTION = ("spent without", "said done")
TIPS_NOW = re.compile(r" \((?:\w+ )?tip now \[[^)]*\)$")
WAYPOINT = re.compile(
    rf"^(?:{NUMBERS})?(?:=L\d+\+{NUMBERS})?\s*(?:down\b|forward\b|euler\[[^\]]*\])?"
    r"\s*(open\b|close\b|release\b|reclose\b)?\s*(.*)$",
    re.S,
)
BASE = re.compile(r"^base forward -?\d+ cm, left -?\d+ cm, turn -?\d+ deg(?: \+ |:)?\s*")
STATUSES = (  # how a report begins
    ("not executed (deferred", WaypointStatus.DEFERRED),
    ("not executed", WaypointStatus.NOT_EXECUTED),
    ("stopped by finger contact", WaypointStatus.FINGER_CONTACT),
    ("stopped by contact", WaypointStatus.CONTACT),
    ("stopped by the guard", WaypointStatus.GUARD_STOP),
    ("timeout", WaypointStatus.TIMEOUT),
    ("stalled", WaypointStatus.STALLED),
    ("reached", WaypointStatus.REACHED),
    ("terminal", WaypointStatus.TERMINAL),
    ("cut short: no control steps left", WaypointStatus.OUT_OF_STEPS),
    ("cut short by the operator", WaypointStatus.ENDED),
    ("base moved", WaypointStatus.BASE),
    ("base stalled", WaypointStatus.STALLED),
    ("base timeout", WaypointStatus.TIMEOUT),
)
PERSON = "A person judges"
CAMERA = re.compile(r"\bCamera (\w+) (.+?)\.(?= Camera \w+ | Targets are|$)", re.M)
HINTS = re.compile(r"^THIS ROBOT AND TASK\n(.*?)\n?(?=\nText in images \(labels|\Z)", re.M | re.S)
REFERENCE = re.compile(r"^(?:Reference episode \d+ \(|Call \d+: (.*)$)", re.M)
PHASE = re.compile(
    r"^Phase \d+ \(([\w +]+)#(\d+),.*?(observe after each waypoint|chunk-safe|chunk with a stop on"
    r" stall)",
    re.M,
)
EARLIER = re.compile(r"\d+ earlier attempts?, (\d+) succeeded, (\d+) failed")
STOPS = re.compile(r"([\w +]+)#(\d+) \((\d+) stops? in (\d+) attempts?\)")
FAILED = re.compile(r"^(?:Failed attempt \d+ \(|- ([\w +]+)#(\d+), (\d+) times?: )", re.M)
LOCATED = re.compile(r"\[(-?\d+), (-?\d+), (-?\d+)\]")


def parse(request: Request) -> Request:
    """The request with the typed values of its texts; one that this harness has not made comes
    back as it is.
    """
    arms = tuple(
        name
        for tool in request.tools
        if tool.name == "act"
        for name, field in tool.parameters.get("properties", {}).items()
        if field.get("type") == "object"
    )
    observation = parse_observation(request.messages[:1], arms)
    if observation is None:
        return request
    values = PromptValues(observation, parse_system(request.system, arms))
    messages = tuple(_typed(message) for message in request.messages)
    return replace(request, messages=messages, values=values)


def _typed(message: Message) -> Message:
    if isinstance(message, UserMessage):
        return UserMessage(tuple(map(_typed_part, message.parts)))
    if isinstance(message, ToolResult) and (point := LOCATED.match(message.text.strip())):
        return replace(message, position_cm=_whole(point.groups()))
    return message


def _typed_part(part: Text | Picture) -> Text | Picture:
    label = re.fullmatch(r"Camera (\S+):", part.label) if isinstance(part, Picture) else None
    return replace(part, camera=label[1]) if label and isinstance(part, Picture) else part


def parse_observation(
    messages: Sequence[Message], arms: Sequence[str] = ()
) -> ObservationValues | None:
    """The values of the first message; None where it is no observation of this harness."""
    parts = messages[0].parts if messages and isinstance(messages[0], UserMessage) else ()
    pages = [p.text for p in parts if isinstance(p, Text) and p.text.startswith("Instruction:")]
    text = pages[-1] if pages else ""
    head, hands = PAGE.match(text), {m["arm"] or "": _hand(m) for m in HAND.finditer(text)}
    if head is None or not hands:
        return None
    acts = tuple(_act(int(m[1]), m[2], arms) for m in ACT.finditer(text))
    return ObservationValues(head[1].strip(), int(head[2]), hands, acts)


def parse_system(system: str, arms: Sequence[str] = ()) -> SystemValues:
    """The values of a system prompt."""
    lines = system.splitlines()
    settings: dict[str, Any] = next(
        (json.loads(line) for line in lines if line.startswith('{"history"')), {}
    )
    hints = HINTS.search(system)
    frame = next((line for line in lines if " Targets are absolute" in line), "")
    references: list[tuple[ReportedWaypoint, ...]] = []
    for line in REFERENCE.finditer(system):
        if line[1] is None:
            references.append(())
        elif references:
            references[-1] += tuple(_waypoint(piece, arms) for piece in line[1].split(" | "))
    return SystemValues(
        plan_max=int(settings.get("plan_max", PLAN_MAX)),
        operator_judges=PERSON in system,
        cameras={m[1]: m[2] for m in CAMERA.finditer(frame)},
        hints=hints[1] if hints else "",
        references=tuple(references),
        skeleton=_skeleton(system),
        failures=_failures(system),
    )


def _skeleton(system: str) -> SkeletonValues | None:
    counts = EARLIER.search(system)
    if counts is None:
        return None
    return SkeletonValues(
        int(counts[1]),
        int(counts[2]),
        {_phase(m): m[3] for m in PHASE.finditer(system)},
        {_phase(m): (int(m[3]), int(m[4])) for m in STOPS.finditer(system)},
    )


def _failures(system: str) -> tuple[tuple[PhaseStops, ...], ...]:
    failures: list[tuple[PhaseStops, ...]] = []
    for line in FAILED.finditer(system):
        if line[1] is None:
            failures.append(())
        elif failures:
            failures[-1] += (PhaseStops(_phase(line), int(line[3])),)
    return tuple(failures)


def _phase(match: re.Match[str]) -> PhaseKey:
    return match[1].strip(), int(match[2])


def _hand(match: re.Match[str]) -> HandValues:
    return HandValues(
        _whole(match.groups()[1:4]),
        _whole(match.groups()[4:7]),
        cast(HandWord, match[8]),
        float(match[9]),
        match[10] is not None,
    )


def _act(number: int, report: str, arms: Sequence[str]) -> ReportedAct:
    if report.startswith(WITHOUT_MOTION):
        return ReportedAct(number)
    pieces = TIPS_NOW.sub("", report).split(" | ")
    return ReportedAct(number, tuple(_waypoint(piece, arms, acted=True) for piece in pieces))


def _waypoint(piece: str, arms: Sequence[str], acted: bool = False) -> ReportedWaypoint:
    """A waypoint with its outcome; `acted`: of this episode, where openings count."""
    base = BASE.match(piece)
    rest = piece[base.end() :] if base else piece
    asked: dict[str, ReportedWaypoint] = {}
    while name := next((a for a in arms if re.match(rf"{a}(?: |$)", rest) and a not in asked), ""):
        asked[name], rest = _target(rest.removeprefix(name).lstrip())
        if not rest.startswith("+ "):
            break
        rest = rest.removeprefix("+ ")
    if not asked:
        asked[""], rest = _target(rest)
    if base:
        rest = rest.removeprefix(": ")
    status = next((s for words, s in STATUSES if rest.startswith(words)), WaypointStatus.GRIPPER)
    reported = {}
    for arm, waypoint in asked.items():
        reported[arm] = replace(waypoint, status=status)
        note = re.search(
            rf"(?:^|; ){arm}{' ' * bool(arm)}{waypoint.gripper}: opening ([\d.]+) cm"
            r"(, finger contact)?",
            rest,
        )
        if acted and note is not None:
            reported[arm] = replace(
                reported[arm], opening_cm=float(note[1]), finger_contact=note[2] is not None
            )
    first = next(iter(reported.values()))
    if base:
        return replace(first, base=True)
    return first if "" in reported else replace(first, arms=reported)


def _target(piece: str) -> tuple[ReportedWaypoint, str]:
    """What a piece asks of one arm, and the rest of it."""
    match = WAYPOINT.match(piece)
    assert match is not None  # every part of it is optional
    *numbers, gripper, rest = match.groups()
    return ReportedWaypoint(
        target_cm=None if numbers[0] is None else _whole(numbers[:3]),
        gripper=cast(Gripper, gripper or "keep"),
        offset_cm=None if numbers[3] is None else _whole(numbers[3:]),
    ), rest


def _whole(numbers: Sequence[str]) -> Centimetres:
    x, y, z = (int(number) for number in numbers)
    return x, y, z
