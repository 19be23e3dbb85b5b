"""Hostile plans against the guard's geometry: does any part of a hand come below the table or into
a keep-out, at a goal, on the way between two goals, or where the arm was measured?

    python benchmarks/guard_geometry.py [PLANS]      default 1000

A plan is a few targets in and below the table, in keep-outs and past their edges, with tilts up to
180 degrees, one in four of them a turn of the hand on the spot. It goes through the rig's servo and
guard to an arm that lags (tests/rigs/lagging_arm.py), with and without sag, with and without
a camera bracket; the hand is the Franka twin's. What is looked at here are points spread over the
hand; the guard knows only distances between boxes. "before" is the same with a guard that knows the
tip alone (1 cm), a quarter of the plans.

The last rows are the left arm of docs/yam.toml behind its own driver, which solves goals for its
joints: "goals" are where those put the hand, and "before" is a guard that looks at the goals of the
tip alone. Its joints lag by kd / kp, the wrist's most, and hang 30 mrad below their goals at joints
3 and 4.

Exit status 1 where a goal or a way brings the hand below the table or into a keep-out, or where the
arm was measured there by more than OFF_M or, where it sags, than its sag (of a YAM: as far as that
moves any point of the hand) and SAG_MORE_M.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "worlds" / "rigs"))
from lagging_arm import LaggingArm, StandingClock
from rig_of import rig_of

from capex.pose import DOWN, Array, Pose, rotation_matrix, rotation_vector
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.controller import Keeper
from capex.rigs.drivers import ArmFacts
from capex.rigs.drivers.yam.driver import YamArm
from capex.rigs.drivers.yam.kinematics import JOINTS, MAX_OPENING_M, YAM, YamKinematics
from capex.rigs.guard import SOLVED_M
from capex.rigs.hands import Hand, HandPart
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.rigfile import Box, GuardPolicy, RigFile
from capex.rigs.servo import shortened
from capex.worlds import ArmCommand, Command

TWIN = read_rig(find_rig("franka-twin")).guard
KEEP_OUT = (
    Box("shelf", (0.55, -0.40, 0.0), (0.75, -0.10, 0.15)),
    Box("post", (0.42, 0.16, 0.0), (0.47, 0.21, 0.50)),
    Box("wall", (0.20, 0.33, 0.0), (0.80, 0.35, 0.60)),
)
HOME = Pose(np.array([0.38, 0.0, 0.24]), DOWN)
TICKS = (6, 16)  # of a target
SPACING_M = 0.018  # of the points on the hand
WAYS = 4  # looks between two goals
OFF_M = 0.001  # a lagging arm leaves the way between two goals
SAG_MORE_M = 0.004  # what its lag adds to its sag
ROUNDING_M = 2e-4  # what a straight way between two goals may dip by: the arc of a turn
YAM_SAG_RAD = 0.03  # of joints 3 and 4, as users measure
YAM_KEEP_OUT = (Box("shelf", (0.44, 0.10, 0.0), (0.70, 0.24, 0.12)),)
POINT: Hand = (HandPart("tip", (-0.005, -0.005, -0.005), (0.005, 0.005, 0.005)),)


@dataclass
class Deepest:
    """How far the hand came below the table and into keep-outs, metres; negative: it stayed off."""

    table_m: float = -np.inf
    keep_out_m: float = -np.inf
    plans: set[int] = field(default_factory=set)  # that came more than a millimetre too far

    def add(self, plan: int, points_m: Array, keep_out: Sequence[Box] = KEEP_OUT) -> None:
        """Look at points (t,p,3) of the hand."""
        table_m = -float(points_m[..., 2].min())
        keep_out_m = -np.inf
        for box in keep_out:
            inside = np.minimum(points_m - box.lower_m, np.asarray(box.upper_m) - points_m)
            keep_out_m = max(keep_out_m, float(inside.min(axis=-1).max()))
        self.table_m, self.keep_out_m = (
            max(self.table_m, table_m),
            max(self.keep_out_m, keep_out_m),
        )
        if max(table_m, keep_out_m) > 0.001:
            self.plans.add(plan)


@dataclass
class Result:
    """What came of some plans."""

    goals: Deepest = field(default_factory=Deepest)
    ways: Deepest = field(default_factory=Deepest)
    measured: Deepest = field(default_factory=Deepest)
    ticks: int = 0
    sags_m: float = 0.0  # how far the sag moves a point of the hand, at most
    behind_m: float = 0.0  # the tracking error: most that any point of the hand was off its goal
    stops: set[str] = field(default_factory=set)


class Recorded(LaggingArm):
    """Keeps the goals that reach it."""

    def __init__(self, options: dict[str, float], name: str):
        super().__init__(options, name)
        self.goals: list[Pose] = []

    def command(self, T_mount_tip: Pose) -> None:
        """A goal of the guard's."""
        self.goals.append(T_mount_tip)
        super().command(T_mount_tip)


def surface(hand: Hand) -> Array:
    """Points all over a hand: a lattice on each part's faces, or balls along a capsule's axis."""
    points = []
    for part in hand:
        lower, upper = np.array(part.lower_m) + part.round_m, np.array(part.upper_m) - part.round_m
        counts = np.maximum(1, np.ceil((upper - lower) / SPACING_M - 1e-6)).astype(int) + 1
        steps = np.stack(np.meshgrid(*(np.linspace(0, 1, n) for n in counts)), axis=-1)
        steps = steps.reshape(-1, 3)
        lattice = lower + steps[((steps == 0) | (steps == 1)).any(axis=1)] * (upper - lower)
        if part.round_m:
            lattice = (lattice[:, None] + part.round_m * _directions()).reshape(-1, 3)
        points.append(np.unique(lattice.round(9), axis=0))
    return np.concatenate(points)


def _directions(count: int = 26) -> Array:
    """About evenly spread unit vectors, and the six axes."""
    k = np.arange(count) + 0.5
    around, up = np.pi * (1 + 5**0.5) * k, 1 - 2 * k / count
    level = np.sqrt(1 - up**2)
    ball = np.stack([level * np.cos(around), level * np.sin(around), up], axis=1)
    return np.concatenate([ball, np.eye(3), -np.eye(3)])


def placed(points_m: Array, poses: Sequence[Pose]) -> Array:
    """The points (p,3) of a hand at poses: (t,p,3)."""
    return np.stack([pose.apply(points_m.T).T for pose in poses])


def targets(rng: np.random.Generator) -> list[Pose]:
    """Two or three poses nobody should go to."""
    found = []
    for _ in range(rng.integers(2, 4)):
        kind = rng.integers(4)
        at = rng.uniform((0.25, -0.35, -0.10), (0.72, 0.30, 0.12))
        if kind == 1:  # in a keep-out
            box = KEEP_OUT[rng.integers(len(KEEP_OUT))]
            at = rng.uniform(box.lower_m, box.upper_m)
        elif kind == 2:  # past one of its edges
            box = KEEP_OUT[rng.integers(len(KEEP_OUT))]
            at = np.where(rng.random(3) < 0.5, box.lower_m, box.upper_m) + rng.normal(0, 0.06, 3)
        elif kind == 3:  # far off
            at = at + rng.uniform(-1, 1, 3)
        lean = rng.uniform(0, 2 * np.pi)
        axis = np.array([np.cos(lean), np.sin(lean), 0.0])
        yaw = rotation_matrix(np.array([0.0, 0.0, rng.uniform(-np.pi, np.pi)]))
        tilt = rng.choice(
            [rng.uniform(0, np.pi / 2), rng.uniform(np.pi / 2, np.pi)], p=(0.75, 0.25)
        )
        found.append(Pose(at, rotation_matrix(tilt * axis) @ yaw @ DOWN))
    return found


def command(tip: Pose, to: Pose, step_m: float, step_rad: float, move: bool) -> Command:
    """A step towards a pose, as the executor makes it; or the turn alone."""
    way_m = shortened(to.position_m - tip.position_m, step_m) if move else np.zeros(3)
    turn = shortened(rotation_vector(to.rotation @ tip.rotation.T), step_rad)
    (x, y, z), (a, b, c) = way_m.tolist(), turn.tolist()
    return Command({"arm": ArmCommand((x, y, z), (a, b, c))})


def drive(
    rng: np.random.Generator, tip: Callable[[], Pose], tick: Callable[[Command], None]
) -> int:
    """One plan; returns how many ticks it took."""
    ticks = 0
    for to in targets(rng):
        move, step = rng.random() < 0.75, rng.choice((1.0, 5.0))  # one of four turns on the spot
        for _ in range(rng.integers(*TICKS)):
            tick(command(tip(), to, 0.015 * step, 0.1 * step, bool(move)))
            ticks += 1
    return ticks


def keeper_of(rig: RigFile, sag_m: float) -> tuple[Keeper, Recorded]:
    """A rig with one lagging arm, in this process."""
    LaggingArm.fleet.clear()
    arm = Recorded({"start_m": HOME.position_m, "lag_s": 0.08, "sag_m": sag_m}, "arm")
    unit = ArmUnit(rig.arms[0], arm, rig.guard)
    return Keeper(rig, {"arm": unit}, StandingClock()), arm


def attack(policy: GuardPolicy, hand: Hand, plans: int, *, sag_m: float, seed: int = 0) -> Result:
    """Send plans to a lagging arm under a policy, and look at all of the hand."""
    with tempfile.TemporaryDirectory() as folder:
        rig = rig_of(Path(folder))
    entry = replace(rig.arms[0], home=HOME, max_step_m=0.02, max_step_rad=0.1)
    rig = replace(rig, arms=(entry,), guard=policy)
    result, points = Result(sags_m=sag_m), surface(hand)
    for plan in range(plans):
        rng = np.random.default_rng((seed, plan))
        if plan % 5 == 0:  # from home; the others from where the last one ended
            keeper, arm = keeper_of(rig, sag_m)
        keeper.settle()
        arm.goals.clear()
        tips: list[Pose] = []

        def tick(command: Command, keeper: Keeper = keeper, tips: list[Pose] = tips) -> None:
            reading = keeper.tick(command)
            tips.append(reading.arms["arm"].T_base_tip)
            if reading.stopped:
                result.stops.add(reading.stopped)
                keeper.settle()

        result.ticks += drive(rng, lambda keeper=keeper: keeper.read().arms["arm"].T_base_tip, tick)
        if len(arm.goals) == len(tips):  # none was held back
            off_m = placed(points, tips) - placed(points, arm.goals)
            result.behind_m = max(result.behind_m, float(np.linalg.norm(off_m, axis=-1).max()))
        result.measured.add(plan, placed(points, tips))
        if arm.goals:
            result.goals.add(plan, placed(points, arm.goals))
            result.ways.add(plan, placed(points, _ways(arm.goals)))
    return result


def _ways(goals: Sequence[Pose]) -> list[Pose]:
    """Poses on the straight ways between goals that follow each other."""
    found = [goals[0]]
    for one, other in itertools.pairwise(goals):
        turn = rotation_vector(other.rotation @ one.rotation.T)
        for part in np.linspace(0, 1, WAYS + 1)[1:]:
            move_m = part * (other.position_m - one.position_m)
            found.append(Pose(one.position_m + move_m, rotation_matrix(part * turn) @ one.rotation))
    return found


class SimulatedYam(YamArm):
    """The driver of a YAM at joints of its own: each follows what it was told with the lag of its
    motor, and hangs `sag_rad` below it.
    """

    def __init__(self, options: dict[str, Any], name: str, joints_rad: Array, sag_rad: float):
        super().__init__(options, name)
        self.joints_rad, self._target = joints_rad, joints_rad
        self.sag_rad = sag_rad * np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
        self._lag_s = np.array(YAM.kd) / np.array(YAM.kp)
        self._then_s = StandingClock.time_s

    def connect(self) -> ArmFacts:
        """At once."""
        self._forget()
        self._measure()
        limits = tuple(joint.range_rad for joint in YAM.joints)
        return ArmFacts(JOINTS, limits, MAX_OPENING_M, senses_force=False, on_disconnect="it stays")

    def _now(self) -> float:
        return StandingClock.time_s

    def _call(self, method: str, *given: Any) -> Any:
        elapsed_s, self._then_s = StandingClock.time_s - self._then_s, StandingClock.time_s
        off = self._target - self.sag_rad - self.joints_rad
        self.joints_rad = self.joints_rad + (1.0 - np.exp(-elapsed_s / self._lag_s)) * off
        if method == "command_joint_pos":
            self._target = given[0][:6]
        return {"joint_pos": np.append(self.joints_rad, 1.0)}


class BlindYam(SimulatedYam):
    """Tells nobody where its joints would lead the hand."""

    @property
    def foreseen(self) -> Any:  # type: ignore[override]
        """Not there."""
        raise AttributeError("foreseen")


def yam_rig() -> RigFile:
    """The left arm of docs/yam.toml alone, beside a shelf."""
    rig = read_rig(Path(__file__).resolve().parent.parent / "docs" / "yam.toml")
    entry = replace(rig.arms[0], park=None)
    return replace(rig, arms=(entry,), cameras=(), guard=replace(rig.guard, keep_out=YAM_KEEP_OUT))


def attack_yam(plans: int, *, sag_rad: float, foresees: bool = True, seed: int = 0) -> Result:
    """Send plans to a YAM behind its driver; each begins at home."""
    rig, result = yam_rig(), Result()
    entry, solver = rig.arms[0], YamKinematics(YAM)
    points, box = surface(rig.guard.hand(entry.name)), rig.guard.box(entry.name)
    home = np.array([0.0, 1.2, 1.1, -1.2, 0.0, 0.0])
    for _ in range(100):
        home = solver.step(home, entry.T_base_mount.inverse() @ entry.home)

    def put(joints_rad: Sequence[Array]) -> Array:
        return placed(points, [entry.T_base_mount @ solver.tip(q) for q in joints_rad])

    for plan in range(plans):
        rng = np.random.default_rng((seed, plan))
        kind = SimulatedYam if foresees else BlindYam
        arm = kind({"model": "yam"}, entry.name, home.copy(), sag_rad)
        keeper = Keeper(rig, {entry.name: ArmUnit(entry, arm, rig.guard)}, StandingClock())
        keeper.settle()
        seen: list[Array] = []
        goals: list[Array] = []
        for _ in range(3):
            lower, upper = np.array(box.lower_m), np.array(box.upper_m)
            at = rng.uniform(lower - (0.02, 0.1, 0.1), (upper[0] + 0.15, upper[1] + 0.1, 0.12))
            lean, tilt = rng.uniform(0, 2 * np.pi), rng.uniform(0, np.pi / 2)
            yaw = rotation_matrix(np.array([0.0, 0.0, rng.uniform(-np.pi, np.pi)]))
            axis = np.array([np.cos(lean), np.sin(lean), 0.0])
            to = Pose(at, rotation_matrix(tilt * axis) @ yaw @ DOWN)
            for _ in range(60):
                tip = keeper.read().arms[entry.name].T_base_tip
                step = command(tip, to, entry.max_step_m, entry.max_step_rad, True).arms["arm"]
                reading = keeper.tick(Command({entry.name: step}))
                seen.append(np.array(reading.joints_rad[entry.name]))
                assert arm._goal is not None
                goals.append(arm._goal)
                result.ticks += 1
                if reading.stopped:
                    result.stops.add(reading.stopped)
                    keeper.settle()
        led, measured = put(goals), put(seen)
        result.goals.add(plan, led, YAM_KEEP_OUT)
        result.measured.add(plan, measured, YAM_KEEP_OUT)
        off_m = float(np.linalg.norm(measured - led, axis=-1).max())
        result.behind_m = max(result.behind_m, off_m)
        sags_m = np.linalg.norm(measured - put([q + arm.sag_rad for q in seen]), axis=-1).max()
        result.sags_m = max(result.sags_m, float(sags_m))
    return result


def policy_of(*, bracket: bool, before: bool = False) -> tuple[GuardPolicy, Hand]:
    """The twin's policy with keep-outs, and the hand that is looked at."""
    hand = tuple(part for part in TWIN.hand("arm") if bracket or part.name != "bracket")
    policy = replace(TWIN, keep_out=KEEP_OUT, hands={"arm": hand}, max_tilt_deg=100.0)
    if before:
        policy = replace(policy, hands={"arm": POINT}, floor_m=None, max_tilt_deg=180.0)
    return policy, hand


def too_far(result: Result, goal_m: float) -> bool:
    """Whether the hand came farther below the table or into a keep-out than it may."""
    limits = (
        (result.goals, goal_m),
        (result.ways, ROUNDING_M),
        (result.measured, result.sags_m + SAG_MORE_M if result.sags_m else OFF_M),
    )
    return any(max(d.table_m, d.keep_out_m) > limit_m + 1e-9 for d, limit_m in limits)


def main() -> None:
    """Print the table."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("farthest that any point of the hand came below the table and into a keep-out, mm")
    print(
        f"{'':34s} {'plans':>6s} {'ticks':>6s} {'goals':>12s} {'ways':>12s} {'measured':>12s}",
        end="",
    )
    print(f" {'off its goal':>13s} {'plans too far':>14s}")
    failed = False
    for before in (True, False):
        for bracket in (False, True):
            for sag_m in (0.0, 0.015):
                policy, hand = policy_of(bracket=bracket, before=before)
                plans = total // (16 if before else 4)
                result = attack(policy, hand, plans, sag_m=sag_m, seed=int(bracket))
                name = f"{'before' if before else 'now'}, {'with' if bracket else 'no'} bracket"
                _print(f"{name}, sags {1000 * sag_m:.0f} mm", plans, result)
                failed |= not before and too_far(result, 1e-6)
    for foresees in (False, True):
        for sag_rad in (0.0, YAM_SAG_RAD):
            plans = total // (8 if foresees else 16)
            result = attack_yam(plans, sag_rad=sag_rad, foresees=foresees)
            name = f"YAM, {'now' if foresees else 'before'}"
            _print(f"{name}, sags {1000 * sag_rad:.0f} mrad", plans, result)
            failed |= foresees and too_far(result, SOLVED_M)
    sys.exit(1 if failed else 0)


def _print(name: str, plans: int, result: Result) -> None:
    pairs = (
        f"{1000 * d.table_m:5.1f} {1000 * d.keep_out_m:6.1f}"
        for d in (result.goals, result.ways, result.measured)
    )
    too_far = len(result.goals.plans | result.measured.plans)
    print(
        f"{name:34s} {plans:6d} {result.ticks:6d} {' '.join(pairs)} {1000 * result.behind_m:13.1f}"
        f" {too_far:14d}"
    )
    for stop in sorted(result.stops):
        print(f"    stopped: {stop}")


if __name__ == "__main__":
    main()
