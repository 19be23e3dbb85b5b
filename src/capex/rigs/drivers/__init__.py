"""What a rig brings: arms and cameras, behind two small protocols.

A driver is the only code that speaks a robot's wire. It runs in the rig's own process, beside the
guard; a camera runs in a process of its own. Poses are those of the tip in the frame of the arm's
mount, metres and radians; times are seconds.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode, UnknownName
from capex.pose import Array, Pose, nearest_rotation
from capex.worlds import Image

# What a rig file may name as a driver: the module:callable that makes one, an arm's from (options,
# name), a camera's from (options, name, size).
DRIVERS = {
    "room": "capex.rigs.twins.driver:RoomArm",
    "deoxys": "capex.rigs.drivers.deoxys.driver:DeoxysArm",
    "franky": "capex.rigs.drivers.franky:FrankyArm",
    "yam": "capex.rigs.drivers.yam.driver:YamArm",
}
CAMERA_DRIVERS = {
    "room": "capex.rigs.twins.camera:RoomCamera",
    "realsense": "capex.rigs.cameras.realsense:RealSenseCamera",
    "replay": "capex.rigs.cameras:ReplayCamera",
}


def require_driver(name: str, known: Mapping[str, str]) -> None:
    """Refuse a driver that is neither known by name nor written module:callable."""
    module, colon, attribute = name.partition(":")
    own = bool(colon) and all(p.isidentifier() for p in (*module.split("."), attribute))
    if name not in known and not own:
        also = ", or module:callable of your own, as in my_lab.arm:MyArm"
        raise UnknownName("driver", name, known, also=also)


def load_driver(name: str, known: Mapping[str, str]) -> Callable[..., Any]:
    """The callable behind a driver's name, imported now."""
    require_driver(name, known)
    module, _, attribute = known.get(name, name).partition(":")
    try:
        make: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise CapexError(
            f"the driver '{name}' cannot be imported ({error}); is {module} on the path?",
            code=ErrorCode.NOT_FOUND,
        ) from None
    return make


@dataclass(frozen=True)
class ArmFacts:
    """What an arm says of itself once it is connected."""

    joint_names: tuple[str, ...]
    joint_limits_rad: tuple[tuple[float, float], ...]  # lower, upper
    max_opening_m: float
    senses_force: bool  # whether `ArmReading.force_n` is measured
    on_disconnect: str  # one sentence: what the arm does when this process ends without a word
    # An external force above it is contact where the rig file says no other: what the robot
    # measures in free air, once its bias is subtracted, must stay below.
    contact_n: float = 5.0
    floats: bool = False  # until it is first held, which makes it too stiff for a hand
    by_hand: str = ""  # how a person can move it, where it is not just pushed


class ArmStatus(StrEnum):
    """Whether an arm may move, or what stopped it."""

    READY = "ready"
    REFLEX = "reflex"  # the robot stopped itself, and its state says so
    FAULT = "fault"  # another error that a program may try to clear
    USER_STOP = "user stop"  # a person stopped it, or guides it by hand
    NOT_READY = "not ready"  # locked joints, an interface that is off
    UNEXPLAINED = "unexplained stop"  # nothing shows why it stopped: it may have been a person

    @property
    def needs_person(self) -> bool:
        """Whether a person must say that the arm may move again."""
        return self in (ArmStatus.USER_STOP, ArmStatus.NOT_READY, ArmStatus.UNEXPLAINED)


@dataclass(frozen=True)
class ArmReading:
    """What an arm measured last. Freshness is judged by `time_s`, the robot's own clock."""

    T_mount_tip: Pose  # its rotation may be a little off one, as robots round it
    joints_rad: tuple[float, ...]
    opening_m: float
    time_s: float
    force_n: tuple[float, float, float] | None = None  # external, at the tip, frame of the mount
    status: ArmStatus = ArmStatus.READY
    detail: str = ""  # of a status that is not READY, in the words of the robot
    grip_refused: bool = False  # the hand has given up the last `grip`; it may be sent again

    @property
    def error(self) -> str:
        """Why the arm does not move, in words; empty while it may."""
        if self.status is ArmStatus.READY:
            return ""
        kind = "" if self.status is ArmStatus.FAULT and self.detail else str(self.status)
        return ": ".join(dict.fromkeys(filter(None, (kind, self.detail))))


ROTATION_OFF = 1e-3  # of an entry: robots print theirs with four digits


def rotation_off(matrix: Array) -> float:
    """How far the entry of a measured matrix (3,3) that is off most is from those of the nearest
    rotation; infinite where the matrix is not finite.
    """
    if not np.isfinite(matrix).all():
        return math.inf
    return float(np.abs(matrix - nearest_rotation(matrix)).max())


class ArmDriver(Protocol):
    """One arm with its gripper. No call blocks for longer than a tick, but `connect`, `recover` and
    `close`.
    """

    def connect(self) -> ArmFacts:
        """Reach the arm; nothing moves. RigFault with a sentence where it cannot be reached."""

    def read(self) -> ArmReading:
        """The latest state; a stale one is given as it is, with its old time."""

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip for the coming tick."""

    def hold(self) -> None:
        """Keep the last goal, or the measured pose before the first; also the heartbeat of a robot
        that wants one. Called every tick in which nothing is commanded.
        """

    def grip(self, opening_m: float) -> None:
        """Open or close towards an opening; sent on change only."""

    def stop(self) -> None:
        """Stop now and hold."""

    def recover(self, *, confirmed: bool) -> None:
        """Clear the stop that `read` reports, or RigFault. `confirmed`: a person has looked at the
        robot and says that it may move. Without one the rig calls it after REFLEX and FAULT only,
        and what cannot be proven to be the robot's own stop becomes UNEXPLAINED.
        """

    def close(self) -> None:
        """Leave the arm as safely as it can be left."""


class Foreseeing(Protocol):
    """What a driver may have, too, that solves goals for joints which cannot always have them."""

    def foreseen(self, T_mount_tip: Pose) -> tuple[Pose, ...]:
        """Where `command` with this goal would lead the tip; then the tip on its way from where it
        is measured to where it would come to rest, should that be the last command. Nothing is
        sent.
        """


Depth = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Frame:
    """One picture of a camera."""

    image: Image
    number: int  # the device's count; a repeated number is a repeated picture
    device_s: float  # the device's clock when it was taken
    arrived_s: float  # the rig's clock when it came
    depth: Depth | Callable[[], Depth] | None = None  # aligned to the image; or how to get it

    @property
    def depth_m(self) -> Depth | None:
        """Metres at each pixel, where the camera measures it."""
        return self.depth() if callable(self.depth) else self.depth


class Camera(Protocol):
    """One camera, drained all the time: `latest` is never an old picture out of a queue."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""

    @property
    def intrinsics(self) -> Array | None:
        """(3,3), the first pixel's centre being (0.5, 0.5); None where it is not known."""

    def start(self) -> None:
        """Begin to deliver; warm-up pictures are thrown away. RigFault where there is none."""

    def latest(self) -> Frame:
        """The newest picture, at once; RigFault before the first or after the camera was lost."""

    def close(self) -> None:
        """Stop."""


def about(camera: Camera) -> str:
    """What a camera says of its device in words, for checks and records; a driver may have it."""
    return str(getattr(camera, "about", ""))


class RigClock(Protocol):
    """The time that a rig runs on: the machine's own, or a simulated room's in lock-step."""

    @property
    def lock_step(self) -> bool:
        """Whether time passes only in `sleep_until`."""

    def now_s(self) -> float:
        """Seconds, never going back."""

    def sleep_until(self, time_s: float) -> None:
        """Return at that time; at once where it has passed. In lock-step the room advances to it,
        with whatever was commanded before.
        """


class RealClock:
    """The machine's monotonic clock."""

    lock_step = False

    def now_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def sleep_until(self, time_s: float) -> None:
        """Sleep; a time in the past returns at once."""
        time.sleep(max(0.0, time_s - time.monotonic()))
