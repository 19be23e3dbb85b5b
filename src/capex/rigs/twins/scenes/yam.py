"""Two YAM arms at a table with a plate, a bread and a corn, or with a bowl: the paper's two tasks
on its two-arm rig, simulated.

The base frame lies midway between the mounts. Seen along +x, the left arm's side is +y.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import mujoco
import numpy as np

from capex.pose import Array
from capex.rigs.twins.scenes import RoomScene, SceneCamera, yam_expert, yam_rules
from capex.rigs.twins.scenes.common import Area, TableScene
from capex.rigs.twins.scenes.yam_arms import add_arms, set_joints
from capex.rigs.twins.scenes.yam_things import OBJECTS

# Tips at (0.20, +-0.25, 0.16) pointing down: beside what stands on the table.
_HOME = (-0.2450, 1.3271, 1.2245, -1.4682, 0.0, -0.2450)
HOMES_RAD: Mapping[str, Array] = MappingProxyType(
    {"left": np.array(_HOME), "right": np.array(_HOME) * (-1, 1, 1, 1, 1, -1)}
)
TASKS: Mapping[str, tuple[str, ...]] = {  # task -> the objects on the table; words: tasks.toml
    "BreadAndCorn": ("plate", "bread", "corn"),
    "BowlHandover": ("bowl",),
}
# A hand that points down reaches 12 cm high here; farther out it does not.
AREAS_M: Mapping[str, Area] = {
    "plate": ((0.29, -0.015), (0.32, 0.015)),
    "bread": ((0.28, 0.22), (0.36, 0.33)),
    "corn": ((0.28, -0.33), (0.36, -0.22)),
    "bowl": ((0.29, 0.13), (0.35, 0.22)),
}
WRIST_VIEW = (
    "sits on top of the {} gripper and looks along its fingers; while that gripper points down"
    " unturned, the top of its image is farther from the robot (larger x) and the left side is +y;"
    " the fingertips appear in its lower half, one on each side of the middle, and close towards"
    " the middle"
)
CAMERAS: Mapping[str, SceneCamera] = MappingProxyType(
    {
        "front": SceneCamera(
            "exterior",
            (640, 480),
            42.0,
            "stands across the table, above it, about 0.7 m in front of the base frame's origin and"
            " 0.84 m above the table, faces the robot and looks down at the table between the arms:"
            " the left side of its image is -y (the right arm's side), the right side +y (the left"
            " arm's), and what is lower in the image is farther from the robot (larger x)",
            (0.74, 0.0, 0.84),
            (0.27, 0.0, 0.02),
        ),
        "left_wrist": SceneCamera("wrist", (640, 480), 58.0, WRIST_VIEW.format("left")),
        "right_wrist": SceneCamera("wrist", (640, 480), 58.0, WRIST_VIEW.format("right")),
    }
)


def home(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Both arms home, fingers open."""
    for arm, home_rad in HOMES_RAD.items():
        set_joints(model, data, arm, home_rad)


TABLE = TableScene("yam", TASKS, OBJECTS, CAMERAS, AREAS_M, add_arms, home)
build, arrange, places, camera_model = TABLE.build, TABLE.arrange, TABLE.places, TABLE.camera_model


def judge(model: mujoco.MjModel, data: mujoco.MjData, task: str) -> tuple[bool, str]:
    """Whether everything is now where the task wants it; what happened on the way is `watch`'s."""
    TABLE.require_task(task)
    return yam_rules.END[task](model, data)


SCENE = RoomScene(TASKS, CAMERAS, build, arrange, judge, yam_expert.EXPERT, yam_rules.watch)
