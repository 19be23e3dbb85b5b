"""The Franka scene: what stands there looks and behaves as the instructions say, the words about
its cameras are true, and the expert solves a task through the whole stack.
"""

from __future__ import annotations

import colorsys
import math

import mujoco
import numpy as np
import pytest

from capex import worlds
from capex.campaign.api import demonstrate
from capex.errors import ErrorCode
from capex.plan import PLAN_MAX
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins import expert
from capex.rigs.twins.scenes import franka as scene
from capex.worlds.kitchen import robot as panda
from capex.worlds.render import Renderer
from hold import beyond_hand_m, hold, put_on
from refusals import refuses

HUES_DEG = {
    "coke can": 358,
    "orange cup": 22,
    "green cup": 135,
    "blue block": 227,
    "green block": 135,
}


def room(task: str, start: int = 1):
    model = scene.build(task)
    data = mujoco.MjData(model)
    scene.arrange(model, data, task, start)
    return model, data


def test_starts_differ_lie_apart_on_both_sides_and_the_expert_stays_inside_the_guards_box():
    box = read_rig(find_rig("franka-twin")).guard.workspace
    for task, names in scene.TASKS.items():
        model, data = room(task)
        sides = set()
        for start in range(40):
            at = scene.places(task, start)
            sides.add(tuple(y > 0 for _, y, _ in at.values()))
            scene.arrange(model, data, task, start)
            steps = expert.steps(model, data, scene.EXPERT[task])
            assert len(steps) <= PLAN_MAX
            aims = np.array([s.position_m for s in steps if s.position_m])
            assert (aims >= box.lower_m).all()
            assert (aims <= box.upper_m).all()
            if len(names) == 2:
                (one, a), (two, b) = at.items()
                radii_m = scene.OBJECTS[one].radius_m + scene.OBJECTS[two].radius_m
                assert math.dist(a[:2], b[:2]) > radii_m + 0.05
        assert len(sides) == 2 ** len(names)


def test_the_guards_hand_holds_the_simulated_one_with_its_open_fingers_and_camera():
    hand = read_rig(find_rig("franka-twin")).guard.hand("arm")
    bodies = "hand", "finger_left", "finger_right"
    assert beyond_hand_m(*room("PickCoke"), bodies, "tip", hand) < 0.002


def test_things_have_the_hue_that_the_instruction_names_and_fit_between_the_fingers():
    for task in scene.TASKS:
        model, data = room(task)
        renderer = Renderer(model)
        pixels = renderer.rgb(data, model.camera("front").id, (640, 360))
        renderer.close()
        for name in scene.TASKS[task]:
            thing, body = scene.OBJECTS[name], data.body(name)
            high_m = 0.6 * thing.height_m - thing.origin_m  # above a can's stripe
            point = body.xpos + np.array([0.0, 0.0, high_m])
            u, v, _ = scene.camera_model(data, "front").project(point)
            hue, saturation, _ = colorsys.rgb_to_hsv(*(pixels[int(v), int(u)] / 255.0))
            off = (360 * hue - HUES_DEG[name] + 180) % 360 - 180
            assert abs(off) < 12, (name, 360 * hue)
            assert saturation > 0.6
    assert 2 * max(scene.CAN_RADIUS_M, scene.CUP_RIM_M) < 0.075


def test_what_the_rig_files_say_of_the_cameras_is_true():
    for name in ("franka-twin", "franka-twin-live"):
        rig = read_rig(find_rig(name))
        assert {c.name: (c.view, c.size, c.depth) for c in rig.cameras} == {
            name: (camera.view, camera.size, False) for name, camera in scene.CAMERAS.items()
        }
    _, data = room("PickCoke")
    tip = data.site("tip").xpos
    front, wrist = (scene.camera_model(data, c) for c in ("front", "wrist"))
    ahead, left = np.array([0.05, 0.0, 0.0]), np.array([0.0, 0.05, 0.0])
    table = np.array([tip[0], tip[1], 0.0])
    assert front.project(table + left)[0] > front.project(table)[0]
    assert front.project(table + ahead)[1] > front.project(table)[1]
    assert wrist.project(table + left)[0] < wrist.project(table)[0]
    assert wrist.project(table + ahead)[1] < wrist.project(table)[1]
    ends = []
    for finger in ("finger_left", "finger_right"):
        below_m = panda.TIP_M - 0.0584 + 0.0125  # from the finger's frame to the end of its pad
        ends.append(wrist.project(data.body(finger).xpos - np.array([0.0, 0.0, below_m])))
    assert all(0.75 * 360 < v < 360 for _, v, _ in ends)
    low, high = sorted(u for u, _, _ in ends)
    assert 0 < low < 280
    assert 360 < high < 640
    aside = data.camera("wrist").xpos - tip
    assert aside[0] == pytest.approx(0.085, abs=0.01)
    assert aside[2] == pytest.approx(0.15, abs=0.01)


def test_cups_nest_and_only_upright_alone_and_let_go_counts():
    model, data = room("StackCups")
    assert scene.judge(model, data, "StackCups")[0] is False
    x, y, _ = data.body("green cup").xpos
    put_on(model, data, "orange cup", (x + 0.004, y, 0.045))
    assert scene.judge(model, data, "StackCups") == (True, "the orange cup sits in the green cup")
    assert 0.015 < data.body("orange cup").xpos[2] < 0.035  # nested, not on the rim
    put_on(model, data, "orange cup", (x + 0.03, y, 0.1))  # beside the mouth: it does not stay
    assert not scene.judge(model, data, "StackCups")[0]
    scene.arrange(model, data, "StackCups", 1)
    hold(model, data, "orange cup", 0.062, grasp_m=0.08)
    done, why = scene.judge(model, data, "StackCups")
    assert (done, why) == (False, "the gripper still touches the orange cup")


def test_a_can_in_the_hand_is_lifted_and_a_block_on_the_other_is_stacked():
    model, data = room("PickCoke")
    assert scene.judge(model, data, "PickCoke") == (False, "the gripper does not hold the coke can")
    hold(model, data, "coke can", 2 * scene.CAN_RADIUS_M, grasp_m=0.08)
    done, why = scene.judge(model, data, "PickCoke")
    assert done, why
    model, data = room("StackBlocks")
    x, y, _ = data.body("green block").xpos
    put_on(model, data, "blue block", (x, y, 0.08))
    done, why = scene.judge(model, data, "StackBlocks")
    assert done, why


def test_the_expert_demonstrates_through_the_rig_and_the_scripted_operator_judges(tmp_path):
    rig = _on_the_rooms_own_wire(tmp_path)
    run = demonstrate("expert", f"rig:{rig}:PickCoke", out=tmp_path / "run", starts="2")
    (episode,) = run.episodes
    assert episode.success is True
    assert episode.record.success is None  # the verdict is not the record's
    assert episode.record.end == "done"
    assert episode.record.stand_in
    assert "stand-in" in episode.verdict.by
    assert (tmp_path / "run" / "rig.toml").is_file()
    with refuses(ErrorCode.NOT_APPLICABLE, "one robot"):
        demonstrate("expert", f"rig:{rig}:PickCoke", out=tmp_path / "b", starts="2", parallel=2)


def test_only_a_rig_with_a_simulated_room_has_an_expert(tmp_path):
    rig = _on_the_rooms_own_wire(tmp_path)
    worlds.allow(f"rig:{rig}")
    assert worlds.expert(f"rig:{rig}") is expert.plan
    text = rig.read_text()
    rig.write_text(text.replace('scene = "franka"', 'scene = "blocks"'))  # other tasks
    with refuses(ErrorCode.UNSUPPORTED):
        worlds.expert(f"rig:{rig}")


def _on_the_rooms_own_wire(folder):
    """The twin's rig file without Deoxys, with small pictures."""
    packaged = find_rig("franka-twin")
    text = packaged.read_text().replace('"deoxys"', '"room"').replace("[640, 360]", "[160, 90]")
    for name in ("guard", "tasks"):
        text = text.replace(f'"franka/{name}.toml"', f'"{packaged.parent}/franka/{name}.toml"')
    rig = folder / "twin.toml"
    rig.write_text(text)
    return rig
