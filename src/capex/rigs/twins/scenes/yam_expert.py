"""The expert's plans for the YAM arms, stage by stage from where everything is.

The bowl is pinched and handed over with grippers that lean outwards as its wall does: the hands
stay apart, and a leaning gripper reaches higher than one that points straight down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from capex import plan
from capex.plan import ArmTarget, Waypoint, at, down, line, path
from capex.pose import DOWN, Array, Pose, matrix_to_euler, rotation_matrix
from capex.rigs.twins.scenes import Plans
from capex.rigs.twins.scenes.common import TABLE_TOP_M, touched_by, underside_m
from capex.rigs.twins.scenes.yam_rules import holds, touching_arms
from capex.rigs.twins.scenes.yam_things import (
    BOWL_BASE_M,
    BOWL_HEIGHT_M,
    BOWL_LEAN_RAD,
    BOWL_RIM_M,
    BOWL_WALL_M,
    PLATE_HEIGHT_M,
)

Steps = list[ArmTarget]
SIGN = {"left": 1.0, "right": -1.0}  # of the y on an arm's own side
HOVER_M = 0.12  # of the tip above the table: as high as a hand pointing down gets everywhere here
HALF_M = 0.055  # from the plate's middle to where a thing is put: fingers open beside the other
RELEASE_M = 0.006  # of an underside over what it is put on
WAIT_M = (0.22, 0.27, HOVER_M)  # where an arm is out of the other's way, on its own side
PINCH_M = 0.056  # of the tip above the bowl's underside
BACK_M = 0.07  # along the approach, from the rim
HANDOVER_M = (0.31, 0.0, 0.09)  # the bowl's underside in the air
NEAR_M = 0.02
SET_DOWN_M = (0.31, -0.20)


def bread_and_corn(model: mujoco.MjModel, data: mujoco.MjData) -> list[Waypoint]:
    """The left arm brings the bread while the right one waits over the corn; then the corn."""
    if not _put(model, data, "bread"):
        over = _over(data, "corn")
        if not holds(model, data, "left", "bread"):
            return together(_pick(model, data, "left", "bread"), _go(data, "right", over))
        return together(_place(model, data, "left", "bread"), [])
    if not _put(model, data, "corn"):
        if not holds(model, data, "right", "corn"):
            return together(_go(data, "left", WAIT_M), _pick(model, data, "right", "corn"))
        return together([], _place(model, data, "right", "corn"))
    return []


def _put(model: mujoco.MjModel, data: mujoco.MjData, thing: str) -> bool:
    return "plate" in touched_by(model, data, thing) and not touching_arms(model, data, thing)


def _over(data: mujoco.MjData, thing: str) -> Array:
    return np.array([*data.body(thing).xpos[:2], TABLE_TOP_M + HOVER_M])


def _go(data: mujoco.MjData, arm: str, to_m: Sequence[float] | Array) -> Steps:
    """Straight to a point of an arm's own side, pointing down."""
    x, y, z = to_m
    goal_m = np.array([x, SIGN[arm] * abs(y), z])
    return line(tip(data, arm).position_m, goal_m, down(0.0))


def _pick(model: mujoco.MjModel, data: mujoco.MjData, arm: str, thing: str) -> Steps:
    """Across its narrow side, half way up."""
    body, tip_m = data.body(thing), tip(data, arm).position_m
    yaw = math.atan2(body.xmat[3], body.xmat[0])
    over_m, grasp_m = _over(data, thing), body.xpos.copy()
    return [
        ArmTarget(gripper="open"),
        *line(tip_m, over_m, down(yaw)),
        *line(over_m, grasp_m, "keep", "close"),
        *line(grasp_m, over_m),
    ]


def _place(model: mujoco.MjModel, data: mujoco.MjData, arm: str, thing: str) -> Steps:
    """Lengthwise on its half of the plate, and away."""
    now, plate_m = tip(data, arm), data.body("plate").xpos
    offset_m = DOWN @ now.rotation.T @ (data.body(thing).xpos - now.position_m)
    below_m = now.position_m[2] - underside_m(model, data, thing)
    low_m = TABLE_TOP_M + PLATE_HEIGHT_M + RELEASE_M + below_m
    x, y = plate_m[:2] + np.array([0.0, SIGN[arm] * HALF_M]) - offset_m[:2]
    release_m, over_m = np.array([x, y, low_m]), np.array([x, y, TABLE_TOP_M + HOVER_M])
    aside_m = np.array([x - 0.06, y + SIGN[arm] * 0.10, TABLE_TOP_M + HOVER_M])
    return [
        *line(now.position_m, over_m, down(0.0)),
        *line(over_m, release_m, "keep", "release"),
        *path(release_m, [over_m, aside_m]),
    ]


def bowl_handover(model: mujoco.MjModel, data: mujoco.MjData) -> list[Waypoint]:
    """Pinch, lift and carry to the middle; pinch the other side; let go; set down."""
    left, right = (holds(model, data, arm, "bowl") for arm in ("left", "right"))
    at_bowl = thing_pose(data, "bowl")
    if left and right:
        return together(_let_go(data, "left"), [])
    if right:
        return together([], _set_down(data))
    if left:
        goal = Pose(np.array(HANDOVER_M), np.eye(3))
        if float(np.linalg.norm(at_bowl.position_m - goal.position_m)) > NEAR_M:
            return together(_carry(data, "left", goal), [])
        return together([], _pinch(data, "right"))
    if at_bowl.position_m[1] < 0.0:
        return []
    lift = Pose(at_bowl.position_m + np.array([0.0, 0.0, 0.06]), np.eye(3))
    return together(
        [*_pinch(data, "left"), _target(rim_grasp(lift, "left"))], _go(data, "right", WAIT_M)
    )


def rim_grasp(bowl: Pose, arm: str) -> Pose:
    """A gripper over the rim on an arm's own side, leaning outwards like the wall."""
    sign = SIGN[arm]
    lean = rotation_matrix(np.array([-sign * BOWL_LEAN_RAD, 0.0, 0.0]))
    radius_m = BOWL_BASE_M + (BOWL_RIM_M - BOWL_BASE_M) * PINCH_M / BOWL_HEIGHT_M
    pinched_m = np.array([0.0, sign * (radius_m - BOWL_WALL_M / 2), PINCH_M])
    return bowl @ Pose(pinched_m, lean @ DOWN)


def _pinch(data: mujoco.MjData, arm: str) -> Steps:
    """Open, come along the wall from above, and close on it."""
    grasp = rim_grasp(_turned_back(thing_pose(data, "bowl")), arm)
    before_m = _behind(grasp)
    lean = matrix_to_euler(grasp.rotation)
    return [
        ArmTarget(gripper="open"),
        *line(tip(data, arm).position_m, before_m, lean),
        *line(before_m, grasp.position_m, "keep", "close"),
    ]


def _turned_back(bowl: Pose) -> Pose:
    """A round bowl has no yaw: its pose with x as near to the base frame's as its tilt allows."""
    up = bowl.rotation[:, 2]
    y = np.cross(up, (1.0, 0.0, 0.0))
    y /= np.linalg.norm(y)
    return Pose(bowl.position_m, np.stack([np.cross(y, up), y, up], axis=1))


def _carry(data: mujoco.MjData, arm: str, goal: Pose) -> Steps:
    """Bring the bowl that an arm holds to a pose, upright, over no lower way than both ends."""
    now, bowl = tip(data, arm), _turned_back(thing_pose(data, "bowl"))
    there = goal @ (bowl.inverse() @ now)
    up_m = now.position_m.copy()
    up_m[2] = max(up_m[2], there.position_m[2])
    return path(now.position_m, [up_m, there.position_m], matrix_to_euler(there.rotation))


def _let_go(data: mujoco.MjData, arm: str) -> Steps:
    now = tip(data, arm)
    return [ArmTarget(gripper="release"), *line(now.position_m, _behind(now))]


def _set_down(data: mujoco.MjData) -> Steps:
    x, y = SET_DOWN_M
    over = Pose(np.array([x, y, HANDOVER_M[2]]), np.eye(3))
    steps = _carry(data, "right", over)
    now, bowl = tip(data, "right"), _turned_back(thing_pose(data, "bowl"))
    down_at = Pose(np.array([x, y, TABLE_TOP_M + 0.002]), np.eye(3)) @ (bowl.inverse() @ now)
    above_m, low_m = (over @ (bowl.inverse() @ now)).position_m, down_at.position_m
    back_m = _behind(down_at)
    return [*steps, *line(above_m, low_m, "keep", "release"), *line(low_m, back_m)]


def _behind(grasp: Pose) -> Array:
    return np.asarray(grasp.position_m - BACK_M * grasp.rotation[:, 2])


def _target(pose: Pose) -> ArmTarget:
    return at(pose.position_m, matrix_to_euler(pose.rotation))


def tip(data: mujoco.MjData, arm: str) -> Pose:
    """Where an arm's tip is."""
    site = data.site(f"{arm}_tip")
    return Pose(site.xpos.copy(), site.xmat.reshape(3, 3).copy())


def thing_pose(data: mujoco.MjData, name: str) -> Pose:
    """Where a thing is."""
    body = data.body(name)
    return Pose(body.xpos.copy(), body.xmat.reshape(3, 3).copy())


def together(left: Steps, right: Steps) -> list[Waypoint]:
    """Both arms' steps side by side; an arm that has no more keeps still."""
    return plan.together({"left": left, "right": right})


EXPERT: dict[str, Plans] = {"BreadAndCorn": bread_and_corn, "BowlHandover": bowl_handover}
