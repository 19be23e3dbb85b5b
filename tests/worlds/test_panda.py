"""The arm's kinematics agree with the simulated robot, and the kitchen lies within its reach maps."""

from __future__ import annotations

import numpy as np
import pytest

from capex.pose import DOWN, FORWARD
from capex.worlds import Start
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.robot import ARM_ARMATURE, MOUNT_HEIGHT_M, PARTS
from capex.worlds.kitchen.situation import POSTURES


def test_forward_kinematics_equals_mujocos(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    tip = stove.robot_state().arms["arm"].T_base_tip
    data, model = stove.truth.data, stove.truth.model
    q = np.array([data.qpos[model.jnt_qposadr[model.joint(j).id]] for j in panda.JOINTS])
    T, jacobian, _ = panda.forward(q[None])
    assert np.allclose(T[0, :3, 3], tip.position_m, atol=1e-9)
    assert np.allclose(T[0, :3, :3], tip.rotation, atol=1e-9)
    step = 1e-6
    for j in range(7):
        moved = q.copy()
        moved[j] += step
        difference = (panda.forward(moved[None])[0][0, :3, 3] - T[0, :3, 3]) / step
        assert np.allclose(difference, jacobian[0, :3, j], atol=1e-4)


def test_the_model_has_the_pandas_limits_and_a_plausible_weight(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    model = stove.truth.model
    for i, joint in enumerate(panda.JOINTS):
        j = model.joint(joint)
        assert np.allclose(j.range, (panda.LOWER_RAD[i], panda.UPPER_RAD[i]))
        assert np.allclose(
            model.actuator(joint).forcerange, (-panda.TORQUE_NM[i], panda.TORQUE_NM[i])
        )
        assert model.dof_armature[j.dofadr[0]] == ARM_ARMATURE[i]
    arm = sum(model.body(name).mass[0] for name in PARTS if name.startswith("link"))
    assert 16 < arm < 19  # the real arm weighs about 18 kg


@pytest.mark.parametrize(
    ("rotation", "points"),
    [
        (
            DOWN,
            [(0.45, y, 0.90 + h - MOUNT_HEIGHT_M) for y in (-0.35, 0, 0.35) for h in (0.03, 0.15)],
        ),  # food on the counter, carrying
        (
            FORWARD,
            [(x, y, 1.16 - MOUNT_HEIGHT_M) for x in (0.4, 0.7) for y in (-0.2, 0, 0.2)],
        ),  # the fridge door
    ],
)
def test_every_approach_lies_inside_the_reach_maps(rotation, points):
    found = panda.solve(np.array(points), rotation, seeds=10)
    assert found.reached.all()
    assert found.margin_rad.min() > 0.1


def test_start_postures_point_as_named():
    for name, posture in POSTURES.items():
        T, _, _ = panda.forward(np.array([posture]))
        wanted = DOWN if name == "down" else FORWARD
        assert np.abs(T[0, :3, :3] - wanted).max() < 0.01
