"""Hostile plans: nothing outside the policy arrives at the robots."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
from hostile_plans import attack


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
