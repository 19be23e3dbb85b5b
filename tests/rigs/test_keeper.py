"""The rig's process, driven for real: a lagging arm in a process of its own, by its link."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from rig_of import calls, rig_of

from capex.errors import ErrorCode, RigFault
from capex.pose import DOWN, Pose
from capex.rigs.client import open_link
from capex.rigs.servo import shortened
from capex.worlds import ArmCommand, Command
from refusals import refuses


@contextmanager
def opened(rig):
    link = open_link(rig)
    try:
        yield link
    finally:
        link.close()


def towards(link, reading, target_m, arm="arm", gripper=0.0):
    step = shortened(np.asarray(target_m) - reading.arms[arm].T_base_tip.position_m, 0.01)
    return link.tick(Command({arm: ArmCommand(tuple(step.tolist()), gripper=gripper)}))


def go(link, target_m, ticks=60):
    reading, notes = link.read(), []
    for _ in range(ticks):
        reading = towards(link, reading, target_m)
        notes += [*reading.guard, *([reading.stopped] if reading.stopped else [])]
    return reading, notes


def test_an_arm_is_driven_to_its_target_and_says_the_same_again(tmp_path):
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with opened(rig_of(tmp_path / name, sag_m=0.015)) as link:
            assert link.facts["arm"].joint_names == ("jx", "jy", "jz")
            reading, notes = go(link, (0.4, 0.08, 0.32))
            tip = reading.arms["arm"].T_base_tip
            assert np.linalg.norm(tip.position_m - [0.4, 0.08, 0.32]) < 0.003, notes
            assert np.allclose(tip.rotation, DOWN)
            assert not notes
            assert reading.late_s == 0.0
            settled = link.settle()
            assert settled.time_s > reading.time_s >= reading.commanded_s
        paths.append([c["to"] for c in calls(tmp_path / name) if c["call"] == "command"])
    assert paths[0] == paths[1]
    assert [c["call"] for c in calls(tmp_path / "one")][-1] == "close"


def test_nothing_passes_between_requests_in_lock_step(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        first = link.read()
        assert link.read().time_s == first.time_s
        assert link.tick(Command({})).time_s == pytest.approx(first.time_s + 0.05)


def test_the_guard_reports_what_it_changes(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        reading = link.tick(Command({"arm": ArmCommand((1.0, 0.0, 0.0))}))
        assert reading.guard == ("step cut to 10 mm",)
        link.home()
        _, notes = go(link, (0.6, 0.0, 0.1), ticks=120)
        assert "palm kept out of shelf" in notes
        link.home()
        link.tick(Command({"arm": ArmCommand((float("nan"), 0.0, 0.0))}))
        reading = link.tick(Command({"arm": ArmCommand((0.0, 0.01, 0.0))}))
        assert reading.stopped == "the command for arm is not a finite number"  # until it settles
        link.settle()
        assert not link.tick(Command({"arm": ArmCommand((0.0, 0.01, 0.0))})).stopped
        assert link.counts()["palm kept out of shelf"] > 0
    assert not [c for c in calls(tmp_path) if c.get("bad")]


def test_a_closed_hand_that_stays_open_holds_something(tmp_path):
    with opened(rig_of(tmp_path, thing_m=0.03)) as link:
        assert not link.read().arms["arm"].finger_contact
        for _ in range(15):
            state = link.tick(Command({"arm": ArmCommand(gripper=1.0)})).arms["arm"]
        assert state.finger_contact
        assert state.held == frozenset({""})
        assert state.opening_m == pytest.approx(0.03, abs=0.001)
        assert not link.home().arms["arm"].held  # home opens, also where it stands at home
    assert [c["opening_m"] for c in calls(tmp_path) if c["call"] == "grip"] == [0.0, 0.08]


def test_forces_are_contact_and_above_the_latch_a_stop(tmp_path):
    force = tmp_path / "arm" / "force"
    with opened(rig_of(tmp_path)) as link:
        force.parent.mkdir(exist_ok=True)
        force.write_text("0 0 8")
        reading = link.tick(Command({"arm": ArmCommand((0.0, 0.0, -0.01))}))
        assert [c.part for c in reading.arms["arm"].hand_contacts] == ["hand"]
        assert not reading.stopped
        force.write_text("0 0 40")
        reading = link.tick(Command({"arm": ArmCommand((0.0, 0.0, -0.01))}))
        assert reading.stopped == "arm: a force of 40 N"
        link.settle()  # the force is still there: away from it is allowed, against it is not
        assert not link.tick(Command({"arm": ArmCommand((0.0, 0.0, 0.01))})).stopped
        assert link.tick(Command({"arm": ArmCommand((0.0, 0.0, -0.01))})).stopped
        assert [c["call"] for c in calls(tmp_path)].count("stop") == 2


def test_the_same_force_a_second_time_stops_the_arm_a_second_time(tmp_path):
    force = tmp_path / "arm" / "force"
    up, down = (Command({"arm": ArmCommand((0.0, 0.0, z))}) for z in (0.01, -0.01))
    with opened(rig_of(tmp_path)) as link:
        for stops in (1, 2):
            for _ in range(4):
                assert not link.tick(down).stopped
            force.write_text("0 0 40")
            for _ in range(2):
                assert link.tick(down).stopped == "arm: a force of 40 N"
            assert [c["call"] for c in calls(tmp_path)].count("stop") == stops
            force.unlink()
            assert not link.tick(up).stopped  # away from it, which ends the latch


@pytest.mark.parametrize("request_is", ["settle", "tare", "home"])
def test_a_user_stop_that_was_seen_once_waits_for_a_person(tmp_path, request_is):
    step = Command({"arm": ArmCommand((0.005, 0.0, 0.0))})
    with opened(rig_of(tmp_path)) as link:
        now_s = link.settle().time_s
        (tmp_path / "arm" / "user_stop").write_text(f"{now_s + 0.08} {now_s + 0.12}")
        with pytest.raises(RigFault, match="arm: user stop"):
            getattr(link, request_is)()
        sent = len(calls(tmp_path))
        with pytest.raises(RigFault, match="arm: user stop"):
            link.tick(step)
        assert not [c for c in calls(tmp_path)[sent:] if c["call"] == "command"]
        link.clear()
        assert not link.tick(step).stopped


def test_settling_clears_what_a_robot_reports_and_the_next_tick_notes_it(tmp_path):
    step = Command({"arm": ArmCommand((0.01, 0.0, 0.0))})
    with opened(rig_of(tmp_path)) as link:
        link.tick(step)
        (tmp_path / "arm" / "error").write_text("reflex")
        assert link.tick(step).stopped == "arm: reflex"
        assert link.settle().guard == ("arm recovered from: reflex",)
        assert "recover" in [c["call"] for c in calls(tmp_path)]
        assert link.tick(step).guard == ("arm recovered from: reflex",)
        assert link.tick(step).guard == ()


def test_a_rotation_that_is_rounded_is_made_one_before_goals_are_built_from_it(tmp_path):
    with opened(rig_of(tmp_path, rounds=True)) as link:
        reading, notes = go(link, (0.4, 0.05, 0.3))
        tip = reading.arms["arm"].T_base_tip
        assert not notes
        assert tip.position_m[1] == pytest.approx(0.05, abs=0.003)
        assert np.abs(tip.rotation @ tip.rotation.T - np.eye(3)).max() < 1e-12


def test_a_bias_of_the_force_is_tared_at_home_and_is_no_contact(tmp_path):
    force = tmp_path / "arm" / "force"
    force.parent.mkdir(exist_ok=True)
    force.write_text("0 0 -6")
    with opened(rig_of(tmp_path)) as link:
        assert link.read().arms["arm"].hand_contacts  # the lagging arm's threshold is 5 N
        reading = link.home()
        assert not reading.arms["arm"].hand_contacts
        assert reading.force_n["arm"] == pytest.approx((0.0, 0.0, 0.0))
        force.write_text("0 0 2")  # 8 N more than in free air
        assert link.tick(Command({})).arms["arm"].hand_contacts
        with pytest.raises(RigFault, match=r"the force it measures has changed by 8.0 N since"):
            link.home()
        with pytest.raises(RigFault, match="has changed by"):
            link.tick(Command({}))
        link.clear()  # a person has looked
        assert not link.home().arms["arm"].hand_contacts
        force.write_text("0 0 13")
        with pytest.raises(RigFault, match=r"it measures 13.0 N, more than 12 N.* its load"):
            link.home()


def test_only_a_refused_tare_lets_a_person_accept_another_bias(tmp_path):
    force = tmp_path / "arm" / "force"
    force.parent.mkdir(exist_ok=True)
    force.write_text("0 0 -6")
    with opened(rig_of(tmp_path)) as link:
        link.home()
        link.stop()
        link.clear()  # a person confirms, but of the hand nothing was said
        force.write_text("0 0 -2")
        with pytest.raises(RigFault, match=r"has changed by 4.0 N"):
            link.home()
        link.clear()
        assert link.home().force_n["arm"] == pytest.approx((0.0, 0.0, 0.0))


def test_a_hand_that_holds_something_is_not_tared(tmp_path):
    force = tmp_path / "arm" / "force"
    with opened(rig_of(tmp_path, thing_m=0.03)) as link:
        for _ in range(15):
            link.tick(Command({"arm": ArmCommand(gripper=1.0)}))
        force.write_text("0 0 -4")  # its weight
        reading = link.tare()
        assert reading.arms["arm"].held
        assert reading.force_n["arm"] == (0.0, 0.0, -4.0)
        assert link.tick(Command({})).guard == ("force not tared: its fingers are not free",)
        assert link.tick(Command({})).guard == ()


def test_an_arm_that_moves_is_not_tared_and_the_next_tick_says_so(tmp_path):
    with opened(rig_of(tmp_path, lag_s=2.0)) as link:
        for _ in range(4):
            link.tick(Command({"arm": ArmCommand((0.01, 0.0, 0.0))}))
        link.tare()
        assert link.tick(Command({})).guard == ("force not tared: it is not at rest",)


def test_an_error_is_recovered_once_and_a_users_stop_waits_for_a_person(tmp_path):
    error, step = tmp_path / "arm" / "error", Command({"arm": ArmCommand((0.01, 0.0, 0.0))})
    with opened(rig_of(tmp_path)) as link:
        link.tick(step)
        error.write_text("reflex")
        assert link.tick(step).stopped == "arm: reflex"
        reading = link.tick(step)
        assert reading.guard == ("arm recovered from: reflex",)
        assert not reading.stopped
        error.write_text("user stop")
        with pytest.raises(RigFault, match="arm: user stop"):
            link.tick(step)
        with pytest.raises(RigFault, match="user stop"):
            link.settle()
        with pytest.raises(RigFault, match="cannot go on yet"):
            link.clear()
        error.unlink()
        link.clear()
        link.home()
        assert not link.tick(step).stopped
    assert [c["call"] for c in calls(tmp_path)].count("recover") >= 1


def test_a_stale_state_stops_and_a_lost_arm_is_reached_again(tmp_path):
    freeze, lost = tmp_path / "arm" / "freeze", tmp_path / "arm" / "lost"
    step = Command({"arm": ArmCommand((0.005, 0.0, 0.0))})
    with opened(rig_of(tmp_path)) as link:
        link.tick(step)
        freeze.touch()
        assert [bool(link.tick(step).stopped) for _ in range(6)] == [False] * 4 + [True] * 2
        freeze.unlink()
        link.settle()
        assert not link.tick(step).stopped
        freeze.touch()
        with pytest.raises(RigFault, match="arm has sent no state"):
            link.settle()
        freeze.unlink()
        link.clear()
        lost.touch()
        with pytest.raises(RigFault, match="does not answer"):
            link.tick(step)
        lost.unlink()
        with pytest.raises(RigFault, match="does not answer"):
            link.tick(step)  # only a person says that it is well
        link.clear()
        assert not link.home().stopped


def test_the_operators_stop_holds_until_clear(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        link.stop()
        with pytest.raises(RigFault, match="stopped by the operator"):
            link.home()
        assert link.read().arms  # measuring goes on
        link.clear()
        assert not link.home().stopped


def test_two_processes_cannot_drive_one_arm(tmp_path):
    rig = rig_of(tmp_path)
    with opened(rig) as link:
        sentence = f"the arm at {tmp_path / 'arm'} is driven by process {link.process} "
        with pytest.raises(RigFault) as refused:
            open_link(rig)
        assert str(refused.value) == f"{sentence}(rig {rig.name}); end it first"
    with opened(rig):
        pass


UP = Pose(np.array([0.4, 0.0, 0.5]), DOWN)


@contextmanager
def interrupted(monkeypatch, link, after_s):
    """Ctrl-C while the link waits for an answer."""

    def poll(patience_s):
        monkeypatch.undo()
        time.sleep(after_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(link._pipe, "poll", poll, raising=False)
    with pytest.raises(KeyboardInterrupt):
        yield


def rig_that_parks(folder, **more):
    rig = rig_of(folder, clock="real", start_m=(0.3, 0.5, 0.5), **more)
    return replace(rig, arms=(replace(rig.arms[0], park=UP),))


def test_ctrl_c_on_the_way_home_stops_the_arms_which_are_not_parked(tmp_path, monkeypatch):
    with opened(rig_that_parks(tmp_path)) as link:
        with interrupted(monkeypatch, link, 0.3):
            link.home()
        time.sleep(0.15)  # a tick and its measurement
        stopped_s = time.monotonic()
        with pytest.raises(RigFault, match="stopped by the operator"):
            link.settle()  # answered by its own answer, not by that of home
    told = [c for c in calls(tmp_path) if c["at"] > stopped_s]
    assert told[-1]["call"] == "close"
    assert not [c for c in told if c["call"] == "command"]
    assert "command" in [c["call"] for c in calls(tmp_path)]  # it was under way


def test_ctrl_c_while_an_arm_is_only_looked_at_sends_it_nothing(tmp_path, monkeypatch):
    with opened(rig_of(tmp_path, clock="real")) as link:
        with interrupted(monkeypatch, link, 0.0):
            link.read()
        assert link.read().arms
    assert [c["call"] for c in calls(tmp_path)] == ["connect", "close"]


def test_whoever_closes_a_rig_in_the_middle_of_a_motion_ends_it(tmp_path):
    with opened(rig_that_parks(tmp_path)) as link:
        link._send(("home", None))
        link._unanswered += 1  # nobody waits for it
        time.sleep(0.5)
        closed_s = time.monotonic()
    told = calls(tmp_path)
    assert told[-1]["call"] == "close"
    assert not [c for c in told if c["call"] == "command" and c["at"] > closed_s + 0.15]


def test_a_driver_that_is_not_there_is_named(tmp_path):
    rig = rig_of(tmp_path)
    entry = rig.arms[0].__class__(**{**vars(rig.arms[0]), "driver": "no_such_lab:Arm"})
    with refuses(ErrorCode.NOT_FOUND, "'no_such_lab:Arm' cannot be imported"):
        open_link(rig.__class__(**{**vars(rig), "arms": (entry,)}))


PARENT = """
import sys, time
from pathlib import Path
from capex.worlds import ArmCommand, Command
from capex.rigs.client import open_link
from rig_of import rig_of
link = open_link(rig_of(Path(sys.argv[1]), clock="real", guard={"alone_hold_s": 0.5}))
link.tick(Command({"arm": ArmCommand((0.005, 0.0, 0.0))}))
print(link.process, flush=True)
time.sleep(60)
"""


def test_a_killed_collector_leaves_the_arm_held_until_it_is_closed(tmp_path):
    path = os.pathsep.join(sys.path)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    keeper = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(600):
        if calls(tmp_path)[-1]["call"] == "close":
            break
        time.sleep(0.05)
    after = [c["call"] for c in calls(tmp_path)]
    after = after[after.index("command") + 1 :]
    assert after[-1] == "close"
    assert "stop" in after
    assert after[after.index("stop") + 1 : -1].count("hold") >= 3
    assert set(after[after.index("stop") + 1 : -1]) == {"hold"}
    for _ in range(200):  # it ends by itself, and lets go of the arm
        try:
            os.kill(keeper, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    with opened(rig_of(tmp_path)):
        pass


def test_on_the_real_clock_the_arm_is_held_between_requests_and_lateness_is_told(tmp_path):
    with opened(rig_of(tmp_path, clock="real")) as link:
        assert link.tick(Command({})).late_s == 0.0
        time.sleep(0.2)
        reading = link.tick(Command({}))
        assert reading.late_s > 0.1
        link.settle()
        assert link.tick(Command({})).late_s == 0.0
    assert [c["call"] for c in calls(tmp_path)].count("hold") >= 4
