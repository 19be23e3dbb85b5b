"""One control step of a robosuite environment: robosuite's own `env.step`, or the same controllers
without the waste.

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

from capex.errors import CapexError, UnknownName
from capex.pose import Array

ARM, TORSO = "right", "torso"
STEPPINGS = ("fast", "original")


class Stepping(Protocol):
    """Applies one native action for one control step, up to the end of physics; success and
    contacts are read afterwards.
    """

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
        """One control step; a copy goes in, because robosuite's base controller writes into its
        argument.
        """
        self._env.step(action.copy())


class Fast:
    """The same control step without observables, limits and look-ups at each of its physics steps.

    The state must be current when a step begins (positions, velocities, contacts: what `mj_step1`
    computes); robosuite's own first `mj_step1` would find it unchanged.
    """

    def __init__(self, env: Any):
        self._env, robot = env, env.robots[0]
        self._composite = robot.composite_controller
        self._mobile = bool(robot.is_mobile)
        self._model, self._data = env.sim.model._model, env.sim.data._data
        self._substeps = int(env.control_timestep / env.model_timestep)
        made = [
            MAKERS.get(name, _Constant)(
                self._model,
                self._data,
                controller,
                np.array(robot._ref_actuators_indexes_dict[name]),
            )
            for name, controller in self._composite.part_controllers.items()
        ]
        self._running: list[_Arm | _Torso] = [
            part for part in made if not isinstance(part, _Constant)
        ]
        self._constant = [part for part in made if isinstance(part, _Constant)]
        self._mass = np.zeros((self._model.nv, self._model.nv))

    def step(self, action: Array) -> None:
        """One control step."""
        env, model, data = self._env, self._model, self._data
        env.timestep += 1
        mujoco.mj_fullM(model, self._mass, data.qM)
        for part in self._running:
            part.measure(self._mass)
        if not self._mobile:
            self._composite.update_state()
        self._composite.set_goal(action.copy())
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


class _Arm:
    """robosuite's operational-space controller between two goals."""

    def __init__(self, model: Any, data: Any, controller: Any, actuators: npt.NDArray[np.intp]):
        fixed = (
            getattr(controller, "impedance_mode", "") == "fixed"
            and getattr(controller, "input_ref_frame", "") == "base"
        )
        plain = (
            getattr(controller, "interpolator_pos", self) is None
            and getattr(controller, "interpolator_ori", self) is None
        )
        if not (controller.name == "OSC_POSE" and fixed and plain and controller.uncoupling):
            raise _unknown(controller)
        self._model, self._data, self._controller = model, data, controller
        self._torques = importlib.import_module("capex.worlds.robosuite.kernel").arm_torques
        self._tip = model.site(controller.ref_name).id
        self._mount = model.site(f"{controller.naming_prefix}{controller.part_name}_center").id
        # A mount fixed to the world has no Jacobian.
        self._rides = model.body_weldid[model.site_bodyid[self._mount]] != 0
        self._dofs = _slice(controller.qvel_index)
        self._tip_pose = data.site_xpos[self._tip], data.site_xmat[self._tip].reshape(3, 3)
        self._mount_pose = data.site_xpos[self._mount], data.site_xmat[self._mount].reshape(3, 3)
        self._joints = (
            data.qpos[_slice(controller.qpos_index)],
            data.qvel[self._dofs],
            data.qfrc_bias[self._dofs],
            data.qvel,
        )
        self._ctrl = data.ctrl[_slice(actuators)]
        self._limits = _limits(model, actuators)
        self._jacobians = tuple(np.zeros((3, model.nv)) for _ in range(4))

    def measure(self, mass: Array) -> None:
        """Give the controller the tip's pose and the inertia, from which it takes its goal; after a
        reset it keeps those it has.
        """
        controller, dofs = self._controller, self._dofs
        if controller.new_update:
            controller.ref_pos[:], controller.ref_ori_mat[:] = self._tip_pose
            controller.mass_matrix = mass[dofs, dofs].copy()
            controller.new_update = False
        else:
            mass[dofs, dofs] = controller.mass_matrix

    def aim(self) -> None:
        """Take over the goal that the controller was given."""
        controller = self._controller
        self._goal = (
            controller.goal_pos,
            controller.goal_ori,
            controller.kp,
            controller.kd,
            controller.initial_joint,
        )

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
            self._dofs.start,
            *self._goal,
            *self._limits,
        )

    def leave(self) -> None:
        """Tell the controller where the mount was at the last physics step: from there it measures
        its next goal.
        """
        self._controller.update_origin(*(part.copy() for part in self._mount_pose))
        self._controller.new_update = True


class _Torso:
    """robosuite's joint-position controller between two goals."""

    def __init__(self, model: Any, data: Any, controller: Any, actuators: npt.NDArray[np.intp]):
        if (
            controller.name != "JOINT_POSITION"
            or controller.interpolator is not None
            or not controller.use_torque_compensation
        ):
            raise _unknown(controller)
        self._controller = controller
        self._torques = importlib.import_module("capex.worlds.robosuite.kernel").joint_torques
        self._dofs = _slice(controller.qvel_index)
        self._joints = (
            data.qpos[_slice(controller.qpos_index)],
            data.qvel[self._dofs],
            data.qfrc_bias[self._dofs],
        )
        self._ctrl = data.ctrl[_slice(actuators)]
        self._limits = _limits(model, actuators)

    def measure(self, mass: Array) -> None:
        """Give the controller the joints and the inertia, from which it takes its goal; after a
        reset it keeps those it has.
        """
        controller, dofs = self._controller, self._dofs
        if controller.new_update:
            controller.joint_pos = self._joints[0].copy()
            controller.mass_matrix = mass[dofs, dofs].copy()
            controller.new_update = False
        else:
            mass[dofs, dofs] = controller.mass_matrix

    def aim(self) -> None:
        """Take over the goal that the controller was given."""
        self._goal = self._controller.goal_qpos, self._controller.kp, self._controller.kd

    def run(self, mass: Array) -> None:
        """Torques for the next physics step."""
        self._ctrl[:] = self._torques(
            mass, *self._joints, self._dofs.start, *self._goal, *self._limits
        )

    def leave(self) -> None:
        """Let the controller measure anew."""
        self._controller.new_update = True


class _Constant:
    """A controller whose output is its goal, scaled, all through a control step: the gripper and
    the mobile base.
    """

    def __init__(self, model: Any, data: Any, controller: Any, actuators: npt.NDArray[np.intp]):
        scales = getattr(controller, "use_action_scaling", True)
        if (
            "goal_qvel" not in vars(controller)
            or getattr(controller, "interpolator", None) is not None
            or not scales
        ):
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


def _slice(indices: Any) -> slice:
    """Neighbouring addresses as a slice, so that reading them copies nothing."""
    first, count = int(indices[0]), len(indices)
    if [int(i) for i in indices] != list(range(first, first + count)):
        raise CapexError(
            f"the robot's joints {list(indices)} are not neighbours in the model; use"
            " stepping='original'"
        )
    return slice(first, first + count)


def _limits(model: Any, actuators: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    low, high = model.actuator_ctrlrange[actuators].T
    return low.copy(), high.copy()


def _unknown(controller: Any) -> CapexError:
    return CapexError(
        f"the fast stepping does not know robosuite's controller {controller.name} as set up here;"
        " use stepping='original'"
    )
