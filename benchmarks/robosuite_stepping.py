"""Fast against original stepping of robosuite: are the states equal, and how much faster is a step?

Three motions on Lift, each fed to a plain robosuite environment (its own `env.step`) and to the
fast path, from the same start: 500 random commands in free space (base and torso included), a grasp
with a lift, and a push of the cube across the table. The largest difference between the two flat
states (time, positions, velocities) is taken after every step. The commands of the grasp and the
push come from waypoints through the executor. Then both environments step in turn, so that the
machine's load meets both alike.

    python benchmarks/robosuite_stepping.py [TASK of the speed rows, default Lift,PickPlaceCan]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from capex import worlds
from capex.method.executor import Executor, Tick
from capex.plan import ArmTarget, Gripper, Waypoint
from capex.pose import Array
from capex.worlds import Start
from capex.worlds.robosuite import ROBOTS
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.packages import import_robosuite
from capex.worlds.robosuite.starts import QUIET
from capex.worlds.robosuite.stepping import Fast

robosuite = import_robosuite()
FREE_COMMANDS = 500
# Behind the cube with closed fingers, down, 12 cm forward through where it stands, up.
PUSH: tuple[tuple[float, float, Gripper], ...] = (
    (-0.06, 0.1, "close"),
    (-0.06, 0.0, "keep"),
    (0.06, 0.0, "keep"),
    (0.06, 0.1, "keep"),
)
PAIRS = 150
PROMISED = {"free space": 1e-9, "grasp and lift": 1e-4, "push": 1e-4}


def plain(world: str, task: str) -> Any:
    """A robosuite environment at start 0 before it settles, made as any user would."""
    robot = ROBOTS[world]
    return robosuite.make(
        task,
        robots=robot.name,
        controller_configs=robot.controllers(robosuite),
        control_freq=20,
        seed=[0, 0],
        **QUIET,
    )


def free_commands(world: str) -> list[Array]:
    """Random commands that keep the arm above the table: small steps, and on the mobile robot the
    base and the torso.
    """
    rng = np.random.default_rng(7)
    actions = rng.uniform(-0.4, 0.4, (FREE_COMMANDS, len(ROBOTS[world].action_names)))
    actions[:, 2] = np.abs(actions[:, 2]) * np.where(np.arange(FREE_COMMANDS) % 40 < 20, 1.0, -0.6)
    if actions.shape[1] > 7:
        actions[:, 7:10] *= 0.5
        actions[:, 10] *= 0.2
    return list(actions)


def recorded(env: SuiteEnv, push: bool) -> list[Array]:
    """The native actions of the expert's grasp, or of a push with closed fingers, settling
    included.
    """
    actions: list[Array] = [np.zeros(len(env.spec.action_names))] * 10
    env.reset(Start("Lift", 0))

    def keep(tick: Tick) -> None:
        actions.append(tick.action)

    executor = Executor(env, subscribers=[keep])
    if not push:
        executor.execute(worlds.expert(env.spec.world)(env, 0))
        return actions
    cube = env.truth.shape("cube_g0")[0].position_m
    for forward, up, gripper in PUSH:
        target = (float(cube[0]) + forward, float(cube[1]), float(cube[2]) + up)
        for _ in range(4):  # a waypoint moves 10 cm at most
            if not executor.execute([Waypoint({"arm": ArmTarget(target, "down", gripper)})])[
                0
            ].report.endswith("10 cm"):
                break
    return actions


def largest_difference(world: str, actions: list[Array]) -> float:
    """Between the plain environment and the fast path, over all steps."""
    theirs, ours = plain(world, "Lift"), plain(world, "Lift")
    fast, model, data = Fast(ours), ours.sim.model._model, ours.sim.data._data
    mujoco.mj_step1(model, data)
    worst = 0.0
    for action in actions:
        theirs.step(action.copy())
        fast.step(action)
        mujoco.mj_step1(model, data)
        worst = max(
            worst,
            float(np.abs(theirs.sim.get_state().flatten() - ours.sim.get_state().flatten()).max()),
        )
    return worst


def speeds(world: str, task: str) -> tuple[float, float, float]:
    """Median milliseconds of a step: original, fast, and 25 bare `mj_step` calls; taking turns."""
    theirs, ours, bare = (plain(world, task) for _ in range(3))
    fast, model, data = Fast(ours), ours.sim.model._model, ours.sim.data._data
    spent: tuple[list[float], list[float], list[float]] = ([], [], [])

    def ours_step(action: Array) -> None:
        fast.step(action)
        mujoco.mj_step1(model, data)

    def bare_step(action: Array) -> None:
        mujoco.mj_step(bare.sim.model._model, bare.sim.data._data, 25)

    for action in free_commands(world)[:PAIRS]:
        for times, step in zip(
            spent, (lambda a: theirs.step(a.copy()), ours_step, bare_step), strict=True
        ):
            began = time.perf_counter()
            step(action)
            times.append(time.perf_counter() - began)
    original, quick, physics = (1000 * statistics.median(times[10:]) for times in spent)
    return original, quick, physics


def main(tasks: list[str]) -> int:
    """Print both tables; fails where a difference is larger than promised."""
    console = Console()
    table = Table(
        "robot",
        "motion",
        "steps",
        "largest difference",
        "promised",
        title="fast and original stepping, Lift",
    )
    fine = True
    for world, robot in ROBOTS.items():
        env = worlds.make(f"{world}:Lift")
        assert isinstance(env, SuiteEnv)
        motions = {
            "free space": free_commands(world),
            "grasp and lift": recorded(env, push=False),
            "push": recorded(env, push=True),
        }
        env.close()
        for motion, actions in motions.items():
            worst = largest_difference(world, actions)
            fine &= worst < PROMISED[motion]
            table.add_row(
                robot.name,
                motion,
                str(len(actions)),
                f"{worst:.1e}",
                f"below {PROMISED[motion]:.0e}",
            )
    console.print(table)
    table = Table(
        "robot",
        "task",
        "original",
        "fast",
        "bare physics",
        "original over fast",
        title="one control step, medians in one run",
    )
    for world, robot in ROBOTS.items():
        for task in tasks:
            original, quick, physics = speeds(world, task)
            table.add_row(
                robot.name,
                task,
                f"{original:.1f} ms",
                f"{quick:.1f} ms",
                f"{physics:.1f} ms",
                f"{original / quick:.1f}x",
            )
    console.print(table)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main((sys.argv[1] if len(sys.argv) > 1 else "Lift,PickPlaceCan").split(",")))
