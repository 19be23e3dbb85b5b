"""Between a page that drives and the thread in which its world lives: moves one way, states and
pictures the other.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.models.pictures import encode_jpeg
from capex.operators.teleoperation import TeleopCommand, read_move
from capex.worlds import ArmState, Env
from capex.worlds.robots import latest_images

LARGE, SMALL = 400, 200  # pixels of the longer side: the camera that is looked through, another
DEAD_MAN_S = 0.2  # a move that waited longer moves no robot: its key may have been released since
Message = dict[str, Any] | bytes | None  # None: the attempt is over


class TeleopChannel:
    """`Controls` of a page. The page's side calls `receive`, the world's everything else."""

    def __init__(self, send: Callable[[Message], None]):
        """`send` sends something to the page, from any thread."""
        self.send = send
        self._received: queue.SimpleQueue[tuple[float, Mapping[str, Any]]] = queue.SimpleQueue()
        self._next: tuple[float, Mapping[str, Any]] | None = None  # received, and not taken yet
        self._gone = threading.Event()
        self._camera, self._shown = "", 0
        self._env: Env | None = None

    def receive(self, message: Mapping[str, Any]) -> None:
        """A message of the page."""
        self._received.put((time.monotonic(), message))

    def leave(self) -> None:
        """The page is gone."""
        self._gone.set()

    def waiting(self, wait_s: float) -> bool:
        """Whether there is something to take, within a while; a page that is gone is something."""
        if self._next is None:
            try:
                self._next = self._received.get(timeout=wait_s)
            except queue.Empty:
                return self._gone.is_set()
        return True

    def take(self, wait_s: float) -> TeleopCommand | None:
        """The next message as a move; what is none is answered with a sentence."""
        if not self.waiting(wait_s):
            return None
        if self._next is None:
            return "leave"
        (came_at, raw), self._next = self._next, None
        if self._gone.is_set() or raw.get("do") == "leave":
            return "leave"
        if raw.get("do") == "done":
            return "done"
        if raw.get("do") == "still":
            return "still"
        assert self._env is not None
        if isinstance(camera := raw.get("camera"), str):
            self._camera = camera
        if raw.get("do") == "look":
            self.show(self._env, self._shown)
            return None
        try:
            if self._env.spec.real_time and time.monotonic() - came_at > DEAD_MAN_S:
                raise CapexError(
                    "a move came too late for a robot that runs in real time",
                    code=ErrorCode.BAD_REQUEST,
                )
            return read_move(raw, self._env.spec)
        except CapexError as error:
            self.send({"event": "refused", "error": str(error)})
            return None

    def show(self, env: Env, tick: int) -> None:
        """Send the present state with two pictures."""
        self._env, self._shown = env, tick
        names = [camera.name for camera in env.spec.cameras]
        if self._camera not in names:
            self._camera = names[0]
        wrists = [c.name for c in env.spec.cameras if c.kind == "wrist" and c.name != self._camera]
        beside = wrists[:1] or [name for name in names if name != self._camera][:1]
        state = env.robot_state()
        self.send(
            {
                "event": "state",
                "tick": tick,
                "horizon": env.spec.horizon,
                "hz": env.spec.control_hz,
                "instruction": env.instruction,
                "mobile": env.spec.base is not None,
                "arms": {name: _shown(arm) for name, arm in state.arms.items()},
                "touching": sorted(c.thing or c.part for c in state.contacts),
                "success": env.success(),
                "guard": list(state.guard),
                "stopped": state.stopped,
                "cameras": names,
                "camera": self._camera,
                "pictures": [self._camera, *beside],
                "projection": _projection(env, self._camera),
            }
        )
        for name, longest in zip([self._camera, *beside], (LARGE, SMALL), strict=False):
            size = env.spec.camera(name).fitted(longest)
            self.send(encode_jpeg(latest_images(env, [name], size)[name]))


def _projection(env: Env, camera: str) -> dict[str, Any] | None:
    """How the large picture's camera projects; None where it is not calibrated."""
    size = env.spec.camera(camera).fitted(LARGE)
    try:
        matrix = env.camera_model(camera, size).matrix
    except CapexError:
        return None
    return {"size": size, "projection": [float(v) for v in matrix.ravel()]}


def _shown(arm: ArmState) -> dict[str, Any]:
    return {
        "tip_cm": [round(100 * float(v), 1) for v in arm.T_base_tip.position_m],
        "opening_cm": round(100 * arm.opening_m, 1),
        "touching": sorted({c.thing for c in arm.hand_contacts if c.thing}),
        "held": sorted(arm.held),
        "limits": list(arm.joints_at_limit),
    }
