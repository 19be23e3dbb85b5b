"""What franka-interface is told, message after message, so that its controller begins where the arm
is and goes on as long as we live.

A controller starts only from NO_CONTROL, and while none runs the published state is an old one: the
arm may have been led elsewhere by hand. So a start is: NO_CONTROL, then a pull that is too soft to
move the arm, until the robot's clock goes on, then the pose that was measured. Holding repeats the
last absolute goal, which keeps states fresh and does not drift, as a delta of zero would.
"""

from __future__ import annotations

from dataclasses import replace

from capex.pose import Pose
from capex.rigs.drivers.deoxys.messages import IDLE, MOVE, Gains, PandaState, no_control, pose_goal

RELEASES = 2  # messages: one look of franka-interface every 50 ms is to see one of them
SOFT = (1.0, 1.0, 1.0)  # 1/s²: 10 cm of error move the arm by 0.1 mm in a period
SILENCE_S = 0.9  # after 1 s without a message franka-interface has ended


class TorqueLoop:
    """Our idea of the loop in franka-interface. `goal` is of the end effector, None while no
    controller is known to run.
    """

    def __init__(self, gains: Gains):
        self._gains, self._soft = gains, replace(gains, translation=SOFT, rotation=SOFT)
        self.goal: Pose | None = None
        self._sent_s = self._looked_s = 0.0
        self._steps = 0

    def fall(self) -> None:
        """The controller is gone; the next message begins a new start."""
        self.goal, self._steps = None, 0

    def watch(self, before: PandaState | None, state: PandaState) -> bool:
        """Notice that another franka-interface runs, or that the robot left its motion. True for
        the latter while our controller ran and we did not end it.
        """
        if before is None or state is before:
            return False
        anew, left = state.frame < before.frame, (before.mode, state.mode) == (MOVE, IDLE)
        by_itself = left and not anew and self.goal is not None
        if anew or left:
            self.fall()
        return by_itself

    def release(self) -> bytes:
        """Let the controller end, and keep the program alive."""
        self.fall()
        return no_control()

    def message(self, state: PandaState, now_s: float, goal: Pose | None = None) -> bytes:
        """The next message: a goal, or the last one again. Before the controller runs a goal is not
        taken: the arm is held where it is first.
        """
        if now_s - self._sent_s > SILENCE_S:
            self.fall()
        self._sent_s = now_s
        if self.goal is None:
            return self._start(state)
        if goal is not None:
            self.goal = goal
        return pose_goal(self.goal, self._gains)

    def _start(self, state: PandaState) -> bytes:
        self._steps += 1
        if self._steps <= RELEASES or not state.finite:
            return no_control()
        if self._steps == RELEASES + 1:
            self._looked_s = state.time_s
        if state.time_s == self._looked_s:
            return pose_goal(state.ee_pose, self._soft)
        self.goal = state.ee_pose
        return pose_goal(self.goal, self._gains)
