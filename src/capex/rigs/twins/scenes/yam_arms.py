"""Two YAM arms as parts of a scene, built from primitives with the numbers of `yam.kinematics`
for the plain YAM.

Every body's frame is that of the mount in the arm's pose zero, moved to the body's joint: x
forward, z up. Names begin with the arm's: joints and actuators `left_joint1` .. `left_joint6`,
`left_finger_left`, `left_finger_right`; bodies `left_link1` .. `left_link5`, `left_hand` and the
fingers; sites `left_mount` and `left_tip`; the camera `left_wrist`. The actuators are position
servos; `yam.pair` drives them, and carries the arms' weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from capex.pose import FORWARD, Array
from capex.rigs.drivers.yam.kinematics import FINGER_TRAVEL_M, JOINTS, YAM
from capex.rigs.twins.yam.pair import ARMS
from capex.worlds.kitchen.robot import (
    BOX,
    CAPSULE,
    CYLINDER,
    DARK,
    GREY,
    HINGE,
    PAD,
    RUBBER,
    SLIDE,
    VISUAL,
    WHITE,
    look_at,
)

# Of the body behind each joint; the last is the gripper with its fingers.
MASSES_KG = (0.101, 1.469, 0.983, 0.462, 0.403, 0.553)
FINGER_KG = 0.071
MOUNTS_M = {"left": (0.0, 0.30, 0.0), "right": (0.0, -0.30, 0.0)}  # the paper's 60 cm apart
# Of the menagerie's i2rt_yam: torque limits of the joints, and the rotors' inertia of the DM4340
# and DM4310 motors.
TORQUE_NM = (28.0, 28.0, 28.0, 28.0, 10.0, 10.0)
ARMATURE = (0.032, 0.032, 0.032, 0.0018, 0.0018, 0.0018)
FINGER_FORCE_N = 20.0  # holds the bowl by its rim; the vendor gives no number for the gripper
# Things touch every part of both arms, and the arms touch each other, but none itself.
MASKS = {"left": {"contype": 4, "conaffinity": 1}, "right": {"contype": 0, "conaffinity": 5}}
# Per link: from, to and radius of its capsules; they share its mass by length.
_LINKS: tuple[tuple[tuple[Sequence[float], Sequence[float], float], ...], ...] = (
    (((0, 0, 0), (0.020, 0, 0.0455), 0.036),),
    (((0, 0, 0), (-0.264, 0, 0), 0.030),),
    (((0, 0, 0), (0.035, 0, 0.058), 0.028), ((0.035, 0, 0.058), (0.245, 0, 0.06), 0.026)),
    (((0, 0, 0), (0.074, 0, 0), 0.026),),
    (((0, 0, -0.0405), (0.0356, 0, -0.0405), 0.027),),
)
_PALM_M = 0.070  # of its front, before joint 6
_PAD_HALF_M = (0.016, 0.005, 0.011)
# Stiff pads, elliptic cones and torsional friction, as measured for the kitchen's hand.
_GRIP: dict[str, Any] = {
    "priority": 1,
    "condim": 4,
    "friction": (1.0, 0.01, 0.0001),
    "solref": (0.004, 1),
    "solimp": (0.95, 0.99, 0.001, 0.5, 2),
}


def joints(arm: str) -> tuple[str, ...]:
    """The names of an arm's joints, from the mount on."""
    return tuple(f"{arm}_{joint}" for joint in JOINTS)


def fingers(arm: str) -> tuple[str, str]:
    """The names of an arm's fingers: bodies, joints and actuators."""
    return f"{arm}_finger_left", f"{arm}_finger_right"


def add_arms(spec: mujoco.MjSpec) -> None:
    """Both arms on a bench beside the table, facing it."""
    bench = {"pos": (-0.02, 0.0, -0.36), "size": (0.11, 0.42, 0.3599)}
    spec.worldbody.add_geom(type=BOX, rgba=DARK, **bench, **VISUAL)
    for arm in ARMS:
        _add_arm(spec, arm)


def _add_arm(spec: mujoco.MjSpec, arm: str) -> None:
    mask = MASKS[arm]
    body = spec.worldbody.add_body(name=f"{arm}_base", pos=MOUNTS_M[arm])
    body.add_site(name=f"{arm}_mount", size=(0.004, 0.004, 0.004), rgba=(0, 0, 0, 0))
    foot = {"pos": (0, 0, 0.025), "size": (0.05, 0.025, 0)}
    body.add_geom(type=CYLINDER, rgba=DARK, **foot, **mask)
    before: Array = np.zeros(3)
    for i, joint in enumerate(YAM.joints):
        name = f"{arm}_hand" if i == 5 else f"{arm}_link{i + 1}"
        body = body.add_body(name=name, pos=np.array(joint.anchor_m) - before)
        before = np.array(joint.anchor_m)
        limits = {"range": joint.range_rad, "limited": 1, "armature": ARMATURE[i]}
        body.add_joint(name=f"{arm}_{JOINTS[i]}", type=HINGE, axis=joint.axis, **limits)
        _add_servo(spec, f"{arm}_{JOINTS[i]}", YAM.kp[i], YAM.kd[i], TORQUE_NM[i])
        if i < 5:
            _add_link(body, i, MASSES_KG[i], mask)
    _add_hand(spec, body, arm, MASSES_KG[5] - 2 * FINGER_KG)


def _add_link(body: Any, i: int, mass_kg: float, mask: dict[str, int]) -> None:
    lengths = [float(np.linalg.norm(np.subtract(b, a))) for a, b, _ in _LINKS[i]]
    for (start, end, radius), length in zip(_LINKS[i], lengths, strict=True):
        ends, mass = (*start, *end), mass_kg * length / sum(lengths)
        size = (radius, 0, 0)
        body.add_geom(type=CAPSULE, fromto=ends, size=size, rgba=WHITE, mass=mass, **mask)


def _add_hand(spec: mujoco.MjSpec, hand: Any, arm: str, mass_kg: float) -> None:
    mask, reach_m = MASKS[arm], YAM.tip_zero_m[0] - YAM.joints[5].anchor_m[0]
    palm = {"pos": (_PALM_M / 2, 0, 0), "size": (_PALM_M / 2, 0.045, 0.024), "mass": mass_kg}
    hand.add_geom(type=BOX, rgba=GREY, **palm, **mask)
    turn = np.zeros(4)
    mujoco.mju_mat2Quat(turn, FORWARD.ravel())
    seen = {"size": (0.004, 0.004, 0.004), "rgba": (0, 0, 0, 0)}
    hand.add_site(name=f"{arm}_tip", pos=(reach_m, 0, 0), quat=turn, **seen)
    _add_wrist_camera(hand, arm, reach_m)
    first, second = fingers(arm)
    for name, sign in ((first, 1.0), (second, -1.0)):
        finger = hand.add_body(name=name)
        travel = {"axis": (0, sign, 0), "range": (0, FINGER_TRAVEL_M), "limited": 1}
        finger.add_joint(name=name, type=SLIDE, armature=0.05, damping=10.0, **travel)
        middle = (_PALM_M + reach_m) / 2
        bar = {"pos": (middle, sign * 0.013, 0), "size": (reach_m - middle, 0.005, 0.009)}
        finger.add_geom(type=BOX, rgba=DARK, mass=0.6 * FINGER_KG, **bar, **mask)
        pad = {"pos": (reach_m, sign * _PAD_HALF_M[1], 0), "size": _PAD_HALF_M}
        finger.add_geom(type=BOX, rgba=PAD, mass=0.4 * FINGER_KG, **pad, **mask, **_GRIP)
        _add_servo(spec, name, 3000.0, 60.0, FINGER_FORCE_N)
    coupling = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1=first, name2=second)
    coupling.data[:5] = (0, 1, 0, 0, 0)
    coupling.solref = (0.005, 1)


def _add_wrist_camera(hand: Any, arm: str, reach_m: float) -> None:
    """On top of the gripper, looking along the fingers at their tips and what is before them."""
    position, target = np.array([0.02, 0.0, 0.09]), np.array([reach_m + 0.05, 0.0, 0.0])
    view = look_at(position, target)
    hand.add_camera(name=f"{arm}_wrist", pos=position, quat=view, fovy=58.0)
    behind = position - 0.015 * (target - position) / np.linalg.norm(target - position)
    hand.add_geom(type=BOX, pos=behind, size=(0.010, 0.035, 0.010), rgba=RUBBER, **VISUAL)


def _add_servo(spec: mujoco.MjSpec, joint: str, kp: float, kd: float, most: float) -> None:
    servo = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    servo.gaintype, servo.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
    servo.gainprm[0] = kp
    servo.biasprm[:3] = (0.0, -kp, -kd)
    servo.forcelimited, servo.forcerange = 1, (-most, most)


def set_joints(model: mujoco.MjModel, data: mujoco.MjData, arm: str, angles_rad: Array) -> None:
    """Put an arm at rest with these joints and open fingers, its servos with it."""
    values = [*angles_rad.tolist(), FINGER_TRAVEL_M, FINGER_TRAVEL_M]
    for name, value in zip((*joints(arm), *fingers(arm)), values, strict=True):
        data.joint(name).qpos[0], data.joint(name).qvel[0] = value, 0.0
        data.ctrl[model.actuator(name).id] = value
