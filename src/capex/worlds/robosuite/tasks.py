"""The eight tasks: instruction, success criterion, workspace, and where the outer cameras stand.

Things are named as they are seen, by colour and shape. Places are in the base frame: the arm's
mount, about 10 cm above a table top.
"""

from __future__ import annotations

from dataclasses import dataclass

from capex.worlds import TaskInfo

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Arena:
    """Where the outer cameras stand and look (the right one mirrored), and where the tip may go."""

    camera_m: Point
    look_at_m: Point
    fovy_deg: float
    workspace_m: tuple[Point, Point]


TABLE = Arena(
    (0.00, 0.65, 0.80), (0.52, 0.0, -0.03), 42.0, ((0.20, -0.45, -0.105), (0.85, 0.45, 0.55))
)
BINS = Arena(
    (0.00, 0.75, 0.70), (0.60, 0.10, -0.02), 52.0, ((0.20, -0.45, -0.105), (0.90, 0.70, 0.55))
)
DOOR = Arena(
    (0.05, 0.80, 1.00), (0.50, -0.10, 0.05), 50.0, ((0.20, -0.50, -0.105), (0.85, 0.45, 0.60))
)


@dataclass(frozen=True)
class RobosuiteTask:
    """One environment of robosuite."""

    info: TaskInfo
    arena: Arena
    # Bodies that robosuite places in the compiled model, not in the state.
    moved: tuple[str, ...] = ()


PICK, DOORS = "Pick and place", "Doors and lids"
CUBE_LIFTED = "the cube's centre is more than 4 cm above the table top"
CUBES_STACKED = "the red cube rests on the green one, lifted off the table and not held"
DOOR_OPEN = "the door stands open by more than 0.3 rad"
_AWAY = "and the tip more than 4 cm from it"
NUT_ON_PEG = f"the nut's centre is around the peg, near the table top, {_AWAY}"
IN_BIN = f"the thing's centre is inside its compartment, less than 10 cm above the bottom, {_AWAY}"


def _to_bin(name: str, thing: str, compartment: str) -> RobosuiteTask:
    instruction = f"Put the {thing} into the {compartment} compartment of the dark bin."
    return RobosuiteTask(TaskInfo(name, PICK, 800, instruction, IN_BIN), BINS)


_LIFT = TaskInfo("Lift", PICK, 500, "Pick up the red cube.", CUBE_LIFTED)
_STACK = TaskInfo("Stack", PICK, 600, "Put the red cube on the green cube.", CUBES_STACKED)
_OPEN = "Turn the yellow handle down and open the door."
_PEG = "Put the square nut onto the brown square peg."
_TASKS = (
    RobosuiteTask(_LIFT, TABLE),
    RobosuiteTask(_STACK, TABLE),
    _to_bin("PickPlaceCan", "red can", "far left"),
    _to_bin("PickPlaceMilk", "grey milk carton", "near right"),
    _to_bin("PickPlaceBread", "brown loaf of bread", "far right"),
    _to_bin("PickPlaceCereal", "red cereal box", "near left"),
    RobosuiteTask(TaskInfo("Door", DOORS, 800, _OPEN, DOOR_OPEN), DOOR, moved=("Door_main",)),
    RobosuiteTask(TaskInfo("NutAssemblySquare", PICK, 800, _PEG, NUT_ON_PEG), TABLE),
)
BY_NAME: dict[str, RobosuiteTask] = {task.info.name: task for task in _TASKS}
