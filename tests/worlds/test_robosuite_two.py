"""robosuite's TwoArmLift through the two-arm contract: rules, both steppings, and the expert's lift."""

from __future__ import annotations

import numpy as np
import pytest

from capex import worlds
from capex.method.executor import Executor
from capex.worlds import ArmCommand, Command, Start

pytest.importorskip("robosuite")
NAME = "robosuite-two:TwoArmLift"


def test_the_expert_lifts_the_pot_with_both_arms():
    env = worlds.make(NAME)
    env.reset(Start("TwoArmLift", 3))
    executor = Executor(env)
    outcomes = executor.execute(worlds.expert("robosuite-two")(env, 0))
    assert outcomes[-1].status == "terminal"
    assert all(outcome.label == 1 for outcome in outcomes[:-1])
    held = {name: arm.held for name, arm in env.robot_state().arms.items()}
    assert held == {"right": {"pot"}, "left": {"pot"}} or all(held.values()), held
    assert env.success()
    env.close()


def test_rules_for_two_arms():
    env = worlds.make(NAME)
    report = worlds.check(env, rules=["spec", "arms", "together"])
    assert [f.status for f in report.findings] == ["ok", "ok", "ok"], report.failed
    assert len(env.spec.action_names) == 14
    env.close()


def test_both_arms_take_the_same_bits_through_either_stepping():
    ends = []
    for stepping in ("fast", "original"):
        env = worlds.make(NAME, stepping=stepping)
        env.reset(Start("TwoArmLift", 0))
        for _ in range(4):
            right, left = ArmCommand((0.01, 0.0, -0.01), gripper=1.0), ArmCommand((0.0, 0.02, 0.0))
            env.step(Command({"left": left, "right": right}))
        for _ in range(3):
            env.step(Command({"left": ArmCommand(), "right": ArmCommand()}))
        ends.append(env.save_state().vector)
        env.close()
    assert np.array_equal(*ends)
