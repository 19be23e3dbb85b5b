"""robosuite's tasks for two arms: two Pandas on pedestals, 50 cm apart, side by side.

The base frame lies midway between the two mounts, and each arm has a box of its own. Native actions
are robosuite's 7 numbers of the right arm, which is its first robot, and then those of the left.
"""

from __future__ import annotations

import math

import numpy as np

from capex.plan import ArmTarget, Waypoint, at, down, line, together
from capex.pose import Array
from capex.worlds import TaskInfo
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.robots import PAIR
from capex.worlds.robosuite.starts import SeededStarts
from capex.worlds.robosuite.tasks import Arena, RobosuiteTask

OVER_TABLE = Arena(
    (-0.10, 0.0, 0.95), (0.50, 0.0, -0.03), 60.0, ((0.20, -0.65, -0.105), (0.85, 0.65, 0.55))
)
_POT = "Lift the red pot off the table, each arm by the handle on its side."
POT_LIFTED = "the pot's bottom is more than 10 cm above the table top"
_TASKS = (RobosuiteTask(TaskInfo("TwoArmLift", "Two arms", 600, _POT, POT_LIFTED), OVER_TABLE),)
BY_NAME: dict[str, RobosuiteTask] = {task.info.name: task for task in _TASKS}
TASKS: dict[str, TaskInfo] = {name: task.info for name, task in BY_NAME.items()}
HOVER_M = 0.10
LIFT_M = 0.16


def make(world: str, task: str, *, stepping: str = "fast", shadows: bool = False) -> SuiteEnv:
    """The environment of a task for two arms."""
    chosen = BY_NAME[task]
    starts, workspace_m = SeededStarts(chosen, PAIR), chosen.arena.workspace_m
    return SuiteEnv(
        world, chosen.info, PAIR, starts, workspace_m, stepping=stepping, shadows=shadows
    )


def plan(env: SuiteEnv, decision: int) -> list[Waypoint]:
    """Both arms take a handle from above, each the one on its side; then they lift together."""
    sites = [env.truth.site(f"pot_handle{i}").position_m for i in (0, 1)]
    right_m, left_m = sorted(sites, key=lambda place_m: float(place_m[1]))
    ways = [
        _take_and_lift(env, "right", right_m, right_m - left_m),
        _take_and_lift(env, "left", left_m, left_m - right_m),
    ]
    # Stage by stage: neither goes on before the other has come as far.
    stages = zip(*ways, strict=True)
    return [w for right, left in stages for w in together({"right": right, "left": left})]


def _take_and_lift(
    env: SuiteEnv, arm: str, handle_m: Array, outwards: Array
) -> tuple[list[ArmTarget], ...]:
    """Open above the handle, come down on it and close across its bar, lift."""
    tip_m = env.robot_state().arms[arm].T_base_tip.position_m
    turned = down(math.atan2(outwards[1], outwards[0]) - math.pi / 2)
    hover_m = handle_m + np.array([0.0, 0.0, HOVER_M])
    above_m = np.array([tip_m[0], tip_m[1], max(tip_m[2], hover_m[2])])
    lifted_m = handle_m + np.array([0.0, 0.0, LIFT_M])
    return (
        [at(above_m, turned, "open"), *line(above_m, hover_m, turned)],
        line(hover_m, handle_m, turned, "close"),
        line(handle_m, lifted_m),
    )
