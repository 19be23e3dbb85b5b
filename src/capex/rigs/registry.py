"""Open rigs of this process: one connection per rig file, shared by its environments."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from capex.errors import CapexError, ErrorCode, RigFault
from capex.rigs.drivers import Camera, RigClock
from capex.rigs.link import RigLink
from capex.rigs.rigfile import RigFile

OPENING_AGREES_M = 0.005


@dataclass(frozen=True)
class OpenRig:
    """A rig's process, its cameras and the clock that they all run on."""

    rig: RigFile  # as it was opened: of a simulated room with the ports that it listens on
    link: RigLink
    cameras: Mapping[str, Camera]
    clock: RigClock
    held: contextlib.ExitStack  # closes cameras, arms and room, in this order

    def close(self) -> None:
        """Let go of everything; a fault while closing one thing keeps no other open."""
        self.held.close()


Opener = Callable[[RigFile], OpenRig]


@dataclass
class _Shared:
    rig: RigFile
    open: OpenRig
    users: int = 0


_OPEN: dict[Path, _Shared] = {}


def borrow(rig: RigFile, opener: Opener) -> OpenRig:
    """The open rig of a file, opened by the first who asks; give it back once."""
    key = rig.path.resolve()
    if key not in _OPEN:
        atexit.register(close_all)  # a program that ends without a word still leaves in order
        _OPEN[key] = _Shared(rig, _opened(rig, opener))
    shared = _OPEN[key]
    if shared.rig is not rig:
        raise CapexError(
            f"{rig.path} has changed while its rig is open; close its environments, or restart",
            code=ErrorCode.IN_USE,
        )
    shared.users += 1
    return shared.open


def give_back(rig: RigFile) -> None:
    """One user less; the last one closes the rig."""
    key = rig.path.resolve()
    shared = _OPEN.get(key)
    if shared is None:
        return
    shared.users -= 1
    if shared.users <= 0:
        del _OPEN[key]
        shared.open.close()


def close_all() -> None:
    """Close every rig that is open."""
    while _OPEN:
        _, shared = _OPEN.popitem()
        shared.open.close()


def reopen(rig: RigFile, opener: Opener) -> None:
    """Close a rig that was lost and open it again, for all who share it."""
    shared = _OPEN[rig.path.resolve()]
    with contextlib.suppress(RigFault):
        shared.open.close()
    shared.open = _opened(rig, opener)


def current(rig: RigFile) -> OpenRig:
    """The connection that is open now."""
    return _OPEN[rig.path.resolve()].open


def _opened(rig: RigFile, opener: Opener) -> OpenRig:
    """Open a rig whose arms and cameras are what its file says."""
    opened = opener(rig)
    try:
        _require_agreement(rig, opened)
    except BaseException:
        opened.close()
        raise
    return opened


def _require_agreement(rig: RigFile, opened: OpenRig) -> None:
    for arm in rig.arms:
        facts = opened.link.facts[arm.name]
        if abs(facts.max_opening_m - arm.max_opening_m) > OPENING_AGREES_M:
            raise CapexError(
                f"{rig.path}: arms '{arm.name}'.max_opening_m is {arm.max_opening_m:g}; the arm"
                f" itself says {facts.max_opening_m:g}",
                code=ErrorCode.MISMATCH,
            )
        if arm.joints not in (0, len(facts.joint_names)):
            raise CapexError(
                f"{rig.path}: arms '{arm.name}'.joints is {arm.joints}; the arm has"
                f" {len(facts.joint_names)}; without it they are no part of the state",
                code=ErrorCode.MISMATCH,
            )
        if arm.senses_force and not facts.senses_force:
            raise CapexError(
                f"{rig.path}: arms '{arm.name}'.senses_force is true; the arm measures no forces,"
                " so it must be false",
                code=ErrorCode.MISMATCH,
            )
    for camera in rig.cameras:
        size = tuple(opened.cameras[camera.name].size)
        if size != camera.size:
            raise CapexError(
                f"{rig.path}: cameras '{camera.name}'.size is {list(camera.size)}; the camera"
                f" itself delivers {list(size)}",
                code=ErrorCode.MISMATCH,
            )
