"""The YAM scene: the words about its cameras are true, the paper's rules are judged with a reason,
and the expert hands the bowl over through the whole stack.
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from capex import worlds
from capex.campaign.judging import Question
from capex.method.executor import Executor
from capex.method.observation import contact_word
from capex.operators import Standby
from capex.operators.scripted import ScriptedOperator
from capex.plan import PLAN_MAX
from capex.pose import Pose
from capex.rigs.drivers.yam.kinematics import MAX_OPENING_M
from capex.rigs.env import RigFileEnv
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins.expert import plan
from capex.rigs.twins.physics import Room
from capex.rigs.twins.scenes import yam as scene
from capex.rigs.twins.scenes import yam_rules
from capex.rigs.twins.scenes.yam_arms import MOUNTS_M, fingers
from capex.rigs.twins.scenes.yam_expert import EXPERT, rim_grasp, tip
from capex.rigs.twins.yam.pair import YamPair
from capex.worlds import ArmCommand, Command, Start
from hold import beyond_hand_m

DOCS = Path(__file__).parents[2] / "docs"
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def room_at(task: str) -> Room:
    def make_arm(model, data):
        return YamPair(model, data, lambda kind, arm: False)

    return Room(scene.SCENE, make_arm, task, 20.0, lambda state: None)


def wait(room: Room, seconds: float) -> None:
    room.advance(room.steps + round(seconds / 0.002))


def put(room: Room, thing: str, x: float, y: float, z: float, quat=UPRIGHT) -> None:
    """Put a thing somewhere and let it come to rest."""
    room.data.joint(thing).qpos[:] = (x, y, z, *quat)
    room.data.joint(thing).qvel[:] = 0.0
    wait(room, 0.4)


@pytest.mark.parametrize("name", ["yam-twin", "yam-twin-live"])
def test_the_rig_files_say_what_the_scene_has(name: str) -> None:
    rig, room = read_rig(find_rig(name)), room_at("BowlHandover")
    scene.arrange(room.model, room.data, "BowlHandover", 0)
    assert list(rig.tasks) == list(scene.TASKS)
    assert {name: task.rules for name, task in rig.tasks.items()} == yam_rules.RULES
    tips = {arm.name: tip(room.data, arm.name) for arm in rig.arms}
    for arm in rig.arms:
        assert arm.T_base_mount.position_m == pytest.approx(np.array(MOUNTS_M[arm.name]))
        assert arm.home.position_m == pytest.approx(tips[arm.name].position_m, abs=1e-4)
        assert arm.home.rotation == pytest.approx(tips[arm.name].rotation, abs=1e-4)
    for camera in rig.cameras:
        entry, given = scene.CAMERAS[camera.name], camera.extrinsics
        assert (camera.view, camera.size, camera.kind) == (entry.view, (640, 480), entry.kind)
        assert given is not None
        seen = tips[camera.arm] @ given if camera.arm else given
        truth = scene.camera_model(room.data, camera.name)
        assert seen.position_m == pytest.approx(truth.T_base_camera.position_m, abs=2e-5)
        assert seen.rotation == pytest.approx(truth.T_base_camera.rotation, abs=2e-5)
        # The words about the image: which way left and ahead are in it.
        sign = -1 if camera.arm else 1
        at = np.array([0.32, tips[camera.arm].position_m[1] if camera.arm else 0.0, 0.0])
        u, v, _ = truth.project(at)
        assert sign * (truth.project(at + np.array([0.0, 0.05, 0.0]))[0] - u) > 0
        assert sign * (truth.project(at + np.array([0.05, 0.0, 0.0]))[1] - v) > 0
        if camera.arm:
            ends = [truth.project(_pad_end(room, name)) for name in fingers(camera.arm)]
            assert all(240 < v < 480 for _, v, _ in ends)
            low, high = sorted(u for u, _, _ in ends)
            assert 0 < low < 320 < high < 640


def test_the_rig_file_of_the_docs_is_the_twins_but_for_its_devices() -> None:
    docs, twin = read_rig(DOCS / "yam.toml"), read_rig(find_rig("yam-twin"))
    for ours, simulated in zip(docs.arms, twin.arms, strict=True):
        assert (ours.name, ours.joints, ours.held_gap_m) == (simulated.name, 6, 0.003)
        for name in ("T_base_mount", "home", "park"):
            one, other = getattr(ours, name), getattr(simulated, name)
            assert np.array_equal(one.position_m, other.position_m)
    assert [(c.name, c.view) for c in docs.cameras] == [(c.name, c.view) for c in twin.cameras]
    assert docs.tasks == twin.tasks


def test_the_guards_hands_hold_the_simulated_ones_with_open_fingers_and_cameras() -> None:
    guard, room = read_rig(find_rig("yam-twin")).guard, room_at("BowlHandover")
    scene.arrange(room.model, room.data, "BowlHandover", 0)
    for arm in ("left", "right"):
        bodies = f"{arm}_hand", *fingers(arm)
        hand = guard.hand(arm)
        assert beyond_hand_m(room.model, room.data, bodies, f"{arm}_tip", hand) < 0.002


def _pad_end(room: Room, finger: str) -> np.ndarray:
    pad = room.model.geom(int(room.model.body(finger).geomadr[0]) + 1)
    return room.data.geom(pad.id).xpos - np.array([0.0, 0.0, pad.size[0]])


def test_the_first_plans_of_all_starts_stay_in_the_arms_boxes() -> None:
    guard = read_rig(find_rig("yam-twin")).guard
    for task in scene.TASKS:
        room = room_at(task)
        for start in range(40):
            scene.arrange(room.model, room.data, task, start)
            waypoints = EXPERT[task](room.model, room.data)
            assert len(waypoints) <= PLAN_MAX
            for arm, target in (pair for w in waypoints for pair in w.targets.items()):
                if target.position_m is not None:
                    box = guard.box(arm)
                    assert (np.array(target.position_m) >= box.lower_m).all()
                    assert (np.array(target.position_m) <= box.upper_m).all()


def test_bread_and_corn_rules_are_judged_with_their_reason() -> None:
    room = room_at("BreadAndCorn")
    x, y, _ = room.data.body("plate").xpos
    assert room.judge() == (False, "the bread lies on table, not on the plate")
    put(room, "bread", x, y + 0.055, 0.034)
    put(room, "corn", x, y - 0.055, 0.030)
    done, why = scene.judge(room.model, room.data, "BreadAndCorn")
    assert done, why
    first = "broken: the left arm brings the bread and its first grasp succeeds"
    assert room.judge() == (False, f"{first} (the left arm did not lift the bread)")
    put(room, "corn", x, y + 0.09, 0.1)
    put(room, "bread", x, y - 0.06, 0.1)
    assert "wrong half" in scene.judge(room.model, room.data, "BreadAndCorn")[1]

    room.arrange("BreadAndCorn", 0, 0, 0.0)
    put(room, "corn", x, y - 0.055, 0.030)
    assert "broken: the bread is on the plate before the corn" in room.judge()[1]

    room.arrange("BreadAndCorn", 0, 0, 0.0)
    put(room, "plate", x + 0.02, y, 0.0)
    assert "broken: the plate does not move (1 cm) at any time (it moved by 2." in room.judge()[1]

    room.arrange("BreadAndCorn", 0, 0, 0.0)
    for gripper in (0.0, 1.0, 0.0):  # in the air: nothing is grasped
        room.arm.tell("left", np.append(room.arm.arms["left"].goal_rad, gripper))
        wait(room, 0.8)
    assert room.judge()[1] == f"{first} (it closed again before the bread was there)"


def test_a_bowl_may_not_touch_the_table_nor_skip_the_handover() -> None:
    room = room_at("BowlHandover")
    put(room, "bowl", 0.31, -0.2, 0.001)
    assert scene.judge(room.model, room.data, "BowlHandover")[0]
    in_the_air = "broken: the right arm takes it over in the air (it was not handed over)"
    assert room.judge() == (False, in_the_air)
    put(room, "bowl", 0.31, -0.2, 0.075, (0.0, 1.0, 0.0, 0.0))
    assert room.judge()[1] == "the bowl does not stand upright"

    room.arrange("BowlHandover", 0, 0, 0.0)
    grasp = rim_grasp(Pose(np.zeros(3), np.eye(3)), "left")
    goal = tip(room.data, "left") @ (grasp.inverse() @ Pose(np.zeros(3), np.eye(3)))
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, goal.rotation.ravel())
    room.data.joint("bowl").qpos[:] = (*goal.position_m, *quat)
    for finger in fingers("left"):
        room.data.joint(finger).qpos[0] = 0.002
    room.arm.arms["left"].start("holds")
    room.arm.tell("left", np.append(scene.HOMES_RAD["left"], 0.0))
    wait(room, 0.3)
    assert room.judge()[1] == "the left gripper still touches the bowl"
    put(room, "bowl", 0.35, 0.1, 0.001)
    off = "broken: the bowl does not touch the table between being lifted and being set down"
    assert room.judge()[1] == f"{off} (it did before the handover)"

    room.arrange("BowlHandover", 0, 0, 0.0)
    watched = room._watch
    assert isinstance(watched, yam_rules.BowlWatch)
    watched._lifted = watched._handed = True
    put(room, "bowl", 0.31, -0.2, 0.001)
    assert room.judge()[0]
    put(room, "bowl", 0.31, -0.2, 0.05)  # falls back to where it stood
    assert room.judge()[1] == f"{off} (it was lifted again after it had touched the table)"


def test_the_expert_hands_the_bowl_over_through_the_whole_stack() -> None:
    env = worlds.make("yam-twin:BowlHandover")
    assert isinstance(env, RigFileEnv)
    env.open()
    hand = env.room_hand()
    hand.arrange("BowlHandover", 3)
    env.reset(Start("BowlHandover", 3))
    executor = Executor(env)
    reports = []
    for decisions in range(10):
        waypoints = plan(env, decisions)
        if not waypoints:
            break
        reports += [outcome.report for outcome in executor.execute(waypoints)]
        if decisions == 1:  # a wall of 4 mm between the fingers
            assert "holding" in contact_word(env.robot_state().arms["left"], MAX_OPENING_M)
    done, why = hand.judge()
    env.close()
    assert done, (why, reports)
    assert not any("apart" in report for report in reports)  # the guard had nothing to keep apart


def test_a_scripted_verdict_names_the_rule_that_was_broken(tmp_path: Path) -> None:
    env, operator, start = worlds.make("yam-twin:BreadAndCorn"), ScriptedOperator(), 0
    assert isinstance(env, RigFileEnv)
    env.open()
    operator.arrange(
        env, Start("BreadAndCorn", start), None, Standby(tmp_path, "any", lambda: None)
    )
    env.reset(Start("BreadAndCorn", start))
    for sign in (1.0, -1.0, 1.0):  # in the air: nothing is grasped, and once more
        for _ in range(15):
            env.step(Command({arm: ArmCommand(gripper=sign) for arm in ("left", "right")}))
    task = env.rig.tasks["BreadAndCorn"]
    told = (task.instruction, task.success, task.rules)
    asked = Question(tmp_path, env.spec.world, task.name, "base", start, *told, "done", True)
    verdict = operator.judge(asked)
    env.close()
    assert verdict is not None
    assert verdict.verdict == "failure"
    assert verdict.reason == "broken: the left arm brings the bread and its first grasp succeeds"
