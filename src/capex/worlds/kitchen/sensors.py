"""What the robot measures, read from a simulation that the last control step left current."""

from __future__ import annotations

import mujoco
import numpy as np
import numpy.typing as npt

from capex.pose import Pose, quaternion_xyzw
from capex.worlds import ArmState, Contact, RobotState
from capex.worlds.kitchen import panda, robot
from capex.worlds.kitchen.control import Controller
from capex.worlds.kitchen.robot import ARM

LIMIT_MARGIN_RAD = 0.02  # nearer than this to a stop, a report names the joint
# Cosine to the closing direction from which a finger grips what it presses: fingertips that rest on
# a counter hold nothing.
GRIP_ALIGNMENT = 0.7
STATE_NAMES = (
    "eef_x", "eef_y", "eef_z", "eef_qx", "eef_qy", "eef_qz", "eef_qw",
    "finger_left", "finger_right", "base_x", "base_y", "base_yaw",
)  # fmt: skip


class Sensors:
    """Proprioception and contacts of one model; addresses and names are looked up once."""

    def __init__(self, model: mujoco.MjModel):
        def addresses(*joints: str) -> npt.NDArray[np.intp]:
            return np.array([model.jnt_qposadr[model.joint(j).id] for j in joints], dtype=np.intp)

        self._model = model
        self._parts = {model.body(name).id: label for name, label in robot.PARTS.items()}
        self._things = [
            self._parts.get(i, model.body(i).name) if i else "floor" for i in range(model.nbody)
        ]
        self._is_robot = np.array([i in self._parts for i in range(model.nbody)])
        self._arm = addresses(*panda.JOINTS)
        self._fingers = addresses("finger_left", "finger_right")
        self._base = addresses("base_x", "base_y", "base_yaw")
        self._tip = model.site("tip").id

    def touching(self, data: mujoco.MjData) -> bool:
        """Whether any part of the robot touches anything."""
        return bool(self._is_robot[self._model.geom_bodyid[data.contact.geom]].any())

    def read(self, data: mujoco.MjData, controller: Controller) -> RobotState:
        """The state of the robot."""
        position, rotation = controller.achieved(data)
        left, right = float(data.qpos[self._fingers[0]]), float(data.qpos[self._fingers[1]])
        hand: set[Contact] = set()
        other: set[Contact] = set()
        gripped: dict[str, set[str]] = {"left finger": set(), "right finger": set(), "palm": set()}
        bodies = self._model.geom_bodyid[data.contact.geom]
        rows = np.flatnonzero(self._is_robot[bodies].any(axis=1))
        closing = data.site_xmat[self._tip][1::3]  # the direction in which the fingers close
        for row, (one, two) in zip(rows.tolist(), bodies[rows].tolist(), strict=True):
            for part_body, thing_body in ((one, two), (two, one)):
                part, thing = self._parts.get(part_body), self._things[thing_body]
                if part in gripped:
                    hand.add(Contact(part, thing))
                    if abs(float((data.contact.frame[row, :3] * closing).sum())) > GRIP_ALIGNMENT:
                        gripped[part].add(thing)
                elif part is not None:
                    other.add(Contact(part, thing))
        q = data.qpos[self._arm]
        near = (q - panda.LOWER_RAD < LIMIT_MARGIN_RAD) | (panda.UPPER_RAD - q < LIMIT_MARGIN_RAD)
        arm = ArmState(
            Pose(position, rotation),
            left + right,
            frozenset(hand),
            any(c.part != "palm" for c in hand),
            frozenset(gripped["left finger"] & gripped["right finger"]),
            tuple(j for j, at in zip(panda.JOINTS, near, strict=True) if at),
        )
        x, y, yaw = (float(v) for v in data.qpos[self._base])
        proprio = np.array([*position, *quaternion_xyzw(rotation), left, right, x, y, yaw])
        return RobotState({ARM: arm}, frozenset(other), (x, y, yaw), proprio)
