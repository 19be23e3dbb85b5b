"""The simulated room's scene: starts are arrangements, tasks can be solved, the judge says why."""

from __future__ import annotations

import itertools
import math

import mujoco
import numpy as np
import pytest

from capex.errors import UnknownName
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins.scenes import blocks as scene
from capex.worlds.render import Renderer
from hold import beyond_hand_m, hold, put_on


def test_a_start_and_a_seed_give_the_same_bits_and_another_start_another_arrangement():
    model = scene.build("BlockOnPlate")
    data, again = mujoco.MjData(model), mujoco.MjData(model)
    scene.arrange(model, data, "BlockOnPlate", 4, seed=1, jitter_m=0.01)
    scene.arrange(model, again, "BlockOnPlate", 4, seed=1, jitter_m=0.01)
    assert data.qpos.tobytes() == again.qpos.tobytes()
    scene.arrange(model, again, "BlockOnPlate", 4, seed=2, jitter_m=0.01)
    off_m = math.dist(data.body("red block").xpos, again.body("red block").xpos)
    assert 0.0 < off_m <= 0.02  # another hand, the same arrangement
    scene.arrange(model, again, "BlockOnPlate", 5, seed=1, jitter_m=0.01)
    assert math.dist(data.body("red block").xpos, again.body("red block").xpos) > 0.02


@pytest.mark.parametrize(
    ("task", "support"), [("BlockOnPlate", "blue plate"), ("StackBlocks", "green block")]
)
def test_a_block_that_rests_on_its_support_alone_is_achieved_and_one_in_hand_is_not(task, support):
    model = scene.build(task)
    data = mujoco.MjData(model)
    scene.arrange(model, data, task, 1, jitter_m=0.005)
    done, why = scene.judge(model, data, task)
    assert not done
    assert "red block lies on" in why
    x, y, _ = data.body(support).xpos
    put_on(model, data, "red block", (x, y, scene.TABLE.top_m(data, support) + 0.024))
    assert scene.judge(model, data, task) == (True, f"the red block rests on the {support}")
    hold(model, data, "red block", 0.044)
    assert scene.judge(model, data, task) == (False, "the gripper still touches the red block")


def test_the_guards_hand_holds_the_simulated_one_with_its_open_fingers_and_camera():
    model = scene.build("LiftBlock")
    data = mujoco.MjData(model)
    scene.arrange(model, data, "LiftBlock", 1)
    guard = read_rig(find_rig("room")).guard
    bodies = "hand", "finger_left", "finger_right"
    assert beyond_hand_m(model, data, bodies, "tip", guard.hand("arm")) < 0.002


def test_a_block_held_up_is_lifted():
    model = scene.build("LiftBlock")
    data = mujoco.MjData(model)
    scene.arrange(model, data, "LiftBlock", 1)
    assert scene.judge(model, data, "LiftBlock") == (
        False,
        "the gripper does not hold the red block",
    )
    hold(model, data, "red block", 0.044)
    done, why = scene.judge(model, data, "LiftBlock")
    assert done, why


def test_objects_of_every_start_lie_apart_in_reach():
    for task, start in itertools.product(scene.TASKS, range(200)):
        (one, a), (two, b) = scene.places(task, start).items()
        radii_m = scene.OBJECTS[one].radius_m + scene.OBJECTS[two].radius_m
        assert math.dist(a[:2], b[:2]) > radii_m
        assert all(math.hypot(x, y) < 0.66 for x, y, _ in (a, b))


def test_the_front_camera_faces_the_robot_and_the_camera_models_match_the_images():
    model = scene.build("BlockOnPlate")
    data = mujoco.MjData(model)
    renderer = Renderer(model)
    scene.arrange(model, data, "BlockOnPlate", 1)
    block = data.body("red block").xpos
    for camera in ("front", "side", "wrist"):
        size = scene.CAMERAS[camera].size
        pixels = renderer.rgb(data, model.camera(camera).id, size).astype(int)
        red = (pixels[..., 0] > 90) & (pixels[..., 1] < 50) & (pixels[..., 2] < 50)
        seen = np.argwhere(red).mean(axis=0)[::-1]
        u, v, _ = scene.camera_model(data, camera).project(block)
        assert np.hypot(u - seen[0], v - seen[1]) < 6.0
    front = scene.camera_model(data, "front")
    left, right = (front.project(np.array([0.45, y, 0.0]))[0] for y in (-0.2, 0.2))
    assert left < right
    renderer.close()


def test_an_unknown_task_is_refused_with_the_list():
    with pytest.raises(UnknownName, match="LiftBlock"):
        scene.build("LiftBlok")
