"""The twin's two YAM arms as i2rt's follower programs run them, a program for each arm.

A program that was just started lets its arm float; from the first joint goal on it holds goals, the
last one for ever, with i2rt's own stiffness (its yam.yml). It carries the arm's weight by a model
that is a little wrong, so that joints 3 and 4 hang about 30 mrad below their goals, which is what
users measure; what the hand holds is carried by nobody. Motors that hear nothing from their program
for 400 ms only damp, and the arm sinks: a YAM has no brakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import mujoco
import numpy as np

from capex.pose import Array, Pose
from capex.rigs.drivers.yam.kinematics import JOINTS, MAX_OPENING_M, YAM
from capex.rigs.twins.arm import CONTROL_STEPS, STEP_S, USER_STOP

Mode = Literal["floats", "holds", "damps"]
ARMS = ("left", "right")
DOFS = 7  # six joints and the gripper, 0 closed to 1 open
KP: Array = np.array(YAM.kp)
KD: Array = np.array(YAM.kd)
FLOATING_KD: Array = np.array([0.1, 0.1, 0.1, 0.3, 0.05, 0.05])
# Part of the weight that is carried while holding. i2rt's own factors are above 1 and the real arms
# sag all the same, by friction and cables; these leave about 30 mrad at joints 3 and 4.
CARRIED: Array = np.array([1.0, 1.0, 0.45, 0.72, 1.0, 1.0])
LIMIT_SLACK_RAD = 0.15  # i2rt clips goals to the ranges of its model, this much wider
# As an arm without power lies: folded, joints 2 and 3 on the stops of their ranges.
REST_RAD: Array = np.zeros(6)
LIFTED_RAD: Array = np.array([0.0, 1.2, 1.1, -1.2, 0.0, 0.0])  # where a person lets go of it
DEAF_S = 0.4  # after which motors damp: their factory setting
GRIP_M_S = 0.2  # of the opening
TICK_S = CONTROL_STEPS * STEP_S
Trouble = Callable[[str, str], bool]  # whether a fault of that kind is on for that arm


class FollowerArm:
    """One arm and the program that drives its motors. A scene names its parts by the arm."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, name: str):
        self.name, self._model, self._data = name, model, data
        joints = [model.joint(f"{name}_{joint}") for joint in JOINTS]
        fingers = [model.joint(f"{name}_finger_{side}") for side in ("left", "right")]
        self._q = np.array([int(joint.qposadr[0]) for joint in joints])
        self._v = np.array([int(joint.dofadr[0]) for joint in joints])
        self._fingers = np.array([int(joint.qposadr[0]) for joint in fingers])
        self._motors = np.array([model.actuator(joint.name).id for joint in joints])
        self._finger_motors = np.array([model.actuator(joint.name).id for joint in fingers])
        self._silent_s = 0.0
        self._seen: Array = np.zeros(DOFS)
        self.starts = 0  # of the program: a client that sees a new number begins anew
        self.goal_rad: Array = np.zeros(6)
        self._grip_goal_m = self._opening_m = MAX_OPENING_M
        self.mode: Mode = "floats"
        self.start()

    def start(self, mode: Mode = "floats") -> None:
        """The program begins anew, with the arm where it is and the fingers as they are."""
        self.goal_rad = self._data.qpos[self._q].copy()
        self._grip_goal_m = self._opening_m = float(self._data.qpos[self._fingers].sum())
        self._silent_s = 0.0
        self.starts += 1
        self._become(mode)

    def put(self, q: Array) -> None:
        """Its joints are brought elsewhere, by a hand or by its weight."""
        self._data.qpos[self._q], self._data.qvel[self._v] = q, 0.0

    def tell(self, joints: Array) -> None:
        """A goal: seven numbers, as the program clips them."""
        slack = LIMIT_SLACK_RAD
        self.goal_rad = np.clip(joints[:6], YAM.lower_rad - slack, YAM.upper_rad + slack)
        self._grip_goal_m = MAX_OPENING_M * float(np.clip(joints[6], 0.0, 1.0))
        self._become("holds")

    def measured(self) -> Array:
        """Seven numbers of the simulation."""
        opening = self._data.qpos[self._fingers].sum() / MAX_OPENING_M
        return np.append(self._data.qpos[self._q], opening)

    def seen(self, *, hangs: bool) -> Array:
        """What the program reports; one that hangs repeats itself."""
        if not hangs:
            self._seen = self.measured()
        return self._seen

    def run(self, *, deaf: bool, cut: bool, jammed: bool) -> None:
        """The controls of the next 10 ms. Deaf motors keep what they were told until they damp; cut
        off from power they damp at once.
        """
        self._silent_s = self._silent_s + TICK_S if deaf or cut else 0.0
        if cut or self._silent_s > DEAF_S:
            self._become("damps")
        if deaf and self.mode != "damps":
            return
        if jammed:
            self._opening_m = float(self._data.qpos[self._fingers].sum())
        else:
            step = GRIP_M_S * TICK_S
            self._opening_m += min(step, max(-step, self._grip_goal_m - self._opening_m))
        carried = {"floats": np.ones(6), "holds": CARRIED, "damps": np.zeros(6)}[self.mode]
        self._data.qfrc_applied[self._v] = carried * self._data.qfrc_bias[self._v]
        self._data.ctrl[self._motors] = self.goal_rad
        self._data.ctrl[self._finger_motors] = 0.5 * self._opening_m

    def _become(self, mode: Mode) -> None:
        """Set the motors' stiffness and damping."""
        self.mode = mode
        kp = KP if mode == "holds" else np.zeros(6)
        self._model.actuator_gainprm[self._motors, 0] = kp
        self._model.actuator_biasprm[self._motors, 1] = -kp
        damping = FLOATING_KD if mode == "floats" else KD
        self._model.actuator_biasprm[self._motors, 2] = -damping


class YamPair:
    """Both arms, in the place of a room's one."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, trouble: Trouble):
        self._model, self._data, self._trouble = model, data, trouble
        self.arms: Mapping[str, FollowerArm] = {n: FollowerArm(model, data, n) for n in ARMS}
        self.error = ""

    def settle_at_home(self, seconds: float = 1.0) -> None:
        """Make the present pose one at which both arms rest, held; fingers open."""
        mujoco.mj_forward(self._model, self._data)
        self.error = ""
        homes = {}
        for name, arm in self.arms.items():
            arm.start("holds")
            homes[name] = arm.goal_rad.copy()
            arm.tell(np.append(homes[name], 1.0))
        for _ in range(round(seconds / TICK_S)):
            for name, arm in self.arms.items():
                arm.goal_rad = arm.goal_rad + 0.1 * (homes[name] - arm.measured()[:6])
                arm.run(deaf=False, cut=False, jammed=False)
            mujoco.mj_step2(self._model, self._data)
            mujoco.mj_step(self._model, self._data, CONTROL_STEPS - 1)
            mujoco.mj_step1(self._model, self._data)

    def switch_on(self) -> None:
        """Both arms lie where they lay without power, and their programs begin: they float."""
        for arm in self.arms.values():
            arm.put(REST_RAD)
            arm.start()

    def lift(self) -> None:
        """A person lifts the arms that float; one that is held is too stiff for that."""
        for arm in self.arms.values():
            if arm.mode == "floats":
                arm.put(LIFTED_RAD)

    def tell(self, name: str, joints: Array) -> None:
        """A goal for one arm."""
        self.arms[name].tell(joints)

    def command(self, goal: Pose, now_s: float) -> None:
        """Goals come by joints (`tell`); the room only counts those of the tips."""

    def brake(self, error: str = "") -> None:
        """Someone cuts the power, or both programs end: nothing here can brake."""
        self.error = error if error == USER_STOP else self.error or error

    def release(self) -> None:
        """A person starts both programs anew; their arms float."""
        if self.error:
            self.error = ""
            for arm in self.arms.values():
                arm.start()

    def run(self) -> None:
        """The controls of the next 10 ms."""
        for name, arm in self.arms.items():
            gone = self._trouble("server-gone", name)
            if not gone and arm.mode == "damps" and not self.hangs(name) and not self.error:
                arm.start()  # the fault is over: somebody started the program again
            deaf = gone or self.hangs(name) or bool(self.error)
            cut = self.error == USER_STOP
            arm.run(deaf=deaf, cut=cut, jammed=self._trouble("gripper-jammed", name))

    def hangs(self, name: str) -> bool:
        """Whether an arm's program hangs: its server answers, and nothing changes."""
        return self._trouble("frozen-arm", name)

    def feel(self) -> None:
        """A YAM measures no forces."""

    def watch(self, now_s: float) -> None:
        """No reflexes, no watchdog of the arms' own but that of the motors, which `run` has."""

    def state(self) -> tuple[Array, ...]:
        """Seven numbers for each arm."""
        return tuple(arm.seen(hangs=self.hangs(name)) for name, arm in self.arms.items())
