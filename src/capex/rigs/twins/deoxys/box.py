"""The twin's Panda: its control box, and the torques that franka-interface asks of it.

Under Deoxys' controller (OSC_POSE) the tip is pulled with the gains of the message, small errors
count as none, and no joint gets more than 5 Nm beside what carries the arm. The gears rub, and the
hand carries a bracket that nobody entered at the desk: the arm stops short of a step and hangs a
little too low, as the real ones do. Without a controller the box itself holds the arm, and it does
not sag.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np

from capex.pose import Array, Pose, rotation_matrix, rotation_vector
from capex.rigs.twins.arm import CONTROL_STEPS, GRIP_M_S, REFLEX, STEP_S, USER_STOP, SimulatedArm
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.control import GAINS, TipGains

REFLEX_N = 100.0  # the collision threshold that franka-interface sets
MAX_TORQUE_NM = 5.0  # MAX_TORQUE of its control_config.yml
POLICY_S = 0.05  # the period of its policy rate
DEAD_BAND = np.array([1e-4] * 3 + [1e-2] * 3)  # m; of half the angle it is 5e-3
# Friction that the box's own compensation leaves over, and what a D435 with bracket and cable
# weighs: chosen so that a step of 2 cm falls 10-20 % short, as users of Deoxys report.
FRICTION_NM = np.array([0.9, 0.9, 0.9, 0.9, 0.35, 0.35, 0.35])
BRACKET_N = 1.5
HOMED_M = 0.079  # what homing found for the hand's largest width: no hand opens to 0.08 exactly
TICK_S = CONTROL_STEPS * STEP_S


@dataclass(frozen=True)
class PoseOrder:
    """One OSC_POSE message, as far as the arm has to do with it."""

    goal: Pose  # of the tip, frame of the mount
    gains: TipGains
    ramp_s: float  # how long the goal takes from the last one to this one


def gains_of(translation: Array, rotation: Array, residual: Array) -> TipGains:
    """The controller's gains from those of a message. Its rotation error is half the angle, ours
    the whole: hence half the stiffness, under the same damping.
    """
    return TipGains(
        np.concatenate([translation, 0.5 * rotation]),
        2.0 * np.sqrt(np.concatenate([translation, rotation])),
        DEAD_BAND,
        residual,
        MAX_TORQUE_NM,
    )


class DeoxysBox(SimulatedArm):
    """The arm and hand behind franka-interface and gripper-interface. `each_tick` is called before
    the torques of every 10 ms, `on_home` when whoever arranges has put the arm at home.
    """

    reflex_n = REFLEX_N
    max_opening_m = HOMED_M

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        each_tick: Callable[[], None],
        on_home: Callable[[], None],
    ):
        super().__init__(model, data)
        self._each_tick, self._on_home = each_tick, on_home
        dofs = [int(model.joint(j).dofadr[0]) for j in panda.JOINTS]
        self._dofs = np.array(dofs)
        model.dof_frictionloss[self._dofs] = FRICTION_NM
        self._osc = False
        self._settling = False
        self.periods = 0  # of 10 ms since it was put at home
        self.last_error = ""  # what ended the last motion; a user stop leaves none
        self._from = self._to = self.pose_now()
        self._ramp_s = self._ramped_s = 0.0

    def pose_now(self) -> Pose:
        """Of the tip, with kinematics made current."""
        mujoco.mj_forward(self._model, self._data)
        return self.pose

    def settle_at_home(self, seconds: float = 1.0) -> None:
        """At rest under the box's own controller, fingers open, no motion ordered."""
        self._osc, self._control.gains, self._settling = False, GAINS, True
        super().settle_at_home(seconds)
        self._settling = False
        self.periods, self.last_error = 0, ""
        self.brake()
        self._on_home()

    @property
    def joint_speeds_rad_s(self) -> Array:
        """Of the seven joints."""
        return np.array(self._data.qvel[self._dofs])

    @property
    def goal(self) -> Pose:
        """What the controller pulls to now."""
        return Pose(self._control.goal_position_m, self._control.goal_rotation)

    # The arm

    def order(self, order: PoseOrder) -> None:
        """Begin a motion, or give the one that runs a new goal; a motion begins without a ramp."""
        self._control.gains = order.gains
        self._from = self._to if self._osc else order.goal
        self._to, self._osc, self._braked = order.goal, True, False
        self._ramp_s, self._ramped_s = order.ramp_s, 0.0

    def end_motion(self) -> None:
        """The box holds the arm where it is."""
        self.brake()

    def brake(self, error: str = "") -> None:
        """Stop where it is; with an error until `recover`. What ended a motion stays known after
        that, also when a person then presses the stop: as in last_motion_errors.
        """
        super().brake(error)
        if self._osc:
            self.last_error = error if error != USER_STOP else ""
        self._osc, self._control.gains = False, GAINS

    def command(self, goal: Pose, now_s: float) -> None:
        """Goals come as `order`; the room logs them through here."""

    def recover(self, now_s: float) -> bool:
        """Clear an error."""
        recovered = super().recover(now_s)
        self._heard_s = None  # whose watch that is belongs to franka-interface
        return recovered

    def watch(self, now_s: float) -> None:
        """Also a joint that is too fast is a reflex."""
        super().watch(now_s)
        too_fast = (np.abs(self.joint_speeds_rad_s) > panda.SPEED_RAD_S).any()
        if self._osc and too_fast and not self.error:
            self.brake(REFLEX)

    def run(self) -> None:
        """The programs first, then the controls of the next 10 ms."""
        self.periods += 1
        if not self._settling:
            self._each_tick()
        if self._osc:
            self._ramp()
        super().run()

    def _ramp(self) -> None:
        done = 1.0 if self._ramp_s <= 0.0 else min(1.0, self._ramped_s / self._ramp_s)
        self._ramped_s += TICK_S
        if done >= 1.0:
            goal = self._to
        else:
            way_m = self._to.position_m - self._from.position_m
            turn = rotation_vector(self._to.rotation @ self._from.rotation.T)
            rotation = rotation_matrix(done * turn) @ self._from.rotation
            goal = Pose(self._from.position_m + done * way_m, rotation)
        self._control.goal_position_m = goal.position_m.copy()
        self._control.goal_rotation = goal.rotation.copy()

    def _load_n(self) -> float:
        return BRACKET_N if self._osc else 0.0

    # The hand, which knows nothing of the arm

    @property
    def width_m(self) -> float:
        """Between the fingers."""
        return float(self._data.qpos[self._fingers].sum())

    def fingers_to(self, width_m: float, speed_m_s: float) -> None:
        """Towards a width, no faster than the hand can."""
        if math.isfinite(width_m) and speed_m_s > 0.0:
            self._grip_m_s = min(speed_m_s, GRIP_M_S)
            self._grip_goal_m = min(HOMED_M, max(0.0, width_m))

    def fingers_stop(self) -> None:
        """Stay at the width that they have."""
        self._grip_goal_m = self._opening_m
