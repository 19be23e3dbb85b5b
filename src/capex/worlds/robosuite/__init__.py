"""robosuite's tasks behind the Env contract: worlds that this project did not write.

`robosuite` has the Panda on a mobile base with RoboCasa's 12 native numbers, `robosuite-panda` the
one on a pedestal with 7. robosuite is imported when the first environment is made. Rendering is
ours (`worlds.render`); robosuite opens no GL context.
"""

from __future__ import annotations

from capex.worlds import TaskInfo
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.expert import plan
from capex.worlds.robosuite.robots import FIXED, MOBILE
from capex.worlds.robosuite.starts import SeededStarts
from capex.worlds.robosuite.tasks import BY_NAME

__all__ = ["TASKS", "make", "plan"]

TASKS: dict[str, TaskInfo] = {name: task.info for name, task in BY_NAME.items()}
ROBOTS = {"robosuite": MOBILE, "robosuite-panda": FIXED}


def make(world: str, task: str, *, stepping: str = "fast", shadows: bool = False) -> SuiteEnv:
    """The environment of a task; stepping "original" is robosuite's own `env.step`."""
    chosen, robot = BY_NAME[task], ROBOTS[world]
    info, starts, workspace_m = chosen.info, SeededStarts(chosen, robot), chosen.arena.workspace_m
    return SuiteEnv(world, info, robot, starts, workspace_m, stepping=stepping, shadows=shadows)
