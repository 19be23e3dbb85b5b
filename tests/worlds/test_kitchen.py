"""The kitchen keeps the contract: bits, pixels, limits, the controller's semantics, and success read from physics."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from capex import worlds
from capex.errors import BadCommand, ErrorCode, PhysicsDiverged, StateMismatch, UnknownName
from capex.pose import yaw_matrix
from capex.worlds import ArmCommand, Command, Start, State
from capex.worlds.contract import check
from capex.worlds.kitchen import control
from capex.worlds.kitchen import robot as panda
from refusals import refuses

TASKS = sorted(worlds.tasks("kitchen"))
# A start in which nothing stands between the hand and the cameras, or in the base's way.
ROOMY = {"CloseFridge": 5}


def _hold(**numbers: float) -> np.ndarray:
    action = np.zeros(len(control.ACTION_NAMES))
    action[11] = 1.0
    for name, value in numbers.items():
        action[control.ACTION_NAMES.index(name)] = value
    return action


def _arm(**numbers: float) -> np.ndarray:
    return _hold(mode=-1.0, **numbers)


def _tip(env) -> np.ndarray:
    return env.robot_state().arms["arm"].T_base_tip.position_m


@pytest.mark.parametrize("task", TASKS)
def test_the_contract_holds(task):
    env = worlds.make(f"kitchen:{task}")
    check(env, start=Start(task, ROOMY.get(task, 0)), ticks=15).raise_if_failed()
    env.close()


def _rollout(task: str, ticks: int) -> tuple[bytes, bytes]:
    env = worlds.make(f"kitchen:{task}")
    env.reset(Start(task, 1))
    rng = np.random.Generator(np.random.PCG64(3))
    for _ in range(ticks):
        env.apply(
            _arm(
                **{
                    n: float(v)
                    for n, v in zip(
                        control.ACTION_NAMES[:7], rng.uniform(-0.6, 0.6, 7), strict=True
                    )
                }
            )
        )
    pixels = b"".join(image.tobytes() for image in env.observe().values())
    state = env.save_state().vector.tobytes()
    env.close()
    return state, pixels


def test_two_processes_agree_bit_for_bit_after_300_commands():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        other = pool.apply(_rollout, ("PickPlaceCounterToStove", 300))
    assert _rollout("PickPlaceCounterToStove", 300) == other


@pytest.mark.parametrize("task", TASKS)
def test_doing_nothing_is_no_success(task):
    env = worlds.make(f"kitchen:{task}")
    for index in range(2):
        env.reset(Start(task, index))
        for _ in range(60):
            env.step(Command({"arm": ArmCommand(None, gripper=-1.0)}))
            assert env.success() is False
    env.close()


def test_starts_differ_and_are_told_in_words(stove):
    seen = set()
    for index in range(8):
        stove.reset(Start("PickPlaceCounterToStove", index))
        seen.add((stove.instruction, tuple(np.round(stove.truth.position("pan"), 3))))
        assert stove.instruction.startswith("Pick the ")
    assert len(seen) == 8


def test_arm_mode_anchors_to_the_achieved_pose_and_base_mode_to_the_goal(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    hand = stove.truth.data.body("hand").id
    stove.truth.data.xfrc_applied[hand] = (0, 0, -3.0, 0, 0, 0)  # the weight of 0.3 kg
    for _ in range(20):
        stove.apply(_hold())
    held = _tip(stove)
    for _ in range(20):
        stove.apply(_hold())
    assert abs(_tip(stove)[2] - held[2]) < 0.0005  # base mode: the load stays where it is
    for _ in range(20):
        stove.apply(_arm())
    assert held[2] - _tip(stove)[2] > 0.005  # arm mode with zeros: it sinks, as robosuite's does


def test_deltas_are_in_the_base_frame_whatever_its_heading(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    for _ in range(25):
        stove.apply(_hold(base_vx=-0.25))
    for _ in range(30):
        stove.apply(_hold(base_wz=0.4))
    stove.apply(_hold())
    _, _, yaw = stove.robot_state().base
    assert yaw > 0.6
    world_before, base_before = stove.truth.data.site("tip").xpos.copy(), _tip(stove)
    for _ in range(10):
        stove.apply(_arm(eef_dx=0.4))
    moved_base, moved_world = (
        _tip(stove) - base_before,
        stove.truth.data.site("tip").xpos - world_before,
    )
    assert moved_base[0] > 0.03
    assert abs(moved_base[1]) < 0.01
    assert np.allclose(yaw_matrix(yaw) @ moved_base, moved_world, atol=1e-3)


def test_the_gripper_integrates_over_ten_steps_and_zero_holds(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    openings = []
    for value in (1.0,) * 5 + (0.0,) * 5:
        stove.apply(_hold(gripper=value))
        openings.append(stove.robot_state().arms["arm"].opening_m)
    assert 0.03 < openings[-1] < 0.05  # half way, and held there
    assert abs(openings[-1] - openings[-2]) < 1e-4
    for _ in range(6):
        stove.apply(_hold(gripper=1.0))
    assert stove.robot_state().arms["arm"].opening_m < 0.002


def test_the_torso_lifts_the_arm_and_the_base_frame_with_it(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    before, tip = stove.truth.data.site("mount").xpos[2], _tip(stove)
    for _ in range(4):
        stove.apply(_hold(torso=1.0))
    for _ in range(20):
        stove.apply(_hold())
    assert np.isclose(stove.truth.data.site("mount").xpos[2] - before, 0.2, atol=0.005)
    assert np.allclose(_tip(stove), tip, atol=0.01)


def test_the_base_holds_its_place_under_load(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    data = stove.truth.data
    data.xfrc_applied[data.body("base").id] = (100.0, 50.0, 0, 0, 0, 20.0)
    before = np.array(stove.robot_state().base)
    for _ in range(100):
        stove.apply(_hold())
    assert np.abs(np.array(stove.robot_state().base) - before).max() < 1e-4


def test_joint_speeds_and_torques_stay_within_the_pandas_limits(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    model, data = stove.truth.model, stove.truth.data
    dofs = [model.joint(j).dofadr[0] for j in panda.JOINTS]
    fastest = np.zeros(7)
    for k in range(60):
        sign = 1.0 if (k // 10) % 2 else -1.0
        stove.apply(_arm(eef_dx=0.5 * sign, eef_dy=0.8 * sign, eef_rz=sign, eef_rx=0.5 * sign))
        fastest = np.maximum(fastest, np.abs(data.qvel[dofs]))
        assert np.all(
            np.abs(data.actuator_force[[model.actuator(j).id for j in panda.JOINTS]])
            <= panda.TORQUE_NM + 1e-9
        )
    assert np.all(fastest < 1.15 * panda.SPEED_RAD_S)
    assert fastest.max() > 0.5


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (np.zeros(7), r"action has shape \(7,\); it must have shape \(12,\)"),
        (_arm(eef_dx=np.nan), "action\\['eef_dx'\\] is nan"),
        (_arm(gripper=np.inf), "action\\['gripper'\\] is inf"),
        (_arm(base_wz=1.5), "action\\['base_wz'\\] is 1.5"),
    ],
)
def test_a_bad_native_action_is_refused_before_physics(stove, action, words):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    before = stove.save_state().vector
    with pytest.raises(ValueError, match=words):
        stove.apply(action)
    assert np.array_equal(stove.save_state().vector, before)


def test_a_state_of_another_task_start_or_version_is_refused(fridge, stove):
    fridge.reset(Start("CloseFridge", 0))
    stove.reset(Start("PickPlaceCounterToStove", 0))
    with pytest.raises(StateMismatch, match="CloseFridge"):
        stove.load_state(fridge.save_state())
    state = stove.save_state()
    stove.reset(Start("PickPlaceCounterToStove", 1))
    with pytest.raises(StateMismatch, match="reset to that start first"):
        stove.load_state(state)
    stove.reset(Start("PickPlaceCounterToStove", 0, state=state))
    with pytest.raises(StateMismatch, match="version"):
        stove.load_state(State(state.header.replace('"version": 1', '"version": 0'), state.vector))
    with pytest.raises(StateMismatch, match="not finite"):
        stove.load_state(State(state.header, state.vector * np.nan))
    with pytest.raises(StateMismatch, match="shape"):
        stove.load_state(State(state.header, state.vector[:-1]))


def test_a_blow_up_is_detected_at_that_step_and_never_a_success(fridge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working directory
    fridge.reset(Start("CloseFridge", 0))
    sound = fridge.save_state()
    door = fridge.truth.model.joint("fridge door")
    fridge.truth.data.qpos[door.qposadr[0]] = 0.0  # shut: this would be a success
    mujoco.mj_forward(fridge.truth.model, fridge.truth.data)
    fridge.truth.data.qvel[0] = 1e12
    with pytest.raises(PhysicsDiverged, match="the episode is invalid"):
        fridge.apply(_hold())
    assert fridge.success() is False
    with pytest.raises(PhysicsDiverged, match="reset it"):
        fridge.apply(_hold())
    fridge.load_state(sound)
    fridge.apply(_hold())
    fridge.reset(Start("CloseFridge", 0))
    fridge.apply(_hold())


def test_unknown_names_are_refused_with_the_closest_first(stove):
    with pytest.raises(UnknownName, match="there is no world 'kitchn'; valid: kitchen"):
        worlds.make("kitchn:CloseFridge")
    with pytest.raises(
        UnknownName, match="there is no task 'CloseFreezer' in world 'kitchen'; valid: CloseFridge"
    ):
        worlds.make("kitchen:CloseFreezer")
    with refuses(ErrorCode.BAD_SETTING, "names no task"):
        worlds.make("kitchen")
    stove.reset(Start("PickPlaceCounterToStove", 0))
    with pytest.raises(UnknownName, match="there is no camera 'rigth'; valid: right"):
        stove.observe(["rigth"])
    with pytest.raises(UnknownName, match="there is no camera 'rigth'; valid: right"):
        stove.observe(["left", "rigth"], (64, 64))
    with refuses(ErrorCode.UNKNOWN_START, "there is no start 10000"):
        stove.reset(Start("PickPlaceCounterToStove", 10_000))
    with pytest.raises(BadCommand, match="arms: "):
        stove.step(Command({"left": ArmCommand()}))


def test_shadows_are_off_by_default_and_a_flag_brings_them():
    pictures = []
    for shadows in (False, True):
        env = worlds.make("kitchen:PickPlaceCounterToStove", shadows=shadows)
        env.reset(Start("PickPlaceCounterToStove", 0))
        pictures.append(env.observe(["left"], (128, 128))["left"].astype(int))
        env.close()
    assert pictures[1].mean() < pictures[0].mean()
    assert np.abs(pictures[0] - pictures[1]).max() > 20


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.environ['MUJOCO_GL'] = 'vulkan'", "MUJOCO_GL is 'vulkan'; valid: egl"),
        # A machine without GL libraries: every backend fails to import.
        (
            "import sys; sys.modules['mujoco.egl'] = sys.modules['mujoco.osmesa'] = None",
            "apt-get install libegl1 libgl1",
        ),
    ],
)
def test_without_gl_there_is_a_sentence_with_the_packages(code, words):
    script = f"""{code}
from capex import worlds
from capex.errors import GLUnavailable
from capex.worlds import Start
try:
    env = worlds.make("kitchen:CloseFridge")
    env.reset(Start("CloseFridge", 0))  # physics alone needs no GL
    env.observe()
except GLUnavailable as error:
    print(error)"""
    environment = {
        k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")
    }
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert words in out.stdout
    assert "Traceback" not in out.stderr


OWN_WORLD = """
from examples.my_world import TASKS, Table

class Drawn(Table):
    def observe(self, cameras=None, size=None):
        import mujoco

        model = mujoco.MjModel.from_xml_string(
            "<mujoco><worldbody><light pos='0 0 3'/><geom size='.1' rgba='1 0 0 1'/></worldbody></mujoco>"
        )
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        with mujoco.Renderer(model, 32, 32) as renderer:
            renderer.update_scene(data)
            assert renderer.render().any()
        return super().observe(cameras, size)

make = Drawn
"""


@pytest.mark.parametrize("loads_mujoco", ["at its import", "when it is made", "after a kitchen"])
def test_an_own_world_draws_with_mujoco_where_there_is_no_display(tmp_path, loads_mujoco):
    """By itself MuJoCo takes GLFW there, whose second context aborts the process."""
    at_import, made = (
        "import mujoco\n" + OWN_WORLD,
        OWN_WORLD.replace(
            "make = Drawn", "def make(*named):\n    import mujoco\n    return Drawn(*named)"
        ),
    )
    code = {"at its import": at_import, "when it is made": made, "after a kitchen": OWN_WORLD}
    (tmp_path / "own").mkdir()
    (tmp_path / "own/table.py").write_text(code[loads_mujoco])
    first = 'worlds.make("kitchen:CloseFridge").close()' * (loads_mujoco == "after a kitchen")
    script = f"""from capex import worlds
from capex.worlds import Start
{first}
worlds.allow("own.table")
env = worlds.make("own.table:Touch")
env.reset(Start("Touch", 0))
for _ in range(2):
    env.observe()
print("drawn")"""
    gone = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {k: v for k, v in os.environ.items() if k not in gone}
    repository = Path(__file__).resolve().parents[2]
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(repository), *sys.path])
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "drawn\n"), done.stderr
