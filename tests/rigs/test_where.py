"""Looking at a rig's arms leaves them alone: `capex rig where`, the lift before the first hold of
`capex check --dry`, and `capex rig float`, through real processes.
"""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from rig_of import calls, rig_of

from capex import worlds
from capex.cli.look import Check
from capex.cli.rig import RigFloat, RigWhere
from capex.errors import ErrorCode, RigFault, UnknownName
from capex.rigs.drivers.yam.driver import YamArm
from capex.rigs.env import RigFileEnv
from capex.rigs.opening import open_arms
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins import start
from capex.rigs.twins.hand import RoomHand
from capex.rigs.where import look, look_long, near_limits, wait_until_it_floats
from capex.worlds import Start
from refusals import refuses

ASKS = "press Enter"
RIG = """
operator = "person"

[[arms]]
name = "left"
driver = "yam"
options = {{ model = "yam", port = {left} }}
lock = "{folder}"
max_opening_m = 0.095
senses_force = false
home = {{ position_m = [0.20, -0.05, 0.16], orientation = "down" }}
park = {{ position_m = [0.20, 0.0, 0.06], orientation = "down" }}

[[cameras]]
name = "front"
driver = "replay"
options = {{ npz = "{folder}/pictures.npz" }}
kind = "exterior"
size = [64, 48]

[guard]
workspace = {{ lower_m = [0.05, -0.3, 0.0], upper_m = [0.5, 0.3, 0.4] }}
force_latch_n = "off"

[tasks.Look]
instruction = "look"
success = "it was looked at"
steps = 10
"""


@dataclass
class Lab:
    """A YAM arm as a rig on the real clock meets it: the twin behind i2rt's wire, and the person
    beside it.
    """

    file: Path
    hand: RoomHand
    left: int

    def joints_rad(self) -> np.ndarray:
        arm = YamArm({"model": "yam", "port": self.left}, "left")
        arm.connect()
        joints = arm.read().joints_rad
        arm.close()
        return np.array(joints)

    def floats(self) -> bool:
        """Whether a hand can lead it."""
        before = self.joints_rad()
        self.hand.lift()
        return bool(np.abs(self.joints_rad() - before).max() > 0.3)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    room, end = start.prepare(read_rig(find_rig("yam-twin-live")))
    left = int(room.room["left"])
    text = RIG.format(left=left, folder=tmp_path)
    (tmp_path / "lab.toml").write_text(text)
    images = np.arange(2 * 48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(2, 48, 64, 3)
    np.savez(tmp_path / "pictures.npz", images=images)
    hand = RoomHand.of(room)
    yield Lab(tmp_path / "lab.toml", hand, left)
    hand.close()
    end()


@pytest.mark.parametrize("clock", ["real", "lock-step"])
def test_arms_that_are_only_looked_at_hear_nothing(tmp_path: Path, clock: str) -> None:
    rig = rig_of(tmp_path, clock=clock)
    with open_arms(rig) as (_, link):
        (arm,) = look_long(rig, link)
        assert arm.error == ""
        assert arm.joints[0].angle_rad == pytest.approx(0.4)
    assert [call["call"] for call in calls(tmp_path)] == ["connect", "close"]
    with open_arms(rig) as (_, link):
        link.settle()
    assert "hold" in [call["call"] for call in calls(tmp_path)]


def test_where_an_arm_reports_an_error_it_is_shown_and_a_lost_one_is_a_sentence(
    tmp_path: Path,
) -> None:
    rig = rig_of(tmp_path)
    with open_arms(rig) as (_, link):
        (tmp_path / "arm" / "error").write_text("user stop")
        (arm,) = look(rig, link)
        assert arm.error == "user stop"
        assert "  error    user stop" in arm.lines()
        (tmp_path / "arm" / "lost").write_text("")
        with pytest.raises(RigFault, match="arm: the arm 'arm' does not answer"):
            look(rig, link)


def test_where_prints_each_arm_of_a_twin(capsys: pytest.CaptureFixture[str]) -> None:
    assert RigWhere("yam-twin").run() == 0
    out = capsys.readouterr().out
    assert out.count("joint6") == 2
    assert "tip      x 24.5  y 30.0  z 17" in out
    assert "points   forward" in out
    assert "force    not sensed" in out
    assert "joint2     0.000 rad    0.0 deg;  0.000 rad    0.0 deg from its limit  near" in out
    assert RigWhere("rig:franka-twin").run() == 0
    out = capsys.readouterr().out
    assert "points   down; euler_deg = [180.0, 0.0, 0.0]" in out
    assert "opening  7.9 of 7.9 cm" in out
    assert "N in all" in out
    with refuses(ErrorCode.NOT_FOUND, "there is no rig file 'nowhere'"):
        RigWhere("nowhere").run()


def test_a_state_that_does_not_go_on_is_said_to_be_old(capsys: pytest.CaptureFixture[str]) -> None:
    assert RigWhere("franka-twin-live").run() == 0  # Deoxys measures only while it is commanded
    assert "no new one comes, so these numbers are old" in capsys.readouterr().out
    assert RigWhere("room-live").run() == 0
    assert "are old" not in capsys.readouterr().out


def test_an_arm_that_floats_goes_on_floating_while_it_is_looked_at(lab: Lab) -> None:
    rig = read_rig(lab.file)
    with open_arms(rig) as (_, link):
        assert "joint2 of left by" in near_limits(rig, link)
        assert "end the server (Ctrl-C), start it again" in near_limits(rig, link)
        lab.hand.lift()
        assert not near_limits(rig, link)
    assert RigWhere(str(lab.file)).run() == 0
    assert not len(lab.hand.goals())
    locked = replace(rig, name="another")
    with open_arms(rig), pytest.raises(RigFault, match=r"driven by process \d+"), open_arms(locked):
        pass


def test_nobody_there_to_lift_it_an_arm_at_its_limits_is_not_held(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Check(f"rig:{lab.file}", dry=True, yes=True).run() == 1
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "nothing was held: joints are nearer to their limits" in out
    assert "arms not tried" in out
    assert lab.floats()


def test_no_program_holds_an_arm_that_floats_at_its_limits(lab: Lab) -> None:
    name = f"rig:{lab.file}:Look"
    worlds.allow(name)
    env = worlds.make(name)
    assert isinstance(env, RigFileEnv)
    try:
        with pytest.raises(RigFault, match=r"nothing was held: joint2, joint3 of left"):
            env.reset(Start("Look", 0))  # as `capex collect` begins
        env.recover()  # somebody at the terminal says that it is fine
        with pytest.raises(RigFault, match=r"nothing was held: joint2, joint3 of left"):
            env.reset(Start("Look", 0))
        assert lab.floats()
        assert not len(lab.hand.goals())
    finally:
        env.close()


def test_a_person_lifts_the_arm_before_it_is_first_held_and_it_stays_there(lab: Lab) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "capex.cli", "check", f"rig:{lab.file}", "--dry"]
    with (
        subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as check,
        contextlib.ExitStack() as failing,
    ):
        failing.callback(check.kill)
        os.close(theirs)
        seen = _until(ours, ASKS)
        assert "Nothing is held yet" in seen
        os.write(ours, b"\n")  # too early: it is asked again
        assert "Nothing is held yet" in _until(ours, ASKS)
        lab.hand.lift()
        lifted = lab.joints_rad()
        os.write(ours, b"\n")
        seen = _until(ours, "calibration")  # the last rule: the lift was enough
        seen += _until(ours, None)
        failing.pop_all()
    assert check.returncode == 0, seen
    sag = np.abs(lab.joints_rad() - lifted).max()
    assert 0.001 < sag < 0.1  # held, and neither sent home nor parked
    assert not lab.floats()


def test_an_arm_that_is_stiff_floats_when_its_server_begins_anew(lab: Lab) -> None:
    rig = read_rig(lab.file)
    lab.hand.lift()
    with open_arms(rig) as (_, link):
        link.settle()
    assert not lab.floats()
    told: list[str] = []

    def person(sentence: str) -> None:
        told.append(sentence)
        if len(told) == 1:
            lab.hand.fault("server-gone", arm="left", duration_s=1.0)

    (arm,) = wait_until_it_floats(rig, "left", person)
    assert arm.name == "left"
    assert "only its server started anew makes it float" in told[0]
    assert "its server has ended" in told[1]
    assert lab.floats()


def test_what_cannot_float_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"there is no arm 'middle' in .*; valid: left, right"):
        RigFloat("yam-twin", "middle").run()
    with refuses(ErrorCode.NOT_APPLICABLE, "is a simulated rig that starts with each command"):
        RigFloat("yam-twin", "left").run()
    with refuses(ErrorCode.UNSUPPORTED, r"driver 'lagging_arm:LaggingArm' of arm arm knows no way"):
        wait_until_it_floats(rig_of(tmp_path), "arm", print)


def _until(terminal: int, words: str | None) -> str:
    """What a program writes until it says something, or to its end; more questions than one fail
    the test instead of waiting for an answer.
    """
    seen = ""
    while words is None or words not in seen:
        assert words == ASKS or ASKS not in seen, seen
        try:
            part = os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # it has ended
            part = ""
        if not part:
            assert words is None, seen
            return seen
        seen += part
    return seen
