"""One arm of a rig inside the rig's process: its driver, servo and senses."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec, TypeVar, cast

import numpy as np

from capex.errors import RigFault
from capex.pose import Array, Pose, nearest_rotation
from capex.rigs.contact import Senses, StateAge
from capex.rigs.drivers import (
    ROTATION_OFF,
    ArmDriver,
    ArmFacts,
    ArmReading,
    ArmStatus,
    Foreseeing,
    rotation_off,
)
from capex.rigs.guard import TipState
from capex.rigs.rigfile import ArmEntry, GuardPolicy
from capex.rigs.servo import Servo, ServoLimits
from capex.worlds import ArmCommand, ArmState

P = ParamSpec("P")
T = TypeVar("T")
OPEN_M = 0.005  # fingers this near to their stop are open
GARBLED = "it measures numbers that are not finite"
NO_ROTATION = "it measures a rotation that is none"
NOT_FINITE = Pose(np.full(3, np.nan), np.full((3, 3), np.nan))


class ArmUnit:
    """Drives one arm. Whatever its driver raises makes it `lost`, a sentence, until `revive`: the
    process goes on and holds the other arms.
    """

    def __init__(self, entry: ArmEntry, driver: ArmDriver, policy: GuardPolicy):
        self.entry, self._driver, self._policy = entry, driver, policy
        self.facts: ArmFacts = driver.connect()
        step_m = min(entry.max_step_m, policy.max_step_m)
        step_rad = min(entry.max_step_rad, policy.max_step_rad)
        self._servo = Servo(
            ServoLimits(
                step_m,
                step_rad,
                policy.lead_m,
                policy.lead_rad,
                policy.max_step_m,
                policy.max_step_rad,
            )
        )
        self._senses = Senses(entry, self.facts, policy)
        self._age, self._age_s = StateAge(), 0.0
        self.reading: ArmReading = driver.read()
        self._told_m: float | None = None
        self.lost, self.garbled = "", _wrong_numbers(self.reading)
        if self.garbled:
            raise RigFault(f"{entry.name}: {self.garbled}")
        self.reading = _cleaned(self.reading)
        self.state: ArmState = self._senses.feel(self.reading)

    def measure(self, now_s: float) -> None:
        """Read the arm."""
        reading = self._try(self._driver.read)
        if reading is not None:
            self.garbled = _wrong_numbers(reading)
            if reading.grip_refused:
                self._told_m = None  # the next command of the gripper is sent
        if reading is not None and not self.garbled:
            self.reading = reading = _cleaned(reading)
            self._age_s = self._age.age_s(now_s, reading.time_s)
            self.state = self._senses.feel(reading)

    @property
    def tip_state(self) -> TipState:
        """What the guard sees."""
        return TipState(
            self.state.T_base_tip,
            self.reading.joints_rad,
            self._senses.force_n(self.reading),
            self._age_s,
            self.lost or self.garbled or self.reading.error,
            self.reading.opening_m,
        )

    def propose(self, command: ArmCommand) -> tuple[Pose | None, list[str]]:
        """The goal that the servo wants, base frame, and whether the step was too large."""
        numbers = [*(command.step_m or ()), *command.step_rad, command.gripper]
        if not np.isfinite(numbers).all():
            return NOT_FINITE, []
        goal = self._servo.propose(
            command, self.state.T_base_tip, pressing=bool(self.state.hand_contacts)
        )
        if command.step_m is None:
            return goal, []
        notes = []
        if np.linalg.norm(command.step_m) > self.entry.max_step_m * (1 + 1e-6):
            notes.append(f"step cut to {1000 * self.entry.max_step_m:.0f} mm")
        if np.linalg.norm(command.step_rad) > self.entry.max_step_rad * (1 + 1e-6):
            notes.append(f"turn cut to {np.degrees(self.entry.max_step_rad):.0f} deg")
        return goal, notes

    @property
    def force_n(self) -> tuple[float, float, float] | None:
        """The external force at the tip, base frame, where it is measured."""
        force = self._senses.force_n(self.reading)
        return None if force is None else (float(force[0]), float(force[1]), float(force[2]))

    @property
    def fingers_free(self) -> bool:
        """Whether nothing can be between the fingers: they are open and hold nothing."""
        return self.is_open and not self.state.held

    def tare(self, forces_n: Sequence[Array]) -> str:
        """Take the median of forces (3,), measured at rest with free fingers, as no force; or why
        not.
        """
        return self._senses.tare(forces_n)

    @property
    def raw_force_n(self) -> Array | None:
        """The external force as the robot measures it, base frame, its bias included."""
        return self._senses.raw_force_n(self.reading)

    @property
    def is_open(self) -> bool:
        """Whether the fingers stand open and were not told to close."""
        return self._told_m != 0.0 and self.reading.opening_m > self.facts.max_opening_m - OPEN_M

    @property
    def senses_force(self) -> bool:
        """Whether the arm measures the force at its tip."""
        return self.raw_force_n is not None

    @property
    def foresees(self) -> bool:
        """Whether its driver knows where a goal would lead the tip."""
        return hasattr(self._driver, "foreseen")

    def foreseen(self, goal: Pose) -> tuple[Pose, ...]:
        """Where a goal would lead the tip (`Foreseeing`); a driver that fails at that is lost."""
        T_base_mount = self.entry.T_base_mount
        call = cast(Foreseeing, self._driver).foreseen
        led = self._try(call, T_base_mount.inverse() @ goal)
        return (NOT_FINITE,) if led is None else tuple(T_base_mount @ pose for pose in led)

    def send(self, goal: Pose) -> None:
        """A goal that the guard let through."""
        self._servo.sent(goal)
        self._try(self._driver.command, self.entry.T_base_mount.inverse() @ goal)

    def held_back(self) -> None:
        """The guard let no goal through: the servo stays at the last one, and the arm holds."""
        self._servo.sent(self._servo.goal or self.state.T_base_tip)
        self.hold()

    def hold(self) -> None:
        """Keep the last goal."""
        self._try(self._driver.hold)

    def grip(self, sign: float) -> bool:
        """Below 0 opens, above 0 closes, 0 leaves it; True where the gripper was told anew."""
        opening_m = self.facts.max_opening_m if sign < 0 else 0.0
        if sign == 0 or opening_m == self._told_m:
            return False
        self._told_m = opening_m
        self._senses.told(opening_m, self.reading)
        self._try(self._driver.grip, opening_m)
        return True

    def stop(self, *, forget_bias: bool = False) -> None:
        """Stop now and hold; the next motion begins at the measured pose."""
        self._servo.rest(forget_bias=forget_bias)
        self._try(self._driver.stop)

    def recover(self) -> None:
        """Clear what stopped the arm, without a person (`ArmDriver.recover`)."""
        self._servo.rest()
        self._try(self._driver.recover, confirmed=False)

    def revive(self, now_s: float) -> None:
        """A person says that the arm is well again: connect anew, or clear its error."""
        if self.lost:
            self._try(self._driver.close)
            self.lost = ""
            self._try(self._driver.connect)
        self.measure(now_s)
        self._age, self._age_s = StateAge(), 0.0  # a driver may have waited: now is later
        if self.reading.status is not ArmStatus.READY and not self.lost:
            self._try(self._driver.recover, confirmed=True)
        self._senses.accept_any_tare()
        self._servo.rest(forget_bias=True)
        self._told_m = None

    def close(self) -> None:
        """Leave the arm as its driver leaves it."""
        self._try(self._driver.close)

    def _try(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return call(*args, **kwargs)
        except RigFault as error:
            self.lost = self.lost or str(error)
        except Exception as error:  # a driver's own mistake must not let go of the other arms
            if not self.lost:
                traceback.print_exc()
            self.lost = self.lost or f"its driver failed: {type(error).__name__}: {error}"
        return None


def _wrong_numbers(reading: ArmReading) -> str:
    """Why a reading cannot be used; empty where it can."""
    numbers = [*reading.joints_rad, reading.opening_m, reading.time_s, *(reading.force_n or ())]
    pose = reading.T_mount_tip
    finite = (
        np.isfinite(numbers).all()
        and np.isfinite(pose.position_m).all()
        and np.isfinite(pose.rotation).all()
    )
    if not finite:
        return GARBLED
    off = rotation_off(pose.rotation)
    return f"{NO_ROTATION} (off by {off:.2g})" if off > ROTATION_OFF else ""


def _cleaned(reading: ArmReading) -> ArmReading:
    """With a rotation that is one to the last bit: goals are built from it, and the last check and
    some robots refuse what is off by more than 1e-6.
    """
    pose = reading.T_mount_tip
    return replace(reading, T_mount_tip=Pose(pose.position_m, nearest_rotation(pose.rotation)))
