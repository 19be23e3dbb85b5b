"""The contract as a program: the toy keeps every rule, and for each rule there is a way of breaking it that is found."""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import re

import numpy as np
import pytest
from rich.console import Console

from capex.errors import BadCommand, ErrorCode, RigFault, StateMismatch, UnknownName
from capex.pose import Pose, rotation_matrix
from capex.worlds import ArmCommand, CameraModel, Command, Contact, DepthImage, Start, State
from capex.worlds.contract import RULES, check
from capex.worlds.contract.rules import _rollout
from capex.worlds.contract.trial import BrokenRuleError
from refusals import refuses
from toy import Ball, Box, Toy, ToyEnv, look_at

QUICK = {
    "spec",
    "starts",
    "reset",
    "success",
    "limits",
    "save",
    "replay",
    "images",
    "commands",
    "base",
}
FIXED = Toy(mobile=False, depth=False, can_save=False, judge="operator")
RIG = dataclasses.replace(FIXED, can_reset=False, real_time=True)


class NoWorkspace(ToyEnv):
    @property
    def spec(self):
        return dataclasses.replace(self._spec, workspace_m=tuple(reversed(self._spec.workspace_m)))


class TwinCameras(ToyEnv):
    @property
    def spec(self):
        return dataclasses.replace(self._spec, cameras=self._spec.cameras[:1] * 2)


class MissingProprio(ToyEnv):
    def robot_state(self):
        return dataclasses.replace(super().robot_state(), proprio=np.zeros(2))


class AnyStart(ToyEnv):
    def reset(self, start):
        super().reset(dataclasses.replace(start, index=min(max(start.index, 0), 19)))


class CountedReset(ToyEnv):
    count = 0

    def reset(self, start):
        super().reset(start)
        self.count += 1
        self._x["left tip"][2] += 1e-6 * self.count


class LeftoverGoal(ToyEnv):
    """A reset that forgets one thing: the state looks the same, the future does not."""

    slow = 0

    def apply(self, action):
        super().apply(action)
        self.slow += 1
        self._x["left goal"][0] += 1e-9 * self.slow


class AlwaysSuccess(ToyEnv):
    def success(self):
        return True


class Opinion(ToyEnv):
    """Says False where an operator judges."""

    def __init__(self):
        super().__init__(Toy(judge="operator"))

    def success(self):
        return False


class Lenient(ToyEnv):
    """Repairs bad numbers instead of refusing them."""

    def step(self, command):
        arms = {}
        if set(command.arms) != set(self.toy.arms):
            raise BadCommand("arms: one is missing")
        for name, arm in command.arms.items():
            step = arm.step_m and tuple(
                np.clip(np.nan_to_num(np.resize(arm.step_m, 3)), -0.02, 0.02)
            )
            arms[name] = ArmCommand(
                step,
                tuple(np.clip(np.nan_to_num(np.resize(arm.step_rad, 3)), -0.1, 0.1)),
                arm.gripper,
            )
        return super().step(Command(arms, command.base_velocity))


class LenientNative(ToyEnv):
    def apply(self, action):
        super().apply(np.nan_to_num(np.resize(action, len(self._spec.action_names)), posinf=0.0))


class LateRefusal(ToyEnv):
    """Refuses, but has moved already."""

    def step(self, command):
        self._x["left tip"][0] += 1e-9
        return super().step(command)


class VagueRefusal(ToyEnv):
    def step(self, command):
        try:
            return super().step(command)
        except ValueError as error:
            raise ValueError("something is wrong") from error


class Nudged(ToyEnv):
    """Looking costs a nanometre."""

    def depth(self, camera, size=None):
        self._x["left goal"][2] += 1e-9
        return super().depth(camera, size)


class HiddenState(ToyEnv):
    """Wear that reset clears, but that no saved state carries."""

    def reset(self, start):
        self._wear = 0.0
        super().reset(start)

    def apply(self, action):
        super().apply(action)
        self._wear += 1e-9
        self._x["left goal"][1] += self._wear


class ForeignState(ToyEnv):
    def load_state(self, state):
        super().load_state(State(self._header, state.vector))


class UnclaimedSave(ToyEnv):
    @property
    def spec(self):
        return dataclasses.replace(self._spec, can_save=False)


class RoundedAction(ToyEnv):
    def step(self, command):
        return super().step(command).astype(np.float32).astype(np.float64)


class SharedAction(ToyEnv):
    """Returns one buffer again and again."""

    buffer = None

    def step(self, command):
        action = super().step(command)
        self.buffer = action if self.buffer is None else self.buffer
        self.buffer[:] = action
        return self.buffer


class OfThisProcess(ToyEnv):
    def reset(self, start):
        super().reset(start)
        self._x["left tip"][0] += 1e-9 * (os.getpid() % 1000)


class OneSize(ToyEnv):
    def observe(self, cameras=None, size=None):
        return super().observe(cameras)


class FloatImages(ToyEnv):
    def observe(self, cameras=None, size=None):
        return {
            name: image / np.float32(255) for name, image in super().observe(cameras, size).items()
        }


class SharedBuffer(ToyEnv):
    def observe(self, cameras=None, size=None):
        self.buffers = getattr(self, "buffers", {})
        images = super().observe(cameras, size)
        for name, image in images.items():
            self.buffers.setdefault((name, image.shape), image)[:] = image
        return {name: self.buffers[name, image.shape] for name, image in images.items()}


class Flipped(ToyEnv):
    """Images or depth of one kind of camera, upside down or mirrored, as an OpenGL buffer is read."""

    kind = "exterior"
    image_flip = (1, 1)
    depth_flip = (1, 1)

    def observe(self, cameras=None, size=None):
        return {
            name: self._flip(name, image, self.image_flip)
            for name, image in super().observe(cameras, size).items()
        }

    def depth(self, camera, size=None):
        image = super().depth(camera, size)
        return DepthImage(self._flip(camera, image.depth_m, self.depth_flip), image.camera)

    def _flip(self, camera, image, flip):
        return (
            np.ascontiguousarray(image[:: flip[0], :: flip[1]])
            if self._spec.camera(camera).kind == self.kind
            else image
        )


class UpsideDown(Flipped):
    image_flip = (-1, 1)


class Mirrored(Flipped):
    image_flip = (1, -1)


class MirroredWrist(Mirrored):
    kind = "wrist"


class UpsideDownDepth(Flipped):
    depth_flip = (-1, 1)


class UpsideDownWithModel(UpsideDown):
    """The camera model excuses the flip, but the image is not upright."""

    def camera_model(self, camera, size=None):
        model = super().camera_model(camera, size)
        return CameraModel(
            model.intrinsics * [[1, 1, 1], [1, -1, 1], [1, 1, 1]], model.T_base_camera
        )


class OtherFocal(ToyEnv):
    def camera_model(self, camera, size=None):
        model = super().camera_model(camera, size)
        return CameraModel(
            model.intrinsics * [[2.5, 1, 1], [1, 2.5, 1], [1, 1, 1]], model.T_base_camera
        )


class CameraInFloorFrame(ToyEnv):
    def camera_model(self, camera, size=None):
        model = super().camera_model(camera, size)
        return CameraModel(
            model.intrinsics,
            Pose(np.add(model.T_base_camera.position_m, [0, 0, 0.5]), model.T_base_camera.rotation),
        )


class BufferDepth(ToyEnv):
    """The normalised depth buffer instead of metres."""

    def depth(self, camera, size=None):
        image = super().depth(camera, size)
        return DepthImage((1.0 - 0.01 / image.depth_m).astype(np.float32), image.camera)


class NanDepth(ToyEnv):
    def depth(self, camera, size=None):
        image = super().depth(camera, size)
        return DepthImage(
            np.where(image.depth_m > 3, np.float32(np.nan), image.depth_m), image.camera
        )


class UnclaimedDepth(ToyEnv):
    @property
    def spec(self):
        return dataclasses.replace(self._spec, depth=False)


class SwappedAxes(ToyEnv):
    @staticmethod
    def _row(arm):
        return ToyEnv._row(arm)[[0, 2, 1, 3, 4, 5, 6, 7]]


class WallAhead(ToyEnv):
    """A start that leaves the tips no room to step forward."""

    def reset(self, start):
        super().reset(start)
        self._wall = {arm: float(self._x[f"{arm} tip"][0]) + 0.005 for arm in self.toy.arms}

    def apply(self, action):
        super().apply(action)
        for arm, wall in self._wall.items():
            for part in ("tip", "goal"):
                place = self._x[f"{arm} {part}"]
                place[0] = min(place[0], wall)

    def robot_state(self):
        state = super().robot_state()
        met = any(self._x[f"{arm} tip"][0] >= wall for arm, wall in self._wall.items())
        wall = {Contact("palm", "wall")} if met else set()
        return dataclasses.replace(state, contacts=state.contacts | wall)


class TurnsInTipFrame(ToyEnv):
    @staticmethod
    def _row(arm):
        return ToyEnv._row(arm) * [1, 1, 1, 1, 1, -1, -1, 1]


class InvertedGripper(ToyEnv):
    @staticmethod
    def _row(arm):
        return ToyEnv._row(arm) * [1, 1, 1, 1, 1, 1, 1, -1]


class SinkingHold(ToyEnv):
    def apply(self, action):
        super().apply(action)
        for k, arm in enumerate(self.toy.arms):
            if action[8 * k] <= 0:
                self._x[f"{arm} goal"][2] -= 0.001


class DrivesInFloorFrame(ToyEnv):
    """Right at first, wrong once the robot has turned."""

    def _drive(self, step):
        yaw = float(self._x["base"][2])
        super()._drive(rotation_matrix(np.array([0.0, 0.0, -yaw])) @ step)


class ArmLeftBehind(ToyEnv):
    """The tips stay on the floor's frame while the base drives."""

    def _drive(self, step):
        super()._drive(step)
        for arm in self.toy.arms:
            self._x[f"{arm} tip"][:2] -= step[:2]
            self._x[f"{arm} goal"][:] = self._x[f"{arm} tip"]


class UnclaimedFrames(ToyEnv):
    def record_frames(self, folder):
        return None


class UnclaimedBase(ToyEnv):
    @property
    def spec(self):
        return dataclasses.replace(self._spec, base=None)


class CrossedWrists(ToyEnv):
    """Each wrist camera rides on the other arm."""

    def _camera(self, camera, size):
        crossed = {"left_wrist": "right_wrist", "right_wrist": "left_wrist"}
        return super()._camera(crossed.get(camera, camera), size)


class OneAfterTheOther(ToyEnv):
    """The second arm waits while the first one moves."""

    def step(self, command):
        left, right = command.arms["left"], command.arms["right"]
        waits = left.step_m is not None and right.step_m is not None
        arms = {"left": left, "right": ArmCommand(gripper=right.gripper) if waits else right}
        return super().step(Command(arms, command.base_velocity))


def failed(env, rules=None, **options):
    report = check(env, ticks=10, rules=rules, **options)
    return {f.rule: f.detail for f in report.failed}


def test_the_toy_keeps_every_rule():
    report = check(ToyEnv(), factory=ToyEnv)
    report.raise_if_failed()
    assert report.ok
    assert [(f.rule, f.status) for f in report.findings] == [
        (rule, "ok" if rule != "frames" else "not claimed") for rule in RULES
    ]


def test_other_starts_keep_the_rules_too():
    toy = Toy(
        arms=("left",),
        balls=(Ball("ball", (0.6, 0.2, 0.5)),),
        boxes=(Box("counter", (0.3, -1, 0), (1, 1, 0.4)),),
    )
    check(ToyEnv(toy), start=Start("reach", 7, seed=3), ticks=15).raise_if_failed()


def test_a_fixed_robot_without_depth_saving_or_judge_passes():
    report = check(ToyEnv(FIXED), factory=functools.partial(ToyEnv, FIXED), ticks=10)
    report.raise_if_failed()
    assert {f.rule for f in report.findings if f.status == "not claimed"} == {
        "success",
        "save",
        "depth",
        "base",
        "frames",
    }


def test_a_real_rig_passes():
    report = check(ToyEnv(RIG), ticks=10)
    report.raise_if_failed()
    kept = {"spec", "starts", "limits", "images", "tip", "commands", "arms", "together"}
    assert {f.rule for f in report.findings if f.status == "ok"} == kept
    assert all(f.detail for f in report.findings)


class Faulty(ToyEnv):
    """Its e-stop is pressed once it looks."""

    def observe(self, *_):
        raise RigFault("the e-stop was pressed")


def test_after_a_fault_of_a_rig_nothing_more_is_tried():
    report = check(Faulty(RIG), rules=["starts", "images", "tip", "commands"])
    assert [f.status for f in report.findings] == ["ok", "failed", "not tried", "not tried"]
    assert report.failed[0].detail == "the e-stop was pressed"


class Elsewhere(ToyEnv):
    """One camera faces the robot, the other looks down on its table; both are wide."""

    views = ("faces the robot, so the left side of its image is -y.", "hangs above, looking down")

    def __init__(self):
        super().__init__(dataclasses.replace(RIG, arms=("left",), size=(160, 90)))
        front, above, wrist = self._spec.cameras
        cameras = (
            dataclasses.replace(front, view=self.views[0]),
            dataclasses.replace(above, view=self.views[1]),
            wrist,
        )
        self._spec = dataclasses.replace(self._spec, cameras=cameras)

    def _camera(self, camera, size):
        model = super()._camera(camera, size)
        places = {
            "back_left": ((1.4, 0.1, 0.6), (0.4, 0.1, 0.1), (0.0, 0.0, 1.0)),
            "back_right": ((0.45, 0.1, 1.1), (0.45, 0.1, 0.0), (1.0, 0.0, 0.0)),
        }
        if camera in places:
            return CameraModel(model.intrinsics, look_at(*places[camera]))
        return model


def test_cameras_stand_anywhere_and_their_words_are_true():
    check(Elsewhere(), rules=["spec", "images", "tip"]).raise_if_failed()

    class Untrue(Elsewhere):
        views = ("faces the robot, so the left side of its image is +y", "looks down")

    class Unsaid(Elsewhere):
        views = ("", "looks down")

    for world, words in ((Untrue, "the left side of its image is +y"), (Unsaid, "view is empty")):
        (finding,) = check(world(), rules=["tip"]).failed
        assert words in finding.detail
        assert finding.detail.endswith(
            "by its camera_model() it looks roughly along -x, so the left side of its image is -y"
        )


def test_uncalibrated_cameras_are_not_claimed():
    report = check(ToyEnv(Toy(calibrated=False, depth=False)), rules=["images", "tip"])
    assert [(f.rule, f.status) for f in report.findings] == [
        ("images", "ok"),
        ("tip", "not claimed"),
    ]


BROKEN = [
    ("spec", NoWorkspace, set()),
    ("spec", TwinCameras, {"images"}),
    ("spec", MissingProprio, set()),
    ("starts", AnyStart, set()),
    ("reset", CountedReset, {"replay", "save"}),
    ("reset", LeftoverGoal, {"replay", "save"}),
    ("success", AlwaysSuccess, set()),
    ("success", Opinion, set()),
    ("limits", Lenient, set()),
    ("limits", LenientNative, set()),
    ("limits", LateRefusal, {"replay"}),
    ("limits", VagueRefusal, set()),
    ("observing", Nudged, set()),
    ("save", HiddenState, set()),
    ("save", ForeignState, set()),
    ("save", UnclaimedSave, set()),
    ("replay", RoundedAction, set()),
    ("replay", SharedAction, set()),
    ("images", OneSize, set()),
    ("images", FloatImages, set()),
    ("images", SharedBuffer, set()),
    ("tip", UpsideDown, set()),
    ("tip", Mirrored, set()),
    ("tip", MirroredWrist, set()),
    ("tip", UpsideDownWithModel, set()),
    ("tip", OtherFocal, set()),
    ("tip", CameraInFloorFrame, set()),
    ("depth", UpsideDownDepth, set()),
    ("depth", BufferDepth, set()),
    ("depth", NanDepth, set()),
    ("depth", UnclaimedDepth, set()),
    ("commands", SwappedAxes, {"base"}),
    ("commands", TurnsInTipFrame, set()),
    ("commands", InvertedGripper, set()),
    ("commands", SinkingHold, {"base"}),
    ("arms", CrossedWrists, set()),
    ("together", OneAfterTheOther, {"limits"}),
    ("base", DrivesInFloorFrame, set()),
    ("base", ArmLeftBehind, set()),
    ("base", UnclaimedBase, {"spec"}),
    ("frames", UnclaimedFrames, set()),
]


@pytest.mark.parametrize(
    ("rule", "world", "unavoidable"), BROKEN, ids=[world.__name__ for _, world, _ in BROKEN]
)
def test_a_broken_world_fails_its_rule_and_no_other(rule, world, unavoidable):
    env = (
        world(Toy(arms=("left",))) if rule in ("tip", "depth") else world()
    )  # half the images to draw
    assert set(failed(env, rules=[*QUICK, rule])) == {rule} | unavoidable


def test_where_a_wall_leaves_no_room_steps_go_the_other_way_first():
    assert failed(WallAhead(), rules=["commands"]) == {}


def test_a_state_that_depends_on_the_process_is_found():
    assert set(failed(OfThisProcess(), rules=["reset", "process"], factory=OfThisProcess)) == {
        "process"
    }


def test_a_world_that_cannot_be_built_in_a_process_is_found():
    detail = failed(ToyEnv(), rules=["process"], factory=lambda: ToyEnv())["process"]
    assert "pickle" in detail


def test_every_rule_has_a_broken_world():
    assert {rule for rule, _, _ in BROKEN} | {"process"} == set(RULES)


def test_a_rule_that_raises_keeps_no_other_from_being_tried():
    class Blind(ToyEnv):
        def observe(self, cameras=None, size=None):
            raise RuntimeError("lens cap on [front]")

    report = check(Blind(), ticks=5, rules=["images", "commands"])
    assert [(f.rule, f.status) for f in report.findings] == [
        ("images", "failed"),
        ("commands", "ok"),
    ]
    with refuses(
        ErrorCode.CONTRACT_BROKEN,
        r"toy:reach breaks 1 of 2 rules.*\n  images: Blind.observe\(cameras=None, size=None\) raised"
        r" RuntimeError: lens cap on \[front\] \(test_check.py, line \d+\)",
    ):
        report.raise_if_failed()
    console = Console(file=io.StringIO(), width=120)
    console.print(report)
    assert "lens cap on [front]" in console.file.getvalue()


class OneArm(ToyEnv):
    """Looks for an arm by another name than its spec has."""

    def step(self, command):
        return super().step(Command({"left": command.arms["arm"]}))


class NoArms(ToyEnv):
    def robot_state(self):
        return dataclasses.replace(super().robot_state(), arms={})


@pytest.mark.parametrize(
    ("world", "rule", "sentence"),
    [
        (OneArm, "replay", r"^OneArm.step\(command=Command\(arms=\{'left': ArmCommand\(.* raised KeyError:"
         r" 'arm' \(test_check.py, line \d+\)$"),
        (NoArms, "commands", r"^`return self.env.robot_state\(\).arms\[arm\].T_base_tip` raised"
         r" KeyError: '(left|right)', with arm='(left|right)'$"),
    ],
)  # fmt: skip
def test_what_a_world_raises_names_the_call_and_its_arguments(world, rule, sentence):
    (found,) = check(world(), ticks=5, rules=[rule], factory=world).findings
    assert found.status == "failed"
    assert re.search(sentence, found.detail), found.detail


def test_a_spawned_process_says_what_its_world_raised():
    with pytest.raises(
        BrokenRuleError, match=r"in a spawned process, OneArm.step\(.*'arm' \(test_"
    ):
        _rollout(OneArm, Start("reach", 0), 5, 7)


def test_an_unknown_rule_is_refused_with_the_list():
    with pytest.raises(UnknownName, match="there is no rule 'image'; valid: images"):
        check(ToyEnv(), rules=["image"])


def step(env, arm="left", base=None, **fields):
    env.step(
        Command({a: ArmCommand(**fields) if a == arm else ArmCommand() for a in env.toy.arms}, base)
    )
    return env.robot_state()


def test_the_toy_stops_at_boxes_limits_and_walls():
    toy = Toy(
        boxes=(Box("wall", (0.5, 0, 0), (0.6, 1, 2)),),
        limits=(Box("j6", (0, 0.3, 0), (1, 0.4, 1)),),
        walls_m=0.1,
    )
    env = ToyEnv(toy)
    for _ in range(5):
        robot = step(env, step_m=(0.03, 0.0, 0.0))
    left = robot.arms["left"]
    assert left.T_base_tip.position_m[0] == pytest.approx(0.5, abs=0.0015)
    assert left.hand_contacts == {Contact("left fingers", "wall")}
    assert left.finger_contact
    assert not left.held
    for _ in range(10):
        robot = step(env, step_m=(-0.01, 0.03, 0.0))
    assert robot.arms["left"].joints_at_limit == ("j6",)
    assert not robot.arms["left"].finger_contact
    for _ in range(40):
        robot = step(env, base=(-0.5, 0.0, 0.0))
    assert robot.base == (-0.1, 0.0, 0.0)


def test_the_toy_grasps_carries_and_releases_a_ball():
    toy = Toy(
        balls=(Ball("ball", (0.45, 0.2, 0.65)),), forearm=(Box("shelf", (0, 0, 0.72), (1, 1, 2)),)
    )
    env = ToyEnv(toy)
    for _ in range(10):
        robot = step(env, gripper=1.0)
    assert robot.arms["left"].held == {"ball"}
    assert robot.arms["left"].opening_m == pytest.approx(0.04)
    for _ in range(5):
        robot = step(env, step_m=(0.0, 0.0, 0.02), base=(0.0, 0.0, 0.5))
    assert robot.contacts == {Contact("left forearm", "shelf")}
    np.testing.assert_allclose(
        env.ball_m("ball"), env.to_floor(robot.arms["left"].T_base_tip.position_m), atol=1e-9
    )
    robot = step(env, gripper=-1.0)
    assert not robot.arms["left"].held
    with pytest.raises(StateMismatch):
        env.load_state(State("toy:reach:1:0", env.save_state().vector))
