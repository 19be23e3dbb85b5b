"""Opens a rig: its simulated room where it has one, the process that owns its arms, its cameras,
and the clock that they run on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from capex.rigs.cameras import open_cameras
from capex.rigs.client import open_link
from capex.rigs.link import RigLink
from capex.rigs.locks import RigLock, lock_key
from capex.rigs.registry import OpenRig
from capex.rigs.rigfile import CameraEntry, RigFile
from capex.rigs.rigprocess import make_clock


@contextmanager
def open_arms(rig: RigFile) -> Iterator[tuple[RigFile, RigLink]]:
    """The arms of a rig, locked and connected, and its simulated room where it has one, with the
    rig as it was opened. Nothing is sent to an arm before the first request that needs it held.
    """
    with ExitStack() as opened:
        if rig.room:
            from capex.rigs.twins.start import prepare

            rig, end_room = prepare(rig)
            opened.callback(end_room)
        link = open_link(rig)
        opened.callback(link.close)
        yield rig, link


def open_rig(rig: RigFile) -> OpenRig:
    """Connect everything that a rig file names; nothing moves."""
    with ExitStack() as opened:
        rig, link = opened.enter_context(open_arms(rig))
        for key, names in _camera_keys(rig).items():
            opened.callback(RigLock(f"the camera {', '.join(names)}", key, rig.name).release)
        clock = make_clock(rig)
        cameras = open_cameras(rig, clock)
        for camera in cameras.values():
            opened.callback(camera.close)
        return OpenRig(rig, link, cameras, clock, opened.pop_all())


def camera_key(camera: CameraEntry) -> str:
    """What two processes may not share; not the arm's, though both may have one address."""
    return f"camera {camera.driver} {lock_key(camera.lock, camera.options)}"


def _camera_keys(rig: RigFile) -> dict[str, list[str]]:
    """The cameras by their locks: those of one address share one."""
    keys: dict[str, list[str]] = {}
    for camera in rig.cameras:
        keys.setdefault(camera_key(camera), []).append(camera.name)
    return keys
