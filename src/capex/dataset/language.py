"""What the demonstrator meant by each frame, in words: plan, subtask, memory and motion, the styles
that LeRobot's language columns know.

    plan     a decision: its reasoning, and its waypoints as a numbered list
    subtask  a phase: what it is heading for, and the reasoning of the decision in force
    memory   at the beginning of a phase: the commands that ran, and how many motions arrived
    motion   a waypoint: one move of the robot in its base frame, in centimetres

Everything comes from the record of the attempt: no model is asked. Spans of one style do not
overlap, and each style covers every frame. A person who drove has said nothing: then the subtask is
the task.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from capex.dataset.frames import Take
from capex.method.memory.skeleton import phases
from capex.method.observation import euler_text
from capex.method.record import Turn, WaypointRecord
from capex.plan import ArmTarget, BaseMotion, Waypoint

Style = Literal["plan", "subtask", "memory", "motion"]
STYLES: tuple[Style, ...] = ("subtask", "plan", "memory", "motion")
COMMANDS = {
    "open": "open the gripper",
    "close": "close the gripper",
    "release": "release",
    "reclose": "close the gripper again",
}
DONE = {
    "open": "opened the gripper",
    "close": "closed the gripper",
    "release": "released",
    "reclose": "closed the gripper again",
}
HANDS = {"down": "hand down", "forward": "hand forward"}


@dataclass(frozen=True)
class Span:
    """A text that holds from one frame to before another."""

    style: Style
    text: str
    from_frame: int
    to_frame: int

    def as_row(self, episode_index: int) -> dict[str, Any]:
        """A row of meta/language.parquet."""
        return {"episode_index": episode_index, **vars(self)}


def spans(take: Take) -> list[Span]:
    """All texts of an episode, those of a style in the order of frames. Of one without decisions
    only the task is known.
    """
    if not take.record.turns:
        return [Span("subtask", _line(take.record.instruction), 0, take.length)]
    meant = take.annotations()
    turns = {turn.decision: turn for turn in take.record.turns}
    decisions, waypoints, numbers = (
        meant[f"capex.{name}"].tolist() for name in ("decision", "waypoint", "phase")
    )
    heading = {run.key[0]: run.key[1] for run in phases(take.record)}
    several = len(take.spec.arms) > 1
    found = [
        Span("plan", plan_text(turns[decision], several), *frames)
        for decision, frames in _runs(decisions)
    ]
    for (number, decision), frames in _runs(list(zip(numbers, decisions, strict=True))):
        aim, why = _aim(heading.get(number, "keep"), take.record.success), turns[decision].reasoning
        found.append(Span("subtask", _line(f"{aim}: {why}" if why else aim), *frames))
    for _, frames in _runs(numbers):
        began = frames[0]
        before = dict.fromkeys(zip(decisions[:began], waypoints[:began], strict=True))
        rows = [turns[decision].waypoints[k] for decision, k in before]
        found.append(Span("memory", memory_text(rows, several), *frames))
    for (decision, k), frames in _runs(list(zip(decisions, waypoints, strict=True))):
        waypoint = turns[decision].waypoints[k].waypoint
        found.append(Span("motion", motion_text(waypoint, several), *frames))
    return found


def _runs(values: Sequence[Hashable]) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Each stretch of equal values with the frames that it spans."""
    began = 0
    for value, stretch in groupby(values):
        ended = began + sum(1 for _ in stretch)
        yield value, (began, ended)
        began = ended


def plan_text(turn: Turn, several: bool = False) -> str:
    """A decision: why, and its waypoints in order, those behind the committed ones too."""
    rows = [
        f"{number}. {motion_text(row.waypoint, several)}"
        for number, row in enumerate(turn.waypoints, start=1)
    ]
    return "\n".join([_line(turn.reasoning), *rows] if turn.reasoning else rows)


def _aim(word: str, success: bool | None) -> str:
    """What a phase is heading for: the command that closes it, or the end of the episode."""
    if word == "keep":
        return "finish the task" if success else "go on"
    return f"move, then {_command(word)}"


def _command(word: str) -> str:
    """A phase's word, "close" or "left close+right open", as a sentence has it."""
    parts = []
    for command in word.split("+"):
        arm, _, plain = command.rpartition(" ")
        parts.append(f"{COMMANDS[plain]} of the {arm}" if arm else COMMANDS[plain])
    return " and ".join(parts)


def memory_text(rows: Sequence[WaypointRecord], several: bool = False) -> str:
    """The waypoints that ran: their gripper commands with what was reported, and the labels."""
    done = []
    for row in rows:
        for arm, target in row.waypoint.targets.items():
            if target.gripper != "keep":
                whose = f" of the {arm}" if several else ""
                done.append(f"{DONE[target.gripper]}{whose} ({_line(row.report)})")
    labels = [row.label for row in rows if row.label is not None]
    count = f"{sum(labels)} of {len(labels)} motions reached their targets"
    return "; ".join([*done, count] if labels else done or ["nothing has been done yet"])


def motion_text(waypoint: Waypoint, several: bool = False) -> str:
    """A waypoint as one imperative, in whole centimetres and degrees of the base frame."""
    parts = [] if waypoint.base is None else [_drive(waypoint.base)]
    for name, target in waypoint.targets.items():
        words = _target(target)
        if words:
            parts.append(f"{name}: {words}" if several else words)
    return "; ".join(parts) or "hold still"


def _drive(motion: BaseMotion) -> str:
    amounts = (
        (round(100 * motion.forward_m), "cm", "forward", "back"),
        (round(100 * motion.left_m), "cm", "to the left", "to the right"),
        (round(math.degrees(motion.turn_rad)), "degrees", "turning left", "turning right"),
    )
    words = [f"{abs(v)} {unit} {one if v > 0 else other}" for v, unit, one, other in amounts if v]
    return f"drive {', '.join(words)}" if words else "keep the base still"


def _target(target: ArmTarget) -> str:
    words = []
    if target.position_m is not None:
        x, y, z = (round(100 * v) for v in target.position_m)
        words.append(f"move to x {x}, y {y}, z {z} cm")
    turn = target.orientation
    if turn != "keep":
        words.append(HANDS[turn] if isinstance(turn, str) else f"hand at {euler_text(turn)}")
    motion = ", ".join(words)
    if target.gripper == "keep":
        return motion
    command = COMMANDS[target.gripper]
    return f"{motion}, then {command}" if motion else command


def _line(text: str) -> str:
    return " ".join(text.split())
