"""What the model is told: measured things in whole centimetres, labelled images, and nothing that only the simulator knows."""

from __future__ import annotations

import io

import mujoco
import numpy as np
import pytest
from PIL import Image

from bare import bare_kitchen
from capex.method.executor import Executor
from capex.method.observation import PastAct, contact_word, observe
from capex.plan import ArmTarget, BaseMotion, Waypoint
from capex.worlds import CameraSpec, Start
from toy import Toy, ToyEnv


def _ball(builder, body):
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(0.02, 0, 0), mass=0.1, contype=1, conaffinity=1
    )


def _seen(env, **options):
    return observe(env, steps_left=400, decisions_left=79, **options)


def test_two_states_that_differ_in_something_hidden_look_and_read_the_same():
    pages = []
    for hidden_x in (-2.2, -2.5):  # far behind the robot, on the floor, out of every view
        env = bare_kitchen(("ball", _ball, (hidden_x, 1.2)), height_m=-0.87)
        env.reset(Start("Bare", 0))
        pages.append(_seen(env))
        env.close()
    assert pages[0].text == pages[1].text
    assert pages[0].images == pages[1].images
    env = bare_kitchen(("ball", _ball, (0.2, 0.3)))
    env.reset(Start("Bare", 0))
    other = _seen(env)
    env.close()
    assert other.text == pages[0].text  # an object in plain view is in the images alone
    assert other.images != pages[0].images


def test_the_page_tells_budget_tip_gripper_and_the_last_acts(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    executor = Executor(stove)
    tip = stove.robot_state().arms["arm"].T_base_tip.position_m
    near = tuple(float(v) for v in tip + np.array([0.05, 0, 0]))
    plan = [
        Waypoint({"arm": ArmTarget(near, "down", "close")}),
        Waypoint({"arm": ArmTarget(tuple(float(v) for v in tip))}),
    ]
    outcomes = executor.execute(plan[:1], plan[1:])
    drive = [Waypoint(base=BaseMotion(-0.1))]
    history = [
        PastAct(1, tuple(plan), tuple(outcomes)),
        PastAct(2, (), (), "spent without motion: no valid act"),
        PastAct(3, tuple(drive), tuple(executor.execute(drive))),
    ]
    page = _seen(stove, history=history, dollars_left="24.10")
    lines = page.text.split("\n")
    assert lines[0] == f"Instruction: {stove.instruction}"
    assert (
        lines[1] == "Budget: 400 of 600 control steps left; 79 decisions left. Dollars left: 24.10."
    )
    now = stove.robot_state().arms["arm"].T_base_tip.position_m
    assert lines[2].startswith(
        f"Gripper tip [{round(100 * now[0])},{round(100 * now[1])},{round(100 * now[2])}] cm, roll "
    )
    assert lines[3] == "Gripper: closed (empty), opening 0.0 cm"
    assert lines[5].startswith("Act 1: [")
    assert " down close reached; close: opening 0.0 cm | [" in lines[5]
    assert "not executed (deferred: low confidence)" in lines[5]
    assert lines[6] == "Act 2: spent without motion: no valid act"
    assert lines[7].startswith(
        "Act 3: base forward -10 cm, left 0 cm, turn 0 deg base moved -10 cm forward"
    )
    assert page.text == _seen(stove, history=history, dollars_left="24.10").text


def test_images_are_labelled_pngs_of_the_asked_size(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    page = _seen(stove)
    assert list(page.images) == ["left", "right", "wrist"]
    for png in page.images.values():
        with Image.open(io.BytesIO(png)) as picture:
            assert picture.size == (512, 512)
    labels = [p.label for p in page.message.parts[1:]]
    assert labels == ["Camera left:", "Camera right:", "Camera wrist:"]
    with Image.open(io.BytesIO(_seen(stove, image_size=96).images["left"])) as picture:
        assert picture.size == (96, 96)


def test_a_camera_shows_its_own_shape():
    wide, camera = ToyEnv(Toy(size=(80, 45))), CameraSpec("front", "exterior", (640, 360))
    for limit, size in ((None, (80, 45)), (64, (64, 36)), (512, (80, 45))):
        for png in _seen(wide, image_size=limit).images.values():
            with Image.open(io.BytesIO(png)) as picture:
                assert picture.size == size
    assert [camera.fitted(n) for n in (None, 512, 1024)] == [(640, 360), (512, 288), (640, 360)]


@pytest.mark.parametrize(
    ("opening", "touch", "word"),
    [
        (0.08, False, "open (empty), opening 8.0 cm"),
        (0.0, False, "closed (empty), opening 0.0 cm"),
        (0.051, True, "holding (opening 5.1 cm, finger contact)"),
        (0.0, True, "closed (empty), opening 0.0 cm, finger contact"),
        (0.08, True, "open (empty), opening 8.0 cm, finger contact"),
    ],
)
def test_the_contact_word(opening, touch, word, stove):
    from dataclasses import replace

    stove.reset(Start("PickPlaceCounterToStove", 0))
    arm = replace(stove.robot_state().arms["arm"], opening_m=opening, finger_contact=touch)
    assert contact_word(arm, 0.08) == word


def test_two_arms_are_told_apart():
    text = _seen(ToyEnv(Toy()), image_size=64).text
    assert "Arm left: gripper tip [45,20,15] cm" in text
    assert "Arm right: gripper: open (empty), opening 8.0 cm" in text
