"""The kitchen as an Env: MuJoCo behind the contract of `capex.worlds`.

A control step is 25 physics steps of 2 ms with the controller every fifth, then the forward pass up
to velocities: everything that is read afterwards (poses, contacts, images) is current, and reading
changes nothing. The saved state is time, positions, velocities, warm start, controls, the
controller's goals and the task's latch: enough to continue bit for bit.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from capex.errors import CapexError, ErrorCode, PhysicsDiverged, StateMismatch
from capex.pose import Array, Pose
from capex.worlds import (
    ArmSpec,
    BaseSpec,
    CameraModel,
    CameraSpec,
    Command,
    DepthImage,
    Image,
    ModelFile,
    RobotState,
    Spec,
    Start,
    State,
)
from capex.worlds.kitchen import control, robot
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.control import Controller
from capex.worlds.kitchen.ground_truth import STATE_NAMES, GroundTruth, Sensors
from capex.worlds.kitchen.materials import STYLES
from capex.worlds.kitchen.parts import SEEN, UNSEEN, Sign
from capex.worlds.kitchen.robot import ARM
from capex.worlds.kitchen.scene import LAYOUTS, Kitchen, build, plan_kitchen, to_xml
from capex.worlds.kitchen.situation import Draw, Situation
from capex.worlds.kitchen.tasks.task import Task
from capex.worlds.limits import validate_command
from capex.worlds.render import Renderer, Shot, intrinsics, take

# By world, raised whenever the same start gives another scene or the state vector another layout.
STATE_VERSIONS = {"kitchen": 1, "kitchen-mixed": 2}
STARTS = 10_000  # of each task; an index beyond is refused
SETTLE_TICKS = 10  # half a second at 20 Hz: what was placed has come to rest
DRAWS_MAX = 50  # then a start is refused: the robot would stand inside something
CACHED_STARTS = 4  # compiled models kept, so that going back to a start costs no compiling
ROBOMIMIC_GYM = 2  # robomimic's number for environments that are not robosuite's
# In the base frame: from the floor to the arm's full reach, forward and to both sides.
WORKSPACE_M = ((-0.30, -0.85, -robot.MOUNT_HEIGHT_M), (0.95, 0.85, 1.20))
_STATE_PARTS = ("TIME", "QPOS", "QVEL", "WARMSTART", "CTRL")
_SIGNATURE = sum(getattr(mujoco.mjtState, f"mjSTATE_{part}").value for part in _STATE_PARTS)
# what the saved state holds besides physics: the controller's goals and the task's latch
_OWN_SIZE = Controller.VECTOR_SIZE + 1
_WARNINGS = [getattr(mujoco.mjtWarning, f"mjWARN_BAD{q}").value for q in ("QPOS", "QVEL", "QACC")]


@dataclass
class _Built:
    """A compiled start: the model, what was drawn, and the settled beginning."""

    model: mujoco.MjModel
    kitchen: Kitchen
    situation: Situation
    scene: str  # layout and style
    signs: tuple[Sign, ...]
    beginning: Array = field(default_factory=lambda: np.zeros(0))


class KitchenEnv:
    """One task in the built-in kitchen."""

    def __init__(self, world: str, task: Task, *, shadows: bool = False):
        self.task, self._world, self._shadows = task, world, shadows
        info = task.info
        exterior = (CameraSpec("left", "exterior"), CameraSpec("right", "exterior"))
        self.spec = Spec(
            world=world,
            task=info.name,
            horizon=info.horizon,
            control_hz=control.CONTROL_HZ,
            arms=(ArmSpec(ARM, 2 * robot.FINGER_TRAVEL_M, control.STEP_M, control.STEP_RAD),),
            cameras=(*exterior, CameraSpec("wrist", "wrist", arm=ARM)),
            workspace_m=WORKSPACE_M,
            action_names=control.ACTION_NAMES,
            state_names=STATE_NAMES,
            starts=STARTS,
            base=BaseSpec(0.25, 0.6),
            depth=True,
            exact_replay=True,
        )
        self._cache: collections.OrderedDict[tuple[int, int], _Built] = collections.OrderedDict()
        self._renderer: Renderer | None = None
        self._start: Start | None = None
        self._diverged = False

    def reset(self, start: Start) -> None:
        """Put everything to the start's settled beginning, or to its saved state."""
        name = self.spec.name
        if start.task != self.spec.task:
            raise CapexError(
                f"the start is of task '{start.task}'; this environment is {name}",
                code=ErrorCode.MISMATCH,
            )
        if not 0 <= start.index < STARTS:
            raise CapexError(
                f"there is no start {start.index} of {name}; valid: 0 to {STARTS - 1}",
                code=ErrorCode.UNKNOWN_START,
            )
        key = (start.index, start.seed)
        if key not in self._cache:
            self._cache[key] = self._build(start)
            while len(self._cache) > CACHED_STARTS:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        built = self._cache[key]
        self._start = start
        self._attach(built)
        self._restore(built.beginning)
        if start.state is not None:
            self.load_state(start.state)

    def _build(self, start: Start) -> _Built:
        """Compose the start; where the robot would stand inside something, take the next draw."""
        for attempt in range(DRAWS_MAX):
            kitchen, situation = self._compose(start, attempt)
            model, signs = build(kitchen, situation, shadows=self._shadows)
            scene = f"layout {LAYOUTS.index(kitchen.layout) + 1}, style {kitchen.style.name}"
            built = _Built(model, kitchen, situation, scene, signs)
            self._attach(built)
            if self._settle(situation):
                built.beginning = self._vector()
                return built
        raise CapexError(
            f"start {start.index} of {self.spec.name} found no free place for the robot in"
            f" {DRAWS_MAX} draws; take another start",
            code=ErrorCode.NOT_AVAILABLE,
        )

    def _settle(self, situation: Situation) -> bool:
        """Put everything in place and let it come to rest; False if the robot touches anything."""
        model, data = self._model, self._data
        placed = dict(zip(("base_x", "base_y", "base_yaw"), situation.robot, strict=True))
        placed |= dict.fromkeys(("finger_left", "finger_right"), robot.FINGER_TRAVEL_M)
        placed |= dict(zip(panda.JOINTS, situation.posture, strict=True))
        for name, value in {**placed, **situation.joints}.items():
            data.joint(name).qpos[0] = value
        mujoco.mj_forward(model, data)
        if self._sensors.touching(data):
            return False
        self._controller.reset(data, 0.0)
        hold = np.zeros(len(control.ACTION_NAMES))
        hold[6], hold[11] = -1.0, 1.0
        for _ in range(SETTLE_TICKS):
            self._tick(hold)
        data.qvel[:] = 0.0
        data.time = 0.0
        mujoco.mj_forward(model, data)
        self._controller.reset(data, 0.0)
        return not self._sensors.touching(data) and not self.task.success(self._truth)

    def _compose(self, start: Start, attempt: int) -> tuple[Kitchen, Situation]:
        draw = Draw(self._world, start.task, start.index, start.seed, attempt)
        mixed = () if self._world == "kitchen" else (len(LAYOUTS), len(STYLES))
        kitchen = plan_kitchen(*(draw.choice(range(count)) for count in mixed))
        return kitchen, self.task.compose(draw, kitchen)

    @property
    def scene(self) -> str:
        """Layout and style of the current start's kitchen."""
        self._started()
        return self._built.scene

    def _attach(self, built: _Built) -> None:
        """Make a compiled start the current one."""
        if self._renderer is not None and getattr(self, "_model", None) is not built.model:
            self._renderer.close()
            self._renderer = None
        self._built, self._model, self._situation = built, built.model, built.situation
        self._data = mujoco.MjData(built.model)
        self._controller, self._sensors = Controller(built.model), Sensors(built.model)
        roles, spots = built.situation.roles, built.situation.spots
        self._truth = GroundTruth(built.model, self._data, roles, spots)
        self._diverged = False

    def _vector(self) -> Array:
        physics = np.empty(mujoco.mj_stateSize(self._model, _SIGNATURE))
        mujoco.mj_getState(self._model, self._data, physics, _SIGNATURE)
        return np.concatenate([physics, self._controller.vector, [float(self._truth.latched)]])

    def _restore(self, vector: Array) -> None:
        physics, goals, latched = np.split(vector, (len(vector) - _OWN_SIZE, len(vector) - 1))
        mujoco.mj_setState(self._model, self._data, physics, _SIGNATURE)
        mujoco.mj_forward(self._model, self._data)
        # once more: the forward pass overwrote the warm start
        mujoco.mj_setState(self._model, self._data, physics, _SIGNATURE)
        self._controller.vector = goals
        self._truth.latched = bool(latched[0])
        for warning in _WARNINGS:
            self._data.warning[warning].number = 0
        self._diverged = False

    def _header(self) -> str:
        start, version = self._started(), STATE_VERSIONS[self._world]
        header = {"world": self._world, "task": start.task, "start": start.index}
        return json.dumps({**header, "seed": start.seed, "version": version})

    def save_state(self) -> State:
        """Everything needed to continue bit for bit."""
        return State(self._header(), self._vector())

    def load_state(self, state: State) -> None:
        """Continue from a state of this world, task, start and version; any other is refused."""
        if state.header != self._header():
            raise StateMismatch(
                f"the state belongs to {state.header}; this environment is at {self._header()}:"
                " reset to that start first"
            )
        expected = mujoco.mj_stateSize(self._model, _SIGNATURE) + _OWN_SIZE
        vector = np.asarray(state.vector, dtype=np.float64)
        if vector.shape != (expected,) or not np.all(np.isfinite(vector)):
            raise StateMismatch(
                f"the state has shape {vector.shape} or numbers that are not finite; {expected}"
                " finite numbers are needed"
            )
        self._restore(vector)

    def _started(self) -> Start:
        if self._start is None:
            raise CapexError(
                f"{self.spec.name} has no start yet;"
                f" call reset(Start('{self.spec.task}', 0)) first",
                code=ErrorCode.WRONG_ORDER,
            )
        return self._start

    @property
    def instruction(self) -> str:
        """The task in words, for the current start."""
        self._started()
        return self._situation.instruction

    def step(self, command: Command) -> Array:
        """One 20 Hz command: translated to the 12 native numbers, applied, returned."""
        validate_command(self.spec, command)
        action = control.to_action(command.arms[ARM], command.base_velocity)
        self.apply(action)
        return action

    def apply(self, action: Array) -> None:
        """One native action; refused before physics if it is not 12 finite numbers in [-1, 1]."""
        self._started()
        values = control.require_action(action)
        if self._diverged:
            raise PhysicsDiverged(
                f"{self.spec.name} has diverged earlier in this episode; reset it"
            )
        self._tick(values)
        self._check_physics()
        if self.task.latch is not None and not self._truth.latched:
            self._truth.latched = self.task.latch(self._truth)

    def _tick(self, action: Array) -> None:
        model, data = self._model, self._data
        self._controller.set_goal(data, action)
        for block in range(control.SUBSTEPS // control.CONTROL_EVERY):
            if block:  # the pass that ended the last tick has done the first block's kinematics
                mujoco.mj_step1(model, data)
            self._controller.run(model, data, first=block == 0)
            mujoco.mj_step2(model, data)
            mujoco.mj_step(model, data, control.CONTROL_EVERY - 1)
        mujoco.mj_step1(model, data)  # positions, contacts and velocities are current

    def _check_physics(self) -> None:
        # MuJoCo resets the state by itself when it meets a value that is not finite; its warning
        # counters keep the trace.
        warned = any(self._data.warning[w].number for w in _WARNINGS)
        if warned or not np.isfinite(self._data.qacc).all():
            self._diverged = True
            raise PhysicsDiverged(
                f"the physics of {self.spec.name} diverged at {self._data.time:.2f} s; the episode"
                " is invalid"
            )

    def success(self) -> bool:
        """The task's rule on the present state; a diverged simulation is never a success."""
        self._started()
        return not self._diverged and bool(self.task.success(self._truth))

    @property
    def truth(self) -> GroundTruth:
        """Privileged truth, for success rules, the expert and tests."""
        self._started()
        return self._truth

    @property
    def situation(self) -> Situation:
        """What the start drew: privileged, for the expert and tests."""
        self._started()
        return self._situation

    def robot_state(self) -> RobotState:
        """Proprioception and contacts, as the last control step left them."""
        self._started()
        return self._sensors.read(self._data, self._controller)

    def observe(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        """Upright RGB images by camera name."""
        names = [c.name for c in self.spec.cameras] if cameras is None else cameras
        (images,) = take([self.shot(names, size)])
        return images

    def shot(self, cameras: Sequence[str], size: tuple[int, int] | None = None) -> Shot:
        """The views of these cameras, to be drawn."""
        self._started()
        chosen = [self.spec.camera(name) for name in cameras]
        views = {c.name: (self._model.camera(c.name).id, size or c.size) for c in chosen}
        return Shot(self._renders(), self._data, views)

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> CameraModel:
        """Exact intrinsics and pose of a camera."""
        self._started()
        size = size or self.spec.camera(camera).size
        mount, view = self._data.site("mount"), self._data.camera(camera)
        T_world_mount = Pose(mount.xpos, mount.xmat.reshape(3, 3))
        # MuJoCo's camera looks along -z with y up; the contract's along +z with y down.
        R_world_camera = view.xmat.reshape(3, 3) * np.array([1.0, -1.0, -1.0])
        T_mount_camera = T_world_mount.inverse() @ Pose(view.xpos, R_world_camera)
        fovy_deg = float(self._model.camera(camera).fovy[0])
        return CameraModel(intrinsics(fovy_deg, size), T_mount_camera)

    def depth(self, camera: str, size: tuple[int, int] | None = None) -> DepthImage:
        """Metric depth along the optical axis, infinite where nothing is seen."""
        self._started()
        size = size or self.spec.camera(camera).size
        pixels = self._renders().depth(self._data, self._model.camera(camera).id, size)
        return DepthImage(pixels, self.camera_model(camera, size))

    def model_file(self) -> ModelFile:
        """The start's model as XML; a saved state begins with time, positions and velocities."""
        self._started()
        arguments = {
            "env_name": self.spec.name,
            "env_version": str(STATE_VERSIONS[self._world]),
            "type": ROBOMIMIC_GYM,
            "env_kwargs": {},
        }
        size = 1 + int(self._model.nq) + int(self._model.nv)
        return ModelFile(to_xml(self._built.kitchen, self._situation), size, arguments)

    def _renders(self) -> Renderer:
        """The renderer, after showing or hiding the signs, which physics does not notice."""
        for sign in self._built.signs:
            shown = sign.low <= self._truth.joint(sign.joint) <= sign.high
            self._model.geom(sign.geom).group = SEEN if shown else UNSEEN
        if self._renderer is None:
            self._renderer = Renderer(self._model, shadows=self._shadows)
        return self._renderer

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
