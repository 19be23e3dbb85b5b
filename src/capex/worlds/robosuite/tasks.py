"""The eight tasks: what a demonstrator is told, when robosuite calls it done, and how the two outer
cameras and the workspace lie.

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
class Task:
    """One environment of robosuite."""

    info: TaskInfo
    arena: Arena
    # Bodies that robosuite places in the compiled model, not in the state.
    moved: tuple[str, ...] = ()


def _task(
    name: str,
    family: str,
    horizon: int,
    instruction: str,
    criterion: str,
    arena: Arena,
    moved: tuple[str, ...] = (),
) -> Task:
    return Task(TaskInfo(name, family, horizon, instruction, criterion), arena, moved)


def _to_bin(name: str, thing: str, compartment: str) -> Task:
    return _task(
        name,
        "Pick and place",
        800,
        f"Put the {thing} into the {compartment} compartment of the dark bin.",
        "the thing's centre is inside its compartment, less than 10 cm above the bottom, and the"
        " tip more than 4 cm from it",
        BINS,
    )


BY_NAME: dict[str, Task] = {
    task.info.name: task
    for task in (
        _task(
            "Lift",
            "Pick and place",
            500,
            "Pick up the red cube.",
            "the cube's centre is more than 4 cm above the table top",
            TABLE,
        ),
        _task(
            "Stack",
            "Pick and place",
            600,
            "Put the red cube on the green cube.",
            "the red cube rests on the green one, lifted off the table and not held",
            TABLE,
        ),
        _to_bin("PickPlaceCan", "red can", "far left"),
        _to_bin("PickPlaceMilk", "grey milk carton", "near right"),
        _to_bin("PickPlaceBread", "brown loaf of bread", "far right"),
        _to_bin("PickPlaceCereal", "red cereal box", "near left"),
        _task(
            "Door",
            "Doors and lids",
            800,
            "Turn the yellow handle down and open the door.",
            "the door stands open by more than 0.3 rad",
            DOOR,
            moved=("Door_main",),
        ),
        _task(
            "NutAssemblySquare",
            "Pick and place",
            800,
            "Put the square nut onto the brown square peg.",
            "the nut's centre is around the peg, near the table top, and the tip more than 4 cm"
            " from it",
            TABLE,
        ),
    )
}
