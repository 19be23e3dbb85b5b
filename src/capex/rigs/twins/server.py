"""The room's process: physics and pictures behind ports of the loopback address.

The arm's front (`fronts`) sends states and takes goals, `cameras` answers with the newest frame,
`side` advances a lock-step clock, arranges, judges, and lets things go wrong. The side channel
belongs to the clock, the scripted operator and tests; nothing that a rig would not have goes
through the others.

Started by `start.prepare`: the settings are one line of JSON on stdin, the ports, or why there are
none, one line on stdout. The process ends when its stdin closes, which is when whoever started it
ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from capex.errors import CapexError, ErrorCode, PhysicsDiverged, UnknownName
from capex.rigs.twins.arm import CONTROL_STEPS, STEP_S
from capex.rigs.twins.faults import require_fault
from capex.rigs.twins.fronts import accept, in_background, load_front
from capex.rigs.twins.physics import Room
from capex.rigs.twins.pictures import Pictures
from capex.rigs.twins.scenes import DEFAULT, load_scene
from capex.rigs.twins.wire import Header, Message, RoomLine, pack
from capex.worlds import draw_on_one_core

LATE_S = 0.5  # a machine that stood still for longer makes the room's clock late, not fast


class RoomServer:
    """Answers three kinds of connections. `lock` is held around everything that touches physics."""

    def __init__(
        self,
        task: str,
        lock_step: bool,
        fps: float,
        faults: list[dict[str, Any]],
        scene: str = DEFAULT,
        wire: str = "room",
    ):
        self._lock_step, self._wire = lock_step, wire
        self._lock = threading.Lock()
        self._drawing = threading.Lock()
        self._front = load_front(wire)(lock_step, self._lock)
        self._room = Room(
            load_scene(scene), self._front.make_arm, task, fps, self._front.send_state
        )
        self._front.room = self._room
        self._room.drop = self._front.drop
        for fault in faults:
            self._room.faults.add(require_fault(fault, wire))
        self._pictures: Pictures | None = (
            None  # OpenGL is loaded when the first picture is asked for
        )

    def listen(self) -> dict[str, int]:
        """Open the three ports, all free ones, and begin to answer."""
        ports = dict(self._front.listen())
        ports["cameras"] = accept("cameras", self._serve_camera)
        ports["side"] = accept("side", self._serve_side)
        if not self._lock_step:
            in_background(self._pace)
        return ports

    def _pace(self) -> None:
        """On the real clock: keep the room's time with the machine's."""
        begun_s = time.monotonic() - self._room.now_s
        while True:
            behind_s = time.monotonic() - begun_s - self._room.now_s
            if behind_s > LATE_S:
                begun_s += behind_s
            elif behind_s < CONTROL_STEPS * STEP_S:
                time.sleep(CONTROL_STEPS * STEP_S - behind_s)
            try:
                with self._lock:
                    self._room.advance(self._room.steps + CONTROL_STEPS)
            except PhysicsDiverged as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(1)  # the robot is gone, and whoever drove it notices

    # The cameras

    def _serve_camera(self, line: RoomLine) -> None:
        while True:
            header, _ = line.receive(None)
            camera = str(header["camera"])
            with self._lock:
                self._room.begin_faults()
                if self._room.faults.on("camera-unplugged", camera):
                    return  # which closes the connection
            line.send(*_answer(self._frame, header))

    def _frame(self, header: Header) -> Message:
        """The newest frame; without pixels where the asker has it already."""
        camera, (width, height) = str(header["camera"]), header["size"]
        if camera not in self._room.scene.cameras:
            known = self._room.scene.cameras
            raise UnknownName("camera", camera, known, where=" in the simulated room")
        with self._drawing:
            with self._lock:
                exposure, now_s = self._room.exposures[camera], self._room.now_s
                pictures = self._pictures_of(self._room.model)
            size = (int(width), int(height))
            answer = {"number": exposure.number, "device_s": exposure.time_s}
            if self._lock_step:
                # No newer one can be had before the clock goes on; a frozen one came long ago.
                newest = exposure.number == self._room.exposed
                answer["arrived_s"] = now_s if newest else exposure.time_s
            if header.get("about"):
                matrix = pictures.intrinsics(camera, size)
                return answer, pack(matrix)
            if exposure.number == header.get("have"):
                return answer, b""
            depth = bool(header.get("depth"))
            picture = pictures.take(camera, exposure, size, depth)
        body = picture.image.tobytes()
        if depth and picture.depth_m is not None:
            body += picture.depth_m.astype("<f4").tobytes()
        return answer, body

    def _pictures_of(self, model: mujoco.MjModel) -> Pictures:
        if self._pictures is None or self._pictures.model is not model:
            if self._pictures is not None:
                self._pictures.close()
            self._pictures = Pictures(model)
        return self._pictures

    # The side channel

    def _serve_side(self, line: RoomLine) -> None:
        while True:
            header, _ = line.receive(None)
            line.send(*_answer(self._meddle, header))

    def _meddle(self, header: Header) -> Message:
        kind = header["kind"]
        with self._lock:
            room, answer, body = self._room, {}, b""
            if kind == "advance":
                if not self._lock_step:
                    raise CapexError(
                        "a room on the real clock cannot be advanced", code=ErrorCode.UNSUPPORTED
                    )
                room.advance(round(float(header["to_s"]) / STEP_S))
            elif kind == "arrange":
                room.arrange(
                    str(header["task"]),
                    int(header["start"]),
                    int(header["seed"]),
                    float(header["jitter_m"]),
                )
            elif kind == "judge":
                achieved, reason = room.judge()
                answer = {"achieved": achieved, "reason": reason}
            elif kind == "fault":
                room.faults.add(require_fault(header["fault"], self._wire))
                room.begin_faults()
            elif kind == "mend":
                room.mend()
                room.report()
            elif kind == "truth":
                answer = {
                    "task": room.task,
                    "error": room.arm.error,
                    "goals": len(room.goals) // 13,
                }
                body = pack(room.data.qpos, room.data.qvel)
            elif kind == "goals":
                body = pack(np.array(room.goals, dtype=np.float64))
            elif kind in self._front.questions:
                answer = self._front.questions[kind](header)
            elif kind != "time":
                raise CapexError(
                    f"the room's side channel knows no '{kind}'", code=ErrorCode.UNKNOWN_NAME
                )
            return {**answer, "now_s": room.now_s}, body


def _answer(work: Callable[[Header], Message], header: Header) -> Message:
    """The answer to a request, or its refusal in words."""
    try:
        return work(header)
    except CapexError as error:
        return {"refused": str(error)}, b""


def main() -> None:
    """Serve one room until stdin closes."""
    draw_on_one_core()
    settings = json.loads(sys.stdin.readline())
    try:
        ports: dict[str, Any] = dict(RoomServer(**settings).listen())
    except CapexError as error:
        ports = {"refused": str(error)}
    print(json.dumps(ports), flush=True)
    sys.stdin.read()
    # Threads may be anywhere, and nothing here needs to be saved.
    os._exit(0)


if __name__ == "__main__":
    main()
