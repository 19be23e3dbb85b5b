"""The kitchen's robot as an MjSpec: planar base, lifting torso, Panda arm, parallel gripper, three
cameras.

Body tree: base (x, y, yaw) - torso (lift) - mount - link1 .. link7 - hand - two fingers. The mount
is the base frame of every interface: it stands `MOUNT_HEIGHT_M` above the floor with the torso
down, a height read off the reach maps (`reach.py`): "down" covers counters and racks, "forward"
starts at counter height plus 15 cm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from capex.pose import Array

# The manufacturer's numbers.
JOINTS = ("j1", "j2", "j3", "j4", "j5", "j6", "j7")
A_M = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
D_M = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
ALPHA_RAD = (0.0, -np.pi / 2, np.pi / 2, np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2)
FLANGE_M = 0.107  # from the last joint's origin
HAND_YAW_RAD = -np.pi / 4  # how the hand is screwed onto the flange
TIP_M = 0.1034  # from the flange to the middle of the pads
LOWER_RAD = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
UPPER_RAD = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
SPEED_RAD_S = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
TORQUE_NM = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])


def _constant(i: int) -> Array:
    ca, sa = np.cos(ALPHA_RAD[i]), np.sin(ALPHA_RAD[i])
    return np.array(
        [[1, 0, 0, A_M[i]], [0, ca, -sa, -sa * D_M[i]], [0, sa, ca, ca * D_M[i]], [0, 0, 0, 1]],
        dtype=np.float64,
    )


def _tool() -> Array:
    c, s = np.cos(HAND_YAW_RAD), np.sin(HAND_YAW_RAD)
    return np.array(
        [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, FLANGE_M + TIP_M], [0, 0, 0, 1]], dtype=np.float64
    )


_CONSTANT = tuple(_constant(i) for i in range(7))
_TOOL = _tool()


def forward(q: Array) -> tuple[Array, Array, Array]:
    """q (n,7) -> T_mount_tip (n,4,4), joint axes' Jacobian (n,6,7), joint origins (n,7,3)."""
    n = len(q)
    T = np.broadcast_to(np.eye(4), (n, 4, 4))
    axes, origins = np.empty((n, 7, 3)), np.empty((n, 7, 3))
    for i in range(7):
        T = T @ _CONSTANT[i]
        c, s = np.cos(q[:, i]), np.sin(q[:, i])
        turn = np.zeros((n, 4, 4))
        turn[:, 0, 0], turn[:, 0, 1], turn[:, 1, 0], turn[:, 1, 1] = c, -s, s, c
        turn[:, 2, 2] = turn[:, 3, 3] = 1
        T = T @ turn
        axes[:, i], origins[:, i] = T[:, :3, 2], T[:, :3, 3]
    T = T @ _TOOL
    jacobian = np.empty((n, 6, 7))
    jacobian[:, :3] = np.cross(axes, T[:, None, :3, 3] - origins).transpose(0, 2, 1)
    jacobian[:, 3:] = axes.transpose(0, 2, 1)
    return T, jacobian, origins


@dataclass(frozen=True)
class Solution:
    """Joint angles (n,7), which targets were met (n,), smallest distance to a limit (n,)."""

    q: Array
    reached: npt.NDArray[np.bool_]
    margin_rad: Array


def solve(
    positions_m: Array,
    rotation: Array,
    *,
    seeds: int = 24,
    iterations: int = 120,
    limit_margin_rad: float = 0.05,
) -> Solution:
    """Damped least squares from several seeds; keeps, per target, the solution farthest from the
    joint limits.

    positions_m (n,3) in the mount frame, rotation (3,3) or (n,3,3) the wanted tip orientation.
    """
    n = len(positions_m)
    rotation = np.broadcast_to(rotation, (n, 3, 3))
    lower, upper = LOWER_RAD + limit_margin_rad, UPPER_RAD - limit_margin_rad
    rng = np.random.Generator(np.random.PCG64(7))
    best_q = np.zeros((n, 7))
    best_margin = np.full(n, -np.inf)
    heading = np.arctan2(positions_m[:, 1], positions_m[:, 0])
    for s in range(seeds):
        q = lower + rng.random((n, 7)) * (upper - lower)
        if s % 2 == 0:  # half of the seeds start near the usual elbow-up posture, facing the target
            usual = np.array([0.0, -0.3, 0.0, -2.0, 0.0, 2.0, 0.785])
            q = usual + 0.5 * rng.standard_normal((n, 7))
            q[:, 0] += heading
            q = np.clip(q, lower, upper)
        for _ in range(iterations):
            T, J, _ = forward(q)
            turn = rotation_error(rotation, T[:, :3, :3])
            e = np.concatenate([positions_m - T[:, :3, 3], turn], axis=1)
            H = J @ J.transpose(0, 2, 1) + 1e-4 * np.eye(6)
            step = (J.transpose(0, 2, 1) @ np.linalg.solve(H, e[..., None]))[..., 0]
            q = np.clip(q + np.clip(step, -0.3, 0.3), lower, upper)
        T, _, _ = forward(q)
        ok = np.linalg.norm(positions_m - T[:, :3, 3], axis=1) < 2e-3
        ok &= np.linalg.norm(rotation_error(rotation, T[:, :3, :3]), axis=1) < 0.01
        margin = np.minimum(q - LOWER_RAD, UPPER_RAD - q).min(axis=1)
        better = ok & (margin > best_margin)
        best_q[better], best_margin[better] = q[better], margin[better]
    return Solution(best_q, np.isfinite(best_margin), best_margin)


def rotation_error(goal: Array, current: Array) -> Array:
    """Rotation vectors (n,3) from `current` to `goal` (n,3,3), in their common frame."""
    R = goal @ current.transpose(0, 2, 1)
    vector = np.stack(
        [R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], axis=1
    )
    sine = np.linalg.norm(vector, axis=1) / 2
    angle = np.arctan2(sine, (np.trace(R, axis1=1, axis2=2) - 1) / 2)
    return np.asarray(vector * (angle / np.maximum(2 * sine, 1e-12))[:, None])


TIMESTEP_S = 0.002
ARM = "arm"  # its name in the Env contract
MOUNT_HEIGHT_M = 0.45  # read off the reach maps, see above
TORSO_TRAVEL_M = 0.34
FINGER_TRAVEL_M = 0.04  # of each finger: the Panda's hand opens to 8 cm
FINGER_FORCE_N = 20.0  # holds a load of 0.3 kg without slipping (test_grasp.py)
# Dry friction of the base's brakes: it stands still under 100 N and 20 N m (test_kitchen.py).
BASE_HOLD_N, BASE_HOLD_NM = 250.0, 100.0
BASE_GAIN, BASE_YAW_GAIN = 6000.0, 2000.0  # N per m/s and N m per rad/s of velocity error
CHASSIS_FRONT_M = 0.15  # from the mount to the chassis' front face
ARM_ARMATURE = (0.5, 0.5, 0.4, 0.4, 0.25, 0.25, 0.15)  # reflected rotor inertia, kg m2

CAMERAS = ("left", "right", "wrist")
EXTERIOR_FOVY_DEG = 60.0  # from behind the shoulders, the worktop before the robot is in view
WRIST_FOVY_DEG = 75.0  # wider: the hand's camera is close to what it looks at

# Collision masks. Things touch things and every robot part; of the robot's own parts, only wrist
# and hand touch the chassis.
THING = {"contype": 1, "conaffinity": 1}
LINK = {"contype": 0, "conaffinity": 1}
WRIST = {"contype": 0, "conaffinity": 3}
CHASSIS = {"contype": 2, "conaffinity": 1}
VISUAL = {"contype": 0, "conaffinity": 0, "group": 1, "mass": 0.0}

PARTS = {  # body -> the name that reports use
    "base": "base",
    "torso": "torso",
    "link0": "arm mount",
    "link1": "shoulder",
    "link2": "shoulder",
    "link3": "upper arm",
    "link4": "elbow",
    "link5": "forearm",
    "link6": "wrist",
    "link7": "wrist",
    "hand": "palm",
    "finger_left": "left finger",
    "finger_right": "right finger",
}
HAND_BODIES = ("hand", "finger_left", "finger_right")

WHITE = (0.80, 0.81, 0.83, 1.0)
GREY = (0.55, 0.57, 0.60, 1.0)
DARK = (0.17, 0.18, 0.20, 1.0)
RUBBER = (0.10, 0.10, 0.11, 1.0)
PAD = (0.95, 0.55, 0.10, 1.0)  # orange pads: the fingers are found at a glance in every view

BOX, CYLINDER = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
HINGE, SLIDE = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE

# Per link: (from, to, radius, mass) of its capsules, in the link's own frame.
_LINKS: dict[str, tuple[tuple[Sequence[float], Sequence[float], float, float], ...]] = {
    "link1": (
        ((0, 0, -0.16), (0, 0, -0.02), 0.060, 1.6),
        ((0, -0.03, 0), (0, 0.03, 0), 0.060, 1.1),
    ),
    "link2": (
        ((0, 0, -0.03), (0, 0, 0.03), 0.060, 1.2),
        ((0, -0.06, 0), (0, -0.17, 0), 0.060, 1.5),
    ),
    "link3": (
        ((0, 0, -0.17), (0, 0, -0.06), 0.056, 1.3),
        ((0.0825, -0.02, 0), (0.0825, 0.05, 0), 0.055, 1.1),
    ),
    "link4": (
        ((0, 0, -0.03), (0, 0, 0.03), 0.055, 1.2),
        ((-0.0825, 0.06, 0), (-0.0825, 0.15, 0), 0.054, 1.2),
    ),
    "link5": (
        ((0, 0, -0.24), (0, 0, -0.20), 0.055, 1.2),
        ((0, 0.055, -0.19), (0, 0.080, -0.05), 0.028, 0.8),
        ((0, 0.02, 0), (0, 0.07, 0), 0.045, 0.6),
    ),
    "link6": (
        ((0, 0, -0.03), (0, 0, 0.01), 0.048, 0.7),
        ((0.088, 0.0, 0.0), (0.088, -0.01, 0.0), 0.045, 0.8),
    ),
    "link7": (((0, 0, 0.045), (0, 0, 0.085), 0.043, 0.5),),
}


def set_physics(spec: mujoco.MjSpec) -> None:
    """Solver settings with which the gripper's contacts were measured (see `_hand`)."""
    spec.compiler.degree = False
    spec.option.timestep = TIMESTEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 100.0
    spec.option.iterations = 50


def add_robot(spec: mujoco.MjSpec) -> None:
    """Add the robot, its actuators and its cameras to a scene; joint positions are set at reset."""
    base = spec.worldbody.add_body(name="base")
    for name, kind, axis, hold, gain in (
        ("base_x", SLIDE, (1, 0, 0), BASE_HOLD_N, BASE_GAIN),
        ("base_y", SLIDE, (0, 1, 0), BASE_HOLD_N, BASE_GAIN),
        ("base_yaw", HINGE, (0, 0, 1), BASE_HOLD_NM, BASE_YAW_GAIN),
    ):
        # A stiff friction constraint: the brake creeps by less than a micrometre a second instead
        # of millimetres.
        stiff = {"solimp_friction": (0.9999, 0.9999, 0.001, 0.5, 2), "solref_friction": (0.01, 1)}
        base.add_joint(name=name, type=kind, axis=axis, frictionloss=hold, **stiff)
        _actuator(spec, name, gain=gain, bias=(0.0, 0.0, -gain), force=1500.0)
    _chassis(base)

    torso = base.add_body(name="torso", pos=(0, 0, MOUNT_HEIGHT_M), gravcomp=1)
    travel = {"range": (0, TORSO_TRAVEL_M), "limited": 1}
    torso.add_joint(name="torso", type=SLIDE, axis=(0, 0, 1), damping=200, **travel)
    _solid(torso, CYLINDER, (0, 0, -0.18), (0.085, 0.16, 0), GREY, 10, LINK)
    _actuator(spec, "torso", gain=2.0e5, bias=(0.0, -2.0e5, -8.0e3), force=4000.0)

    add_arm(spec, torso)


def add_arm(spec: mujoco.MjSpec, carrier: mujoco.MjsBody) -> None:
    """Mount the Panda with its gripper and wrist camera on a body, at its origin."""
    link = carrier.add_body(name="link0", gravcomp=1)
    link.add_site(name="mount", size=(0.005, 0.005, 0.005), rgba=(0, 0, 0, 0))
    _solid(link, CYLINDER, (0, 0, 0.03), (0.075, 0.03, 0), WHITE, 1.5, LINK)
    _capsule(link, (0, 0, 0.06), (0, 0, 0.14), 0.058, 1.4, LINK)
    for i, joint in enumerate(JOINTS):
        name = f"link{i + 1}"
        link = link.add_body(name=name, pos=_link_position(i), quat=_link_quaternion(i), gravcomp=1)
        link.add_joint(
            name=joint,
            type=HINGE,
            axis=(0, 0, 1),
            range=(LOWER_RAD[i], UPPER_RAD[i]),
            limited=1,
            armature=ARM_ARMATURE[i],
            damping=0.5,
            frictionloss=0.1,
        )
        for start, end, radius, mass in _LINKS[name]:
            _capsule(link, start, end, radius, mass, WRIST if i >= 4 else LINK)
        _actuator(spec, joint, gain=1.0, bias=(0.0, 0.0, 0.0), force=TORQUE_NM[i])
    _hand(spec, link)


def _solid(
    body: mujoco.MjsBody,
    shape: mujoco.mjtGeom,
    pos: Sequence[float],
    size: Sequence[float],
    rgba: Sequence[float],
    mass: float,
    mask: Mapping[str, float],
    **options: Any,
) -> None:
    geom = {"mass": mass, **mask, **options}
    body.add_geom(type=shape, pos=pos, size=size, rgba=rgba, **geom)


def _capsule(
    body: mujoco.MjsBody,
    start: Sequence[float],
    end: Sequence[float],
    radius: float,
    mass: float,
    mask: Mapping[str, int],
) -> None:
    ends, size = (*start, *end), (radius, 0, 0)
    body.add_geom(type=CAPSULE, fromto=ends, size=size, rgba=WHITE, mass=mass, **mask)


def _chassis(base: mujoco.MjsBody) -> None:
    _solid(base, BOX, (-0.16, 0, 0.145), (0.31, 0.23, 0.115), DARK, 110, CHASSIS)
    _solid(base, BOX, (-0.16, 0, 0.272), (0.30, 0.22, 0.012), GREY, 5, CHASSIS)
    strip = (CHASSIS_FRONT_M + 0.001, 0, 0.2)
    _solid(base, BOX, strip, (0.005, 0.16, 0.01), (0.2, 0.65, 0.9, 1), 0, VISUAL)
    for x, y in itertools.product((-0.38, 0.06), (-0.2, 0.2)):
        axle, size = (x, y - 0.03, 0.06, x, y + 0.03, 0.06), (0.06, 0, 0)
        base.add_geom(type=CYLINDER, fromto=axle, size=size, rgba=RUBBER, **VISUAL)
    target = np.array([0.60, 0.0, MOUNT_HEIGHT_M + 0.40])
    for name, y in (("left", 0.62), ("right", -0.62)):
        position = np.array([-0.26, y, MOUNT_HEIGHT_M + 1.18])
        turn = look_at(position, target)
        base.add_camera(name=name, pos=position, quat=turn, fovy=EXTERIOR_FOVY_DEG)


def _hand(spec: mujoco.MjSpec, link7: mujoco.MjsBody) -> None:
    half = HAND_YAW_RAD / 2
    turn = (math.cos(half), 0, 0, math.sin(half))
    hand = link7.add_body(name="hand", pos=(0, 0, FLANGE_M), quat=turn, gravcomp=1)
    _solid(hand, BOX, (0, 0, 0.032), (0.024, 0.098, 0.026), DARK, 0.6, WRIST)
    _solid(hand, CYLINDER, (0, 0, 0.0), (0.032, 0.012, 0), GREY, 0.1, WRIST)
    tip = (0, 0, TIP_M)
    hand.add_site(name="tip", pos=tip, size=(0.004, 0.004, 0.004), rgba=(0, 0, 0, 0))
    add_wrist_camera(hand)
    # Measured: stiff pads, elliptic cones and torsional friction keep a 0.3 kg load from creeping
    # (see test_grasp.py).
    grip = {
        "priority": 1,
        "condim": 4,
        "friction": (1.0, 0.01, 0.0001),
        "solref": (0.004, 1),
        "solimp": (0.95, 0.99, 0.001, 0.5, 2),
    }
    for side, sign in (("left", 1.0), ("right", -1.0)):
        name = f"finger_{side}"
        finger = hand.add_body(name=name, pos=(0, 0, 0.0584), gravcomp=1)
        travel = {"axis": (0, sign, 0), "range": (0, FINGER_TRAVEL_M), "limited": 1}
        finger.add_joint(name=name, type=SLIDE, armature=0.05, damping=10.0, **travel)
        _solid(finger, BOX, (0, sign * 0.012, 0.018), (0.010, 0.007, 0.018), GREY, 0.06, WRIST)
        pos, size = (0, sign * 0.0045, TIP_M - 0.0584), (0.011, 0.0045, 0.0125)
        _solid(finger, BOX, pos, size, PAD, 0.03, WRIST, name=f"pad_{side}", **grip)
        _actuator(spec, name, gain=3000.0, bias=(0.0, -3000.0, -60.0), force=FINGER_FORCE_N)
    coupling = spec.add_equality(
        type=mujoco.mjtEq.mjEQ_JOINT, name1="finger_left", name2="finger_right"
    )
    coupling.data[:5] = (0, 1, 0, 0, 0)
    coupling.solref = (0.005, 1)


def add_wrist_camera(hand: mujoco.MjsBody) -> None:
    """Beside the palm, looking along the fingers at the tip; with its housing."""
    position, target = np.array([0.075, 0.0, 0.015]), np.array([0.02, 0.0, TIP_M + 0.12])
    _solid(hand, BOX, (0.05, 0, 0.005), (0.012, 0.02, 0.012), RUBBER, 0, VISUAL, name="wrist")
    view = look_at(position, target, up=(1, 0, 0))
    hand.add_camera(name="wrist", pos=position, quat=view, fovy=WRIST_FOVY_DEG)


def _actuator(
    spec: mujoco.MjSpec, joint: str, *, gain: float, bias: tuple[float, float, float], force: float
) -> None:
    actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    actuator.gainprm[0] = gain
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.biasprm[:3] = bias
    actuator.forcelimited = 1
    actuator.forcerange = (-force, force)


def _link_position(i: int) -> tuple[float, float, float]:
    ca, sa = math.cos(ALPHA_RAD[i]), math.sin(ALPHA_RAD[i])
    return (A_M[i], -sa * D_M[i], ca * D_M[i])


def _link_quaternion(i: int) -> tuple[float, float, float, float]:
    return (math.cos(ALPHA_RAD[i] / 2), math.sin(ALPHA_RAD[i] / 2), 0.0, 0.0)


def look_at(position: Array, target: Array, up: Sequence[float] = (0, 0, 1)) -> Array:
    """Quaternion of a MuJoCo camera (looks along -z, y up) at `position` that looks at `target`."""
    z = (position - target) / np.linalg.norm(position - target)
    x = np.cross(np.asarray(up, dtype=float), z)
    x /= np.linalg.norm(x)
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.stack([x, np.cross(z, x), z], axis=1).ravel())
    return quaternion
