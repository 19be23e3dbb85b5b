"""The biases of a demonstrator: how deep to grasp, how far to push, which way a handle turns, how
high to lift, whether to look again, and how it misjudges depth.

The pilot's own are tuned to the kitchen and change nothing (`TUNED`). An apprentice's are drawn
once per task and seed from wide distributions (`draw`) and change the moves of every plan; the
request corrects them (`feedback.py`).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from capex.pilot.cameras import PLACES
from capex.pilot.grounding import Answers, Located, Move
from capex.pose import Array


@dataclass(frozen=True)
class Noise:
    """Random numbers by name."""

    seed: int
    request: str

    def uniform(self, name: str) -> float:
        """Between 0 and 1, the same for the same name."""
        digest = hashlib.sha256(f"{self.seed}\0{self.request}\0{name}".encode()).digest()
        return (int.from_bytes(digest[:8], "big") + 0.5) / 2**64

    def normal(self, name: str) -> float:
        """Of mean 0 and deviation 1 (Box and Muller)."""
        return math.sqrt(-2 * math.log(self.uniform(f"{name} r"))) * math.cos(
            math.tau * self.uniform(f"{name} a")
        )


@dataclass(frozen=True)
class Overconfidence:
    """How overconfident the pilot is; all but the first in logits."""

    usual: float = 0.945  # with a touch now and then, the mean is the 0.94 of the paper's model
    scatter: float = 0.55  # of a statement: fewer than one in twenty falls below 0.8
    touch: float = 0.25  # how much less a waypoint gets that is meant to touch something
    fade: float = 0.02  # how much less each further waypoint gets

    def state(self, noise: Noise, index: int, touch: bool) -> float:
        """The confidence stated for the waypoint at an index of the plan (from 0)."""
        scatter = self.scatter * noise.normal(f"confidence {index}")
        logit = math.log(self.usual / (1 - self.usual)) + scatter
        logit -= self.touch * touch + self.fade * index
        return round(min(0.99, 1 / (1 + math.exp(-logit))), 2)


Touch = Literal["grasp", "release", "push"]
TOUCHES: tuple[Touch, ...] = ("grasp", "release", "push")

# Deviations of an apprentice without any skill, in metres.
DEPTH_M: Mapping[Touch, float] = {"grasp": 0.075, "release": 0.090, "push": 0.090}
DEPTH_MAX_M = 0.14
AIM_M, AIM_MAX_M = 0.070, 0.11  # open fingers have 2 cm to spare
LIFT_M, LIFT_MAX_M = 0.08, 0.12
SIGHT_M, SIGHT_MAX_M = 0.15, 0.25  # along a camera's line of sight
SCALE, SCALE_MAX = 0.22, 0.40  # of the distance between tip and thing
BESIDE_TIP_M = 0.20  # nearer to the tip than this, sight errs in proportion: fingers are beside it
NARROWS = 2.2  # half the skill has a fifth of these: where they matter, centimetres decide
LOOKS = (0.15, 1.0)  # share of tasks that an apprentice looks at twice, without skill and with all
TURNS_WRONG = 0.7  # without skill: worse than by chance, as one who reasons from another kitchen
RESPONSE = (0.25, 1.0)  # of what a report asks for, without skill and with all
PATIENCE = (25, 55)  # acts after which it believes that it must be done, where it may say so
REFERENCE_M = 0.02  # how well a reference tells where to touch: it was another start
DOUBT = 3  # touches in vain that make it try the other way

# What changes from start to start in an instruction, and does not make another task of it.
VARIABLE = re.compile(
    r"\b(?:left|right|middle|first|second|third|fourth|front|rear|back|in|out)\b"
    r"|(?<=\bthe )\w+ (?=kettle|lid|mug|stand mixer|cap)"
    r"|(?<=^pick the ).+?(?= from | and )|(?<=^drive to the ).+?(?= and )"
)


@dataclass(frozen=True)
class Biases:
    """Beliefs about one task; the distances are errors against what the pilot does."""

    depth_m: Mapping[Touch, float] = field(default_factory=lambda: dict.fromkeys(TOUCHES, 0.0))
    haste_m: float = 0.0  # plans without detours, and from afar this much too deep
    aim_m: float = 0.0  # touches a part to the left of where it is best touched
    lift_m: float = 0.0  # of what is held, on its way
    turns_wrong: bool = False  # takes what it holds or pushes to the wrong side
    doubt: int = 0  # stops that make it try the other side; 0: none do
    response: float = 1.0  # how much of what a report asks for it does
    patience: int = 0  # acts after which it says that it is done; 0: never
    trust: float = 0.0  # how far references pull it from its own beliefs
    looks: bool = True  # grounds every plan with locate_pixel, and looks from above before a grasp
    sight_m: Mapping[str, float] = field(default_factory=dict)  # by camera: seen too far away
    scale: Mapping[str, float] = field(default_factory=dict)  # by camera: seen too far from the tip

    def seen(self, answers: Answers, tip: Array) -> Answers:
        """Points placed by eye, as these eyes misjudge them: by camera, too far along its line of
        sight (less so beside the tip) and too far from the tip.
        """
        if not self.sight_m:
            return answers
        return Answers((n, Located(self._rows(f.points, tip))) for n, f in answers.items())

    def _rows(
        self, points: Mapping[str, Sequence[Array | None]], tip: Array
    ) -> dict[str, list[Array | None]]:
        # What two cameras intersect is misjudged by the mean of both.
        both = [c for c in points if c in self.sight_m]
        return {
            c: [None if p is None else self._misjudged(p, both or [c], tip) for p in row]
            for c, row in points.items()
        }

    def _misjudged(self, point: Array, cameras: Sequence[str], tip: Array) -> Array:
        off = np.zeros(3)
        alone = afar(point, tip)
        for camera in cameras:
            away = point - np.array(PLACES.get(camera, (0.0, 0.0, 1.2)))
            off += alone * self.sight_m.get(camera, 0.0) * away / float(np.linalg.norm(away))
            off += self.scale.get(camera, 0.0) * (point - tip)
        return np.asarray(point + off / len(cameras))


def afar(point: Array, tip: Array) -> float:
    """How far from the tip a point is judged: 1 from afar, less where the fingers are beside it."""
    return min(1.0, float(np.linalg.norm(point - tip)) / BESIDE_TIP_M)


TUNED = Biases()


def task_of(instruction: str) -> str:
    """An instruction without what changes from start to start."""
    return " ".join(VARIABLE.sub("", instruction.lower()).split())


def draw(skill: float, seed: int, instruction: str, haste_m: float = 0.0) -> Biases:
    """An apprentice's biases at the task of an instruction: a full skill has the pilot's."""
    noise, lack = Noise(seed, task_of(instruction)), (1.0 - skill) ** NARROWS

    def error(name: str, deviation: float, most: float) -> float:
        return float(np.clip(lack * deviation * noise.normal(name), -most, most))

    width_m = lack * DEPTH_M["grasp"]
    low, high = LOOKS
    deaf, heeding = RESPONSE
    least, longest = PATIENCE
    return Biases(
        depth_m={k: error(f"{k} depth", DEPTH_M[k], DEPTH_MAX_M) for k in TOUCHES},
        aim_m=error("aim", AIM_M, AIM_MAX_M),
        lift_m=error("lift", LIFT_M, LIFT_MAX_M),
        turns_wrong=noise.uniform("turn") < TURNS_WRONG * lack,
        doubt=DOUBT if lack else 0,
        response=deaf + (heeding - deaf) * skill,
        patience=round(least + (longest - least) * noise.uniform("patience")) if lack else 0,
        trust=width_m**2 / (width_m**2 + REFERENCE_M**2),  # as two measurements are weighed
        looks=noise.uniform("look") < low + (high - low) * skill,
        haste_m=haste_m,
        sight_m={c: error(f"{c} sight", SIGHT_M, SIGHT_MAX_M) for c in PLACES} if lack else {},
        scale={c: error(f"{c} scale", SCALE, SCALE_MAX) for c in PLACES} if lack else {},
    )


def touch_of(move: Move) -> Touch | None:
    """What a move touches for, if it does."""
    if move.target.gripper == "release":
        return "release"
    if not move.touch:
        return None
    return "grasp" if move.target.gripper in ("close", "reclose") else "push"


def approach(before: Array, goal: Array, hand: Array) -> Array:
    """The direction in which a goal is come to: that of the hand where it hardly moves."""
    way = goal - before
    length = float(np.linalg.norm(way))
    return np.asarray(way / length) if length > 0.004 else hand


def across(way: Array) -> Array:
    """The level direction square to a way; to the left of one that goes straight down."""
    level = np.array([way[0], way[1], 0.0])
    length = float(np.linalg.norm(level))
    level = level / length if length > 0.3 else np.array([1.0, 0.0, 0.0])
    return np.array([-level[1], level[0], 0.0])


def mirrored(goal: Array, about: Array, side: Array) -> Array:
    """A goal on the other side of a point."""
    return np.asarray(goal - 2 * float((goal - about) @ side) * side)


def moved(move: Move, goal: Array) -> Move:
    """A move to another place."""
    x, y, z = (float(v) for v in goal)
    return replace(move, target=replace(move.target, position_m=(x, y, z)))
