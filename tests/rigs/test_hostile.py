"""Hostile plans: nothing outside the policy arrives at the robots."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import guard_geometry
from hostile_plans import attack

from capex.rigs.guard import SOLVED_M


@pytest.mark.parametrize(("plans", "arms", "sag_m"), [(21, 1, 0.015), (29, 2, 0.0)])
def test_no_command_outside_the_policy_arrives(tmp_path, plans, arms, sag_m):
    result = attack(tmp_path, plans, arms=arms, sag_m=sag_m, seed=arms)
    assert result.sent > 200
    assert not result.outside
    said = " ".join(result.guard)
    for words in ("step cut to", "kept out of shelf", "turn cut to", "not a finite number"):
        assert words in said
    assert ("arms kept 6 cm apart" in said) == (arms == 2)
    assert "last check" not in said


@pytest.mark.parametrize(("bracket", "sag_m"), [(False, 0.0), (True, 0.0), (True, 0.015)])
def test_no_part_of_a_hand_is_led_below_the_table_or_into_a_keep_out(bracket, sag_m):
    policy, hand = guard_geometry.policy_of(bracket=bracket)
    result = guard_geometry.attack(policy, hand, 8, sag_m=sag_m, seed=5)
    assert not result.stops
    assert max(result.goals.table_m, result.goals.keep_out_m) < 1e-6
    assert max(result.ways.table_m, result.ways.keep_out_m) < guard_geometry.ROUNDING_M
    assert max(result.measured.table_m, result.measured.keep_out_m) < 0.001 + sag_m
    assert max(result.goals.table_m, result.goals.keep_out_m) > -0.02  # they tried


def test_a_guard_that_knew_the_tip_alone_would_not_have_kept_the_hand_off():
    policy, hand = guard_geometry.policy_of(bracket=True, before=True)
    result = guard_geometry.attack(policy, hand, 8, sag_m=0.0, seed=5)
    assert result.goals.table_m > 0.02
    assert result.goals.keep_out_m > 0.02


@pytest.mark.parametrize("foresees", [True, False])
def test_no_joints_of_a_yam_lead_its_hand_below_the_table_or_into_a_keep_out(foresees):
    result = guard_geometry.attack_yam(4, sag_rad=0.0, foresees=foresees, seed=3)
    assert not result.stops
    deepest_m = max(result.goals.table_m, result.goals.keep_out_m)
    if foresees:
        assert deepest_m <= SOLVED_M + 1e-9
        assert not guard_geometry.too_far(result, SOLVED_M)  # nor was it measured there
    else:  # a guard that looks at the goals of the tip alone
        assert deepest_m > 0.002
