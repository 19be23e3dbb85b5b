"""A toy world for tests: arms without links, a base, boxes, balls, and true images of them, in plain numpy.

Frames: the floor frame is fixed, z = 0 on the floor; the base frame rides with the base, `MOUNT_M` above the floor. Boxes stop
tips (and so the base) and count as touched by the fingers; a ball between closing fingers is held and rides along. Everything is
kinematic and deterministic; the state is a dictionary of arrays, so that saving is concatenating them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from capex.errors import BadCommand, CapexError, StateMismatch, Unsupported
from capex.pose import DOWN, Array, Pose, rotation_matrix, rotation_vector, yaw_matrix
from capex.worlds import (
    ArmCommand,
    ArmSpec,
    ArmState,
    BaseSpec,
    CameraModel,
    CameraSpec,
    Command,
    Contact,
    DepthImage,
    Env,
    Image,
    RobotState,
    Spec,
    Start,
    State,
)
from capex.worlds.limits import validate_command

MOUNT_M = 0.5
FINGER_M = 0.015  # radius of a fingertip
TOUCH_M = 0.0015  # nearer than this to a box is touching it
GRASP_M = 0.015  # a ball whose centre is this near the tip is between the fingers
HOME_M = {"left": (0.45, 0.2, 0.15), "right": (0.45, -0.2, 0.15)}
LIGHT = np.array([0.3, 0.5, 0.8])


@dataclass(frozen=True)
class Box:
    """An axis-aligned box with a name."""

    name: str
    lower_m: tuple[float, float, float]
    upper_m: tuple[float, float, float]

    def holds(self, point_m: Array, margin_m: float = 0.0) -> bool:
        """Whether a point lies inside, or within a margin of it."""
        return bool(
            np.all(point_m >= np.subtract(self.lower_m, margin_m))
            and np.all(point_m <= np.add(self.upper_m, margin_m))
        )


@dataclass(frozen=True)
class Ball:
    """A ball that can be grasped, by its centre in the floor frame."""

    name: str
    centre_m: tuple[float, float, float]
    radius_m: float = 0.02


@dataclass(frozen=True)
class Toy:
    """What a toy world contains and claims. `success` must be a module-level function where a process is spawned."""

    arms: tuple[str, ...] = ("left", "right")
    boxes: tuple[Box, ...] = ()  # floor frame: they stop a tip and touch its fingers
    forearm: tuple[
        Box, ...
    ] = ()  # floor frame: a tip inside makes the forearm touch a thing of that name
    limits: tuple[
        Box, ...
    ] = ()  # base frame: a tip cannot enter, and reports the joint of that name at its limit
    balls: tuple[Ball, ...] = ()
    walls_m: float = 2.0  # the base stays within this distance of the origin, along x and y
    success: Callable[[ToyEnv], bool] | None = None
    speed_m: float = 0.02  # the most that a tip moves in a tick, and turns and fingers likewise
    speed_rad: float = 0.1
    finger_speed_m: float = 0.01
    max_step_m: float = 0.05
    max_opening_m: float = 0.08
    mobile: bool = True
    depth: bool = True
    calibrated: bool = True
    judge: Literal["world", "operator"] = "world"
    can_reset: bool = True
    can_save: bool = True
    real_time: bool = False
    size: tuple[int, int] = (96, 96)


class ToyEnv(Env):
    """The toy world. Subclasses override `_shade` or any method of the protocol to break a rule."""

    def __init__(self, toy: Toy | None = None):
        self.toy = toy = toy or Toy()
        names = [
            f"{a}_{n}"
            for a in toy.arms
            for n in ("move", "dx", "dy", "dz", "rx", "ry", "rz", "gripper")
        ]
        exterior = tuple(CameraSpec(n, "exterior", toy.size) for n in ("back_left", "back_right"))
        self._spec = Spec(
            world="toy",
            task="reach",
            horizon=200,
            control_hz=20.0,
            arms=tuple(ArmSpec(a, toy.max_opening_m, toy.max_step_m, 0.3) for a in toy.arms),
            cameras=exterior
            + tuple(CameraSpec(f"{a}_wrist", "wrist", toy.size, a) for a in toy.arms),
            workspace_m=((0.15, -0.5, -0.3), (0.8, 0.5, 0.6)),
            action_names=(*names, *(("base_vx", "base_vy", "base_wz") if toy.mobile else ())),
            state_names=tuple(f"{a}_{n}" for a in toy.arms for n in ("x", "y", "z", "opening")),
            starts=20,
            base=BaseSpec(0.5, 1.0) if toy.mobile else None,
            depth=toy.depth,
            success=toy.judge,
            can_reset=toy.can_reset,
            can_save=toy.can_save,
            real_time=toy.real_time,
        )
        self.reset(Start("reach", 0))

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def instruction(self) -> str:
        return "Reach for something."

    def reset(self, start: Start) -> None:
        if start.task != self._spec.task or not 0 <= start.index < self._spec.starts:
            raise CapexError(
                f"start {start.index} of task '{start.task}'; valid are 0 to {self._spec.starts - 1} of 'reach'"
            )
        self._header = f"toy:{start.task}:{start.index}:{start.seed}"
        shift_m = (
            (start.index * 17 + start.seed * 5) % 41
        ) / 1000.0  # start 0 of seed 0 stands exactly at home
        self._x: dict[str, Array] = {"base": np.zeros(3)}
        for arm in self.toy.arms:
            home = np.add(HOME_M[arm], [0.0, shift_m, 0.0])
            self._x |= {
                f"{arm} tip": home,
                f"{arm} goal": home.copy(),
                f"{arm} R": DOWN.copy(),
                f"{arm} goal R": DOWN.copy(),
            }
            self._x |= {
                f"{arm} opening": np.array([self.toy.max_opening_m]),
                f"{arm} held": np.array([-1.0, 0.0, 0.0, 0.0]),
            }
        self._x |= {f"ball {i}": np.array(ball.centre_m) for i, ball in enumerate(self.toy.balls)}
        if start.state is not None:
            self.load_state(start.state)

    def robot_state(self) -> RobotState:
        arms, contacts, proprio = {}, set(), []
        for arm in self.toy.arms:
            tip, held = self._x[f"{arm} tip"], self._held(arm)
            floor = self.to_floor(tip)
            touched = {b.name for b in self.toy.boxes if b.holds(floor, TOUCH_M)} | (
                {held.name} if held else set()
            )
            contacts |= {
                Contact(f"{arm} forearm", b.name) for b in self.toy.forearm if b.holds(floor)
            }
            arms[arm] = ArmState(
                T_base_tip=Pose(tip.copy(), self._x[f"{arm} R"].copy()),
                opening_m=float(self._x[f"{arm} opening"][0]),
                hand_contacts=frozenset(Contact(f"{arm} fingers", name) for name in touched),
                finger_contact=bool(touched),
                held=frozenset({held.name} if held else ()),
                joints_at_limit=tuple(b.name for b in self.toy.limits if b.holds(tip, TOUCH_M)),
            )
            proprio += [*tip, self._x[f"{arm} opening"][0]]
        x, y, yaw = (float(v) for v in self._x["base"])
        return RobotState(
            arms, frozenset(contacts), (x, y, yaw) if self.toy.mobile else None, np.array(proprio)
        )

    def step(self, command: Command) -> Array:
        validate_command(self._spec, command)
        rows = [self._row(command.arms[arm]) for arm in self.toy.arms]
        action = np.concatenate(
            [*rows, (command.base_velocity or (0.0, 0.0, 0.0)) if self.toy.mobile else ()]
        )
        self.apply(action)
        return action

    @staticmethod
    def _row(arm: ArmCommand) -> Array:
        return np.array(
            [
                float(arm.step_m is not None),
                *(arm.step_m or (0.0, 0.0, 0.0)),
                *arm.step_rad,
                arm.gripper,
            ]
        )

    def apply(self, action: Array) -> None:
        n = len(self._spec.action_names)
        if action.shape != (n,) or not np.all(np.isfinite(action)):
            raise BadCommand(
                f"action {action.tolist()} has shape {action.shape}; it must be {n} finite numbers"
            )
        if self.toy.mobile:
            self._drive(action[-3:] / self._spec.control_hz)
        for k, arm in enumerate(self.toy.arms):
            row = action[8 * k : 8 * k + 8]
            if row[0] > 0:
                self._x[f"{arm} goal"][:] = self._x[f"{arm} tip"] + row[1:4]
                self._x[f"{arm} goal R"][:] = rotation_matrix(row[4:7]) @ self._x[f"{arm} R"]
            self._servo(arm)
            self._grip(arm, float(row[7]))

    def _drive(self, step: Array) -> None:
        before = self._x["base"].copy()
        base = (
            before + yaw_matrix(before[2]) @ step
        )  # the turn about the vertical leaves the third, the yaw, as it is
        base[:2] = np.clip(base[:2], -self.toy.walls_m, self.toy.walls_m)
        self._x["base"][:] = base
        if any(
            box.holds(self.to_floor(self._x[f"{arm} tip"]))
            for arm in self.toy.arms
            for box in self.toy.boxes
        ):
            self._x["base"][:] = before
        for arm in self.toy.arms:
            self._carry(arm)

    def _servo(self, arm: str) -> None:
        """Move the tip towards its goal, in steps of a millimetre so that it stops before what is in its way."""
        tip, R = self._x[f"{arm} tip"], self._x[f"{arm} R"]
        error, turn = self._x[f"{arm} goal"] - tip, rotation_vector(self._x[f"{arm} goal R"] @ R.T)
        error *= min(1.0, self.toy.speed_m / max(float(np.linalg.norm(error)), 1e-12))
        turn *= min(1.0, self.toy.speed_rad / max(float(np.linalg.norm(turn)), 1e-12))
        R[:] = rotation_matrix(turn) @ R
        pieces = max(1, math.ceil(float(np.linalg.norm(error)) / 0.001))
        for _ in range(pieces):
            ahead = tip + error / pieces
            if any(b.holds(self.to_floor(ahead)) for b in self.toy.boxes) or any(
                b.holds(ahead) for b in self.toy.limits
            ):
                break
            tip[:] = ahead
        self._carry(arm)

    def _grip(self, arm: str, gripper: float) -> None:
        opening, held = self._x[f"{arm} opening"], self._x[f"{arm} held"]
        target = float(
            np.clip(opening[0] - gripper * self.toy.finger_speed_m, 0.0, self.toy.max_opening_m)
        )
        for i, ball in enumerate(self.toy.balls):
            offset = self.to_floor(self._x[f"{arm} tip"]) - self._x[f"ball {i}"]
            between = (
                float(np.linalg.norm(offset)) <= GRASP_M
                and opening[0] >= 2 * ball.radius_m >= target
            )
            if gripper > 0 and held[0] < 0 and between:
                held[:] = [i, *(self._hand_rotation(arm).T @ -offset)]
        if held[0] >= 0:
            width = 2 * self.toy.balls[int(held[0])].radius_m
            target = max(target, width)
            if target > width:
                held[:] = [-1.0, 0.0, 0.0, 0.0]
        opening[0] = target

    def _carry(self, arm: str) -> None:
        held = self._x[f"{arm} held"]
        if held[0] >= 0:
            self._x[f"ball {int(held[0])}"][:] = (
                self.to_floor(self._x[f"{arm} tip"]) + self._hand_rotation(arm) @ held[1:]
            )

    def _held(self, arm: str) -> Ball | None:
        index = int(self._x[f"{arm} held"][0])
        return self.toy.balls[index] if index >= 0 else None

    def _hand_rotation(self, arm: str) -> Array:
        return np.asarray(yaw_matrix(float(self._x["base"][2])) @ self._x[f"{arm} R"])

    def to_floor(self, point_m: Array) -> Array:
        """Base frame to floor frame."""
        x, y, yaw = self._x["base"]
        return np.asarray(yaw_matrix(float(yaw)) @ point_m + [x, y, MOUNT_M])

    def ball_m(self, name: str) -> Array:
        """Centre of a ball in the floor frame."""
        return self._x[f"ball {[b.name for b in self.toy.balls].index(name)}"].copy()

    def success(self) -> bool | None:
        if self.toy.judge == "operator":
            return None
        return bool(self.toy.success(self)) if self.toy.success else False

    def observe(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        names = [c.name for c in self._spec.cameras] if cameras is None else cameras
        return {name: self._shade(name, size or self._spec.camera(name).size)[0] for name in names}

    def depth(self, camera: str, size: tuple[int, int] | None = None) -> DepthImage:
        size = size or self._spec.camera(camera).size
        if not self.toy.depth:
            raise Unsupported("this toy has no depth")
        return DepthImage(
            self._shade(camera, size)[1].astype(np.float32), self._camera(camera, size)
        )

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> CameraModel:
        if not self.toy.calibrated:
            raise Unsupported("this toy's cameras are not calibrated")
        return self._camera(camera, size or self._spec.camera(camera).size)

    def _camera(self, camera: str, size: tuple[int, int]) -> CameraModel:
        spec, (width, height) = self._spec.camera(camera), size
        f = 0.9 * height
        K = np.array([[f, 0.0, width / 2], [0.0, f, height / 2], [0.0, 0.0, 1.0]])
        if spec.kind == "exterior":
            y = 0.35 if camera == "back_left" else -0.35
            return CameraModel(K, look_at((-0.5, y, 0.8), (0.5, 0.0, 0.1), (0.0, 0.0, 1.0)))
        tip, R = self._x[f"{spec.arm} tip"], self._x[f"{spec.arm} R"]
        on_hand = look_at((-0.07, 0.0, -0.14), (0.01, 0.0, 0.1), (1.0, 0.0, 0.0))
        return CameraModel(K, Pose(tip + R @ on_hand.position_m, R @ on_hand.rotation))

    def _shade(self, camera: str, size: tuple[int, int]) -> tuple[Image, Array]:
        """Image and depth by casting a ray through each pixel at the floor, the boxes, the balls and the fingertips."""
        model = self._camera(camera, size)
        yaw = yaw_matrix(float(self._x["base"][2]))
        eye, R = self.to_floor(model.T_base_camera.position_m), yaw @ model.T_base_camera.rotation
        v, u = np.mgrid[0 : size[1], 0 : size[0]] + 0.5
        rays = (
            np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(model.intrinsics).T @ R.T
        )  # of unit depth
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = np.where(rays[..., 2] < -1e-6, -eye[2] / rays[..., 2], np.inf)
            x, y = (
                np.where(np.isfinite(depth), eye[i] + depth * rays[..., i], 0.0) for i in (0, 1)
            )
            tiles = np.stack(
                [np.sin(9 * x + 4 * y), np.sin(7 * y - 3 * x), np.sin(5 * x) * np.sin(6 * y)], -1
            )
            colour = np.where(
                np.isfinite(depth)[..., None], 120 + 50 * tiles, 200 + 40 * rays[..., 2:3]
            )
            for box in self.toy.boxes:
                a, b = (np.subtract(box.lower_m, eye) / rays, np.subtract(box.upper_m, eye) / rays)
                near, far = np.minimum(a, b).max(-1), np.maximum(a, b).min(-1)
                hit = (near < far) & (near > 0) & (near < depth)
                depth[hit], colour[hit] = near[hit], [150.0, 100.0, 60.0]
            for centre, radius, paint in self._spheres():
                near = _ray_sphere(eye, rays, centre, radius)
                hit = near < depth
                facing = 0.6 + 0.4 * (
                    ((eye + near[hit][:, None] * rays[hit] - centre) / radius) @ LIGHT
                )
                depth[hit], colour[hit] = near[hit], facing[:, None] * paint
        return np.clip(colour, 0, 255).astype(np.uint8), depth

    def _spheres(self) -> list[tuple[Array, float, Array]]:
        spheres = [
            (self._x[f"ball {i}"], ball.radius_m, np.array([60.0, 180.0, 70.0]))
            for i, ball in enumerate(self.toy.balls)
        ]
        for arm in self.toy.arms:
            tip, reach = (
                self.to_floor(self._x[f"{arm} tip"]),
                float(self._x[f"{arm} opening"][0]) / 2 + FINGER_M,
            )
            for sign, paint in (
                (1.0, np.array([230.0, 60.0, 50.0])),
                (-1.0, np.array([60.0, 70.0, 230.0])),
            ):
                spheres.append(
                    (tip + sign * reach * self._hand_rotation(arm)[:, 1], FINGER_M, paint)
                )
        return spheres

    def save_state(self) -> State:
        if not self.toy.can_save:
            raise Unsupported("this toy saves no state")
        return State(self._header, np.concatenate([a.ravel() for a in self._x.values()]))

    def load_state(self, state: State) -> None:
        if state.header != self._header:
            raise StateMismatch(f"a state of '{state.header}' does not belong to '{self._header}'")
        ends = np.cumsum([a.size for a in self._x.values()])
        for array, part in zip(self._x.values(), np.split(state.vector, ends[:-1]), strict=True):
            array[:] = part.reshape(array.shape)

    def close(self) -> None:
        """Nothing to free."""


def look_at(position: Sequence[float], target: Sequence[float], up: Sequence[float]) -> Pose:
    """Pose of a camera (x right, y down, z ahead)."""
    z = np.subtract(target, position) / np.linalg.norm(np.subtract(target, position))
    x = np.cross(z, up) / np.linalg.norm(np.cross(z, up))
    return Pose(np.array(position), np.stack([x, np.cross(z, x), z], axis=1))


def _ray_sphere(eye: Array, rays: Array, centre: Array, radius: float) -> Array:
    """Distance along each ray, in units of its length, to a sphere; infinite where it misses."""
    to = eye - centre
    a, b, c = (rays * rays).sum(-1), rays @ to, float(to @ to) - radius * radius
    root = b * b - a * c
    near = (-b - np.sqrt(np.maximum(root, 0.0))) / a
    return np.where((root > 0) & (near > 0), near, np.inf)
