"""The fast step has the bits of robosuite's own, in free space and in contact; demonstrations replay in an environment made without capex."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("robosuite")

import robosuite

from capex import worlds
from capex.campaign.api import demonstrate
from capex.errors import ErrorCode
from capex.method.executor import Executor
from capex.plan import ArmTarget, Waypoint
from capex.pose import Array
from capex.worlds import Start
from capex.worlds.robosuite import ROBOTS
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.stepping import Fast
from refusals import refuses

EXAMPLE = Path(__file__).parents[2] / "examples" / "replay_in_robosuite.py"


def both(world: str) -> tuple[SuiteEnv, SuiteEnv]:
    """Lift at start 0, stepped fast and by robosuite."""
    pair = tuple(worlds.make(f"{world}:Lift", stepping=kind) for kind in ("fast", "original"))
    for env in pair:
        assert isinstance(env, SuiteEnv)
        env.reset(Start("Lift", 0))
    return pair  # type: ignore[return-value]


def commands(world: str) -> Array:
    actions = np.random.default_rng(3).uniform(-0.5, 0.5, (60, len(ROBOTS[world].action_names)))
    actions[:, 2] = np.abs(actions[:, 2])
    return actions


@pytest.mark.parametrize("world", ["robosuite", "robosuite-panda"])
def test_random_commands_end_in_the_same_bits(world: str) -> None:
    fast, original = both(world)
    begun = fast.save_state().vector
    for action in commands(world):
        fast.apply(action)
        original.apply(action)
        assert np.array_equal(fast.save_state().vector, original.save_state().vector)
    assert not np.array_equal(fast.save_state().vector, begun)
    assert fast.save_state().header == original.save_state().header
    fast.close()
    original.close()


def test_a_grasp_and_a_push_end_in_the_same_bits() -> None:
    fast, original = both("robosuite")
    lifted = []
    executor = Executor(fast, subscribers=[lambda tick: lifted.append(tick.action)])
    executor.execute(worlds.expert("robosuite")(fast, 0))
    assert fast.success()
    executor.execute(
        [Waypoint({"arm": ArmTarget(None, "keep", "release")})]
    )  # let it fall, and strike it on its way
    x, y, z = fast.truth.shape("cube_g0")[0].position_m
    executor.execute(
        [Waypoint({"arm": ArmTarget((float(x) + 0.04, float(y), float(z)), "keep", "close")})]
    )
    for action in lifted:
        original.apply(action)
    assert np.array_equal(fast.save_state().vector, original.save_state().vector)
    fast.close()
    original.close()


def test_a_controller_that_the_fast_step_does_not_know_is_named() -> None:
    env = robosuite.make(
        "Lift",
        robots="Panda",
        controller_configs={
            "type": "BASIC",
            "body_parts": {
                "right": {
                    "type": "JOINT_POSITION",
                    "interpolation": None,
                    "gripper": {"type": "GRIP"},
                }
            },
        },
        use_camera_obs=False,
        has_offscreen_renderer=False,
    )
    with refuses(ErrorCode.UNSUPPORTED, r"JOINT_POSITION .*stepping='original'"):
        Fast(env)
    env.close()


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("replay_in_robosuite", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_is_made_without_capex() -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(EXAMPLE.read_text()))
        for name in (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {
        "__future__",
        "json",
        "sys",
        "pathlib",
        "typing",
        "numpy",
        "robosuite",
        "h5py",
    }


@pytest.mark.parametrize("name", ["robosuite:Lift", "robosuite-panda:Stack"])
def test_a_demonstration_succeeds_in_a_plain_environment_at_the_same_step(
    name: str, example: ModuleType, tmp_path: Path
) -> None:
    (episode,) = demonstrate("expert", name, starts=[2], out=tmp_path / "run").episodes
    assert episode.record.success
    assert example.replay(episode.path) == episode.record.steps
