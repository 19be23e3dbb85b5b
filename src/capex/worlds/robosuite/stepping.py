"""One control step of robosuite: its own `env.step`, or the same controllers without the waste.

robosuite spends over 90 % of `env.step` in Python around 25 physics steps: observables, action
limits and name look-ups are done again at each of them, every controller fetches the whole mass
matrix for itself, and Jacobians are computed up to six times. The fast path lets robosuite's
controllers take the goal, once, and then repeats their arithmetic operation by operation, through
the same compiled functions, on arrays that are looked up once. The torques are the same to the bit,
and so are the states (docs/robosuite.md).

What the fast path leaves out: observables, rewards, and robosuite's buffers of recent forces and
poses. What it knows: OSC_POSE with fixed gains for the arm, JOINT_POSITION for the torso, and
controllers whose output is constant within a control step (gripper, base).
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import mujoco
import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode, UnknownName
from capex.pose import Array

ARM, TORSO = "right", "torso"
STEPPINGS = ("fast", "original")


class Stepping(Protocol):
    """Applies one native action for one control step, up to the end of physics."""

    def step(self, action: Array) -> None: ...


def stepping(kind: str, env: Any) -> Stepping:
    """The stepping of that name for a robosuite environment."""
    if kind not in STEPPINGS:
        raise UnknownName("stepping", kind, STEPPINGS)
    return Fast(env) if kind == "fast" else Original(env)


class Original:
    """robosuite's own step, observables and all."""

    def __init__(self, env: Any):
        self._env = env

    def step(self, action: Array) -> None:
        """One control step, with a copy: robosuite's base controller writes into its argument."""
        self._env.step(action.copy())


class Fast:
    """The same control step without observables, limits and look-ups at each of its physics steps.

    The state must be current when a step begins (positions, velocities, contacts: what `mj_step1`
    computes); robosuite's own first `mj_step1` would find it unchanged.
    """

    def __init__(self, env: Any):
        self._env = env
        self._model, self._data = env.sim.model._model, env.sim.data._data
        self._substeps = int(env.control_timestep / env.model_timestep)
        self._running: list[_Arm | _Torso] = []
        self._constant: list[_Constant] = []
        for robot in env.robots:
            for name, controller in robot.composite_controller.part_controllers.items():
                actuators = np.array(robot._ref_actuators_indexes_dict[name])
                part = MAKERS.get(name, _Constant)(self._model, self._data, controller, actuators)
                if isinstance(part, _Constant):
                    self._constant.append(part)
                else:
                    self._running.append(part)
        self._mass = np.zeros((self._model.nv, self._model.nv))

    def step(self, action: Array) -> None:
        """One control step."""
        env, model, data = self._env, self._model, self._data
        env.timestep += 1
        mujoco.mj_fullM(model, self._mass, data.qM)
        for part in self._running:
            self._measure(part)
        first = 0
        for robot in env.robots:
            composite, last = robot.composite_controller, first + robot.action_dim
            if not robot.is_mobile:
                composite.update_state()
            composite.set_goal(action[first:last].copy())
            first = last
        for part in self._running:
            part.aim()
        for constant in self._constant:
            constant.run()
        for substep in range(self._substeps):
            if substep:
                mujoco.mj_step1(model, data)
                mujoco.mj_fullM(model, self._mass, data.qM)
            for part in self._running:
                part.run(self._mass)
            mujoco.mj_step2(model, data)
        for part in self._running:
            part.leave()
        env.cur_time += env.control_timestep
        env.update_state()

    def _measure(self, part: _Arm | _Torso) -> None:
        """Give a controller its pose and inertia, from which it takes its goal; after a reset it
        keeps those it has.
        """
        controller, inertia = part.controller, self._mass[part.dofs, part.dofs]
        if controller.new_update:
            part.measure()
            controller.mass_matrix = inertia.copy()
            controller.new_update = False
        else:
            inertia[:] = controller.mass_matrix


class _Arm:
    """robosuite's operational-space controller between two goals."""

    def __init__(self, model: Any, data: Any, controller: Any, actuators: npt.NDArray[np.intp]):
        setup: dict[str, Any] = {"impedance_mode": "fixed", "input_ref_frame": "base"}
        setup |= {"interpolator_pos": None, "interpolator_ori": None}
        as_known = all(getattr(controller, name, self) == known for name, known in setup.items())
        if not (controller.name == "OSC_POSE" and as_known and controller.uncoupling):
            raise _unknown(controller)
        self._model, self._data, self.controller = model, data, controller
        self._torques = importlib.import_module("capex.worlds.robosuite.kernel").arm_torques
        self._tip = model.site(controller.ref_name).id
        self._mount = model.site(f"{controller.naming_prefix}{controller.part_name}_center").id
        # A mount fixed to the world has no Jacobian.
        self._rides = model.body_weldid[model.site_bodyid[self._mount]] != 0
        self.dofs = _slice(controller.qvel_index)
        self._tip_pose = data.site_xpos[self._tip], data.site_xmat[self._tip].reshape(3, 3)
        self._mount_pose = data.site_xpos[self._mount], data.site_xmat[self._mount].reshape(3, 3)
        self._joints = (*_joints(data, controller), data.qvel)
        self._ctrl = data.ctrl[_slice(actuators)]
        self._limits = _limits(model, actuators)
        self._jacobians = tuple(np.zeros((3, model.nv)) for _ in range(4))

    def measure(self) -> None:
        """Give the controller the tip's pose."""
        self.controller.ref_pos[:], self.controller.ref_ori_mat[:] = self._tip_pose

    def aim(self) -> None:
        """Adopt the goal that the controller was given."""
        controller = self.controller
        goal = controller.goal_pos, controller.goal_ori
        self._goal = (*goal, controller.kp, controller.kd, controller.initial_joint)

    def run(self, mass: Array) -> None:
        """Torques for the next physics step."""
        jacobians = self._jacobians
        mujoco.mj_jacSite(self._model, self._data, jacobians[0], jacobians[1], self._tip)
        if self._rides:
            mujoco.mj_jacSite(self._model, self._data, jacobians[2], jacobians[3], self._mount)
        self._ctrl[:] = self._torques(
            jacobians,
            *self._tip_pose,
            *self._mount_pose,
            mass,
            *self._joints,
            self.dofs.start,
            *self._goal,
            *self._limits,
        )

    def leave(self) -> None:
        """Tell the controller where the mount was last: from there it measures its next goal."""
        self.controller.update_origin(*(part.copy() for part in self._mount_pose))
        self.controller.new_update = True


class _Torso:
    """robosuite's joint-position controller between two goals."""

    def __init__(self, model: Any, data: Any, controller: Any, actuators: npt.NDArray[np.intp]):
        plain = controller.interpolator is None and controller.use_torque_compensation
        if controller.name != "JOINT_POSITION" or not plain:
            raise _unknown(controller)
        self.controller = controller
        self._torques = importlib.import_module("capex.worlds.robosuite.kernel").joint_torques
        self.dofs = _slice(controller.qvel_index)
        self._joints = _joints(data, controller)
        self._ctrl = data.ctrl[_slice(actuators)]
        self._limits = _limits(model, actuators)

    def measure(self) -> None:
        """Give the controller the joints."""
        self.controller.joint_pos = self._joints[0].copy()

    def aim(self) -> None:
        """Adopt the goal that the controller was given."""
        self._goal = self.controller.goal_qpos, self.controller.kp, self.controller.kd

    def run(self, mass: Array) -> None:
        """Torques for the next physics step."""
        joints, first = self._joints, self.dofs.start
        self._ctrl[:] = self._torques(mass, *joints, first, *self._goal, *self._limits)

    def leave(self) -> None:
        """Let the controller measure anew."""
        self.controller.new_update = True


class _Constant:
    """A controller whose output is its goal, scaled, for a control step: gripper and base."""

    def __init__(self, model: Any, data: Any, controller: Any, actuators: npt.NDArray[np.intp]):
        scales = getattr(controller, "use_action_scaling", True)
        plain = getattr(controller, "interpolator", None) is None
        if not ("goal_qvel" in vars(controller) and plain and scales):
            raise _unknown(controller)
        self._controller, self._ctrl = controller, data.ctrl[_slice(actuators)]
        self._low, self._high = _limits(model, actuators)
        self._middle = 0.5 * (controller.actuator_max + controller.actuator_min)
        self._weight = 0.5 * (controller.actuator_max - controller.actuator_min)

    def run(self) -> None:
        """The control of this whole control step."""
        value = self._middle + self._weight * self._controller.goal_qvel
        self._ctrl[:] = np.minimum(np.maximum(value, self._low), self._high)
        self._controller.new_update = True


MAKERS: dict[str, type[_Arm] | type[_Torso] | type[_Constant]] = {ARM: _Arm, TORSO: _Torso}


def _joints(data: Any, controller: Any) -> tuple[Array, Array, Array]:
    """Positions, velocities and bias forces of a controller's joints."""
    dofs = _slice(controller.qvel_index)
    return data.qpos[_slice(controller.qpos_index)], data.qvel[dofs], data.qfrc_bias[dofs]


def _slice(indices: Any) -> slice:
    """Neighbouring addresses as a slice, so that reading them copies nothing."""
    first, count = int(indices[0]), len(indices)
    if [int(i) for i in indices] != list(range(first, first + count)):
        apart = f"the robot's joints {list(indices)} are not neighbours in the model"
        raise CapexError(f"{apart}; use stepping='original'", code=ErrorCode.UNSUPPORTED)
    return slice(first, first + count)


def _limits(model: Any, actuators: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    low, high = model.actuator_ctrlrange[actuators].T
    return low.copy(), high.copy()


def _unknown(controller: Any) -> CapexError:
    return CapexError(
        f"the fast stepping does not know robosuite's controller {controller.name} as set up here;"
        " use stepping='original'",
        code=ErrorCode.UNSUPPORTED,
    )
