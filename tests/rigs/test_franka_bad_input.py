"""What a person at a Franka gets wrong: a sentence each, before anything moves where that is possible, and the arm holds."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import zmq
from rig_of import calls, rig_of

from capex import worlds
from capex.errors import ErrorCode, RigFault
from capex.loopback import HOST
from capex.rigs.drivers import DRIVERS, load_driver
from capex.rigs.env import RigFileEnv
from capex.rigs.parse import read_rig
from capex.rigs.rigfile import CameraEntry
from capex.worlds import ArmCommand, Command, Start
from refusals import refuses

DOCS = Path(__file__).parents[2] / "docs"
PORTS = ("arm", "gripper", "arm_commands", "gripper_commands")
FILES = ["franka-deoxys.toml", "franka-franky.toml"]


@pytest.mark.parametrize("file", FILES)
def test_the_rig_files_of_the_docs_are_right_and_their_mistakes_are_told(tmp_path, file):
    rig = read_rig(DOCS / file)
    assert list(rig.tasks) == ["PickCoke", "StackCups", "StackBlocks"]
    assert [(c.name, c.driver, c.size, c.depth) for c in rig.cameras] == [
        ("front", "realsense", (640, 360), False),
        ("wrist", "realsense", (640, 360), False),
    ]
    text = (DOCS / file).read_text()
    arm = "[[arms]]" + text.partition("[[arms]]")[2].partition("[[cameras]]")[0]
    for old, new, sentence in (
        ("[[arms]]", arm + "[[arms]]", "two arms have the name 'arm'; each must have its own"),
        ("[0.40, 0.0, 0.38]", "[0.40, 0.0, 0.58]", "the home of arm 'arm' is at [0.4, 0.0, 0.58] m, outside the guard's workspace"),
        ("210987654321", "123456789012", "the cameras 'front' and 'wrist' have one serial, '123456789012'"),
    ):  # fmt: skip
        path = tmp_path / file
        path.write_text(text.replace(old, new, 1))
        with refuses(ErrorCode.BAD_SETTING) as refused:
            read_rig(path)
        assert sentence in str(refused.value)


def free_ports() -> dict[str, int]:
    """The four of Deoxys' wire."""
    with contextlib.ExitStack() as held:
        made = {name: held.enter_context(socket.socket()) for name in PORTS}
        for one in made.values():
            one.bind((HOST, 0))
        return {name: one.getsockname()[1] for name, one in made.items()}


def refusal(ports: Mapping[str, Any], answer_s: float = 0.2) -> str:
    """Why the arm was not connected that the rig file of the docs has, at ports of this computer."""
    (arm,) = read_rig(DOCS / "franka-deoxys.toml").arms
    own = {name: ports[name] for name in PORTS}
    options = {**arm.options, "host": HOST, "bind": HOST, "answer_s": answer_s, **own}
    driver = load_driver(arm.driver, DRIVERS)(options, arm.name)
    with pytest.raises(RigFault) as refused:
        driver.connect()
    return str(refused.value)


def test_an_address_where_nobody_is():
    ports = free_ports()
    at = f"tcp://{HOST}:{ports['arm']}"
    said = refusal(ports)
    assert f"the arm 'arm': nobody answers at {at}; is franka-interface running on {HOST}" in said


@contextlib.contextmanager
def another_program(ports: dict[str, int]) -> Iterator[list[bytes]]:
    """Sits at the robot's ports and says what no Panda behind Deoxys says; keeps what it is told."""
    context, ended, heard = zmq.Context(), threading.Event(), list[bytes]()

    def run() -> None:
        states = [context.socket(zmq.PUB) for _ in range(2)]
        commands = [context.socket(zmq.SUB) for _ in range(2)]
        for made, name in zip(states, ("arm", "gripper"), strict=True):
            made.bind(f"tcp://{HOST}:{ports[name]}")
        for made, name in zip(commands, ("arm_commands", "gripper_commands"), strict=True):
            made.setsockopt(zmq.SUBSCRIBE, b"")
            made.connect(f"tcp://{HOST}:{ports[name]}")
        while not ended.wait(0.01):
            for made in states:
                made.send(b"server version 7")
            heard.extend(made.recv() for made in commands if made.poll(0))
        context.destroy(linger=0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield heard
    finally:
        ended.set()
        thread.join()


def test_firmware_or_a_program_that_says_something_else():
    ports = free_ports()
    with another_program(ports) as heard:
        said = refusal(ports, answer_s=5.0)  # it ends as soon as both have answered
    assert "is no state of a Panda behind Deoxys: O_T_EE has 0 numbers instead of 16" in said
    assert "another program, version or firmware is there" in said
    assert heard == []  # nothing was commanded


def test_a_second_client_is_refused_and_the_first_one_drives_on():
    env = worlds.make("franka-twin:PickCoke")
    assert isinstance(env, RigFileEnv)
    try:
        opened = env.open()
        before = opened.link.settle()
        ports = opened.rig.arms[0].options
        at = f"tcp://{HOST}:{ports['arm_commands']}"
        said = refusal(ports)
        assert f"{at} is in use: another program on this computer commands the robot's arm" in said
        after = opened.link.settle()
        moved_m = after.arms["arm"].T_base_tip.position_m - before.arms["arm"].T_base_tip.position_m
        assert abs(moved_m).max() < 0.001
        assert not after.stopped
    finally:
        env.close()


def test_a_camera_that_is_unplugged_in_mid_episode_is_a_fault_and_the_arm_holds(tmp_path):
    pytest.importorskip("pyrealsense2", exc_type=ImportError)
    options = {"warm_up": 5, "unplug": str(tmp_path / "unplugged")}
    front = CameraEntry("front", "soft_realsense:soft_camera", options, "exterior", (64, 36))
    rig = dataclasses.replace(rig_of(tmp_path, clock="real"), cameras=(front,))
    env = RigFileEnv(f"rig:{rig.path}", rig, "Touch")
    try:
        env.reset(Start("Touch", 0))
        recording = env.record_frames(tmp_path / "frames")
        assert env.observe()["front"].shape == (36, 64, 3)
        (tmp_path / "unplugged").touch()
        said, until = "", time.monotonic() + 20
        # On a busy machine the picture's age is noticed before the camera's process says why.
        while "unplugged" not in said and time.monotonic() < until:
            try:
                env.step(Command({"arm": ArmCommand((0.0, 0.0, 0.001))}))
                recording.mark()
            except RigFault as fault:
                said = str(fault)
        assert said.startswith("camera front has given no new picture for 1 s: it was unplugged")
        with pytest.raises(RigFault, match="unplugged"):
            env.observe()
        with pytest.raises(RigFault, match=r"frames were recorded .*unplugged"):
            recording.close()
        ordered = calls(tmp_path)[-1]["at"]
        time.sleep(0.3)
        after = [call for call in calls(tmp_path) if call["at"] > ordered + 0.1]
        assert {call["call"] for call in after} == {"hold"}
    finally:
        env.close()
