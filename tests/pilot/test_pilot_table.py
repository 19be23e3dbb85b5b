"""The pilot at a rig's table: it finds things before cameras that stand anywhere, guesses where
they are from the prompt's words, and says done where a person judges."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest

from capex.method.observation import Observation
from capex.method.presets import preset
from capex.method.prompts import system_prompt
from capex.method.tools import interface, schemas
from capex.models import Request
from capex.models.pictures import encode_png
from capex.pilot import Pilot, appearance, table_objects
from capex.pilot.cameras import KITCHEN, GuessedCameras, from_words, wrist_camera
from capex.pilot.prompt import read_brief
from capex.pilot.prompt_parser import parse
from capex.pilot.segmentation import see
from capex.pose import Pose
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins.scenes import blocks as scene
from capex.rigs.twins.scenes import franka
from capex.rigs.twins.scenes.common import TABLE_TOP_M
from capex.worlds import ArmSpec, ArmState, CameraSpec, Spec
from capex.worlds.render import Renderer
from hold import hold

SIZE = (640, 360)
ROOM, TWIN = read_rig(find_rig("room")), read_rig(find_rig("franka-twin"))
STACKED = {"PickCoke": "coke can", "StackCups": "orange cup", "StackBlocks": "green block"}


def spec(rig, scene, task) -> Spec:
    """What a simulated room's rig says of itself, without opening it."""
    cameras = tuple(
        CameraSpec(name, c.kind, c.size, "arm" if c.kind == "wrist" else "", c.view)
        for name, c in scene.CAMERAS.items()
        if name != "side"
    )
    return Spec(
        world=f"rig:{rig.name}",
        task=task,
        horizon=rig.tasks[task].steps,
        control_hz=20.0,
        arms=(ArmSpec("arm", 0.08, 0.01, 0.05),),
        cameras=cameras,
        workspace_m=((0.25, -0.35, 0.0), (0.72, 0.35, 0.55)),
        action_names=(),
        state_names=(),
        starts=1000,
        depth=rig is ROOM,
        success="operator",
        hints=rig.tasks[task].hints,
    )


class Table:
    """The scene, drawn."""

    def __init__(self, rig=ROOM, scene=scene, task="LiftBlock"):
        self.rig, self.scene, self.task, self.model = rig, scene, task, scene.build(task)
        self.data, self.renderer = mujoco.MjData(self.model), Renderer(self.model)

    def image(self, camera: str) -> bytes:
        return encode_png(self.renderer.rgb(self.data, self.model.camera(camera).id, SIZE))

    def request(self, arm_name: str, held: bool = False) -> Request:
        tip = self.data.site("tip")
        pose = Pose(tip.xpos.copy(), tip.xmat.reshape(3, 3).copy())
        state = ArmState(pose, 0.044 if held else 0.08, finger_contact=held)
        observation = Observation(
            instruction=self.rig.tasks[self.task].instruction,
            steps_left=200,
            horizon=300,
            decisions_left=20,
            arms={"arm": state},
            max_opening_m={"arm": 0.08},
            history=(),
            images={c: self.image(c) for c in ("front", "wrist")},
        )
        method, world = preset(arm_name), spec(self.rig, self.scene, self.task)
        tools = schemas(interface(world, method))
        return parse(Request(system_prompt(world, method), (observation.message,), tools))


@pytest.fixture(scope="module")
def table():
    table = Table()
    yield table
    table.renderer.close()


def test_block_and_plate_are_found_and_placed_by_the_words_about_the_camera(table):
    guess = from_words(scene.CAMERAS["front"].view, TABLE_TOP_M)
    for start in range(6):
        scene.arrange(table.model, table.data, "LiftBlock", start, jitter_m=0.01)
        view, truth = see("front", table.image("front")), scene.camera_model(table.data, "front")
        tip, rig = (
            table.data.site("tip").xpos,
            GuessedCameras({"front": SIZE}, {}, {"front": guess}),
        )
        u, v = rig.project("front", tip)
        pads = appearance.pads(view)
        shift = (pads.centre[0] - u, pads.centre[1] - v)
        rig = GuessedCameras({"front": SIZE}, {"front": shift}, {"front": guess})
        for thing in ("red block", "blue plate"):
            seen, middle = appearance.coloured(view, thing)[0].centre, table.data.body(thing).xpos
            assert np.hypot(*np.subtract(seen, truth.project(middle)[:2])) < 6.0
            # before the hand is near, by eye alone: good enough to go there and look again
            guessed = rig.on_height("front", seen, float(middle[2]))
            assert np.linalg.norm((guessed - middle)[:2]) < 0.06


def test_words_that_say_nothing_of_a_camera_give_no_guess():
    assert from_words("looks along the gripper of arm arm", 0.0) is None
    side = from_words(scene.CAMERAS["side"].view, 0.0)
    assert side.position_m == pytest.approx((0.4, -1.1, 0.6))
    assert set(KITCHEN) == {"left", "right"}


def test_it_asks_for_pixels_of_the_block_inside_the_images_own_size(table):
    scene.arrange(table.model, table.data, "LiftBlock", 2)
    request = table.request("capex")
    calls = Pilot().answer(request)
    assert {c.name for c in calls} == {"locate_pixel"}
    asked = [json.loads(c.arguments) for c in calls]
    u, v, _ = scene.camera_model(table.data, "front").project(table.data.body("red block").xpos)
    front = [a for a in asked if a["camera"] == "front"]
    assert np.hypot(front[0]["u"] - u, front[0]["v"] - v) < 15.0
    assert all(0 <= a["u"] < SIZE[0] and 0 <= a["v"] < SIZE[1] for a in asked)


def test_it_says_done_when_it_holds_the_block_up_and_only_where_a_person_judges(table):
    scene.arrange(table.model, table.data, "LiftBlock", 2)
    request = table.request("base")
    assert read_brief(request.values.system, request).done
    assert "done" not in json.loads(Pilot().answer(request)[0].arguments)
    hold(table.model, table.data, "red block", 0.044)
    (call,) = Pilot().answer(table.request("base", held=True))
    assert json.loads(call.arguments)["done"] is True


@pytest.fixture(params=list(STACKED))
def twin(request):
    twin = Table(TWIN, franka, request.param)
    franka.arrange(twin.model, twin.data, request.param, 1)
    yield twin
    twin.renderer.close()


def test_without_depth_it_goes_over_the_thing_that_the_instruction_names(twin):
    item = {"StackBlocks": "blue block"}.get(twin.task, STACKED[twin.task])
    request = twin.request("capex")
    assert read_brief(request.values.system, request).by_eye
    assert [t.name for t in request.tools] == ["act"]
    (call,) = Pilot().answer(request)
    act = json.loads(call.arguments)
    legs = [act["delta_cm"], *(w["delta_cm"] for w in act["chunk"])]
    end = twin.data.site("tip").xpos + np.sum(legs, axis=0) / 100
    thing = twin.data.body(item).xpos
    assert np.linalg.norm((end - thing)[:2]) < 0.06
    assert (
        end[2] > table_objects.kind(item).height_m + 0.05
    )  # over it: it looks again before it grasps
    (call,) = Pilot().answer(twin.request("base"))
    assert "chunk" not in json.loads(call.arguments)


def test_the_wrist_camera_is_placed_by_the_fingers_in_its_picture(twin):
    item, tip = STACKED[twin.task], twin.data.site("tip")
    for shift in ((0.0, 0.0), (0.03, -0.02)):
        top = tip.xpos + np.array([*shift, -0.08])
        body = twin.data.body(item)
        high = franka.OBJECTS[item].height_m
        twin.data.joint(item).qpos[:3] = top - [0.0, 0.0, high - franka.OBJECTS[item].origin_m]
        mujoco.mj_forward(twin.model, twin.data)
        view, pose = see("wrist", twin.image("wrist")), Pose(tip.xpos, tip.xmat.reshape(3, 3))
        rig = GuessedCameras({"wrist": SIZE}, {}, {}, {"wrist": wrist_camera(view, pose, 0.08)})
        seen = appearance.coloured(view, item, largest=0.4)[0]
        placed = rig.on_height("wrist", table_objects.top(view, seen, item).centre, float(top[2]))
        assert np.linalg.norm((placed - body.xpos)[:2]) < 0.012
