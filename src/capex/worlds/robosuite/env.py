"""A robosuite environment behind the Env contract; RoboCasa's kitchens go through the same code.

A control step is robosuite's own or the fast path (`stepping`), with the same bits. Success is
asked at once, where robosuite's own step would ask it, and kept; then `mj_step1` makes positions,
velocities and contacts current, so that whoever looks has nothing left to do, and the next control
step finds what it would have computed first. A saved state holds MuJoCo's integration state, the
arm controller's goal and the mount it was measured from, the goal that a hold returns to, the
gripper's integrator, robosuite's clocks, the success, and the latches of fixtures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from capex.errors import CapexError, ErrorCode, PhysicsDiverged, StateMismatch
from capex.pose import Array
from capex.worlds import Command, Image, ModelFile, RobotState, Spec, Start, State, TaskInfo
from capex.worlds.limits import validate_command
from capex.worlds.render import Shot, take
from capex.worlds.robosuite.anatomy import Anatomy
from capex.worlds.robosuite.cameras import SPECS, SPECS_OF_TWO, Cameras, move_cameras
from capex.worlds.robosuite.latches import Latches
from capex.worlds.robosuite.robots import BaseDrive, Hand, Robot
from capex.worlds.robosuite.starts import CONTROL_HZ, StartSource
from capex.worlds.robosuite.stepping import stepping as make_stepping
from capex.worlds.robosuite.tasks import Point
from capex.worlds.robosuite.truth import Truth
from capex.worlds.spec import CameraModel, DepthImage

_BLOWN_UP = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
    mujoco.mjtWarning.mjWARN_BADCTRL,
)
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
# After MuJoCo's, for each arm: gripper 2, anchor 3, the goal's position 3 and rotation 9, the
# mount's position 3 and rotation 9; then step, clock, success.
_ARM, _CLOCKS = (2, 3, 3, 9, 3, 9), (1, 1, 1)


class SuiteEnv:
    """One task of robosuite or RoboCasa, 20 Hz."""

    _env: Any

    def __init__(
        self,
        world: str,
        info: TaskInfo,
        robot: Robot,
        starts: StartSource,
        workspace_m: tuple[Point, Point],
        *,
        stepping: str = "fast",
        shadows: bool = False,
        sites: bool = False,
    ):
        self._robot, self.start_source, self._env = robot, starts, None
        self._stepping_kind, self._drawing = stepping, {"shadows": shadows, "sites": sites}
        self.spec = Spec(
            world=world,
            task=info.name,
            horizon=info.horizon,
            control_hz=float(CONTROL_HZ),
            arms=robot.arms,
            cameras=SPECS if len(robot.arms) == 1 else SPECS_OF_TWO,
            workspace_m=workspace_m,
            action_names=robot.action_names,
            state_names=robot.state_names,
            starts=starts.count,
            fresh=starts.fresh,
            unrecorded=starts.unrecorded,
            base=robot.base,
            depth=True,
            exact_replay=starts.exact,
        )

    def reset(self, start: Start) -> None:
        """Build the start anew, or continue from its saved state."""
        if start.task != self.spec.task:
            raise CapexError(
                f"the start is of task '{start.task}'; this environment is {self.spec.name}",
                code=ErrorCode.MISMATCH,
            )
        if not self.spec.has_start(start.index) or start.seed < 0:
            valid = f"starts are {self.spec.valid_starts}, seeds 0 or more"
            raise CapexError(
                f"start {start.index} with seed {start.seed}; {valid}", code=ErrorCode.UNKNOWN_START
            )
        self.close()
        self.built = self.start_source.build(start)
        env = self.built.env
        self._robot.require_order(env)
        env._observables.clear()  # unused here, and computed at each of the 25 substeps
        self._model, self._data = env.sim.model._model, env.sim.data._data
        header = {"world": self.spec.world, "task": start.task, **self.built.header}
        self._header = json.dumps(header)
        arms = [arm.name for arm in self._robot.arms]
        self._hands = {
            arm: Hand(
                robot.composite_controller.part_controllers, robot.gripper["right"], np.zeros(3)
            )
            for arm, robot in zip(arms, env.robots, strict=True)
        }
        self._anatomy = Anatomy(self._model, self._data, arms)
        if self.built.arena is not None:
            move_cameras(self._anatomy, self.built.arena, self.built.cameras)
        self._cameras = Cameras(self.spec, self._anatomy, self.built.cameras, **self._drawing)
        self._drive = None
        if self._robot.base is not None:
            (hand,) = self._hands.values()
            self._drive = BaseDrive(self._model, self._data, hand.controllers["base"])
        self._latches = Latches(env)
        self._stepping = make_stepping(self._stepping_kind, env)
        self._env = env
        mujoco.mj_step1(self._model, self._data)
        for _ in range(self.built.settle):
            self.apply(np.zeros(len(self._robot.action_names)))
        self._success = bool(env._check_success())
        if start.state is not None:
            self.load_state(start.state)

    @property
    def instruction(self) -> str:
        """The task in words, for the current start."""
        self._require_reset()
        return self.built.instruction

    @property
    def scene(self) -> str:
        """What names the surroundings of the current start."""
        self._require_reset()
        return self.built.scene

    def robot_state(self) -> RobotState:
        """Proprioception and contacts, as the last tick left them."""
        self._require_reset()
        return self._anatomy.state(mobile=self._robot.base is not None)

    def step(self, command: Command) -> Array:
        """One 20 Hz command: translated to the native numbers, applied, returned."""
        validate_command(self.spec, command)
        self._require_reset()
        ordered = Command({n: command.arms[n] for n in self._hands}, command.base_velocity)
        sites = {name: self._anatomy.grip_site(name) for name in self._hands}
        begun = self._env.timestep > self.built.settle
        action = self._robot.native(ordered, self._hands, sites, self._drive, begun=begun)
        self.apply(action)
        return action

    def apply(self, action: Array) -> None:
        """One native action; refused before physics is touched unless in [-1, 1] throughout."""
        action = self._robot.checked(action)
        self._require_reset()
        self._require_sound()
        self._stepping.step(action)
        if not self._robot.rests_on_goal(action):
            for hand in self._hands.values():
                hand.anchor_m = np.array(hand.controller.goal_pos)
        self._success = bool(self._env._check_success())
        mujoco.mj_step1(self._model, self._data)
        self._require_sound()

    def success(self) -> bool:
        """robosuite's own check at the end of the last step; never true once diverged."""
        self._require_reset()
        return self._success and not self._diverged

    def observe(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        """Upright RGB images by camera name."""
        names = [c.name for c in self.spec.cameras] if cameras is None else cameras
        (images,) = take([self.shot(names, size)])
        return images

    def shot(self, cameras: Sequence[str], size: tuple[int, int] | None = None) -> Shot:
        """The views of these cameras, to be drawn."""
        self._require_reset()
        return self._cameras.shot(cameras, size)

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> CameraModel:
        """Exact intrinsics and pose of a camera."""
        self._require_reset()
        return self._cameras.model_of(camera, size)

    def depth(self, camera: str, size: tuple[int, int] | None = None) -> DepthImage:
        """Metric depth along the optical axis, infinite where nothing is seen."""
        self._require_reset()
        return self._cameras.depth(camera, size)

    def save_state(self) -> State:
        """Everything needed to continue bit for bit."""
        self._require_reset()
        physics = np.empty(mujoco.mj_stateSize(self._model, _STATE))
        mujoco.mj_getState(self._model, self._data, physics, _STATE)
        own: list[Any] = []
        for hand in self._hands.values():
            arm, gripper = hand.controller, np.broadcast_to(hand.gripper.current_action, 2)
            goal = arm.goal_pos, arm.goal_ori.ravel()
            own += [gripper, hand.anchor_m, *goal, arm.origin_pos, arm.origin_ori.ravel()]
        own.append([self._env.timestep, self._env.cur_time, float(self._success)])
        return State(self._header, np.concatenate([physics, *own, self._latches.vector]))

    def load_state(self, state: State) -> None:
        """Continue from a state of this world, task, start and versions; any other is refused."""
        self._require_reset()
        if state.header != self._header:
            raise StateMismatch(
                f"the state belongs to {state.header}; this environment is at {self._header}"
            )
        own = (*(_ARM * len(self._hands)), *_CLOCKS)
        sizes = (mujoco.mj_stateSize(self._model, _STATE), *own, self._latches.size)
        vector = np.asarray(state.vector, dtype=np.float64)
        if vector.shape != (sum(sizes),) or not np.all(np.isfinite(vector)):
            raise StateMismatch(
                f"the state needs {sum(sizes)} finite numbers; it has shape {vector.shape}"
            )
        physics, *numbers, latches = np.split(vector, np.cumsum(sizes)[:-1])
        *of_arms, step, clock, success = numbers
        for warning in _BLOWN_UP:
            self._data.warning[warning].number = 0
        # Fixtures show their state (flames, water) by looking at it, and must not change it.
        for again in (True, False):
            mujoco.mj_setState(self._model, self._data, physics, _STATE)
            self._latches.vector = latches
            mujoco.mj_step1(self._model, self._data)
            if again and self._latches.size:
                self._env.update_state()
        for k, hand in enumerate(self._hands.values()):
            gripper, anchor, goal_m, goal_R, mount_m, mount_R = of_arms[6 * k : 6 * (k + 1)]
            arm = hand.controller
            arm.goal_pos, arm.goal_ori = goal_m.copy(), goal_R.reshape(3, 3).copy()
            arm.update_origin(mount_m.copy(), mount_R.reshape(3, 3).copy())
            hand.gripper.current_action, hand.anchor_m = gripper.copy(), anchor.copy()
        self._env.timestep, self._env.cur_time = int(step[0]), float(clock[0])
        self._success = bool(success[0])
        self._measure_anew()

    def show(self, flat_state: Array) -> None:
        """Show one of robosuite's flat states (time, positions, velocities), simulating nothing."""
        self._require_reset()
        size = 1 + self._model.nq + self._model.nv
        if flat_state.shape != (size,) or not np.all(np.isfinite(flat_state)):
            needed = f"a flat state of {self.spec.name} has {size} finite numbers"
            raise StateMismatch(f"{needed}; this one has shape {flat_state.shape}")
        self._env.sim.set_state_from_flattened(flat_state)
        mujoco.mj_forward(self._model, self._data)
        self._env.update_state()
        self._success = bool(self._env._check_success())
        mujoco.mj_step1(self._model, self._data)
        self._measure_anew()

    def _measure_anew(self) -> None:
        for hand in self._hands.values():
            for controller in hand.controllers.values():
                controller.new_update = True

    @property
    def truth(self) -> Truth:
        """What the simulator knows of things: privileged, for the expert and for tests."""
        self._require_reset()
        return Truth(self._anatomy)

    @property
    def suite(self) -> Any:
        """robosuite's own environment: privileged, for the expert and for tests."""
        self._require_reset()
        return self._env

    def model_file(self) -> ModelFile:
        """What robosuite's, robomimic's and RoboCasa's own tools need to repeat this start."""
        self._require_reset()
        built = self.built
        # MuJoCo's integration state begins with robosuite's flat one: time, positions, velocities.
        flat_size = 1 + int(self._model.nq) + int(self._model.nv)
        return ModelFile(built.model_xml(), flat_size, built.env_args, built.episode_meta)

    def close(self) -> None:
        """Free the renderer and the simulation."""
        if self._env is not None:
            self._cameras.close()
            self._env.close()
            self._env = None

    def _require_reset(self) -> None:
        if self._env is None:
            raise CapexError(
                f"{self.spec.name} has no scene yet; call reset(start) first",
                code=ErrorCode.WRONG_ORDER,
            )

    @property
    def _diverged(self) -> bool:
        # MuJoCo resets itself at a value that is not finite; its warning counters keep the trace.
        warned = any(self._data.warning[w].number for w in _BLOWN_UP)
        return warned or not np.all(np.isfinite(self._data.qacc))

    def _require_sound(self) -> None:
        if self._diverged:
            when = f"{self.spec.name} diverged at step {self._env.timestep}"
            raise PhysicsDiverged(f"{when}; the episode is invalid, reset it")
