"""The pilot with two arms: it reads the page of each, and moves the one whose turn it is."""

from __future__ import annotations

import json
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from capex.method.observation import Observation
from capex.method.presets import preset
from capex.method.prompts import system_prompt
from capex.method.tools import interface, schemas
from capex.models import Request, Text, UserMessage
from capex.models.pictures import encode_png
from capex.pilot import Pilot
from capex.pilot.prompt import read_brief, read_page
from capex.pilot.prompt_parser import parse
from capex.pose import DOWN, Pose
from capex.rigs.env import RigFileEnv
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins.scenes import yam
from capex.worlds import ArmState
from capex.worlds.render import Renderer

RIG = read_rig(find_rig("yam-twin"))
SIZE = (640, 480)
ARMS = ("left", "right")


class Table:
    """A YAM task at a start, drawn; the arms are where the page says, or at home."""

    def __init__(self, task: str, start: int = 0):
        self.task, self.model = task, yam.build(task)
        self.data, self.renderer = mujoco.MjData(self.model), Renderer(self.model)
        yam.arrange(self.model, self.data, task, start)
        self.spec = RigFileEnv("rig:yam-twin", RIG, task).spec

    def put(self, thing: str, position_m) -> None:
        self.data.joint(thing).qpos[:3] = position_m
        mujoco.mj_forward(self.model, self.data)

    def request(self, method: str = "base", **changed: ArmState) -> Request:
        home = {a: Pose(self.data.site(f"{a}_tip").xpos.copy(), DOWN) for a in ARMS}
        arms = {a: ArmState(home[a], 0.095, False) for a in ARMS} | changed
        images = {
            c: encode_png(self.renderer.rgb(self.data, self.model.camera(c).id, SIZE))
            for c in yam.CAMERAS
        }
        text = RIG.tasks[self.task].instruction
        opening = dict.fromkeys(ARMS, 0.095)
        seen = Observation(text, 900, 1200, 60, arms, opening, (), images)
        arm = preset(method)
        tools = schemas(interface(self.spec, arm))
        return parse(Request(system_prompt(self.spec, arm), (seen.message,), tools))


@pytest.fixture
def table(request):
    table = Table(request.param)
    yield table
    table.renderer.close()


def act(request: Request, blind: bool = False) -> dict:
    (call,) = Pilot(blind=blind).answer(request)
    return json.loads(call.arguments)


def told(request: Request, history: str) -> Request:
    """The same request after acts."""
    page, *pictures = request.messages[0].parts
    text = page.text.replace("Your last acts: none yet.", f"Your last acts:\n{history}")
    return parse(replace(request, messages=(UserMessage((Text(text), *pictures)),)))


@pytest.mark.parametrize("table", ["BreadAndCorn"], indirect=True)
def test_each_arm_has_a_page_of_its_own(table):
    request = told(
        table.request(),
        "Act 3: left [31,27,6] euler[160,0,0] close + right [20,-25,15] down reached; left close:"
        " opening 0.4 cm, finger contact; right open: opening 9.5 cm | right open not executed"
        " (deferred: low confidence) (left tip now [31,27,11], right tip now [19,-25,15])",
    )
    page = read_page(request.values.observation, request)
    left, right = page.of("left"), page.of("right")
    assert left.tip_m[1] > 0.2 > -0.2 > right.tip_m[1]
    (grasp,) = left.executed
    assert (grasp.target_cm, grasp.gripper, grasp.status) == ((31, 27, 6), "close", "reached")
    assert (left.empty_closes, right.empty_closes) == (0, 0)
    assert (grasp.opening_cm, grasp.finger_contact) == (0.4, True)
    assert [w.status for a in right.acts for w in a.waypoints] == ["reached", "deferred"]
    brief = read_brief(request.values.system, request)
    assert brief.several_arms == ARMS
    assert brief.ceiling_m == ((0.30, 0.36, 0.42), (0.16, 0.12, 0.06))


@pytest.mark.parametrize("table", ["BreadAndCorn"], indirect=True)
def test_the_left_arm_goes_to_the_bread_and_then_the_right_one_to_the_corn(table):
    plate = table.data.body("plate").xpos.copy()
    for arm, item in (("left", "bread"), ("right", "corn")):
        move, tip = act(table.request()), table.data.site(f"{arm}_tip").xpos
        assert set(move) == {"reasoning", arm}
        # by eye, one leg: within a hand's breadth of the straight way to the thing
        step, way = np.array(move[arm]["delta_cm"][:2]), (table.data.body(item).xpos - tip)[:2]
        assert step @ way > 0.8 * np.linalg.norm(step) * np.linalg.norm(way)
        table.put(item, plate + np.array([0.0, 0.055 if arm == "left" else -0.055, 0.036]))
    assert act(table.request())["done"] is True


@pytest.mark.parametrize("table", ["BreadAndCorn"], indirect=True)
def test_it_looks_through_the_wrist_camera_of_the_arm_that_acts(table):
    x, y, _ = table.data.site("left_tip").xpos
    table.put("bread", [x + 0.03, y, 0.024])
    asked = [json.loads(c.arguments) for c in Pilot().answer(table.request("capex-stated"))]
    assert {"front", "left_wrist"} == {pixel["camera"] for pixel in asked}


@pytest.mark.parametrize("table", ["BowlHandover"], indirect=True)
def test_who_holds_the_bowl_decides_which_arm_moves(table):
    lean = {
        a: Pose(np.array([0.31, s * 0.068, 0.146]), DOWN) for a, s in (("left", 1), ("right", -1))
    }
    pinching = {a: ArmState(pose, 0.004, False) for a, pose in lean.items()}
    assert set(act(table.request())) == {"reasoning", "left"}
    # the arms are drawn at home: what follows is on the page alone
    offered = act(table.request(left=pinching["left"]), blind=True)
    assert set(offered) == {"reasoning", "right"}
    away = replace(pinching["left"], T_base_tip=Pose(np.array([0.31, 0.20, 0.11]), DOWN))
    assert set(act(table.request(left=away), blind=True)) == {"reasoning", "left", "right"}
    assert act(table.request(**pinching), blind=True)["left"] == {"gripper": "release"}
    freed = ArmState(Pose(np.array([0.20, 0.26, 0.14]), DOWN), 0.095, False)
    taken = act(table.request(left=freed, right=pinching["right"]), blind=True)
    assert set(taken) == {"reasoning", "right"}
