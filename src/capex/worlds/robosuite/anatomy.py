"""Where things are in a robosuite model: tip, mount, joints, and what each shape belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capex.pose import Array, Pose, quaternion_xyzw
from capex.worlds import ArmState, Contact, RobotState

LIMIT_MARGIN_RAD = 0.02
GRIP_ALIGNMENT = 0.5  # a finger grips what it presses along the closing direction
FINGERS = ("left finger", "right finger")
HAND = ("palm", *FINGERS)
PARTS = {  # body of the first arm -> the name that reports use
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


class ArmAddresses:
    """Where one arm's joints, fingers, mount and tip stand in a model."""

    def __init__(self, model: Any, number: int):
        joints = [model.joint(f"robot{number}_joint{i + 1}") for i in range(7)]
        self.q = np.array([int(joint.qposadr[0]) for joint in joints])
        self.lowest, self.highest = np.array([joint.range for joint in joints]).T
        fingers = [model.joint(f"gripper{number}_right_finger_joint{i}") for i in (1, 2)]
        self.finger_q = np.array([int(joint.qposadr[0]) for joint in fingers])
        self.mount = model.site(f"robot{number}_right_center").id
        self.tip = model.site(f"gripper{number}_right_grip_site").id


class Anatomy:
    """Reads poses, joints and contacts of one model; every address is looked up once. Two arms
    share a base frame midway between their mounts.
    """

    def __init__(self, model: Any, data: Any, arms: Sequence[str] = ("arm",)):
        self.model, self.data = model, data
        self._arms = {name: ArmAddresses(model, number) for number, name in enumerate(arms)}
        bodies = [model.body(int(body)).name for body in model.geom_bodyid]
        owned = {
            body.replace("0_", f"{number}_", 1): (name, part)
            for number, name in reversed(list(enumerate(arms)))
            for body, part in PARTS.items()
        }
        self._part = [owned.get(body, ("", "")) for body in bodies]
        self._thing = [
            f"{part[0]} {part[1]}"
            if part[0]
            else model.geom(i).name or "floor"
            if body == "world"
            else body.removesuffix("_main")
            for i, (body, part) in enumerate(zip(bodies, self._part, strict=True))
        ]

    @property
    def mount(self) -> Pose:
        """The base frame in the world: the arm's mount, or midway between those of two."""
        first, *others = (self._site(arm.mount) for arm in self._arms.values())
        if not others:
            return first
        places_m = [first.position_m, *(mount.position_m for mount in others)]
        return Pose(np.mean(places_m, axis=0), first.rotation)

    def _site(self, site: int) -> Pose:
        return Pose(self.data.site_xpos[site], self.data.site_xmat[site].reshape(3, 3))

    def in_base(self, position_m: Array, rotation: Array) -> Pose:
        """A world pose in the base frame."""
        return self.mount.inverse() @ Pose(position_m, rotation)

    def grip_site(self, arm: str) -> Pose:
        """robosuite's grip site seen from the arm's own mount: what its controller moves."""
        addresses = self._arms[arm]
        return self._site(addresses.mount).inverse() @ self._site(addresses.tip)

    def tip(self, arm: str) -> Pose:
        """An arm's tip in the base frame."""
        site = self.mount.inverse() @ self._site(self._arms[arm].tip)
        return Pose(site.position_m, site.rotation @ SITE_TIP)

    def heading(self) -> tuple[float, float, float]:
        """Place and yaw of the mount on the floor."""
        mount = self.mount
        yaw = float(np.arctan2(mount.rotation[1, 0], mount.rotation[0, 0]))
        return float(mount.position_m[0]), float(mount.position_m[1]), yaw

    def state(self, *, mobile: bool) -> RobotState:
        """Proprioception and contacts, as the last control step left them."""
        hands, others, gripped = self._contacts()
        arms = {name: self._arm(name, hands[name], gripped[name]) for name in self._arms}
        base = self.heading() if mobile else None
        numbers: list[Any] = []
        for name, arm in arms.items():
            tip, fingers = arm.T_base_tip, self.data.qpos[self._arms[name].finger_q]
            numbers += [tip.position_m, quaternion_xyzw(tip.rotation), fingers]
        proprio = np.concatenate([*numbers, base or ()])
        return RobotState(arms=arms, contacts=frozenset(others), base=base, proprio=proprio)

    def _arm(self, name: str, hand: set[Contact], held: set[str]) -> ArmState:
        arm = self._arms[name]
        fingers, q = self.data.qpos[arm.finger_q], self.data.qpos[arm.q]
        near = np.minimum(q - arm.lowest, arm.highest - q) < LIMIT_MARGIN_RAD
        return ArmState(
            T_base_tip=self.tip(name),
            opening_m=float(fingers[0] - fingers[1]),
            hand_contacts=frozenset(hand),
            finger_contact=any(contact.part in FINGERS for contact in hand),
            held=frozenset(held),
            joints_at_limit=tuple(f"j{i + 1}" for i in np.flatnonzero(near)),
        )

    def _contacts(self) -> tuple[dict[str, set[Contact]], set[Contact], dict[str, set[str]]]:
        """Contacts of each hand, those of other parts, and what both fingers of a hand press as
        they close. Two arms that touch are things to each other.
        """
        contacts = self.data.contact
        active = contacts.efc_address >= 0
        pairs, normals = contacts.geom[active].tolist(), contacts.frame[active, :3]
        hands: dict[str, set[Contact]] = {name: set() for name in self._arms}
        others = set[Contact]()
        pressed: dict[str, dict[str, set[str]]] = {n: {f: set() for f in FINGERS} for n in hands}
        along = {}
        for name, arm in self._arms.items():
            closing = self.data.site_xmat[arm.tip].reshape(3, 3)[:, 0]
            along[name] = (np.abs(normals @ closing) > GRIP_ALIGNMENT).tolist()
        for k, (a, b) in enumerate(pairs):
            for robot, other in ((a, b), (b, a)):
                name, part = self._part[robot]
                if not name or name == self._part[other][0]:
                    continue  # a thing, or another part of the same arm
                thing = self._thing[other]
                if part in HAND:
                    hands[name].add(Contact(part, thing))
                else:
                    others.add(Contact(part if len(hands) == 1 else f"{name} {part}", thing))
                if part in FINGERS and along[name][k]:
                    pressed[name][part].add(thing)
        held = {name: set.intersection(*by.values()) for name, by in pressed.items()}
        return hands, others, held
