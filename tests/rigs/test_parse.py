"""Rig files: what a right one becomes, and the sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capex import worlds
from capex.errors import ErrorCode
from capex.pose import DOWN, euler_to_matrix, quaternion_xyzw
from capex.rigs import rig_world
from capex.rigs.hands import HANDS
from capex.rigs.parse import PACKAGED, read_rig
from refusals import refuses

EXAMPLE = Path(__file__).parents[2] / "docs" / "rig.example.toml"


def written(folder: Path, *changes: tuple[str, str], beside: str = "") -> Path:
    """The example with some of its text replaced."""
    text = EXAMPLE.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "rig.toml"
    path.write_text(text + beside)
    worlds.allow(f"rig:{path}")
    return path


def test_the_example_is_a_world_with_a_spec_and_nothing_is_touched():
    worlds.allow(f"rig:{EXAMPLE}:PickBlock")
    env = worlds.make(f"rig:{EXAMPLE}:PickBlock")
    spec = env.spec
    assert spec.name == f"rig:{EXAMPLE}:PickBlock"
    assert (spec.horizon, spec.success, spec.real_time) == (1200, "operator", True)
    assert (spec.can_save, spec.records_frames, spec.depth) == (False, True, True)
    assert spec.camera("front").size == (640, 360)
    assert "faces the robot" in spec.camera("front").view
    assert spec.action_names == ("dx", "dy", "dz", "rx", "ry", "rz", "gripper")
    assert (env.instruction, env.scene) == ("Pick up the red block.", "franka")
    assert env.success() is None
    env.close()
    info = worlds.tasks(f"rig:{EXAMPLE}")["PickBlock"]
    assert info.criterion.startswith("The block is held clear")
    (need,) = worlds.needs(f"rig:{EXAMPLE}")
    assert need.there
    assert "nothing was touched" in need.found


def test_poses_are_words_euler_degrees_or_quaternions(tmp_path):
    home = 'orientation = "down" }    # or forward'
    assert np.allclose(read_rig(EXAMPLE).arms[0].home.rotation, DOWN)
    turned = euler_to_matrix((170.0, 5.0, 30.0))
    euler = read_rig(written(tmp_path, (home, "euler_deg = [170.0, 5.0, 30.0] } #")))
    assert np.allclose(euler.arms[0].home.rotation, turned)
    xyzw = [float(v) for v in quaternion_xyzw(turned)]
    same = read_rig(written(tmp_path, (home, f"quaternion_xyzw = {xyzw} }} #")))
    assert np.allclose(same.arms[0].home.rotation, turned)


def test_tasks_and_guard_may_be_files_beside_it_and_are_read_again_when_they_change(tmp_path):
    text = EXAMPLE.read_text()
    head, tail = text.split("[guard]")
    guard, tasks = tail.split("[tasks.PickBlock]")
    (tmp_path / "policy.toml").write_text(guard.partition("\n")[2].replace("guard.", ""))
    (tmp_path / "tasks.toml").write_text("[Stack]" + tasks)
    path = tmp_path / "rig.toml"
    path.write_text('guard = "policy.toml"\ntasks = "tasks.toml"\n' + head)
    worlds.allow(f"rig:{path}")
    world = rig_world(f"rig:{path}")
    assert world is rig_world(f"rig:{path}")
    assert [box.name for box in world.rig.guard.keep_out] == ["camera post"]
    (tmp_path / "tasks.toml").write_text("[Stack]" + tasks + '[Push]\nsteps = 7\ninstruction = "P"')
    with refuses(ErrorCode.BAD_SETTING, r"Push\.success is missing; it must be a text"):
        rig_world(f"rig:{path}")
    with (tmp_path / "tasks.toml").open("a") as file:
        file.write('\nsuccess = "moved"\n')
    assert rig_world(f"rig:{path}").rig.tasks["Push"].steps == 7
    with (tmp_path / "tasks.toml").open("a") as file:
        file.write('[Slide]\nsteps = 8\ninstruction = "S"\nsuccess = ["moved", "never lifted"]\n')
    slide = rig_world(f"rig:{path}").TASKS["Slide"]
    assert (slide.criterion, slide.rules) == ("moved. Rules: never lifted.", ("never lifted",))


@pytest.mark.parametrize(
    ("old", "new", "code", "sentence"),
    [
        ("max_step_m = 0.01 ", "max_stepm = 0.01 ", ErrorCode.UNKNOWN_NAME, "no key 'max_stepm' in arms 'arm'; valid: max_step_m, max_step_rad"),
        ("seconds = 60", "seconds = 60\nsteps = 9", ErrorCode.BAD_SETTING, "tasks.PickBlock has both of seconds and steps"),
        ("seconds = 60", "", ErrorCode.BAD_SETTING, "tasks.PickBlock has neither of seconds and steps; it must have one"),
        ('success = "The', '# "The', ErrorCode.BAD_SETTING, "tasks.PickBlock.success is missing; it must be a text"),
        ("position_m = [0.45, 0.0, 0.30]", "position_m = [0.9, 0.0, 0.30]", ErrorCode.BAD_SETTING, "the home of arm 'arm' is at [0.9, 0.0, 0.3] m, outside the guard's workspace [0.25, -0.35, 0.01] to [0.7, 0.35, 0.55]"),
        ("position_m = [0.45, 0.0, 0.30]", "position_m = [0.6, 0.3, 0.30]", ErrorCode.BAD_SETTING, "inside the keep-out box 'camera post'"),
        ('arm = "arm"', 'arm = "left"', ErrorCode.BAD_SETTING, "cameras 'wrist'.arm is 'left'; it must be the arm that it rides on, one of arm"),
        ('"my_lab.franka:Franka"', '"franca"', ErrorCode.UNKNOWN_NAME, "arms 'arm'.driver: there is no driver 'franca'; valid:"),
        ('kind = "exterior"', 'kind = "outside"', ErrorCode.BAD_SETTING, "cameras 'front'.kind is 'outside'; it must be one of exterior, wrist"),
        ('name = "wrist"', 'name = "front"', ErrorCode.BAD_SETTING, "two cameras have the name 'front'; each must have its own"),
        ("max_opening_m = 0.08", "max_opening_m = true", ErrorCode.BAD_SETTING, "max_opening_m is True; it must be a number above 0 and at most 0.5"),
        ('orientation = "down" }    # or forward', 'orientation = "up" } #', ErrorCode.BAD_SETTING, "home.orientation is 'up'; it must be one of down, forward"),
        (', orientation = "down" }    # or forward', "} #", ErrorCode.BAD_SETTING, "arms 'arm'.home has none; it must have position_m and one of"),
        ("force_latch_n = 30.0", "force_latch_n = -1", ErrorCode.BAD_SETTING, "guard.force_latch_n is -1; it must be a number above 0"),
        ("upper_m = [0.70, 0.35, 0.55] }", "upper_m = [0.2, 0.35, 0.55] }", ErrorCode.BAD_SETTING, "guard.workspace.upper_m is [0.2, 0.35, 0.55]; it must be above lower_m"),
        ('clock = "real"', 'clock = "lock-step"', ErrorCode.MISSING_SETTING, "clock = 'lock-step' needs a simulated room"),
        ("[tasks.PickBlock]", '[tasks."Pick:Block"]', ErrorCode.BAD_SETTING, "a task has the name 'Pick:Block'; it must be made of letters"),
        ("[guard] ", "[guards] ", ErrorCode.BAD_SETTING, "guard.workspace is missing; it must be a table of keys"),
        ("size = [640, 480]", "size = [640]", ErrorCode.BAD_SETTING, "cameras 'wrist'.size is [640]; it must be 2 numbers"),
        ("[[arms]]", "[[arms]", ErrorCode.UNREADABLE_FILE, "is not TOML: "),
        ("max_tilt_deg = 60", "max_tilt_deg = 200", ErrorCode.BAD_SETTING, "guard.max_tilt_deg is 200; it must be a number above 0 and at most 180"),
        ("floor_m = 0.0 ", 'floor_m = "low" ', ErrorCode.BAD_SETTING, "guard.floor_m is 'low'; it must be a number"),
        ("floor_m = 0.0 ", "floor_m = 0.3 ", ErrorCode.BAD_SETTING, "the home of arm 'arm' is at [0.45, 0.0, 0.3] m, with its fingers below the floor (0.3 m); it must be clear of it"),
        ('position_m = [0.45, 0.0, 0.30], orientation = "down"', 'position_m = [0.45, 0.0, 0.30], orientation = "forward"', ErrorCode.BAD_SETTING, "and tilts by 90 deg from straight down; max_tilt_deg is 60"),
        ("position_m = [0.45, 0.0, 0.30]", "position_m = [0.53, 0.15, 0.30]", ErrorCode.BAD_SETTING, "with its palm inside the keep-out box 'camera post'"),
        ('shape = "franka"', 'shape = "human"', ErrorCode.BAD_SETTING, "guard.hands.arm.shape is 'human'; it must be one of franka, yam"),
        ('shape = "franka"', 'brackett = 1', ErrorCode.UNKNOWN_NAME, "there is no key 'brackett' in guard.hands.arm; valid: bracket,"),
        ('shape = "franka"', "wrist = { from_m = 0.1, to_m = 0.12, radius_m = 0.04 }", ErrorCode.BAD_SETTING, "guard.hands.arm.wrist.to_m is 0.12; it must be at least 0.18: a capsule is no shorter than it is wide"),
        ('shape = "franka"', "fingers = { from_m = 0.02, to_m = 0.1, radius_m = 0.01 }", ErrorCode.BAD_SETTING, "guard.hands.arm.fingers.from_m is 0.02; it must be at most 0: the tip is between the fingers"),
        ("upper_m = [0.11, 0.05, -0.10]", "upper_m = [0.01, 0.05, -0.10]", ErrorCode.BAD_SETTING, "guard.hands.arm.bracket.upper_m is [0.01, 0.05, -0.1]; it must be above lower_m"),
        ("[guard.hands.arm]", "[guard.hands.left]", ErrorCode.UNKNOWN_NAME, "there is no arm 'left' in hands of"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_sentence_that_names_the_file(tmp_path, old, new, code, sentence):
    path = written(tmp_path, (old, new))
    with refuses(code) as refused:
        read_rig(path)
    assert sentence in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_arms_prefix_their_numbers_and_need_two_names(tmp_path):
    arm = EXAMPLE.read_text().partition("[[arms]]")[2].partition("[[cameras]]")[0]
    path = written(tmp_path, beside="\n[[arms]]" + arm)
    with refuses(ErrorCode.BAD_SETTING, "two arms have the name 'arm'"):
        read_rig(path)
    other = arm.replace('name = "arm"', 'name = "left"')
    path = written(tmp_path, beside="\n[[arms]]" + other)
    spec = worlds.make(f"rig:{path}:PickBlock").spec
    assert (*spec.action_names[:2], spec.action_names[7]) == ("arm_dx", "arm_dy", "left_dx")
    assert len(spec.state_names) == 16


def test_forces_can_be_left_out_of_the_guard_but_the_guard_not(tmp_path):
    path = written(tmp_path, ("force_latch_n = 30.0", 'force_latch_n = "off"'))
    assert read_rig(path).guard.force_latch_n is None


def test_a_hand_is_its_drivers_or_the_files_own(tmp_path):
    guard = read_rig(EXAMPLE).guard
    assert [part.name for part in guard.hand("arm")] == ["fingers", "palm", "wrist", "bracket"]
    fingers = guard.hand("arm")[0]
    assert fingers.upper_m[1] == pytest.approx(0.04 + 0.023)  # open by 8 cm
    own = "palm = { lower_m = [-0.1, -0.1, -0.2], upper_m = [0.1, 0.1, -0.1] }"
    yam = read_rig(
        written(tmp_path, ('"my_lab.franka:Franka"', '"yam"'), ('shape = "franka"', own))
    )
    assert yam.guard.hand("arm")[1].upper_m == (0.1, 0.1, -0.1)
    assert yam.guard.hand("arm")[2] == HANDS["yam"][2]
    # Straight down, the tip may come to the lower end of its box, whatever reaches beyond it.
    assert read_rig(written(tmp_path, ("floor_m = 0.0 ", "# "))).guard.floor(
        "arm"
    ) == pytest.approx(-0.0025)


def test_an_unknown_file_names_the_packaged_ones():
    with refuses(ErrorCode.NOT_FOUND, "there is no rig file 'rooom'; give the path of a TOML"):
        worlds.tasks("rig:rooom")
    for path in PACKAGED.glob("*.toml"):
        assert worlds.tasks(f"rig:{path.stem}")
