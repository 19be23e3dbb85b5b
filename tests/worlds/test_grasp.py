"""The physics of a grasp: a 0.3 kg load is lifted, carried and held without creeping out of the hand."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from bare import TOP_M, bare_kitchen
from capex.method.executor import Executor
from capex.plan import ArmTarget, Waypoint
from capex.worlds import ArmCommand, Command, Start
from capex.worlds.kitchen.env import KitchenEnv


def _block(shape: str):
    kind = mujoco.mjtGeom.mjGEOM_BOX if shape == "box" else mujoco.mjtGeom.mjGEOM_CYLINDER

    def build(builder, body):
        body.add_geom(type=kind, size=(0.02, 0.02, 0.02), mass=0.3, contype=1, conaffinity=1)

    return build


def _in_hand(env: KitchenEnv) -> np.ndarray:
    """The block's position in the hand's frame."""
    data = env.truth.data
    hand = data.body("hand")
    return hand.xmat.reshape(3, 3).T @ (data.body("block").xpos - hand.xpos)


@pytest.mark.parametrize("shape", ["box", "cylinder"])
def test_a_heavy_block_is_lifted_carried_and_held_without_slipping(shape):
    env = bare_kitchen(("block", _block(shape), (0.22, 0.0)))
    env.reset(Start("Bare", 0))
    executor = Executor(env)

    def go(x, y, z, gripper="keep"):
        return executor.execute([Waypoint({"arm": ArmTarget((x, y, z), "down", gripper)})])[0]

    for z in (0.60, 0.52):
        go(0.45, 0.0, z)
    assert go(0.45, 0.0, 0.472, "close").status == "reached"
    assert env.robot_state().arms["arm"].held == {"block"}
    gripped = _in_hand(env)
    assert go(0.45, 0.0, 0.572).status == "reached"
    for y in (0.1, 0.2, 0.3):
        assert go(0.45, y, 0.572).status == "reached"
    for _ in range(20 * 60):
        env.step(Command({"arm": ArmCommand(None, gripper=1.0)}))
    assert env.robot_state().arms["arm"].held == {"block"}
    assert np.linalg.norm(_in_hand(env) - gripped) < 0.002
    assert env.truth.position("block")[2] > TOP_M + 0.10
