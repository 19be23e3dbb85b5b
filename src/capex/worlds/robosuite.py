"""robosuite's Lift with a fixed-base Panda behind the Env contract: a world that this project did not write.

Native action, robosuite's own: tip dx dy dz (x 0.05 m) | axis-angle (x 0.5 rad), base frame | gripper -1 open, +1 close.

Hold. robosuite's operational-space controller anchors every goal to the achieved pose, so a zero action lets a load sink. A
command without a step therefore servoes toward the last goal: the pose that the previous native action pointed at, or the tip at
reset. That goal follows from the native actions alone, so replaying them with `apply` gives the same bits.

Start. Every reset builds a new robosuite environment from one seed: the cube's size and place and the arm's noise come from its
generator, and nothing of the previous episode can leak through robosuite's Python objects. The cube starts 1 cm above the table,
as robosuite has it.

robosuite is imported when the first environment is made. Rendering is ours (`worlds.render`); robosuite opens no GL context.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from capex.errors import BadCommand, CapexError, PhysicsDiverged, StateMismatch
from capex.pose import Array, Pose, quaternion_xyzw, rotation_matrix, rotation_vector
from capex.worlds import (
    ROBOSUITE_INSTALL,
    ArmCommand,
    ArmSpec,
    ArmState,
    CameraModel,
    CameraSpec,
    Command,
    Contact,
    DepthImage,
    Env,
    Image,
    ModelFile,
    RobotState,
    Spec,
    Start,
    State,
    TaskInfo,
    validate_command,
)
from capex.worlds.render import Renderer, intrinsics

TASKS = {
    "Lift": TaskInfo(
        name="Lift",
        family="Pick and place",
        horizon=500,
        instruction="Lift the red cube from the table.",
        criterion="the cube's centre is more than 4 cm above the table top",
    )
}
# --no-deps: robosuite asks for mink 0.0.5, which needs numpy < 2, and puts no cap on mujoco, of which 3.10 and later break it.

STEP_M = 0.05
STEP_RAD = 0.5
MAX_OPENING_M = 0.08
LIMIT_MARGIN_RAD = 0.02
ACTION_NAMES = ("eef_dx", "eef_dy", "eef_dz", "eef_rx", "eef_ry", "eef_rz", "gripper")
STATE_NAMES = ("eef_x", "eef_y", "eef_z", "eef_qx", "eef_qy", "eef_qz", "eef_qw", "finger_left", "finger_right")
WORKSPACE_M = ((0.25, -0.30, -0.10), (0.70, 0.30, 0.40))  # the table top is 11 cm below the mount
STARTS = 10_000

# Contract name -> robosuite's name. Two of the table's cameras are moved behind the arm.
_CAMERAS = {"left": "frontview", "right": "sideview", "wrist": "robot0_eye_in_hand"}
_EXTERIOR_M = {"left": (-0.25, 0.5, 0.75), "right": (-0.25, -0.5, 0.75)}  # in the base frame
_LOOK_AT_M = (0.48, 0.0, 0.02)
_EXTERIOR_FOVY_DEG = 50.0
_OPENCV = np.diag([1.0, -1.0, -1.0])  # MuJoCo's cameras look along -z with y up

# Columns are the tip's axes in robosuite's grip site, whose fingers close along x.
_SITE_TIP = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])

_FINGERS = ("left finger", "right finger")
_HAND = ("palm", *_FINGERS)
_PARTS = {  # body -> the name that reports use
    "robot0_link0": "arm mount",
    "robot0_link1": "shoulder",
    "robot0_link2": "shoulder",
    "robot0_link3": "upper arm",
    "robot0_link4": "elbow",
    "robot0_link5": "forearm",
    "robot0_link6": "wrist",
    "robot0_link7": "wrist",
    "gripper0_right_right_gripper": "palm",
    "gripper0_right_leftfinger": "left finger",
    "gripper0_right_finger_joint1_tip": "left finger",
    "gripper0_right_rightfinger": "right finger",
    "gripper0_right_finger_joint2_tip": "right finger",
    "fixed_mount0_controller_box": "pedestal",
    "fixed_mount0_pedestal_feet": "pedestal",
    "fixed_mount0_pedestal": "pedestal",
}
_BLOWN_UP = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
    mujoco.mjtWarning.mjWARN_BADCTRL,
)
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_OWN_NUMBERS = 16  # after MuJoCo's: gripper integrator 2, goal position 3, goal rotation 9, step counter, robosuite's clock


def make(world: str, task: str) -> Env:
    """The environment of a task; robosuite is imported here."""
    return RobosuiteEnv(world, task)


class RobosuiteEnv:
    """One Panda on a table, 20 Hz. See the module's text for hold and start."""

    def __init__(self, world: str, task: str):
        self._robosuite = _import_robosuite()
        self._spec = Spec(
            world=world,
            task=task,
            horizon=TASKS[task].horizon,
            control_hz=20.0,
            arms=(ArmSpec("arm", MAX_OPENING_M, STEP_M, STEP_RAD),),
            cameras=(CameraSpec("left", "exterior"), CameraSpec("right", "exterior"), CameraSpec("wrist", "wrist", arm="arm")),
            workspace_m=WORKSPACE_M,
            action_names=ACTION_NAMES,
            state_names=STATE_NAMES,
            starts=STARTS,
            depth=True,
        )
        self._env: Any = None
        self._renderer: Renderer | None = None

    @property
    def spec(self) -> Spec:
        """What this world claims."""
        return self._spec

    @property
    def instruction(self) -> str:
        """The task in words; the same for every start."""
        return TASKS[self._spec.task].instruction

    def reset(self, start: Start) -> None:
        """Build the start anew from its seed, or continue from its saved state."""
        if start.task != self._spec.task:
            raise CapexError(f"the start is of task '{start.task}'; this environment is {self._spec.name}")
        if not 0 <= start.index < STARTS or start.seed < 0:
            raise CapexError(f"start {start.index} with seed {start.seed}; starts are 0 to {STARTS - 1}, seeds 0 or more")
        self.close()
        self._arguments = {
            "robots": "Panda",
            "seed": [start.seed, start.index],  # goes to numpy's default_rng
            "control_freq": int(self._spec.control_hz),
            "ignore_done": True,
            "use_camera_obs": False,
            "use_object_obs": False,
            "has_renderer": False,
            "has_offscreen_renderer": False,
            "renderer": "mujoco",
        }
        self._env = self._robosuite.make(self._spec.task, **self._arguments)
        self._env._observables.clear()  # unused here, and computed at each of the 25 substeps
        self._model, self._data = self._env.sim.model._model, self._env.sim.data._data
        self._header = json.dumps(
            {
                "world": self._spec.world,
                "task": start.task,
                "start": start.index,
                "seed": start.seed,
                "robosuite": self._robosuite.__version__,
                "mujoco": mujoco.__version__,
            }
        )
        self._index_model()
        self._place_cameras()
        mujoco.mj_forward(self._model, self._data)
        self._expect_new_state()
        self._goal = self._tip()
        if start.state is not None:
            self.load_state(start.state)

    def robot_state(self) -> RobotState:
        """Proprioception and contacts, as the last tick left them."""
        self._require_reset()
        data, tip = self._data, self._tip()
        hand, others, gripped = self._contacts()
        fingers = data.qpos[self._finger_qpos]
        q = data.qpos[self._arm_qpos]
        near = np.minimum(q - self._arm_range[:, 0], self._arm_range[:, 1] - q) < LIMIT_MARGIN_RAD
        arm = ArmState(
            T_base_tip=tip,
            opening_m=float(fingers[0] - fingers[1]),
            hand_contacts=frozenset(hand),
            finger_contact=any(contact.part in _FINGERS for contact in hand),
            held=frozenset(gripped),
            joints_at_limit=tuple(f"j{i + 1}" for i in np.flatnonzero(near)),
        )
        proprio = np.concatenate([tip.position_m, quaternion_xyzw(tip.rotation), fingers])
        return RobotState(arms={"arm": arm}, contacts=frozenset(others), proprio=proprio)

    def step(self, command: Command) -> Array:
        """One 20 Hz command: translated to the seven native numbers, applied, returned."""
        validate_command(self._spec, command)
        self._require_reset()
        arm = command.arms["arm"]
        step_m, step_rad = self._step_toward_goal() if arm.step_m is None else _arrays(arm)
        action = np.clip([*(step_m / STEP_M), *(step_rad / STEP_RAD), arm.gripper], -1.0, 1.0)
        self.apply(action)
        return action

    def apply(self, action: Array) -> None:
        """One native action; refused before physics is touched if it is not seven finite numbers in [-1, 1]."""
        action = _checked_action(action)
        self._require_reset()
        self._require_sound()
        tip = self._tip()
        self._goal = Pose(tip.position_m + STEP_M * action[:3], rotation_matrix(STEP_RAD * action[3:6]) @ tip.rotation)
        self._env.step(action)
        # robosuite ends its tick before contacts and poses are recomputed; once they are, observing has nothing left to do.
        mujoco.mj_forward(self._model, self._data)
        self._require_sound()

    def success(self) -> bool:
        """robosuite's own check; a diverged simulation is never a success."""
        self._require_reset()
        return not self._diverged and bool(self._env._check_success())

    def observe(self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None) -> dict[str, Image]:
        """Upright RGB images by camera name."""
        self._require_reset()
        names = [camera.name for camera in self._spec.cameras] if cameras is None else cameras
        specs = [self._spec.camera(name) for name in names]
        return {c.name: self._render().rgb(self._data, self._camera_id(c.name), size or c.size) for c in specs}

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> CameraModel:
        """Exact intrinsics and pose of a camera."""
        self._require_reset()
        spec, number = self._spec.camera(camera), self._camera_id(camera)
        pose = self._in_base(self._data.cam_xpos[number], self._data.cam_xmat[number].reshape(3, 3) @ _OPENCV)
        return CameraModel(intrinsics(float(self._model.cam_fovy[number]), size or spec.size), pose)

    def depth(self, camera: str, size: tuple[int, int] | None = None) -> DepthImage:
        """Metric depth along the optical axis, infinite where nothing is seen."""
        model = self.camera_model(camera, size)
        size = size or self._spec.camera(camera).size
        return DepthImage(self._render().depth(self._data, self._camera_id(camera), size), model)

    def save_state(self) -> State:
        """Everything needed to continue bit for bit."""
        self._require_reset()
        physics = np.empty(mujoco.mj_stateSize(self._model, _STATE))
        mujoco.mj_getState(self._model, self._data, physics, _STATE)
        # The controller's own goal is not here: each tick recomputes it from the achieved pose before using it.
        gripper = np.broadcast_to(self._gripper.current_action, 2)
        clocks = [self._env.timestep, self._env.cur_time]
        return State(self._header, np.concatenate([physics, gripper, self._goal.position_m, self._goal.rotation.ravel(), clocks]))

    def load_state(self, state: State) -> None:
        """Continue from a state of this world, task, start and versions; any other is refused."""
        self._require_reset()
        if state.header != self._header:
            raise StateMismatch(f"the state belongs to {state.header}; this environment is at {self._header}")
        size = mujoco.mj_stateSize(self._model, _STATE)
        if state.vector.shape != (size + _OWN_NUMBERS,) or not np.all(np.isfinite(state.vector)):
            raise StateMismatch(f"the state needs {size + _OWN_NUMBERS} finite numbers; it has shape {state.vector.shape}")
        physics, own = state.vector[:size], state.vector[size:]
        for warning in _BLOWN_UP:
            self._data.warning[warning].number = 0
        mujoco.mj_setState(self._model, self._data, physics, _STATE)
        mujoco.mj_forward(self._model, self._data)
        mujoco.mj_setState(self._model, self._data, physics, _STATE)  # again: mj_forward moved the solver's warm start
        self._gripper.current_action = own[:2].copy()
        self._goal = Pose(own[2:5].copy(), own[5:14].reshape(3, 3).copy())
        self._env.timestep, self._env.cur_time = int(own[14]), float(own[15])
        self._expect_new_state()

    def model_file(self) -> ModelFile:
        """robosuite's own XML and arguments; a saved state begins with time, positions and velocities."""
        self._require_reset()
        version, robosuite_type = self._robosuite.__version__, 1  # robomimic's number for robosuite
        arguments = {"env_name": self._spec.task, "env_version": version, "type": robosuite_type, "env_kwargs": self._arguments}
        return ModelFile(self._env.model.get_xml(), 1 + int(self._model.nq) + int(self._model.nv), arguments)

    def close(self) -> None:
        """Free the renderer and the simulation."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        if self._env is not None:
            self._env.close()
            self._env = self._model = self._data = None

    def _require_reset(self) -> None:
        if self._env is None:
            raise CapexError(f"{self._spec.name} has no scene yet; call reset(start) first")

    @property
    def _diverged(self) -> bool:
        # MuJoCo resets itself when it meets a value that is not finite; its warning counters keep the trace.
        return any(self._data.warning[w].number for w in _BLOWN_UP) or not np.all(np.isfinite(self._data.qacc))

    def _require_sound(self) -> None:
        if self._diverged:
            raise PhysicsDiverged(f"{self._spec.name} diverged at step {self._env.timestep}; the episode is invalid, reset it")

    @property
    def _gripper(self) -> Any:
        return self._env.robots[0].gripper["right"]

    def _expect_new_state(self) -> None:
        """Make robosuite's controllers read the present state at the next tick instead of one they cached."""
        for controller in self._env.robots[0].composite_controller.part_controllers.values():
            controller.new_update = True

    def _index_model(self) -> None:
        model = self._model
        arm = [model.joint(f"robot0_joint{i + 1}") for i in range(7)]
        self._arm_qpos = [int(joint.qposadr[0]) for joint in arm]
        self._arm_range = np.array([joint.range for joint in arm])
        self._finger_qpos = [int(model.joint(f"gripper0_right_finger_joint{i}").qposadr[0]) for i in (1, 2)]
        self._mount_id = model.site("robot0_right_center").id
        self._site_id = model.site("gripper0_right_grip_site").id
        bodies = [model.body(int(body)).name for body in model.geom_bodyid]
        self._geom_part = [_PARTS.get(body, "") for body in bodies]
        self._geom_thing = [model.geom(i).name if body == "world" else body.removesuffix("_main") for i, body in enumerate(bodies)]
        # robosuite draws group 1 only: 0 holds the collision shapes, 2 the targets of controllers not used here.
        model.geom_group[model.geom_group != 1] = 5

    def _place_cameras(self) -> None:
        mujoco.mj_kinematics(self._model, self._data)
        mount = self._data.site(self._mount_id)
        for name, position_m in _EXTERIOR_M.items():
            camera = self._model.camera(_CAMERAS[name])
            back = np.subtract(position_m, _LOOK_AT_M)
            z = back / np.linalg.norm(back)
            x = np.cross((0.0, 0.0, 1.0), z)
            x /= np.linalg.norm(x)
            R = mount.xmat.reshape(3, 3)
            camera.pos = mount.xpos + R @ position_m
            mujoco.mju_mat2Quat(camera.quat, (R @ np.stack([x, np.cross(z, x), z], axis=1)).ravel())
            camera.fovy = _EXTERIOR_FOVY_DEG

    def _camera_id(self, camera: str) -> int:
        return int(self._model.camera(_CAMERAS[camera]).id)

    def _render(self) -> Renderer:
        if self._renderer is None:
            self._renderer = Renderer(self._model)
        return self._renderer

    def _in_base(self, position_m: Array, rotation: Array) -> Pose:
        mount_m, R = self._data.site_xpos[self._mount_id], self._data.site_xmat[self._mount_id].reshape(3, 3)
        return Pose(R.T @ (position_m - mount_m), R.T @ rotation)

    def _tip(self) -> Pose:
        rotation = self._data.site_xmat[self._site_id].reshape(3, 3) @ _SITE_TIP
        return self._in_base(self._data.site_xpos[self._site_id], rotation)

    def _step_toward_goal(self) -> tuple[Array, Array]:
        tip = self._tip()
        step_rad = rotation_vector(self._goal.rotation @ tip.rotation.T)
        return _shortened(self._goal.position_m - tip.position_m, STEP_M), _shortened(step_rad, STEP_RAD)

    def _contacts(self) -> tuple[set[Contact], set[Contact], set[str]]:
        """Contacts of the hand, those of other parts, and the things that both fingers touch along the closing direction."""
        contacts = self._data.contact
        active = contacts.efc_address >= 0
        closing = self._data.site_xmat[self._site_id].reshape(3, 3)[:, 0]
        along = np.abs(contacts.frame[active, :3] @ closing) > 0.5
        hand: set[Contact] = set()
        others: set[Contact] = set()
        gripped: dict[str, set[str]] = {finger: set() for finger in _FINGERS}
        for (a, b), sideways in zip(contacts.geom[active], along, strict=True):
            if bool(self._geom_part[a]) == bool(self._geom_part[b]):
                continue  # between two things, or two parts of the robot
            robot, other = (a, b) if self._geom_part[a] else (b, a)
            contact = Contact(self._geom_part[robot], self._geom_thing[other])
            (hand if contact.part in _HAND else others).add(contact)
            if sideways and contact.part in _FINGERS:
                gripped[contact.part].add(contact.thing)
        return hand, others, set.intersection(*gripped.values())


def _import_robosuite() -> Any:
    """robosuite, without its start-up messages and its change of MUJOCO_GL; a missing package is named with the install line."""
    major, minor = (int(number) for number in mujoco.__version__.split(".")[:2])
    if (major, minor) >= (3, 10):
        raise CapexError(f"robosuite 1.5.2 needs mujoco 3.3 to 3.9, and {mujoco.__version__} is installed; install: {ROBOSUITE_INSTALL}")
    logging.getLogger("robosuite_logs").addFilter(_errors_only)
    asked = os.environ.get("MUJOCO_GL")
    try:
        return importlib.import_module("robosuite")
    except ModuleNotFoundError as error:
        raise CapexError(
            f"the world 'robosuite' needs the package '{error.name}', which is not installed; install: {ROBOSUITE_INSTALL}"
        ) from error
    finally:
        if asked is None:
            os.environ.pop("MUJOCO_GL", None)
        else:
            os.environ["MUJOCO_GL"] = asked


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _arrays(arm: ArmCommand) -> tuple[Array, Array]:
    return np.asarray(arm.step_m, dtype=np.float64), np.asarray(arm.step_rad, dtype=np.float64)


def _shortened(vector: Array, limit: float) -> Array:
    length = float(np.linalg.norm(vector))
    return vector if length <= limit else vector * (limit / length)


def _checked_action(action: Array) -> Array:
    """A copy of a native action, or BadCommand naming the number that is wrong."""
    try:
        checked = np.array(action, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadCommand(f"the action is {action!r}; it must be {len(ACTION_NAMES)} numbers") from None
    if checked.shape != (len(ACTION_NAMES),):
        raise BadCommand(f"the action has shape {checked.shape}; it must have shape ({len(ACTION_NAMES)},)")
    for name, value in zip(ACTION_NAMES, checked, strict=True):
        if not -1.0 <= value <= 1.0:  # also true for NaN
            raise BadCommand(f"action '{name}' is {value}; it must lie between -1 and 1")
    return checked
