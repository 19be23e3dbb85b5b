"""A small robot for the rig's process: a tip that follows its goal with a first-order lag, sags, and
checks on its own side that every goal keeps the policy that it was told.

It logs each call as a line of JSON. Files in the folder `control` make it misbehave: `error` (its
text is an `ArmStatus`), `user_stop` (from when to when it reports one), `force` (three numbers),
`freeze` (the state stops), `lost` (no connection), `press` (who presses stop during the next hold).
Its joints are its tip's coordinates: a joint limit is a plane.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pressing import press

from capex.errors import RigFault
from capex.pose import DOWN, Pose, angle_between, rotation_matrix, rotation_vector
from capex.rigs.drivers import ArmFacts, ArmReading, ArmStatus

HAND_M = 0.15


class StandingClock:
    """Stands still but for `sleep_until`."""

    lock_step = True
    time_s = 100.0

    def now_s(self) -> float:
        return StandingClock.time_s

    def sleep_until(self, time_s: float) -> None:
        StandingClock.time_s = max(StandingClock.time_s, time_s)


class LaggingArm:
    """Options: `start_m` (base frame), `mount_m`, `lag_s`, `sag_m`, `control`, `log`, `policy`,
    `lock_step`; `pressed_at`, the command during which a person presses stop.
    """

    fleet: dict[str, LaggingArm] = {}  # noqa: RUF012 - the arms of this process, for their distance

    @staticmethod
    def clock(options: Mapping[str, Any]) -> StandingClock:
        return StandingClock()

    def __init__(self, options: Mapping[str, Any], name: str):
        self.options, self.name = options, name
        self.mount_m = np.array(options.get("mount_m", (0.0, 0.0, 0.0)))
        start_m = np.array(options.get("start_m", (0.4, 0.0, 0.3))) - self.mount_m
        self.tip = Pose(start_m, DOWN)
        self.goal: Pose | None = None
        self.opening_m = self.told_m = 0.08
        self.time_s = self.now_s()
        self.frozen: ArmReading | None = None
        self.last: Pose | None = None
        self.commands = 0
        LaggingArm.fleet[name] = self
        self.file = open(options["log"], "a") if "log" in options else None  # noqa: SIM115

    def now_s(self) -> float:
        return StandingClock.time_s if self.options.get("lock_step", True) else time.monotonic()

    def note(self, call: str, **more: Any) -> None:
        if self.file is not None:
            self.file.write(json.dumps({"call": call, "at": self.now_s(), **more}) + "\n")
            self.file.flush()

    def told(self, name: str) -> str | None:
        path = Path(self.options.get("control", "/nowhere")) / name
        return path.read_text() if path.exists() else None

    def connect(self) -> ArmFacts:
        self.note("connect")
        if self.told("lost") is not None:
            raise RigFault(f"the arm '{self.name}' does not answer")
        limits = self.options.get("limits_m", ((-9.0, 9.0),) * 3)
        return ArmFacts(
            ("jx", "jy", "jz"), tuple(map(tuple, limits)), 0.08, True, "it keeps its last goal"
        )

    def advance(self) -> None:
        """Let the tip follow until now."""
        elapsed, self.time_s = self.now_s() - self.time_s, self.now_s()
        part = 1.0 - math.exp(-elapsed / self.options.get("lag_s", 0.05))
        self.opening_m += part * (
            max(self.told_m, self.options.get("thing_m", 0.0)) - self.opening_m
        )
        if self.goal is None:
            return
        to_m = self.goal.position_m - np.array([0.0, 0.0, self.options.get("sag_m", 0.0)])
        turn = rotation_vector(self.goal.rotation @ self.tip.rotation.T)
        self.tip = Pose(
            self.tip.position_m + part * (to_m - self.tip.position_m),
            rotation_matrix(part * turn) @ self.tip.rotation,
        )

    def read(self) -> ArmReading:
        if self.told("lost") is not None:
            raise RigFault(f"the arm '{self.name}' does not answer")
        self.advance()
        force = tuple(float(n) for n in (self.told("force") or "0 0 0").split())
        joints = tuple(float(c) for c in self.tip.position_m)
        # As far from a rotation as what robots print with four digits: R^T R - I = -2e-5.
        rounded = Pose(self.tip.position_m, (1.0 - 1e-5) * self.tip.rotation)
        reading = ArmReading(
            rounded if self.options.get("rounds") else self.tip,
            joints,
            self.opening_m,
            self.now_s() - 7.0,
            force,
            self.status(),
        )
        if self.told("freeze") is None:
            self.frozen = reading
        return self.frozen or reading

    def status(self) -> ArmStatus:
        begin_s, end_s = (float(n) for n in (self.told("user_stop") or "0 0").split())
        if begin_s <= self.now_s() < end_s:
            return ArmStatus.USER_STOP
        return ArmStatus(self.told("error") or "ready")

    def command(self, T_mount_tip: Pose) -> None:
        self.advance()
        goal = Pose(T_mount_tip.position_m + self.mount_m, T_mount_tip.rotation)
        bad, back = self.outside(goal) if "policy" in self.options else ("", False)
        self.commands += 1
        if self.commands == self.options.get("pressed_at"):
            press(os.getpid(), wait=False)
        self.note("command", to=[round(float(c), 5) for c in goal.position_m], bad=bad, back=back)
        if self.told("error") is None:
            self.goal = T_mount_tip
        self.last = goal

    def outside(self, goal: Pose) -> tuple[str, bool]:
        """What of the policy a goal breaks, by sums of its own, and whether it only comes back from
        where the arm had sagged to or been stopped.
        """
        policy, to = self.options["policy"], goal.position_m
        if not (np.isfinite(to).all() and np.isfinite(goal.rotation).all()):
            return "not finite", False
        tip = self.present
        last = self.last or tip
        if np.linalg.norm(to - last.position_m) > policy["step_m"] + 1e-6:
            return "step", False
        if angle_between(goal.rotation, last.rotation) > policy["step_rad"] + 1e-6:
            return "turn", False
        if np.linalg.norm(to - tip.position_m) > policy["lead_m"] + 1e-6:
            return "lead", False
        before, after = self.excess_m(last), self.excess_m(goal)
        for low, high in policy["keep_out"]:
            way = last.position_m + np.linspace(0, 1, 21)[:, None] * (to - last.position_m)
            inside = ((way > np.array(low) + 1e-6) & (way < np.array(high) - 1e-6)).all(axis=1)
            if inside.any() and before["keep-out"] <= 0:
                return "through keep-out", False
        for what, much in after.items():
            if much > 1e-6:
                return what, much <= before[what] + 1e-6
        return "", False

    def excess_m(self, pose: Pose) -> dict[str, float]:
        """How far a pose is outside of the workspace, inside a keep-out, too near another arm."""
        policy, at = self.options["policy"], pose.position_m
        lower, upper = np.array(policy["lower_m"]), np.array(policy["upper_m"])
        boxes = [(np.array(low), np.array(high)) for low, high in policy["keep_out"]]
        others = [other for other in LaggingArm.fleet.values() if other is not self]
        apart = [self.apart_m(pose, other.last or other.present) for other in others]
        return {
            "workspace": float(np.linalg.norm(at - np.clip(at, lower, upper))),
            "keep-out": max(float(min((at - low).min(), (high - at).min())) for low, high in boxes),
            "arms": policy["apart_m"] - min(apart, default=np.inf),
        }

    @property
    def present(self) -> Pose:
        self.advance()
        return Pose(self.tip.position_m + self.mount_m, self.tip.rotation)

    @staticmethod
    def apart_m(one: Pose, other: Pose) -> float:
        """Distance of two hands, from many points of each."""
        along = np.linspace(0.0, HAND_M, 16)[:, None]
        a, b = (p.position_m - along * p.rotation[:, 2] for p in (one, other))
        return float(np.linalg.norm(a[:, None] - b[None], axis=2).min())

    @property
    def braked(self) -> Pose:
        """The goal that keeps it where it is."""
        sag = np.array([0.0, 0.0, self.options.get("sag_m", 0.0)])
        return Pose(self.tip.position_m + sag, self.tip.rotation)

    def hold(self) -> None:
        self.advance()
        if self.goal is None:
            self.goal = self.braked
        if (by := self.told("press")) is not None:
            (Path(self.options["control"]) / "press").unlink()
            press(os.getpid(), f"key of {by}", by, wait=False)
        self.note("hold")

    def grip(self, opening_m: float) -> None:
        self.advance()
        self.note("grip", opening_m=opening_m)
        self.told_m = opening_m

    def stop(self) -> None:
        self.advance()
        self.goal, self.last = self.braked, None
        self.note("stop")

    def recover(self, *, confirmed: bool) -> None:
        self.note("recover", confirmed=confirmed)
        if (error := self.told("error")) == ArmStatus.USER_STOP:
            raise RigFault(f"the arm '{self.name}' stays in the error '{error}'")
        (Path(self.options["control"]) / "error").unlink(missing_ok=True)
        self.goal, self.last = self.braked, None

    def close(self) -> None:
        self.note("close")
