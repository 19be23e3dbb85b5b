"""The room's Panda as its control box would run it: goals, grip, watchdog, reflexes, forces.

The tip is pulled to its goal by the operational-space controller, about as stiff as 750 N/m, and a
tool that nobody told the controller about pulls it down, so that it sags by about a centimetre and
never quite arrives: what stacks of this kind do. A person's e-stop, a reflex and the watchdog
engage the brakes, which hold without sagging.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from capex.pose import Array, Pose
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.control import TipController, actuators
from capex.worlds.kitchen.robot import FINGER_TRAVEL_M

STEP_S = 0.002  # of the simulation
CONTROL_STEPS = 5  # a torque, and a state for whoever listens, every 10 ms
WATCHDOG_S = 1.0  # Deoxys': without a command or a heartbeat for so long, the arm brakes
REFLEX_N = 60.0  # an external force above it stops the arm
JUMP_M = 0.15  # a goal farther than this from the last one is refused, as libfranka refuses it
TOOL_N = 6.0  # of a tool that nobody told the controller about
GRIP_M_S = 0.1  # of the opening: a Franka hand's top speed
FORCE_SMOOTHING = 0.7  # of a state's force by the one before: the estimate lags like a real one
REFLEX, WATCHDOG, USER_STOP = "reflex", "watchdog", "user stop"
MAX_OPENING_M = 2 * FINGER_TRAVEL_M
# The wrist is what a force at the tip can be told from; a blow on the elbow cannot.
_FELT = ("link5", "link6", "link7", "hand", "finger_left", "finger_right")


class SimulatedArm:
    """One arm with its gripper in one simulation. Times are those of the room's clock."""

    reflex_n = REFLEX_N
    max_opening_m = MAX_OPENING_M

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._model, self._data = model, data
        self._control = TipController(model)
        self._joints = np.array([int(model.joint(j).qposadr[0]) for j in panda.JOINTS])
        names = ("finger_left", "finger_right")
        self._fingers = np.array([int(model.joint(n).qposadr[0]) for n in names])
        self._finger_controls = actuators(model, names)
        self._hand = model.body("hand").id
        self._felt = np.array([model.body(name).id for name in _FELT])
        self._mount = model.site("mount").id
        self.error = ""
        self._heard_s: float | None = None  # the watchdog begins with the first command
        self._braked = False
        self._opening_m = self._grip_goal_m = self.max_opening_m
        self._grip_m_s = GRIP_M_S
        self._force_n: Array = np.zeros(3)
        self._felt_n: Array = np.zeros(3)  # summed since the last estimate, world frame
        self._felt_steps = 0

    def settle_at_home(self, seconds: float = 1.0) -> None:
        """Make the arm's present pose one at which it rests under its load; the simulation runs,
        but the room's clock does not see it.
        """
        mujoco.mj_forward(self._model, self._data)
        self.error, self._braked, self._heard_s = "", False, None
        self._opening_m = self._grip_goal_m = self.max_opening_m
        self._control.reset(self._data)
        home = self._control.goal_position_m.copy()
        for _ in range(round(seconds / (CONTROL_STEPS * STEP_S))):
            achieved, _ = self._control.achieved(self._data)
            self._control.goal_position_m += 0.1 * (home - achieved)
            self.run()
            mujoco.mj_step2(self._model, self._data)
            mujoco.mj_step(self._model, self._data, CONTROL_STEPS - 1)
            mujoco.mj_step1(self._model, self._data)
        self._force_n, self._felt_n, self._felt_steps = np.zeros(3), np.zeros(3), 0

    @property
    def pose(self) -> Pose:
        """Of the tip in the frame of the mount."""
        return Pose(*self._control.achieved(self._data))

    def state(self) -> tuple[Array, ...]:
        """Position 3, rotation 3x3, joints 7, opening 1, force 3."""
        at = self.pose
        opening = self._data.qpos[self._fingers].sum(keepdims=True)
        return at.position_m, at.rotation, self._data.qpos[self._joints], opening, self._force_n

    def command(self, goal: Pose, now_s: float) -> None:
        """A goal for the tip; one that is not a number or too far off is a reflex."""
        self._heard_s = now_s
        if self.error:
            return
        offset_m = float(np.linalg.norm(goal.position_m - self._control.goal_position_m))
        if not (np.isfinite(goal.rotation).all() and offset_m <= JUMP_M):  # also false for NaN
            self.brake(REFLEX)
            return
        self._braked = False
        self._control.goal_position_m = goal.position_m.copy()
        self._control.goal_rotation = goal.rotation.copy()

    def heartbeat(self, now_s: float) -> None:
        """The last goal is kept for another while."""
        self._heard_s = now_s

    def grip(self, opening_m: float, now_s: float) -> None:
        """Move the fingers towards an opening, at their own speed."""
        self._heard_s = now_s
        if math.isfinite(opening_m) and not self.error:
            self._grip_goal_m = min(self.max_opening_m, max(0.0, opening_m))

    def brake(self, error: str = "") -> None:
        """Stop where it is; with an error until `recover`, without one until the next goal. A user
        stop takes the place of any other error.
        """
        self.error = error if error == USER_STOP else self.error or error
        self._braked = True
        at = self.pose
        self._control.goal_position_m, self._control.goal_rotation = at.position_m, at.rotation

    def recover(self, now_s: float) -> bool:
        """Clear an error; a user stop is cleared by a person (`release`)."""
        if self.error == USER_STOP:
            return False
        self.error, self._heard_s = "", now_s
        return True

    def release(self) -> None:
        """A person has unlocked the e-stop."""
        if self.error == USER_STOP:
            self.error, self._heard_s = "", None

    def feel(self) -> None:
        """After every simulation step: a blow of 2 ms, as of a finger that meets a block, weighs as
        little as it does on joints that have inertia.
        """
        mujoco.mj_rnePostConstraint(self._model, self._data)
        self._felt_n += self._data.cfrc_ext[self._felt, 3:].sum(axis=0)
        self._felt_n -= self._data.xfrc_applied[self._hand, :3]
        self._felt_steps += 1

    def watch(self, now_s: float) -> None:
        """Every 10 ms: estimate the force, and brake where it is too large or the silence too
        long.
        """
        measured = np.empty(3)
        mount_R = self._data.site_xmat[self._mount].reshape(3, 3)
        mujoco.mju_mulMatTVec(measured, mount_R, self._felt_n / max(1, self._felt_steps))
        self._felt_n, self._felt_steps = np.zeros(3), 0
        self._force_n = FORCE_SMOOTHING * self._force_n + (1.0 - FORCE_SMOOTHING) * measured
        x, y, z = self._force_n.tolist()
        if math.sqrt(x * x + y * y + z * z) > self.reflex_n and not self.error:
            self.brake(REFLEX)
        if self._heard_s is not None and now_s - self._heard_s > WATCHDOG_S and not self.error:
            self.brake(WATCHDOG)

    def run(self) -> None:
        """Write the controls of the next 10 ms; positions and velocities must be current."""
        step = self._grip_m_s * CONTROL_STEPS * STEP_S
        self._opening_m += min(step, max(-step, self._grip_goal_m - self._opening_m))
        self._data.ctrl[self._finger_controls] = 0.5 * self._opening_m
        self._data.xfrc_applied[self._hand, 2] = -self._load_n()
        self._control.run(self._model, self._data, first=True)

    def _load_n(self) -> float:
        """Weight at the hand that the controller does not know of."""
        return 0.0 if self._braked else TOOL_N
