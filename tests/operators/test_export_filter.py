"""What a person drove is no demonstration of its model's."""

from __future__ import annotations

from dataclasses import replace

import runs
from capex.dataset.selection import Filters, find_attempts, select, select_failures

TASK = runs.TASKS[:1]


def test_an_episode_that_a_person_drove_in_is_left_out(tmp_path):
    run = runs.campaign(tmp_path / "run", TASK, ["capex"], 8)
    found = [replace(a, certified=True) for a in find_attempts(run.path)]
    for choose in (select, select_failures):
        taken = choose("d", found, Filters()).attempts
        assert taken
        helped = [
            replace(a, summary=replace(a.summary, human_steps=7)) if a is taken[0] else a
            for a in found
        ]
        chosen = choose("d", helped, Filters())
        assert len(chosen.attempts) == len(taken) - 1
        assert "a person drove 7 of its steps: not the model's own" in {
            row.reason for row in chosen.left_out
        }
