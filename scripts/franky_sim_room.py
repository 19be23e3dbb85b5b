#!/usr/bin/env python3
"""franky-sim with a table, a can and two cameras: the peer of the driver `franky`.

Runs in an environment of its own with franky-sim and its MuJoCo; this package comes by PYTHONPATH:

    python -m venv /tmp/franky && /tmp/franky/bin/pip install franky-control franky-sim
    PYTHONPATH=src /tmp/franky/bin/python scripts/franky_sim_room.py --cameras 40001 --side 40002
    capex collect rig:scripts/franky_sim.toml:PickCoke --arm capex --model pilot --starts 0:5

The arm is franky-sim's FR3 behind libfranka's own protocol; what stands around it, the cameras and
the side channel of the scripted operator are those of our simulated rooms. It prints the ports as
JSON and runs until it is interrupted.
"""

from __future__ import annotations

import argparse
import functools
import json
import select
import threading
import time
import xml.etree.ElementTree as ET
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mujoco
from franky_sim import SimulationServer
from franky_sim.franka_robot_protocol import MoveStatus, RobotCommand
from franky_sim.franka_server import BaseCommand
from franky_sim.mujoco_simulator import MujocoSimulator

from capex.errors import CapexError
from capex.rigs.drivers.franka_tip import HAND, MAX_OPENING_M, PRINTED_HAND
from capex.rigs.twins.faults import Faults
from capex.rigs.twins.fronts import accept
from capex.rigs.twins.physics import Exposure
from capex.rigs.twins.scenes import franka
from capex.rigs.twins.scenes.common import HOME_RAD
from capex.rigs.twins.server import RoomServer
from capex.worlds import draw_on_one_core
from capex.worlds.kitchen.robot import add_wrist_camera, set_physics

STEP_S = 0.001  # of the simulation, and of libfranka's protocol
BEHIND_S = 0.02  # a machine that is slower loses time: the robot's clock goes on, its arm does not
ANSWER_S = 0.02  # libfranka's answer to a state takes a fraction of a millisecond
STEPS_MAX = 4
LET_IN_S = 0.01
ARM_PORT = 1337  # libfranka's
ABORTS = {"reflex": MoveStatus.kReflexAborted, "e-stop": MoveStatus.kEmergencyAborted}
BODIES = {"hand": "hand", "left_finger": "finger_left", "right_finger": "finger_right"}


class Simulator(MujocoSimulator):
    """franky-sim's, with the room around its arm."""

    steps = 1  # of the physics for each state

    def _step(self) -> None:
        for step in range(self.steps):
            if step:
                for robot in self.robots:
                    robot._pre_step()  # the fingers' own control
            super()._step()

    @staticmethod
    def to_franka_pose(pose: Any) -> tuple[float, ...]:
        """With the end effector as a real control box has it, printed with four digits."""
        matrix = pose.homogeneous.copy()
        matrix[:3, :3] = matrix[:3, :3] @ HAND.rotation.T @ PRINTED_HAND.rotation
        return tuple(matrix.flatten(order="F").tolist())

    def furnish(self, task: str) -> None:
        """Add what the scene has beside an arm; franky-sim's floor would lie in the table's top."""
        spec = mujoco.MjSpec.from_string(ET.tostring(self.scene, encoding="unicode"))
        spec.delete(spec.geom("ground"))
        for light in list(spec.lights):
            spec.delete(light)
        for theirs, ours in BODIES.items():
            spec.body(f"robot0_{theirs}").name = ours
        set_physics(spec)
        franka.TABLE.furnish(spec, task, lambda: add_wrist_camera(spec.body("hand")))
        spec.compile()
        furnished = ET.fromstring(spec.to_xml())
        self.scene.clear()
        self.scene.extend(furnished)


class FairLock:
    """A lock whose busiest holder lets others in: a camera would starve beside the simulation."""

    def __init__(self) -> None:
        self._lock, self._counting, self._waiting = threading.Lock(), threading.Lock(), 0

    def __enter__(self) -> None:
        self._count(1)
        self._lock.acquire()
        self._count(-1)

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _count(self, more: int) -> None:
        with self._counting:
            self._waiting += more

    def let_in(self) -> None:
        """Wait until nobody waits, for a little while."""
        until_s = time.monotonic() + LET_IN_S
        while self._waiting and time.monotonic() < until_s:
            time.sleep(0.0)


class SimRoom:
    """What `RoomServer` asks of a room: exposures, arrangement, judgement. One lock is held by
    whoever calls.
    """

    def __init__(self, simulator: Simulator, task: str, fps: float):
        self.scene, self.task = franka.SCENE, task
        self.model, self.data = simulator.model, simulator.data
        self._every = max(1, round(1.0 / (fps * STEP_S)))
        self.faults, self.goals = Faults(), array("d")
        self.arm = SimpleNamespace(error="")
        self.abort: Callable[[MoveStatus], None] = lambda status: None
        self.exposures: dict[str, Exposure] = {}
        self.exposed = self.steps = 0
        self.arrange(task, 0, 0, 0.0)

    @property
    def now_s(self) -> float:
        return round(self.steps * STEP_S, 6)

    def arrange(self, task: str, start: int, seed: int, jitter_m: float) -> None:
        """Put the objects in place; the arm was driven home by its own driver."""
        if task != self.task:
            raise CapexError(f"this simulation has the task {self.task}; start another for {task}")
        franka.TABLE.put(self.data, task, start, seed, jitter_m)
        mujoco.mj_forward(self.model, self.data)
        self.mend()
        self._expose()

    def judge(self) -> tuple[bool, str]:
        return self.scene.judge(self.model, self.data, self.task)

    def stepped(self, steps: int) -> None:
        """After steps of the simulation, or of the clock alone."""
        before, self.steps = self.steps, self.steps + steps
        if self.steps // self._every > before // self._every:
            self._expose()

    def _expose(self) -> None:
        self.begin_faults()
        self.exposed += 1
        taken = Exposure(self.exposed, self.now_s, self.data.qpos.copy())
        for camera in self.scene.cameras:
            if not (self.faults.on("frozen-frames", camera) and camera in self.exposures):
                self.exposures[camera] = taken

    def mend(self) -> None:
        self.faults.mend()

    def begin_faults(self) -> None:
        """Those of cameras, and of the arm what ends a motion."""
        for fault in self.faults.update(self.now_s, 0):
            if fault.kind in ABORTS:
                self.abort(ABORTS[fault.kind])

    def report(self) -> None:
        """States go over libfranka's protocol."""


class Server(RoomServer):
    """The cameras and the side channel of a `RoomServer` around franky-sim's own loop."""

    def __init__(self, simulator: Simulator, task: str, fps: float):
        self._lock_step, self._pictures, self._wire = False, None, "room"
        self._lock, self._drawing = FairLock(), threading.Lock()
        self._front: Any = SimpleNamespace(questions={})
        self._room: Any = SimRoom(simulator, task, fps)
        self._pictures_of(self._room.model)  # now: it takes longer than libfranka waits for a state

    @property
    def room(self) -> SimRoom:
        """What it serves."""
        return self._room

    def serve(self, cameras: int, side: int) -> dict[str, int]:
        """Open the ports of cameras and side channel, 0 for free ones."""
        return {
            "arm": ARM_PORT,
            "cameras": accept("cameras", self._serve_camera, cameras),
            "side": accept("side", self._serve_side, side),
        }

    def run(self, simulation: SimulationServer, says_every_s: float) -> None:
        """Keep the robot's clock with the machine's. A machine that is too slow for a state every
        millisecond gets fewer of them, up to STEPS_MAX ms apart; beyond that the clock skips, and
        the arm moves that much slower than a real one.
        """
        begun_s = said_s = time.monotonic()
        simulated = said = 0
        while True:
            behind_s = time.monotonic() - begun_s - self._room.steps * STEP_S
            if behind_s < 0.0:
                time.sleep(-behind_s)
            with self._lock:
                due = max(1, int(behind_s / STEP_S))
                steps = _step(simulation, due)
                skip = max(0, due - steps - round(BEHIND_S / STEP_S))
                _pass(simulation, skip)
                self._room.stepped(steps + skip)
            simulated += steps
            now_s = time.monotonic()
            self._lock.let_in()
            if now_s - said_s > says_every_s:
                share = 100 * simulated / (self._room.steps - said)
                print(f"simulated {share:.0f} % of the last {now_s - said_s:.0f} s", flush=True)
                said_s, said, simulated = now_s, self._room.steps, 0


def _step(simulation: SimulationServer, due: int) -> int:
    """One state and its answer; returns the steps of the physics until then. `run_once` would do
    one, and give the processor away each time.
    """
    for server in simulation.robot_servers:
        server.process_commands()
    moving = any(server.current_motion_id for server in simulation.robot_servers)
    # franky-sim's own hold, between motions, is stable at one step alone.
    simulation.sim.steps = steps = min(due, STEPS_MAX) if moving else 1
    simulation.sim.step()
    _pass(simulation, steps - 1)
    for server in simulation.robot_servers:
        server.send_state()
        if server.current_motion_id:  # a controller runs: an old torque would shake the arm
            select.select([server._FrankaServer__udp_socket], [], [], ANSWER_S)
    return steps


def _abort(simulation: SimulationServer, status: MoveStatus) -> None:
    """End the motion under way as a control box does; franky-sim itself knows no errors."""
    for server in simulation.robot_servers:
        motion = server.current_motion_id
        server.stop_motion(send_preemption_signal=False)
        if motion:
            BaseCommand.send_response(server._tcp_socket, RobotCommand.kMove, motion, status)
            server.reset_current_motion_id()


def _pass(simulation: SimulationServer, steps: int) -> None:
    """Let the robot's clock go on: a state's time is its number, in milliseconds."""
    for server in simulation.robot_servers if steps else ():
        server._FrankaServer__message_id += steps


def main() -> None:
    """Simulate one arm at its table."""
    parser = argparse.ArgumentParser(description="franky-sim at a table with two cameras")
    parser.add_argument("--task", default="PickCoke", choices=list(franka.TASKS))
    parser.add_argument("--address", default="127.0.0.1", help="a loopback address of its own")
    parser.add_argument("--cameras", type=int, default=0, help="port; 0 is a free one")
    parser.add_argument("--side", type=int, default=0, help="port of the side channel")
    parser.add_argument("--fps", type=float, default=10.0, help="of the cameras")
    given = parser.parse_args()
    draw_on_one_core()
    with Simulator() as simulator:
        simulator.add_robot(initial_q=HOME_RAD, initial_hand_width=MAX_OPENING_M)
        simulator.furnish(given.task)
        with SimulationServer(simulator, [given.address]) as simulation:
            server = Server(simulator, given.task, given.fps)
            server.room.abort = functools.partial(_abort, simulation)
            ports = server.serve(given.cameras, given.side)
            print(json.dumps({"address": given.address, **ports}), flush=True)
            server.run(simulation, says_every_s=10.0)


if __name__ == "__main__":
    main()
