"""The YAM arms' inverse kinematics beside an exact solver, and the servo on the twin with its sag.

Solver: random poses of a hand that points within 60 degrees of straight down, all in reach and in
the left arm's box, are walked to from home in ticks of 4 mm and 0.039 rad. The oracle is ssik's
exact solver, built from the same table; for poses that were not reached it says whether there are
joints within the ranges for every pose on the straight way. Twin: the same, two arms at once,
through guard, servo, driver, wire and physics; then ticks of a 10 cm move and of a quarter turn,
the sag under a load that nobody told the arms about, and two arms that are asked to cross.

    pip install ssik==8.2.0        (without it there is no oracle)
    python benchmarks/yam_servo.py [--poses 1000] [--twin 50]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from capex.errors import RigFault
from capex.pose import (
    DOWN,
    Array,
    Pose,
    angle_between,
    rotation_matrix,
    rotation_vector,
    yaw_matrix,
)
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.controller import Keeper
from capex.rigs.drivers.yam.driver import YamArm
from capex.rigs.drivers.yam.kinematics import YAM, YamKinematics
from capex.rigs.parse import find_rig, inside, read_rig
from capex.rigs.twins import start
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.hand import RoomHand
from capex.rigs.twins.server import RoomServer
from capex.worlds import ArmCommand, Command

STEP_M, STEP_RAD = 0.004, 0.039
REACHED_M, REACHED_RAD = 0.004, 0.04
TILT_RAD = math.radians(60)
MARGIN_RAD = 0.1  # wider than the solver's
LOAD_KG = 0.3
RIG = read_rig(find_rig("yam-twin"))
KINEMATICS = YamKinematics(YAM)
Solve = Callable[[Pose], list[Array]]


def oracle() -> Solve | None:
    """All joints within the ranges for a pose of the tip, by ssik."""
    try:
        import ssik
    except ImportError:
        return None
    points = np.array([(0.0, 0.0, 0.0), *(joint.anchor_m for joint in YAM.joints), YAM.tip_zero_m])
    axes = np.array([joint.axis for joint in YAM.joints], dtype=np.float64)
    limits = np.stack([YAM.lower_rad, YAM.upper_rad], axis=1)
    arm = ssik.Manipulator.from_axes(axes, np.diff(points, axis=0), limits=limits)
    turn = KINEMATICS.tip(np.zeros(6)).rotation  # of our tip in the frame of the last link, at zero

    def solve(pose: Pose) -> list[Array]:
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = pose.rotation @ turn.T, pose.position_m
        found = [np.asarray(solution.q) for solution in arm.solve(T)]
        return [
            q for q in found if ((q >= YAM.lower_rad - 1e-6) & (q <= YAM.upper_rad + 1e-6)).all()
        ]

    return solve


def reachable(count: int, rng: np.random.Generator) -> list[Pose]:
    """Random tips of the left arm, base frame."""
    mount, box, poses = RIG.arms[0].T_base_mount, RIG.guard.box("left"), list[Pose]()
    while len(poses) < count:
        pose = mount @ KINEMATICS.tip(
            rng.uniform(YAM.lower_rad + MARGIN_RAD, YAM.upper_rad - MARGIN_RAD)
        )
        if inside(pose.position_m, box) and -pose.rotation[2, 2] > math.cos(TILT_RAD):
            poses.append(pose)
    return poses


def between(a: Pose, b: Pose, part: float) -> Pose:
    """A pose on the straight way."""
    turn = rotation_vector(b.rotation @ a.rotation.T)
    move = part * (b.position_m - a.position_m)
    return Pose(a.position_m + move, rotation_matrix(part * turn) @ a.rotation)


def ticks_of(a: Pose, b: Pose) -> int:
    """How many steps the way takes."""
    return max(1, math.ceil(max(_steps(a, b))))


def _steps(a: Pose, b: Pose) -> tuple[float, float]:
    turn = angle_between(a.rotation, b.rotation)
    return math.dist(a.position_m, b.position_m) / STEP_M, turn / STEP_RAD


def errors(tip: Pose, goal: Pose) -> tuple[float, float]:
    """Millimetres and milliradians."""
    off = 1000 * math.dist(tip.position_m, goal.position_m)
    return off, 1000 * angle_between(tip.rotation, goal.rotation)


def show(name: str, values: list[float], unit: str) -> None:
    """Median, 95 % and largest."""
    middle, most, largest = np.percentile(values, [50, 95, 100])
    print(f"  {name:28s} median {middle:.4f}, 95 % {most:.4f}, largest {largest:.4f} {unit}")


def solver(poses: list[Pose]) -> list[Pose]:
    """Walk to every pose with the solver alone; returns those that it reached."""
    mount, home, solve = RIG.arms[0].T_base_mount, RIG.arms[0].home, oracle()
    q_home = KINEMATICS.step(
        np.array([-0.245, 1.327, 1.2245, -1.468, 0.0, -0.245]), _in(mount, home)
    )
    off, apart, spent, reached, blocked = [], list[float](), list[float](), list[Pose](), 0
    for pose in poses:
        q, n = q_home, ticks_of(home, pose)
        for k in range(n + 8):  # a few more, where a joint was too slow
            began = time.thread_time()
            q = KINEMATICS.step(q, _in(mount, between(home, pose, min(1.0, (k + 1) / n))))
            spent.append(time.thread_time() - began)
        error = errors(mount @ KINEMATICS.tip(q), pose)
        if error[0] < 1000 * REACHED_M and error[1] < 1000 * REACHED_RAD:
            reached.append(pose)
            off.append(error)
            if solve is not None:
                exact = solve(_in(mount, pose))
                apart.append(min((float(np.abs(q - e).max()) for e in exact), default=math.inf))
        elif solve is not None:
            parts = np.linspace(0.1, 1.0, 10)
            blocked += any(not solve(_in(mount, between(home, pose, p))) for p in parts)
    print(f"solver: {len(reached)} of {len(poses)} poses reached on a straight way from home")
    show("position error", [o[0] for o in off], "mm")
    show("rotation error", [o[1] for o in off], "mrad")
    show("CPU time of one solution", [1000 * s for s in spent], "ms")
    if solve is None:
        print("  no oracle: ssik is not installed")
    else:
        show("joints from the exact ones", [1000 * a for a in apart], "mrad")
        missed = len(poses) - len(reached)
        print(f"  of {missed} not reached, {blocked} have a straight way that no joints can follow")
    return reached


def _in(mount: Pose, pose: Pose) -> Pose:
    return mount.inverse() @ pose


@dataclass
class Twin:
    """The twin and its keeper in this process, its physics within reach."""

    server: RoomServer
    keeper: Keeper
    units: Mapping[str, ArmUnit]

    @classmethod
    def open(cls) -> Twin:
        server = RoomServer("BowlHandover", True, 20.0, [], "yam", "portal")
        rig, _ = start.prepare(replace(RIG, room={**RIG.room, **server.listen()}))
        units = {a.name: ArmUnit(a, YamArm(a.options, a.name), rig.guard) for a in rig.arms}
        keeper = Keeper(rig, units, RoomClock(int(rig.room["side"])))
        RoomHand.of(rig).lift()
        twin = cls(server, keeper, units)
        twin.clear_table()
        return twin

    def tip(self, arm: str) -> Pose:
        return self.units[arm].state.T_base_tip

    def tick(self, goals: Mapping[str, Pose], gripper: float = 0.0) -> tuple[str, ...]:
        commands = {}
        for arm, goal in goals.items():
            tip = self.tip(arm)
            pace = max(1.0, *_steps(tip, goal))  # move and turn end together
            x, y, z = (goal.position_m - tip.position_m) / pace
            a, b, c = rotation_vector(goal.rotation @ tip.rotation.T) / pace
            commands[arm] = ArmCommand((x, y, z), (a, b, c), gripper)
        return self.keeper.tick(Command(commands)).guard

    def go(self, goals: Mapping[str, Pose], at_most: int = 150) -> int | None:
        """Ticks until all tips are there."""
        for k in range(at_most):
            self.tick(goals)
            off = [errors(self.tip(arm), goal) for arm, goal in goals.items()]
            if all(m < 1000 * REACHED_M and r < 1000 * REACHED_RAD for m, r in off):
                return k + 1
        return None

    def bring_home(self) -> bool:
        """Go home; True where somebody had to take the arms there."""
        try:
            self.keeper.home()
        except RigFault:
            self.server._room.arrange("BowlHandover", 0, 0, 0.0)
            self.clear_table()
            return True
        return False

    def clear_table(self) -> None:
        """Put the bowl out of the way; the arms may go on."""
        self.server._room.data.joint("bowl").qpos[:3] = (0.45, 0.0, 0.1)
        self.keeper.clear()

    def touch(self) -> bool:
        """Whether the two arms touch each other."""
        model, data = self.server._room.model, self.server._room.data
        for contact in data.contact[: data.ncon]:
            bodies = [model.body(model.geom_bodyid[g]).name for g in (contact.geom1, contact.geom2)]
            if {name.split("_")[0] for name in bodies} == {"left", "right"}:
                return True
        return False


def mirrored(pose: Pose) -> Pose:
    """For the right arm: seen in the plane between the arms."""
    flip = np.diag([1.0, -1.0, 1.0])
    return Pose(flip @ pose.position_m, flip @ pose.rotation @ flip)


def on_the_twin(twin: Twin, poses: list[Pose]) -> None:
    """Errors at rest, both arms at once."""
    off, notes, by_hand = [], list[str](), 0
    for pose in poses:
        by_hand += twin.bring_home()
        goals = {"left": pose, "right": mirrored(pose)}
        reached = twin.go(goals) is not None
        for _ in range(20):
            guard = twin.tick(goals)
        if reached:
            off += [errors(twin.tip(arm), goal) for arm, goal in goals.items()]
        else:
            notes.append(" and ".join(guard) or "nothing")
    print(f"twin: {len(off) // 2} of {len(poses)} pairs of poses reached by both arms")
    print(f"  the way home was not found, and they were taken there by hand: {by_hand}")
    if notes:
        print(f"  guard, where they were not: {'; '.join(notes)}")
    show("position error at rest", [o[0] for o in off], "mm")
    show("rotation error at rest", [o[1] for o in off], "mrad")


def moves(twin: Twin) -> None:
    """Ticks of a 10 cm move and of a quarter turn."""
    twin.keeper.home()
    goals = {arm: Pose(twin.tip(arm).position_m + [0.1, 0.0, 0.0], DOWN) for arm in twin.units}  # noqa: RUF005
    print(f"10 cm forward, both arms: {twin.go(goals)} ticks (25 at 4 mm)")
    turned = {a: Pose(g.position_m, yaw_matrix(math.pi / 2) @ DOWN) for a, g in goals.items()}
    print(f"a quarter turn, both arms: {twin.go(turned)} ticks (41 at 0.039 rad)")


def sag(twin: Twin) -> None:
    """What hangs below its goal: held without correction, and with the servo's."""
    for load_kg in (0.0, LOAD_KG):
        twin.keeper.home()
        goal = Pose(np.array([0.32, 0.2, 0.12]), DOWN)
        room = twin.server._room
        hand = room.model.body("left_hand").id
        twin.go({"left": goal})
        room.data.xfrc_applied[hand, 2] = -9.81 * load_kg
        for _ in range(40):
            twin.keeper.tick(Command({}))
        unit = twin.units["left"]
        told: Array = unit._driver._goal  # type: ignore[attr-defined]
        behind = 1000 * (told - np.array(unit.reading.joints_rad))
        held = errors(twin.tip("left"), goal)
        for _ in range(60):
            twin.tick({"left": goal})
        corrected = errors(twin.tip("left"), goal)
        room.data.xfrc_applied[hand, 2] = 0.0
        print(
            f"load {load_kg:.1f} kg: joints {np.round(behind).astype(int).tolist()} mrad from their"
            f" goals; tip {held[0]:.1f} mm off while the last goal is held, {corrected[0]:.2f} mm"
            f" and {corrected[1]:.1f} mrad with the servo"
        )


def crossing(twin: Twin) -> None:
    """Both arms are asked to where the other one is."""
    for name, gripper in (("closed", 1.0), ("open", -1.0)):
        twin.keeper.home()
        for _ in range(30):
            twin.tick({arm: twin.tip(arm) for arm in twin.units}, gripper)
        goals = {
            "left": Pose(np.array([0.32, -0.10, 0.12]), DOWN),
            "right": Pose(np.array([0.32, 0.10, 0.12]), DOWN),
        }
        away = {arm: twin.tip(arm) for arm in twin.units}
        notes, touched, nearest = set[str](), 0, math.inf
        for _ in range(120):
            notes.update(twin.tick(goals))
            touched += twin.touch()
            nearest = min(
                nearest, math.dist(twin.tip("left").position_m, twin.tip("right").position_m)
            )
        print(
            f"crossing, grippers {name}: tips come to {100 * nearest:.1f} cm, the arms touch in"
            f" {touched} of 120 ticks; guard: {', '.join(sorted(notes)) or 'nothing'}"
        )
        twin.go(away)  # before going home opens the grippers


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--poses", type=int, default=1000)
    parser.add_argument("--twin", type=int, default=50)
    given = parser.parse_args()
    reached = solver(reachable(given.poses, np.random.default_rng(0)))
    twin = Twin.open()
    moves(twin)
    sag(twin)
    crossing(twin)
    # Beyond the middle both hands would be in each other's way.
    side = [p for p in reached if p.position_m[1] > 0.12][: given.twin]
    on_the_twin(twin, side)


if __name__ == "__main__":
    main()
