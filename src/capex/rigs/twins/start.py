"""Start the room of a rig file before its arms and cameras are reached, and end it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import capex
from capex.errors import CapexError, ErrorCode, RigFault
from capex.processes import SAFE_PATH
from capex.rigs.rigfile import RigFile
from capex.rigs.twins.faults import require_fault

FPS = 30.0  # of the cameras
KEYS = ("scene", "wire", "fps", "faults")
ENDS_S = 5.0


def prepare(rig: RigFile) -> tuple[RigFile, Callable[[], None]]:
    """The rig with the ports of a room that was started for it, and a function that ends the room.
    A rig file that names the ports of a running room (arm, cameras, side) gets that one. Every port
    of the room is among the options of its arms, `port` being the arm's.
    """
    settings = _settings(rig)
    if running(rig):
        known = {key: int(port) for key, port in rig.room.items() if key not in KEYS}
        return _with_ports(rig, known), lambda: None
    process = subprocess.Popen(
        [sys.executable, "-m", "capex.rigs.twins.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **SAFE_PATH, "PYTHONPATH": _path()},
        start_new_session=True,  # Ctrl-C is for whoever started it
        text=True,
    )

    def end() -> None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.flush()
        ports = process.stdout.readline()
    except BrokenPipeError:
        ports = ""
    opened = json.loads(ports or "{}")
    if "arm" not in opened:
        end()
        why = f": {opened['refused']}" if "refused" in opened else ""
        raise RigFault(f"the simulated room of '{rig.name}' did not start{why}")
    return _with_ports(rig, opened), end


def _settings(rig: RigFile) -> dict[str, Any]:
    for key in rig.room:
        if key not in KEYS and not running(rig):
            valid = ", ".join(KEYS)
            raise CapexError(
                f"{rig.path}: there is no key '{key}' in room; valid: {valid}",
                code=ErrorCode.UNKNOWN_NAME,
            )
    faults = list(rig.room.get("faults", ()))
    for fault in faults:
        require_fault(fault, str(rig.room.get("wire", "room")))
    return {
        "task": next(iter(rig.tasks)),
        "lock_step": rig.clock == "lock-step",
        "fps": float(rig.room.get("fps", FPS)),
        "faults": faults,
        **{key: str(rig.room[key]) for key in ("scene", "wire") if key in rig.room},
    }


def running(rig: RigFile) -> bool:
    """Whether the file names the ports of a room that runs: one of the side channel, at least."""
    return "side" in rig.room


def _with_ports(rig: RigFile, ports: Mapping[str, int]) -> RigFile:
    """Every room has ports of its own, so its robot and its cameras have locks of their own."""
    arms = tuple(
        replace(
            arm,
            options={**arm.options, **ports, "port": ports["arm"]},
            lock=arm.lock or f"room {ports['arm']} {arm.name}",
        )
        for arm in rig.arms
    )
    cameras = tuple(
        replace(
            camera,
            options={"depth": camera.depth, **camera.options, "port": ports["cameras"]},
            lock=camera.lock or f"room {ports['cameras']} {camera.name}",
        )
        for camera in rig.cameras
    )
    return replace(rig, arms=arms, cameras=cameras, room={**rig.room, **ports})


def _path() -> str:
    """Where the child finds this package, wherever this process found it."""
    here = str(Path(capex.__file__).parent.parent)
    return os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
