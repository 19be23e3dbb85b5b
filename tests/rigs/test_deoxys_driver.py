"""The driver at Deoxys' wire: a sentence for each way to miss a robot, and the Franka twin driven in
lock-step through everything that ends its programs.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zmq

from capex.errors import ErrorCode, RigFault
from capex.loopback import HOST
from capex.pose import Pose
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.controller import Keeper
from capex.rigs.drivers import ArmReading, ArmStatus
from capex.rigs.drivers.deoxys import messages
from capex.rigs.drivers.deoxys.driver import DeoxysArm
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins import start
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.hand import RoomHand
from capex.worlds import ArmCommand, Command
from capex.worlds.kitchen import robot as panda
from refusals import refuses

Q = [0.0, -0.3, 0.0, -2.0, 0.0, 1.8, 0.785]


class Computer:
    """A robot's computer that publishes what it is given, every 10 ms, and listens."""

    def __init__(self, robot: bytes = b"", gripper: bytes = b"", listens: bool = True):
        self._context = zmq.Context()
        self._listening: list[Any] = []
        self._end = threading.Event()
        whole = robot and gripper and listens  # who is missing need not be waited for
        self.options: dict[str, Any] = {"answer_s": 5.0 if whole else 0.8}
        self._states = [(self._context.socket(zmq.PUB), data) for data in (robot, gripper)]
        for name, (states, _) in zip(("arm", "gripper"), self._states, strict=True):
            self.options[name] = states.bind_to_random_port(f"tcp://{HOST}")
            with socket.create_server((HOST, 0)) as free:
                port = self.options[f"{name}_commands"] = free.getsockname()[1]
            commands = self._context.socket(zmq.SUB)
            commands.setsockopt(zmq.SUBSCRIBE, b"")
            self._listening.append(commands)
            if listens:
                commands.connect(f"tcp://{HOST}:{port}")
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._thread.start()

    def _publish(self) -> None:
        while not self._end.wait(0.01):
            for commands in self._listening:  # one that is not looked at does not subscribe
                commands.poll(0)
            for states, data in self._states:
                if data:
                    states.send(data)

    def __enter__(self) -> dict[str, Any]:
        return self.options

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()
        self._context.destroy(0)


def robot_state(**changed: Any) -> bytes:
    """Of a Panda with its hand, standing still."""
    T, _, _ = panda.forward(np.array([Q]))
    values = {"O_T_EE": T[0].T.ravel().tolist(), "q": Q, "O_F_ext_hat_K": [0.0] * 6, **changed}
    return bytes(messages.RobotStateMessage(**values).SerializeToString())


HAND = messages.GripperStateMessage(width=0.08, max_width=0.08).SerializeToString()
LOOSE = np.eye(4).ravel().tolist()  # no end effector at the desk


@pytest.mark.parametrize(
    ("computer", "sentence"),
    [
        ({}, "nobody answers at tcp://127.0.0.1:.* is franka-interface running"),
        (
            {"robot": robot_state(), "gripper": HAND, "listens": False},
            "nobody listens to our commands .* PC.IP",
        ),
        ({"robot": robot_state()}, "nobody answers .* is gripper-interface running"),
        (
            {"robot": b"\xff\xff of another program", "gripper": HAND},
            "O_T_EE has 0 numbers .*firmware",
        ),
        ({"robot": robot_state(q=Q[:6]), "gripper": HAND}, "q has 6 numbers instead of 7"),
        ({"robot": robot_state(q=[0.5, *Q[1:]]), "gripper": HAND}, "joints and O_T_EE disagree by"),
        (
            {
                "robot": robot_state(),
                "gripper": messages.GripperStateMessage(width=0.01).SerializeToString(),
            },
            "has not been homed",
        ),
    ],
)
def test_whoever_is_not_a_panda_behind_deoxys_gets_a_sentence(
    computer: dict[str, Any], sentence: str
) -> None:
    with Computer(**computer) as options, pytest.raises(RigFault, match=sentence):
        DeoxysArm(options, "arm").connect()


def test_a_desk_without_the_hand_is_refused_unless_the_tip_is_told() -> None:
    T, _, _ = panda.forward(np.array([Q]))
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(np.pi / 4), -np.sin(np.pi / 4)], [np.sin(np.pi / 4), np.cos(np.pi / 4)]]
    flange = (
        T[0] @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, -panda.TIP_M], [0, 0, 0, 1]]) @ turn
    )
    state = robot_state(O_T_EE=flange.T.ravel().tolist(), F_T_EE=LOOSE)
    with Computer(state, HAND) as options:
        with pytest.raises(RigFault, match="not Franka's hand"):
            DeoxysArm(options, "arm").connect()
        tip = {"position_m": [0.0, 0.0, panda.TIP_M], "euler_deg": [0.0, 0.0, -45.0]}
        arm = DeoxysArm({**options, "ee_to_tip": tip}, "arm")
        arm.connect()
        np.testing.assert_allclose(arm.read().T_mount_tip.position_m, T[0, :3, 3], atol=1e-9)
        np.testing.assert_allclose(arm.read().T_mount_tip.rotation, T[0, :3, :3], atol=1e-9)
        arm.close()


def test_a_second_client_is_refused_and_the_first_one_leaves_its_ports_free() -> None:
    with Computer(robot_state(robot_mode=messages.USER_STOPPED), HAND) as options:
        first, second = DeoxysArm(options, "arm"), DeoxysArm(options, "arm")
        first.connect()
        with pytest.raises(RigFault, match="is in use: another program"):
            second.connect()
        assert first.read().error == "user stop"
        with pytest.raises(RigFault, match=r"stays stopped \(user stop\)"):
            first.recover(confirmed=False)
        first.close()
        second.connect()
        second.close()
    with refuses(ErrorCode.BAD_SETTING, r"bind is '\*'"):
        DeoxysArm({"bind": "*"}, "arm")
    with refuses(ErrorCode.UNKNOWN_NAME, "no key 'hots'"):
        DeoxysArm({"hots": "10.0.0.2"}, "arm")


class Bench:
    """A driver at a twin in lock-step."""

    def __init__(self, options: dict[str, Any]):
        self.arm, self.options = DeoxysArm(options, "arm"), options
        self.arm.connect()
        self.clock, self.hand = RoomClock(options["side"]), RoomHand(options["side"])

    def arrange(self, index: int) -> None:
        """Both programs have just been started, and a person says that the arm may move."""
        self.hand.arrange("LiftBlock", index)
        self.arm.recover(confirmed=True)

    def hold(self, ticks: int = 1, goal: Pose | None = None) -> ArmReading:
        """So many ticks of 50 ms."""
        for _ in range(ticks):
            self.arm.hold() if goal is None else self.arm.command(goal)
            self.clock.sleep_until(self.clock.now_s() + 0.05)
        return self.arm.read()


@pytest.fixture(scope="module")
def twin() -> Iterator[dict[str, Any]]:
    """The options of an arm at a running twin."""
    rig = read_rig(find_rig("room"))
    rig = dataclasses.replace(rig, room={"scene": "blocks", "wire": "deoxys", "fps": 20})
    rig, end = start.prepare(rig)
    yield {**rig.arms[0].options, "relaunch_s": 1.5}
    end()


@pytest.fixture
def bench(twin: dict[str, Any]) -> Iterator[Bench]:
    """Connected and at home; nothing was commanded yet."""
    made = Bench(twin)
    made.arrange(0)
    yield made
    made.arm.close()


def away(pose: Pose, *step_m: float) -> Pose:
    return Pose(pose.position_m + np.array(step_m), pose.rotation)


def far(one: Pose, other: Pose) -> float:
    return float(np.linalg.norm(one.position_m - other.position_m))


def test_the_arm_is_held_where_it_is_then_goes_where_it_is_told(bench: Bench) -> None:
    home = bench.arm.read()
    bench.clock.sleep_until(bench.clock.now_s() + 0.2)
    assert bench.arm.read().time_s == home.time_s  # nothing was commanded: the state is an old one
    started = bench.hold(4, away(home.T_mount_tip, 0.0, 0.1, 0.0))  # too early to be taken
    assert bench.clock.now_s() - started.time_s < 0.011
    assert far(started.T_mount_tip, home.T_mount_tip) < 0.003
    goal = away(home.T_mount_tip, 0.0, 0.04, 0.0)
    there = bench.hold(24, goal)
    assert 0.025 < there.T_mount_tip.position_m[1] - home.T_mount_tip.position_m[1] < 0.0405
    held = bench.hold(25)  # longer than its watchdog waits, and no drift
    assert held.error == ""
    assert far(held.T_mount_tip, there.T_mount_tip) < 0.005
    bench.hold(1, away(goal, 0.0, -0.02, 0.0))
    bench.arm.stop()
    stopped = bench.arm.read()
    assert far(bench.hold(5).T_mount_tip, stopped.T_mount_tip) < 0.01


def test_a_grip_that_comes_while_the_fingers_move_is_not_lost(bench: Bench) -> None:
    bench.hold(4)
    bench.arm.grip(0.0)
    assert bench.hold(6).opening_m < 0.07
    bench.arm.grip(0.08)  # wider than the hand was homed to, which would end its program
    assert 0.077 < bench.hold(40).opening_m < 0.0795
    told = bench.arm._exchange.gripper.sent  # type: ignore[union-attr]
    bench.arm.grip(0.08)
    bench.hold(2)
    assert bench.arm._exchange.gripper.sent == told  # type: ignore[union-attr]


def test_open_fingers_are_not_told_to_grasp_the_air(bench: Bench) -> None:
    bench.hold(4)
    bench.arm.grip(0.079)  # they are there, and measure a hair more
    bench.hold(10)
    bench.arm.grip(0.0)
    assert bench.hold(30).opening_m < 0.01


def test_after_a_stop_the_fingers_stay_until_something_is_commanded(bench: Bench) -> None:
    bench.hold(6)
    bench.arm.grip(0.0)
    bench.hold(2)
    bench.arm.grip(0.08)  # lost: the hand is closing
    bench.arm.stop()
    stopped = bench.hold(40)
    assert stopped.opening_m < 0.01
    assert bench.hold(40, stopped.T_mount_tip).opening_m > 0.077


def test_after_a_reflex_its_program_is_waited_for_and_nothing_resumes(bench: Bench) -> None:
    home = bench.hold(6).T_mount_tip
    goal = away(home, 0.0, 0.05, 0.0)
    bench.hold(4, goal)
    bench.hand.fault("reflex")
    reading = bench.hold(12, goal)
    assert "franka-interface sends no states" in reading.error
    assert reading.status is ArmStatus.FAULT
    bench.arm.recover(confirmed=False)
    assert bench.arm.read().status is ArmStatus.READY
    back = bench.hold(8)
    assert bench.clock.now_s() - back.time_s < 0.011
    assert far(back.T_mount_tip, reading.T_mount_tip) < 0.01
    assert far(bench.hold(20, goal).T_mount_tip, goal) < 0.02


def test_a_pressed_stop_stays_until_a_person_unlocks_it(bench: Bench) -> None:
    rig = read_rig(find_rig("room"))
    entry = dataclasses.replace(rig.arms[0], options=bench.options)
    unit = ArmUnit(entry, bench.arm, rig.guard)
    keeper = Keeper(rig, {"arm": unit}, bench.clock)
    keeper.clear()
    bench.hand.fault("e-stop")
    with pytest.raises(RigFault, match="unlock it"):
        list(map(keeper.tick, [Command({"arm": ArmCommand((0.0, 0.002, 0.0))})] * 20))
    bench.hand.mend()
    keeper.clear()
    assert not keeper.settle().guard  # its states are fresh again


@pytest.mark.parametrize("released_s", [0.3, 2.0, 4.0, 8.0])
def test_a_released_stop_waits_for_a_person_however_short_it_was(
    bench: Bench, released_s: float
) -> None:
    home = bench.hold(6).T_mount_tip
    goal = away(home, 0.0, 0.03, 0.0)
    bench.hold(3, goal)
    bench.hand.fault("e-stop", duration_s=released_s)
    stopped = bench.hold(round((released_s + 3.0) / 0.05), goal)  # its new program runs by then
    status = stopped.status
    if not status.needs_person:  # what the rig does by itself
        bench.arm.recover(confirmed=False)
        status = bench.arm.read().status
    assert status.needs_person, status
    assert far(bench.hold(20, goal).T_mount_tip, stopped.T_mount_tip) < 0.001
    bench.arm.recover(confirmed=True)
    assert far(bench.hold(30, goal).T_mount_tip, goal) < 0.02


@pytest.mark.parametrize("waits", ["holds", "recovers"])
@pytest.mark.parametrize("pressed_s", [0.3, 2.0, 4.0])
def test_a_stop_that_is_pressed_after_a_reflex_waits_for_a_person_unless_it_was_over_in_time(
    bench: Bench, pressed_s: float, waits: str
) -> None:
    """The errors of the reflex stay in last_motion_errors, whatever a person does after it."""
    home = bench.hold(6).T_mount_tip
    goal = away(home, 0.0, 0.03, 0.0)
    bench.hold(3, goal)
    bench.hand.fault("reflex")
    bench.hold(6, goal)
    bench.hand.fault("e-stop", duration_s=pressed_s)
    # While its program is away the rig holds, or waits in `recover` for it.
    bench.arm._options = dataclasses.replace(bench.arm._options, relaunch_s=9.0)
    held_s = pressed_s + 3.0 if waits == "holds" else 0.4
    stopped = bench.hold(round(held_s / 0.05), goal)
    if waits == "recovers":
        bench.arm.recover(confirmed=False)
    assert bench.arm._states()[0].last_errors == ("cartesian reflex",)
    if not stopped.status.needs_person:
        bench.arm.recover(confirmed=False)
    seen = pressed_s > 0.3  # shorter than its program takes to start anew: nothing shows it
    assert bench.arm.read().status is (ArmStatus.UNEXPLAINED if seen else ArmStatus.READY)
    if seen:
        here = bench.hold(2, goal).T_mount_tip
        assert far(bench.hold(20, goal).T_mount_tip, here) < 0.001
        bench.arm.recover(confirmed=True)
    assert far(bench.hold(30, goal).T_mount_tip, goal) < 0.02


def test_settling_waits_for_the_program_after_a_reflex_and_the_arm_goes_on(bench: Bench) -> None:
    rig = read_rig(find_rig("room"))
    entry = dataclasses.replace(rig.arms[0], options=bench.options)
    keeper = Keeper(rig, {"arm": ArmUnit(entry, bench.arm, rig.guard)}, bench.clock)
    keeper.clear()
    step = Command({"arm": ArmCommand((0.0, 0.002, 0.0))})
    for _ in range(5):
        keeper.tick(step)
    bench.hand.fault("reflex")
    stopped = [keeper.tick(step).stopped for _ in range(6)]
    assert any("s old" in why for why in stopped)
    (note,) = keeper.settle().guard
    assert note.startswith("arm recovered from: franka-interface sends no states")
    assert not keeper.tick(step).stopped


class Scripted:
    """States as a test wants them, in place of the exchange with a robot's computer."""

    def __init__(self) -> None:
        self.now_s = self.robot_heard_s = self.hand_heard_s = 0.0
        self.hand = messages.GripperState(0.079, 0.079, False, 0.0)
        self.robot: messages.PandaState | None = None
        self.next: messages.PandaState | None = None
        self.arm, self.gripper = object(), object()
        self.sent: list[bytes] = []
        self.robot_silent_s = 0.0

    def receive(self) -> None:
        self.hand_heard_s = self.now_s
        if self.next is not None:
            self.robot, self.next, self.robot_heard_s = self.next, None, self.now_s

    def send(self, line: object, data: bytes) -> None:
        self.sent.append(data)

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.receive()

    def close(self) -> None:
        pass


@pytest.fixture
def scripted() -> tuple[DeoxysArm, Scripted]:
    """Half a second of a motion under our controller."""
    arm, exchange = DeoxysArm({"host": HOST}, "arm"), Scripted()
    arm._exchange = exchange  # type: ignore[assignment]
    for k in range(10):
        exchange.now_s = 0.05 * k
        exchange.next = scripted_state(exchange.now_s, 5 * k, messages.MOVE)
        arm.hold()
    assert arm.read().status is ArmStatus.READY
    return arm, exchange


def scripted_state(time_s: float, frame: int, mode: int) -> messages.PandaState:
    eye = tuple(np.eye(4).ravel().tolist())
    return messages.PandaState(eye, eye, (0.0,) * 7, (0.0,) * 6, (), (), mode, time_s, frame)


@pytest.mark.parametrize("slept_s", [0.05, 3.0], ids=["at once", "while we slept"])
def test_a_controller_that_ended_though_nobody_told_it_to_waits_for_a_person(
    scripted: tuple[DeoxysArm, Scripted], slept_s: float
) -> None:
    """Its frames count on, or have counted beyond the last one by the time we look again."""
    arm, exchange = scripted
    exchange.now_s += slept_s
    exchange.next = scripted_state(exchange.now_s, 60, messages.IDLE)
    arm.hold()
    assert arm.read().status is ArmStatus.UNEXPLAINED
    exchange.next = scripted_state(exchange.now_s, 65, messages.IDLE)
    arm.recover(confirmed=False)
    assert arm.read().status is ArmStatus.UNEXPLAINED
    arm.recover(confirmed=True)
    assert arm.read().status is ArmStatus.READY


def test_joints_that_are_locked_wait_for_a_person(scripted: tuple[DeoxysArm, Scripted]) -> None:
    arm, exchange = scripted
    exchange.next = scripted_state(exchange.now_s, 60, messages.OTHER)
    reading = arm.read()
    assert reading.status is ArmStatus.NOT_READY
    assert reading.error == "not ready: unlock the joints and activate FCI in Desk"
    with pytest.raises(RigFault, match="unlock the joints"):
        arm.recover(confirmed=True)


def test_what_cannot_be_told_from_a_released_stop_waits_for_a_person_too(bench: Bench) -> None:
    bench.hold(6)
    bench.hand.fault("relaunch")  # franka-interface is gone, and nothing says why
    bench.hold(30)
    bench.arm.recover(confirmed=False)
    assert bench.arm.read().status is ArmStatus.UNEXPLAINED
    bench.arm.recover(confirmed=True)
    for proven in (True, False):  # the second reflex leaves the very errors of the first
        bench.hold(6)
        bench.hand.fault("reflex")
        bench.hold(30)
        bench.arm.recover(confirmed=False)
        assert (bench.arm.read().status is ArmStatus.READY) == proven
    bench.arm.recover(confirmed=True)
    bench.hold(6)
    bench.hand.fault("no-gripper")  # the arm's own program has run all the time
    bench.hold(30)
    bench.arm.recover(confirmed=False)
    assert bench.arm.read().status is ArmStatus.READY


def test_the_twin_reports_a_panda_s_numbers(bench: Bench) -> None:
    """A hand printed with four digits, a bias of 6 N in free air, a hand homed to 0.079 m."""
    reading = bench.hold(6)
    off = reading.T_mount_tip.rotation.T @ reading.T_mount_tip.rotation - np.eye(3)
    assert 1e-5 < np.abs(off).max() < 1e-4
    assert 5.0 < np.linalg.norm(reading.force_n or ()) < 8.0
    assert bench.arm.connect().max_opening_m == pytest.approx(0.079)


def test_an_arrangement_forgets_what_came_before(twin: dict[str, Any]) -> None:
    seen = []
    for goals in (0, 12):
        made = Bench(twin)
        first = made.hold(6).T_mount_tip
        made.hold(goals, away(first, 0.0, 0.05, 0.0))
        made.arrange(3)
        began_s = made.clock.now_s()
        reading = made.hold(8)
        seen.append((reading.T_mount_tip.position_m.tobytes(), round(reading.time_s - began_s, 6)))
        made.arm.close()
    assert seen[0] == seen[1]
