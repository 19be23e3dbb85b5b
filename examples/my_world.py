"""A world of your own: hands above a table, drawn as dots (`python examples/my_world.py`)."""

import numpy as np

from capex import Pose, Start, worlds
from capex.errors import BadCommand, UnknownName, Unsupported
from capex.pose import rotation_matrix
from capex.worlds import ArmSpec, ArmState, CameraSpec, RobotState, Spec, TaskInfo
from capex.worlds.limits import validate_command

TASKS = {"Touch": TaskInfo("Touch", "Reach", 100, "Touch the dot.", "a tip is within 2 cm of it")}


class Table:
    """Metres and radians in the base frame. A hand is 3 + 9 + 1 numbers: tip, rotation, opening."""

    def __init__(self, world="table", task="Touch", arms=("arm",)):
        names = tuple(f"{arm}_{x}" for arm in arms for x in (*"xyz", "rx", "ry", "rz", "grip"))
        hands = tuple(ArmSpec(arm, 0.08, max_step_m=0.05, max_step_rad=0.5) for arm in arms)
        cameras, box = (CameraSpec("top", "exterior", (64, 64)),), ((0.2, -0.5, 0), (0.8, 0.5, 0.6))
        self.spec = Spec(
            world, task, 100, 20, hands, cameras, box, names, ("x",), 9, can_save=False
        )
        self.instruction, self.scene = "Touch the dot.", "table"
        self.reset(Start(task, 0))

    def reset(self, start):
        if not 0 <= start.index < self.spec.starts:
            raise UnknownName("start", str(start.index), [f"0 to {self.spec.starts - 1}"])
        x, y = np.random.default_rng([start.index, start.seed]).uniform((0.4, -0.2), (0.6, 0.2))
        self.goal = np.array([x, y, 0.05])
        down = (1, 0, 0, 0, -1, 0, 0, 0, -1)  # fingers point at the table
        self.hands = np.array(
            [[0.4, 0.1 * k, 0.3, *down, 0.08] for k, _ in enumerate(self.spec.arms)]
        )

    def robot_state(self):
        rows = [(Pose(x[:3], x[3:12].reshape(3, 3)), float(x[12])) for x in self.hands.copy()]
        arms = {a.name: ArmState(*row) for a, row in zip(self.spec.arms, rows, strict=True)}
        return RobotState(arms, proprio=self.hands[0, :1].copy())

    def step(self, command):
        validate_command(self.spec, command)
        told = [command.arms[arm.name] for arm in self.spec.arms]
        rows = [[*(c.step_m or (0, 0, 0)), *c.step_rad, c.gripper] for c in told]
        self.apply(action := np.array(rows, dtype=float).ravel())
        return action

    def apply(self, action):
        if np.shape(action) != (len(self.spec.action_names),) or not np.isfinite(action).all():
            raise BadCommand(f"the action is {action}; finite numbers are right, one for each name")
        for x, row in zip(self.hands, np.reshape(action, (-1, 7)), strict=True):
            x[:3] += row[:3]
            x[3:12] = (rotation_matrix(row[3:6]) @ x[3:12].reshape(3, 3)).ravel()
            x[12] = np.clip(x[12] - 0.02 * row[6], 0.0, 0.08)

    def success(self):
        return bool(np.linalg.norm(self.hands[:, :3] - self.goal, axis=1).min() < 0.02)

    def observe(self, cameras=None, size=None):
        width, height = size or (64, 64)
        image = np.full((height, width, 3), 230, np.uint8)
        for (x, y, *_), colour in [(self.goal, 60), *((x, 160) for x in self.hands)]:
            u, v = int(width * (0.5 - y)), int(height * (0.9 - x))
            image[max(0, v - 2) : v + 3, max(0, u - 2) : u + 3] = colour
        return {self.spec.camera(name).name: image.copy() for name in cameras or ("top",)}

    def camera_model(self, *_):
        raise Unsupported("the table's camera is not calibrated, and its states cannot be saved")

    depth, save_state, load_state, close = camera_model, camera_model, camera_model, success


make = Table  # worlds.make("my_lab.table:Touch") calls make("my_lab.table", "Touch")

if __name__ == "__main__":
    for finding in worlds.check(Table()).findings:
        print(f"{finding.rule:10s} {finding.status:12s} {finding.detail}")
