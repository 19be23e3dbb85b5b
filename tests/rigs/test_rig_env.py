"""A rig as an Env, whole: the simulated room in lock-step, the arms' own process, the guard, cameras."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from pressing import press

from capex import worlds
from capex.campaign.cleanup import recovered
from capex.errors import BadCommand, ErrorCode, RigFault, Unsupported
from capex.method.executor import Executor
from capex.operators.scripted import ScriptedOperator
from capex.plan import ArmTarget, Waypoint
from capex.rigs import registry
from capex.rigs.link import RigReading
from capex.rigs.timing import RigTally, kind
from capex.worlds import ArmCommand, Command, Start
from refusals import refuses

NAME = "rig:room:LiftBlock"
HOLD = Command({"arm": ArmCommand()})


@pytest.fixture(scope="module")
def env():
    env = worlds.make(NAME)
    env.reset(Start("LiftBlock", 0))
    yield env
    env.close()
    assert not registry._OPEN


def begin(env, start: int = 0) -> None:
    env.reset(Start("LiftBlock", start))
    env.room_hand().arrange("LiftBlock", start)


def tip(env) -> np.ndarray:
    return env.robot_state().arms["arm"].T_base_tip.position_m


def by(env, x: float, y: float, z: float, gripper="keep") -> Waypoint:
    a, b, c = (float(v) for v in np.add(tip(env), (x, y, z)))
    return Waypoint({"arm": ArmTarget((a, b, c), "down", gripper)})


def test_a_reset_homes_the_robot_and_pictures_come_in_any_size(env):
    begin(env)
    assert np.allclose(tip(env), [0.40, 0.0, 0.38], atol=0.006)
    images = env.observe()
    assert {name: image.shape for name, image in images.items()} == {
        "front": (360, 640, 3),
        "wrist": (360, 640, 3),
    }
    small = env.observe(["front"], size=(320, 180))["front"]  # at the same moment
    assert small.shape == (180, 320, 3)
    assert np.abs(small.astype(float) - images["front"][::2, ::2]).mean() < 5


def test_an_unproject_of_depth_finds_the_block_where_the_camera_sees_red(env):
    begin(env)
    image = env.observe(["front"])["front"].astype(int)
    red = (image[..., 0] > 120) & (image[..., 1] < 60) & (image[..., 2] < 60)
    rows, columns = np.nonzero(red)
    v, u = int(np.median(rows)), int(np.median(columns))
    for size, scale in ((None, 1.0), ((320, 180), 0.5)):
        depth = env.depth("front", size)
        at = (int(v * scale), int(u * scale))
        point = depth.camera.unproject(at[1] + 0.5, at[0] + 0.5, float(depth.depth_m[at]))
        assert 0.0 < point[2] < 0.06  # on the table, whose top is at 0
        assert np.all(np.abs(point[:2] - [0.5, 0.0]) < 0.3)
    with pytest.raises(Unsupported, match="camera wrist of this rig has no depth"):
        env.depth("wrist")


def test_a_wrist_camera_rides_with_the_tip(env):
    begin(env)
    before, at = env.camera_model("wrist").T_base_camera.position_m, tip(env)
    Executor(env).execute([by(env, 0.0, 0.06, -0.05)])
    moved = env.camera_model("wrist").T_base_camera.position_m - before
    assert np.allclose(moved, tip(env) - at, atol=0.003)


def test_commands_and_actions_are_refused_before_they_leave(env):
    begin(env)
    with pytest.raises(BadCommand, match=r"step_m has length 0\.5"):
        env.step(Command({"arm": ArmCommand((0.5, 0.0, 0.0))}))
    with pytest.raises(BadCommand, match="action dz is nan"):
        env.apply(np.array([0, 0, np.nan, 0, 0, 0, 0]))
    with pytest.raises(BadCommand, match="shape"):
        env.apply(np.zeros(8))
    with refuses(ErrorCode.UNKNOWN_START, "there is no start 1000"):
        env.reset(Start("LiftBlock", 1000))
    with pytest.raises(Unsupported):
        env.save_state()
    assert env.success() is None


def test_a_hold_is_all_zeros_and_an_action_that_is_too_large_is_cut_by_the_guard_and_counted(env):
    begin(env)
    assert np.array_equal(env.step(HOLD), np.zeros(7))
    action = env.step(Command({"arm": ArmCommand((0.004, 0.0, 0.0), gripper=1.0)}))
    assert np.array_equal(action, [0.004, 0, 0, 0, 0, 0, 1])
    state = env.robot_state()
    assert state.proprio.shape == (8,)
    assert np.allclose(state.proprio[:3], tip(env))
    at = tip(env)
    for _ in range(3):
        env.apply(np.array([0.5, 0, 0, 0, 0, 0, 0]))
    assert np.linalg.norm(tip(env) - at) < 0.08
    assert env.guard_counts()
    assert env.lateness().ticks == 5
    notes = env.rig_notes()
    assert notes["clock"] == "lock-step"
    assert notes["guard"] == env.guard_counts()
    assert notes["lateness"]["worst_s"] == 0.0
    assert notes["robot_s"] == pytest.approx(4 / 20)


def test_the_same_start_gives_the_same_bytes_whatever_came_before(env):
    seen = []
    for start in (2, 3, 2):
        begin(env, start)
        began = env.robot_state().proprio.tobytes()
        images = env.observe()
        (outcome,) = Executor(env).execute([by(env, 0.03, 0.02 * (start - 2), -0.02, "close")])
        pictures = b"".join(
            image.tobytes() for image in (*images.values(), *env.observe().values())
        )
        seen.append((began, pictures, env.robot_state().proprio.tobytes(), outcome.report))
    assert seen[0] == seen[2]
    assert seen[0][1:3] != seen[1][1:3]


def test_two_tasks_share_one_robot(env):
    begin(env)
    other = worlds.make("rig:room:BlockOnPlate")
    other.reset(Start("BlockOnPlate", 3))
    assert other.open() is env.open()
    other.close()
    other.close()  # a second time lets go of nothing
    env.step(HOLD)


def test_a_reflex_ends_a_waypoint_as_a_guard_stop_and_the_next_one_goes_on(env):
    begin(env)
    env.room_hand().fault("reflex", at_tick=5)
    stopped, after = Executor(env).execute([by(env, 0.08, 0, 0, "close"), by(env, 0, 0, 0)])
    assert (stopped.status, stopped.label, after.status) == ("guard stop", 0, "not executed")
    assert stopped.report.startswith("stopped by the guard: arm: reflex")
    assert env.robot_state().arms["arm"].opening_m > 0.07
    (went_on,) = Executor(env).execute([by(env, 0.05, 0, 0)])
    assert went_on.status == "reached"
    assert "recovered" in went_on.report
    assert any(name.startswith("stop: ") for name in env.guard_counts())


def test_a_frozen_camera_is_refused_by_name_with_ages(env):
    begin(env)
    env.observe()
    env.room_hand().fault("frozen-frames", camera="wrist", duration_s=2.0)
    Executor(env).execute([by(env, 0.02, 0, 0)])
    with pytest.raises(RigFault, match=r"camera wrist gives no fresh picture: .* came .* s ago"):
        env.observe()
    env.recover()
    begin(env)
    assert env.observe()


def test_an_e_stop_stays_until_a_person_says_that_it_is_fine(env):
    begin(env)
    env.room_hand().fault("e-stop")
    with pytest.raises(RigFault, match="stop"):
        Executor(env).execute([by(env, 0.05, 0, 0)])
    with pytest.raises(RigFault):
        env.reset(Start("LiftBlock", 0))
    with pytest.raises(RigFault):  # it is still pressed
        env.recover()
    env.room_hand().mend()
    env.recover()
    begin(env)
    assert env.observe()


def test_a_rig_whose_process_was_killed_is_opened_again(env):
    begin(env)
    os.kill(env.open().link.process, signal.SIGKILL)
    with pytest.raises(RigFault, match="the process of rig room ended"):
        env.step(HOLD)
    env.recover()
    begin(env)
    assert env.observe()


def test_a_rig_that_cannot_keep_up_is_told_so():
    tally = RigTally()
    for late_s in [0.001] * 97 + [0.04] * 3:
        reading = RigReading({}, {}, {}, 1.0, 1.0, late_s, ("step cut to 20 mm",))
        tally.add(reading)
    lateness = tally.lateness(20.0)
    assert (lateness.ticks, lateness.late, lateness.worst_s) == (100, 0, 0.04)
    assert "cannot keep the rig's 20 Hz" in lateness.sentence(20.0)
    assert lateness.sentence(10.0) == ""
    assert dict(tally.guard) == {"step cut": 100}
    phrases = {
        "held 12 cm from where the motion began": "held from where the motion began",
        "joint joint4 within its margin": "joint joint4 within its margin",
        "arm: a force of 31 N": "arm: a force",
        "the state of arm is 0.31 s old": "the state of arm is old",
    }
    assert {phrase: kind(phrase) for phrase in phrases} == phrases


def test_a_persons_stop_is_in_the_record_and_a_person_lets_the_arms_go_on(env):
    begin(env)
    assert env.person_stops() == []
    for _ in range(3):
        env.step(HOLD)
    _, process = env.rig_process()
    press(process)
    with pytest.raises(RigFault, match="stopped by Ada"):
        env.step(HOLD)
    stops = [{"by": "Ada", "step": 3}]
    assert env.person_stops() == stops
    assert env.rig_notes()["stops"] == stops
    env.recover()  # the fault has told whoever says so
    env.step(HOLD)
    begin(env)
    assert env.person_stops() == []
    assert "stops" not in env.rig_notes()


def test_what_a_person_stopped_between_two_attempts_no_stand_in_lets_go_on(env):
    begin(env)
    env.step(HOLD)
    _, process = env.rig_process()
    press(process, "between two attempts")
    with pytest.raises(RigFault, match="stopped by Ada") as fault:
        env.reset(Start("LiftBlock", 0))
    assert env.person_stops() == []  # since the reset
    operator = ScriptedOperator()
    assert not recovered(env, operator, fault.value, lambda: None)
    with pytest.raises(RigFault, match="stopped by Ada"):
        env.step(HOLD)
    env.recover()
    begin(env)
    assert recovered(env, operator, RigFault("a camera is lost"), lambda: None)
    begin(env)
