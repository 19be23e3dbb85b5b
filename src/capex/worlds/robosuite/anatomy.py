"""Where things are in a robosuite model: tip, mount, joints, and what each shape belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np

from capex.pose import Array, Pose, quaternion_xyzw
from capex.worlds import ArmState, Contact, RobotState

LIMIT_MARGIN_RAD = 0.02
GRIP_ALIGNMENT = 0.5  # a finger grips what it presses along the closing direction
FINGERS = ("left finger", "right finger")
HAND = ("palm", *FINGERS)
PARTS = {  # body -> the name that reports use
    "robot0_link0": "arm mount",
    "robot0_link1": "shoulder",
    "robot0_link2": "shoulder",
    "robot0_link3": "upper arm",
    "robot0_link4": "elbow",
    "robot0_link5": "forearm",
    "robot0_link6": "wrist",
    "robot0_link7": "wrist",
    "robot0_right_hand": "palm",
    "gripper0_right_right_gripper": "palm",
    "gripper0_right_eef": "palm",
    "gripper0_right_leftfinger": "left finger",
    "gripper0_right_finger_joint1_tip": "left finger",
    "gripper0_right_rightfinger": "right finger",
    "gripper0_right_finger_joint2_tip": "right finger",
    "fixed_mount0_controller_box": "pedestal",
    "fixed_mount0_pedestal_feet": "pedestal",
    "fixed_mount0_pedestal": "pedestal",
    "mobilebase0_base": "base",
    "mobilebase0_wheeled_base": "base",
    "mobilebase0_fixed_support": "torso",
    "mobilebase0_support": "torso",
    "manipulator_mount": "torso",
}
# Columns are the tip's axes in robosuite's grip site, whose fingers close along x.
SITE_TIP: Array = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


class Anatomy:
    """Reads poses, joints and contacts of one model; every address is looked up once."""

    def __init__(self, model: Any, data: Any):
        self.model, self.data = model, data
        joints = [model.joint(f"robot0_joint{i + 1}") for i in range(7)]
        self._arm_q = np.array([int(joint.qposadr[0]) for joint in joints])
        self._lowest, self._highest = np.array([joint.range for joint in joints]).T
        fingers = [model.joint(f"gripper0_right_finger_joint{i}") for i in (1, 2)]
        self._finger_q = np.array([int(joint.qposadr[0]) for joint in fingers])
        self._mount = model.site("robot0_right_center").id
        self._tip = model.site("gripper0_right_grip_site").id
        bodies = [model.body(int(body)).name for body in model.geom_bodyid]
        self._part = [PARTS.get(body, "") for body in bodies]
        self._thing = [
            model.geom(i).name or "floor" if body == "world" else body.removesuffix("_main")
            for i, body in enumerate(bodies)
        ]

    @property
    def mount(self) -> Pose:
        """The arm's mount in the world: the base frame."""
        return self._site(self._mount)

    def _site(self, site: int) -> Pose:
        return Pose(self.data.site_xpos[site], self.data.site_xmat[site].reshape(3, 3))

    def in_base(self, position_m: Array, rotation: Array) -> Pose:
        """A world pose in the base frame."""
        return self.mount.inverse() @ Pose(position_m, rotation)

    def grip_site(self) -> Pose:
        """robosuite's grip site in the base frame: what its controller moves."""
        return self.mount.inverse() @ self._site(self._tip)

    def tip(self) -> Pose:
        """The tip in the base frame."""
        site = self.grip_site()
        return Pose(site.position_m, site.rotation @ SITE_TIP)

    def heading(self) -> tuple[float, float, float]:
        """Place and yaw of the mount on the floor."""
        mount = self.mount
        yaw = float(np.arctan2(mount.rotation[1, 0], mount.rotation[0, 0]))
        return float(mount.position_m[0]), float(mount.position_m[1]), yaw

    def state(self, *, mobile: bool) -> RobotState:
        """Proprioception and contacts, as the last control step left them."""
        tip, fingers, q = self.tip(), self.data.qpos[self._finger_q], self.data.qpos[self._arm_q]
        hand, others, gripped = self._contacts()
        near = np.minimum(q - self._lowest, self._highest - q) < LIMIT_MARGIN_RAD
        arm = ArmState(
            T_base_tip=tip,
            opening_m=float(fingers[0] - fingers[1]),
            hand_contacts=frozenset(hand),
            finger_contact=any(contact.part in FINGERS for contact in hand),
            held=frozenset(gripped),
            joints_at_limit=tuple(f"j{i + 1}" for i in np.flatnonzero(near)),
        )
        base = self.heading() if mobile else None
        quaternion = quaternion_xyzw(tip.rotation)
        proprio = np.concatenate([tip.position_m, quaternion, fingers, base or ()])
        return RobotState(arms={"arm": arm}, contacts=frozenset(others), base=base, proprio=proprio)

    def _contacts(self) -> tuple[set[Contact], set[Contact], set[str]]:
        """Contacts of the hand, those of other parts, and what both fingers press as they close."""
        contacts = self.data.contact
        active = contacts.efc_address >= 0
        closing = self.data.site_xmat[self._tip].reshape(3, 3)[:, 0]
        along = np.abs(contacts.frame[active, :3] @ closing) > GRIP_ALIGNMENT
        hand, others = set[Contact](), set[Contact]()
        gripped: dict[str, set[str]] = {finger: set() for finger in FINGERS}
        for (a, b), sideways in zip(contacts.geom[active].tolist(), along.tolist(), strict=True):
            if bool(self._part[a]) == bool(self._part[b]):
                continue  # between two things, or two parts of the robot
            robot, other = (a, b) if self._part[a] else (b, a)
            contact = Contact(self._part[robot], self._thing[other])
            (hand if contact.part in HAND else others).add(contact)
            if sideways and contact.part in FINGERS:
                gripped[contact.part].add(contact.thing)
        return hand, others, set.intersection(*gripped.values())
