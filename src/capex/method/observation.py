"""What the model is told at a decision: text and labelled images, measured things only.

Positions in whole centimetres, angles in whole degrees, openings in tenths of a centimetre, all in
the base frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from capex.method.executor import Outcome
from capex.method.motion import OPEN_TOLERANCE_M
from capex.models import Picture, Text, UserMessage
from capex.models.pictures import encode_png
from capex.models.prompt_values import (
    Centimetres,
    HandValues,
    HandWord,
    ObservationValues,
    ReportedAct,
    ReportedWaypoint,
)
from capex.plan import ArmTarget, BaseMotion, Waypoint, WaypointStatus
from capex.pose import Array, matrix_to_euler
from capex.worlds import ArmState, Env, Image

EMPTY_BELOW_M = 0.003  # fingers that touch each other hold nothing


@dataclass(frozen=True)
class PastAct:
    """An earlier act of this episode with the executor's report on each of its waypoints."""

    number: int
    waypoints: tuple[Waypoint, ...]
    outcomes: tuple[Outcome, ...]
    spent: str = ""  # why a decision passed without motion, if it did


@dataclass(frozen=True)
class Observation:
    """Everything a model gets to see at one decision, besides the system prompt and its memory."""

    instruction: str
    steps_left: int
    horizon: int
    decisions_left: int
    arms: Mapping[str, ArmState]
    max_opening_m: Mapping[str, float]
    history: tuple[PastAct, ...]
    images: Mapping[str, bytes]  # PNG by camera
    dollars_left: str = ""
    notes: str = ""
    words: str = ""  # of the operator, said since the last decision

    @property
    def text(self) -> str:
        """The page of text; the same bytes for the same observation."""
        money = f" Dollars left: {self.dollars_left}." if self.dollars_left else ""
        steps = f"{self.steps_left} of {self.horizon} control steps left"
        lines = [
            f"Instruction: {self.instruction}",
            f"Budget: {steps}; {self.decisions_left} decisions left.{money}",
        ]
        for name, arm in self.arms.items():
            hand = f"Arm {name}: gripper" if len(self.arms) > 1 else "Gripper"
            tip = position_text(arm.T_base_tip.position_m)
            lines.append(f"{hand} tip {tip} cm, {angles_text(arm)}")
            lines.append(f"{hand}: {contact_word(arm, self.max_opening_m[name])}")
        if self.notes:
            lines.append(f"Your notes: {self.notes}")
        if self.words:
            lines.append(f"The operator says: {self.words}")
        acts = "Your last acts, oldest first:" if self.history else "Your last acts: none yet."
        return "\n".join([*lines, acts, *(act_text(act) for act in self.history)])

    @property
    def message(self) -> UserMessage:
        """Text first, then each image behind its label."""
        pictures = [Picture(f"Camera {name}:", png, name) for name, png in self.images.items()]
        return UserMessage((Text(self.text), *pictures))

    @property
    def values(self) -> ObservationValues:
        """The numbers and states that the text prints."""
        several = len(self.arms) > 1
        return ObservationValues(
            self.instruction.strip(),
            self.steps_left,
            {
                name if several else "": hand_values(arm, self.max_opening_m[name])
                for name, arm in self.arms.items()
            },
            tuple(act_values(act) for act in self.history),
        )


def observe(
    env: Env,
    *,
    steps_left: int,
    decisions_left: int,
    history: Sequence[PastAct] = (),
    image_size: int | None = None,
    dollars_left: str = "",
    notes: str = "",
    words: str = "",
) -> Observation:
    """Look at the world: proprioception and one image per camera."""
    images = look(env, image_size)
    state = env.robot_state()  # after the images: a robot settles for those
    return Observation(
        instruction=env.instruction,
        steps_left=steps_left,
        horizon=env.spec.horizon,
        decisions_left=decisions_left,
        arms=state.arms,
        max_opening_m={a.name: a.max_opening_m for a in env.spec.arms},
        history=tuple(history),
        images={name: encode_png(image) for name, image in images.items()},
        dollars_left=dollars_left,
        notes=notes,
        words=words,
    )


def look(env: Env, image_size: int | None = None) -> dict[str, Image]:
    """One image per camera at its own size, the longer side limited to `image_size` pixels."""
    sizes = {c.name: c.fitted(image_size) for c in env.spec.cameras}
    images: dict[str, Image] = {}
    for size in dict.fromkeys(sizes.values()):  # cameras of one size are looked through at once
        images |= env.observe([name for name in sizes if sizes[name] == size], size)
    return {name: images[name] for name in sizes}


def centimetres(position_m: Array | tuple[float, ...]) -> Centimetres:
    """A position in whole centimetres."""
    x, y, z = (round(100 * float(v)) for v in position_m)
    return x, y, z


def opening_cm(opening_m: float) -> float:
    """An opening in tenths of a centimetre."""
    return round(100 * max(float(opening_m), 0.0), 1)


def position_text(position_m: Array | tuple[float, ...]) -> str:
    """[x,y,z] in whole centimetres."""
    return "[" + ",".join(map(str, centimetres(position_m))) + "]"


def hand_values(arm: ArmState, max_opening_m: float) -> HandValues:
    """A gripper as the text prints it: the word follows from its opening and the fingers'
    contact.
    """
    word: HandWord = "open" if arm.opening_m >= max_opening_m / 2 else "closed"
    if arm.finger_contact and EMPTY_BELOW_M < arm.opening_m < max_opening_m - OPEN_TOLERANCE_M:
        word = "holding"
    tip_cm, opening = centimetres(arm.T_base_tip.position_m), opening_cm(arm.opening_m)
    return HandValues(tip_cm, angles_deg(arm), word, opening, bool(arm.finger_contact))


def angles_deg(arm: ArmState) -> tuple[int, int, int]:
    """Orientation as roll, pitch, yaw in whole degrees."""
    roll, pitch, yaw = (round(a) + 0 for a in matrix_to_euler(arm.T_base_tip.rotation))
    return roll, pitch, yaw


def angles_text(arm: ArmState) -> str:
    """Orientation as roll, pitch, yaw in whole degrees."""
    roll, pitch, yaw = angles_deg(arm)
    return f"roll {roll}, pitch {pitch}, yaw {yaw} deg"


def contact_word(arm: ArmState, max_opening_m: float) -> str:
    """open (empty), closed (empty) or holding, with the opening and the fingers' contact."""
    hand = hand_values(arm, max_opening_m)
    opening = f"opening {hand.opening_cm:.1f} cm"
    if hand.word == "holding":
        return f"holding ({opening}, finger contact)"
    return f"{hand.word} (empty), {opening}{', finger contact' if hand.finger_contact else ''}"


def command_text(waypoint: Waypoint, *, several: bool = False) -> str:
    """A waypoint as requested; with `several` arms each is named."""
    parts = [] if waypoint.base is None else [base_text(waypoint.base)]
    for name, target in waypoint.targets.items():
        words = [name] if several else []
        if target.position_m is not None:
            words.append(position_text(target.position_m))
        parts.append(" ".join([*words, *hand_words(target)]))
    return " + ".join(parts)


def base_text(motion: BaseMotion) -> str:
    """A base motion as requested."""
    forward, left = round(100 * motion.forward_m), round(100 * motion.left_m)
    turn = round(math.degrees(motion.turn_rad))
    return f"base forward {forward} cm, left {left} cm, turn {turn} deg"


def hand_words(target: ArmTarget) -> list[str]:
    """What a target asks of the hand besides its position: orientation and gripper, unless kept."""
    turn = target.orientation
    words = (turn if isinstance(turn, str) else euler_text(turn), target.gripper)
    return [word for word in words if word != "keep"]


def waypoint_text(waypoint: Waypoint, outcome: Outcome) -> str:
    """One waypoint as requested, and what became of it."""
    return f"{command_text(waypoint, several=len(outcome.tips) > 1)} {outcome.report}".strip()


def euler_text(angles: tuple[float, float, float]) -> str:
    """Euler angles as given, whole degrees."""
    return "euler[" + ",".join(str(round(a)) for a in angles) + "]"


def act_text(act: PastAct) -> str:
    """One act on one line."""
    if act.spent:
        return f"Act {act.number}: {act.spent}"
    rows = zip(act.waypoints, act.outcomes, strict=True)
    reports = " | ".join(waypoint_text(waypoint, outcome) for waypoint, outcome in rows)
    tips = act.outcomes[-1].tips if act.outcomes else {}
    named = {f"{n} tip" if len(tips) > 1 else "tip": pose for n, pose in tips.items()}
    where = ", ".join(f"{tip} now {position_text(p.position_m)}" for tip, p in named.items())
    return f"Act {act.number}: {reports}" + (f" ({where})" if where else "")


def act_values(act: PastAct) -> ReportedAct:
    """The values of one act."""
    rows = () if act.spent else zip(act.waypoints, act.outcomes, strict=True)
    return ReportedAct(act.number, tuple(waypoint_values(w, outcome) for w, outcome in rows))


def waypoint_values(waypoint: Waypoint, outcome: Outcome) -> ReportedWaypoint:
    """The values of one waypoint."""
    reported = {}
    for name, target in waypoint.targets.items():
        result = outcome.grippers.get(name)
        reported[name] = ReportedWaypoint(
            None if target.position_m is None else centimetres(target.position_m),
            target.gripper,
            WaypointStatus(outcome.status),
            opening_cm=None if result is None else opening_cm(result.opening_m),
            finger_contact=result is not None and result.finger_contact,
        )
    return of_arms(reported, WaypointStatus(outcome.status), waypoint, len(outcome.tips) > 1)


def of_arms(
    reported: Mapping[str, ReportedWaypoint],
    status: WaypointStatus,
    waypoint: Waypoint,
    several: bool,
) -> ReportedWaypoint:
    """The values of a waypoint from those of its arms, in order."""
    first = next(iter(reported.values()), ReportedWaypoint(status=status))
    if waypoint.base is not None:
        return replace(first, base=True)
    return replace(first, arms=reported) if several else first
