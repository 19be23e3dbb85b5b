"""The report's numbers against counts by hand and brute force: denominators, pairs, memory, calibration, costs, and what is pooled."""

from __future__ import annotations

import json
import math
import shutil
from decimal import Decimal

import numpy as np
import pytest

import runs
from capex import codec
from capex.method.calibrator import Calibrator
from capex.method.commit import committed
from capex.method.record import Turn
from capex.models import LedgerTotals, Usage
from capex.models.exchanges import Exchange
from capex.report import calibration, compare, costs, experience
from capex.report.data import load
from capex.report.sections.calibration import calibration_section
from capex.report.sections.summary import summary
from capex.report.show import rate
from capex.report.sources import differences, group, main_source
from capex.run.spend import Spend
from capex.run.writing import InvalidNote, Timing

pytestmark = pytest.mark.filterwarnings(
    "error::UserWarning"
)  # what matplotlib says of a layout that does not fit


def test_denominators_are_scorable_starts_and_pairs_are_valid_in_both(tmp_path):
    run = runs.new_run(tmp_path / "r", ["base", "capex"], ["CloseFridge"], range(8))
    runs.fill(run, "CloseFridge", "base", "0010-?01")
    runs.fill(run, "CloseFridge", "capex", "01111?-0")
    base, capex = runs.sources_of(run.path)
    assert (base.arm, capex.arm) == ("base", "capex")
    assert compare.tally(base.episodes) == compare.Tally(2, 6)
    assert compare.tally(capex.episodes) == compare.Tally(4, 6)
    found = compare.compare(base, capex)
    # starts 0 to 3 and 7 have a verdict in both
    assert found.pairs == compare.Pairs(both=1, only_first=1, only_second=2, neither=1)
    assert found.pairs.difference == pytest.approx(1 / 5)
    assert found.pairs.p == 1.0
    assert found.tasks[("kitchen", "CloseFridge")] == found.pairs
    assert compare.totals(base).unjudged == 1


def test_amounts_count_every_attempt_and_invalid_ones_too(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(3))
    chain = runs.fill(run, "CloseFridge", "capex", "100", cost_usd=2.0, requests=5)
    ledger = LedgerTotals(requests=4, attempts=9, cost_usd=1.5)
    facts = {"task": "CloseFridge", "start": 3, "model": "made-up", "ledger": ledger}
    note = InvalidNote(**facts, error="the server failed")
    chain.begin(3).commit_invalid(note, Timing(episode_s=30.0), {})
    (source,) = runs.sources_of(run.path)
    found = compare.totals(source)
    assert found.tally == compare.Tally(1, 3)
    assert (found.usd.value, found.requests.value, found.minutes.value) == (7.5, 19.0, 2.0)
    assert found.usd.per_attempt == 7.5 / 4
    assert found.invalid == 1
    bill = costs.bill(source)
    assert (bill.requests, bill.wire_attempts, bill.invalid, bill.errors) == (
        19,
        3 * 6 + 9,
        1,
        {"the server failed": 1},
    )
    assert bill.tokens == Usage(3000, 1500, 300, 900, 240)
    assert bill.cache_hits == pytest.approx(1500 / 4800)
    assert bill.without_tokens == 1


def test_no_success_is_infinite_and_an_unknown_price_is_no_number(tmp_path):
    run = runs.new_run(tmp_path / "r", ["base", "capex"], ["CloseFridge"], range(2))
    runs.fill(run, "CloseFridge", "base", "00")
    runs.fill(run, "CloseFridge", "capex", "11", cost_usd=None)
    base, capex = (compare.totals(s) for s in runs.sources_of(run.path))
    assert math.isinf(base.usd.value)
    assert rate(base.usd) == "∞"
    assert capex.usd == compare.Rate(None, None, None)
    assert rate(capex.usd) == "—"


def test_sources_without_a_common_start_get_fisher_and_cochran_mantel_haenszel(tmp_path):
    one = runs.new_run(tmp_path / "one", ["base"], runs.TASKS, range(20))
    two = runs.new_run(tmp_path / "two", ["capex"], runs.TASKS, range(20), seed=1)
    for task in runs.TASKS:
        runs.fill(one, task, "base", "1" * 4 + "0" * 16)
        runs.fill(two, task, "capex", "1" * 15 + "0" * 5, seed=1)
    (found,) = compare.comparisons(runs.sources_of(one.path, two.path))
    assert found.pairs.n == 0
    assert len(found.unpaired) == 2
    a, b, p = found.unpaired["kitchen", "CloseFridge"]
    assert (a, b) == (compare.Tally(4, 20), compare.Tally(15, 20))
    assert p == pytest.approx(0.0012, abs=1e-4)
    assert found.across.p < 1e-4


def test_with_many_sources_every_pair_within_a_model_is_kept(tmp_path):
    arms = ["base", "capex", "capex-fresh"]
    paths = []
    for model in ("one", "two"):
        run = runs.new_run(tmp_path / model, arms, ["CloseFridge"], range(2), model=model)
        paths.append(run.path)
        for arm in arms:
            runs.fill(run, "CloseFridge", arm, "01", model=model)
    found = compare.comparisons(runs.sources_of(*paths))
    pairs = {((c.first.arm, c.first.model), (c.second.arm, c.second.model)) for c in found}
    within = {
        ((a, model), (b, model))
        for model in ("one", "two")
        for a, b in (("base", "capex"), ("base", "capex-fresh"), ("capex", "capex-fresh"))
    }
    assert pairs == within | {(("base", "one"), (arm, "two")) for arm in arms}


def test_runs_that_are_compared_though_their_settings_differ_say_so(tmp_path):
    one = runs.new_run(
        tmp_path / "one", ["base"], ["CloseFridge"], range(2), sampling={"effort": "low"}
    )
    two = runs.new_run(
        tmp_path / "two", ["capex"], ["CloseFridge"], range(2), sampling={"effort": "high"}
    )
    runs.fill(one, "CloseFridge", "base", "01")
    runs.fill(two, "CloseFridge", "capex", "11")
    notes = summary(runs.section_input(one.path, two.path))[0].notes
    assert notes == [
        "capex · made-up (stand-in) and base · made-up (stand-in) also differ in sampling.effort."
    ]


def test_memory_is_judged_without_first_episodes_and_split_by_a_success_in_memory(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "capex-fresh"], runs.TASKS, range(6))
    runs.fill(run, runs.TASKS[0], "capex", "001101")  # a success in memory from start 3 on
    runs.fill(run, runs.TASKS[0], "capex-fresh", "010001")
    runs.fill(run, runs.TASKS[1], "capex", "111111")  # from start 1 on
    runs.fill(run, runs.TASKS[1], "capex-fresh", "101010")
    (found,) = experience.experiences(runs.sources_of(run.path))
    assert found.left_out == 2
    assert found.identical == 2
    assert found.before_success == compare.Pairs(
        both=0, only_first=1, only_second=1, neither=0
    )  # starts 1 and 2 of the first task
    assert found.after_success == compare.Pairs(both=3, only_first=0, only_second=4, neither=1)
    assert found.everything.n == 10
    assert found.also_differ == ()
    assert [m.name for m in found.measures] == ["control steps", "model requests", "wall time, s"]
    assert found.measures[0].test.equal == 3


def test_medians_and_sign_tests_are_of_starts_solved_by_both(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "capex-fresh"], ["CloseFridge"], range(6))
    for arm, steps in (
        ("capex", [9, 10, 20, 30, 40, 50]),
        ("capex-fresh", [9, 15, 25, 35, 30, 50]),
    ):
        chain = run.chain("kitchen", "CloseFridge", arm)
        for start, n in enumerate(steps):
            runs.commit(
                chain,
                runs.record(
                    "CloseFridge",
                    arm,
                    start,
                    success=not (arm == "capex" and start == 5),
                    steps=n,
                    requests=n // 5,
                ),
            )
    (found,) = experience.experiences(runs.sources_of(run.path))
    steps = found.measures[0]
    assert (steps.with_memory, steps.cleared) == (
        25,
        27.5,
    )  # starts 1 to 4: 10 20 30 40 against 15 25 35 30
    assert (steps.test.smaller, steps.test.larger, steps.test.equal) == (3, 1, 0)


def test_with_rounds_a_success_of_the_same_round_is_not_in_memory(tmp_path):
    run = runs.new_run(
        tmp_path / "r", ["capex", "capex-fresh"], ["CloseFridge"], range(6), round_size=3
    )
    runs.fill(run, "CloseFridge", "capex", "111000")
    runs.fill(run, "CloseFridge", "capex-fresh", "000000")
    (found,) = experience.experiences(runs.sources_of(run.path))
    assert (found.left_out, found.after_success.n, found.before_success.n) == (3, 3, 0)


def plan(number, rows):
    return Turn(
        number, 0, 1, tuple(runs.waypoint((0.4, 0.0, 0.3), q, p, y) for q, p, y in rows), len(rows)
    )


def test_tau_sweep_is_the_commit_rule_on_every_recorded_plan(synthetic):
    source = next(s for s in runs.sources_of(synthetic) if s.arm == "capex")
    for found in calibration.tau_sweep(source, [0.0, 0.3, 0.5, 0.7, 0.95]):
        cut = deferred = right = wrong = unknown = total = 0
        for episode in source.episodes:
            w = episode.waypoints
            for k in range(episode.plans):
                p, y = w.calibrated[w.plan == k], w.label[w.plan == k]
                n = committed([None if math.isnan(v) else v for v in p], found.tau)
                total += 1
                if n < len(p):
                    cut += 1
                    deferred += len(p) - n
                    right, wrong, unknown = (
                        right + (y[n] == 0),
                        wrong + (y[n] == 1),
                        unknown + (y[n] == -1),
                    )
        assert (
            found.plans,
            found.cut,
            found.deferred,
            found.right,
            found.wrong,
            found.unknown,
        ) == (total, cut, deferred, right, wrong, unknown)
    assert found.cut > 0
    assert found.right > 0


def test_calibration_is_judged_on_executed_waypoints_as_predicted_before(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(2))
    chain = run.chain("kitchen", "CloseFridge", "capex")
    first = [plan(1, [(0.9, 0.9, 1), (0.9, 0.9, 0), (0.8, 0.8, None)])]
    second = [
        plan(1, [(0.9, 0.6, 1), (0.7, 0.4, None)]),
        plan(2, [(0.95, 0.2, 0), (None, None, None)]),
    ]
    runs.commit(chain, runs.record(start=0, turns=first))
    runs.commit(chain, runs.record(start=1, turns=second, weights=[0.0] * 8, labels=2))
    (source,) = runs.sources_of(run.path)
    found = calibration.calibration(source)
    assert found.n == 4
    assert found.reached == 0.5
    assert found.high == 1.0
    assert found.below_tau == 0.0
    stated, calibrated = found.predictors
    assert stated.mean == pytest.approx((0.9 + 0.9 + 0.9 + 0.95) / 4)
    assert calibrated.mean == pytest.approx((0.9 + 0.9 + 0.6 + 0.2) / 4)
    assert stated.ece == pytest.approx(
        abs((0.9 + 0.9 + 0.9 + 0.95) / 4 - 0.5)
    )  # all in the highest bin
    assert stated.auroc is calibrated.auroc is None  # two of either label say nothing
    assert [b.count for b in calibrated.bins] == [0, 0, 1, 0, 0, 0, 1, 0, 0, 2]


def test_an_auroc_needs_ten_of_either_label(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(2))
    chain = run.chain("kitchen", "CloseFridge", "capex")
    first = [plan(k, [(0.9, 0.9, 1), (0.9, 0.9, 0)]) for k in range(1, 6)]
    second = [plan(k, [(0.9, 0.6, 1), (0.95, 0.2, 0)]) for k in range(1, 6)]
    runs.commit(chain, runs.record(start=0, turns=first))
    runs.commit(chain, runs.record(start=1, turns=second, weights=[0.0] * 8, labels=2))
    (source,) = runs.sources_of(run.path)
    assert calibration.calibration(source).predictors[1].auroc == pytest.approx(
        (0.5 + 1 + 0 + 1) / 4
    )
    runs.commit(
        run.chain("kitchen", "CloseFridge", "base"), runs.record(arm="base", start=0, turns=first)
    )
    section = calibration_section(runs.section_input(run.path))[0]
    assert any(
        "5 waypoints reached and 5 not; an AUROC needs 10 of either" in note
        for note in section.notes
    )


def test_truncation_and_weights_follow_the_labels_seen(synthetic):
    source = next(s for s in runs.sources_of(synthetic) if s.arm == "capex")
    rows = calibration.truncation(source)
    assert sum(r.plans.n for r in rows) == sum(e.plans for e in source.episodes)
    assert sum(r.plans.successes for r in rows) == sum(e.truncated for e in source.episodes) > 0
    assert rows[0].name == "1 to 10"
    paths = calibration.weight_paths(source)
    assert [p.task for p in paths] == runs.TASKS
    assert paths[0].weights.shape == (7, 8)
    assert paths[0].numbers == tuple(range(2, 9))


def test_a_prediction_equals_what_the_calibrator_said(synthetic):
    """The page's calibrated confidences are the recorded ones, made with the weights that stand beside them."""
    source = next(s for s in runs.sources_of(synthetic) if s.arm == "capex")
    record = json.loads((source.episodes[3].path / "record.json").read_text())
    rows = [w for t in record["turns"] for w in t["waypoints"]]
    again = Calibrator(tuple(record["weights"])).predict(
        [w["features"] for w in rows], [w["waypoint"]["confidence"] for w in rows]
    )
    assert list(source.episodes[3].waypoints.calibrated) == pytest.approx(again)


def exchange(status, usage, billed="yes"):
    line = Exchange(
        hash="",
        number=1,
        status=status,
        http_status=None,
        billed=billed,
        usage=None if usage is None else Usage(**usage),
        kind="",
        error="",
        answer=None,
        headers={},
        body=None,
    )
    return json.dumps(codec.to_json(line))


def test_cost_per_decision_assigns_retries_to_the_decision_that_they_served(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(1))
    turns = [plan(1, [(0.9, 0.9, 1)]), plan(2, [(0.9, 0.9, 1)])]
    turns[0] = Turn(1, 0, 2, turns[0].waypoints, 1)
    made = runs.commit(
        run.chain("kitchen", "CloseFridge", "capex"), runs.record(turns=turns, requests=3)
    )
    million = {
        "fresh": 1_000_000,
        "cached": 0,
        "cache_write": 0,
        "output": 0,
        "reasoning": 0,
    }  # 10 dollars each
    lines = [
        exchange("ok", million),
        exchange("http 500", None, "no"),
        exchange("ok", million),
        exchange("ok", {**million, "output": 100_000}),
    ]
    (made / "exchanges.jsonl").write_text("\n".join(lines) + "\n")
    data = load([run.path])
    (source,) = group(data)[0]
    curve = costs.decision_curve(source, data.runs)
    assert (curve.unit, curve.read, curve.of) == ("$", 1, 1)
    assert [(p.number, p.median) for p in curve.points] == [(1, 20.0), (2, 15.0)]
    (made / "exchanges.jsonl").write_text(
        "\n".join(lines[:3]) + "\n"
    )  # a log that lacks a reply is not believed
    assert costs.decision_curve(source, data.runs) is None


def test_the_campaigns_books_stand_beside_its_records(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(1))
    runs.fill(run, "CloseFridge", "capex", "1", cost_usd=0.25)
    spend = Spend(run.path / "spend.jsonl")
    spend.settle(spend.reserve(Decimal("1")), Decimal("0.25"))
    spend.settle(spend.reserve(Decimal("1")), Decimal("0.1"))  # an attempt that was cut off
    spend.reserve(Decimal("0.5"))
    data = load([run.path])
    (found,) = costs.books(data.runs, group(data)[0])
    assert (found.account.settled_usd, found.account.held_usd, found.recorded) == (
        Decimal("0.35"),
        Decimal("0.5"),
        Decimal("0.25"),
    )
    assert found.open == 1


def test_equal_runs_are_pooled_and_said_so_unequal_ones_are_not(tmp_path):
    one = runs.new_run(tmp_path / "one", ["capex"], ["CloseFridge"], range(2))
    two = runs.new_run(tmp_path / "two", ["capex"], ["CloseFridge"], [5, 6])
    other = runs.new_run(
        tmp_path / "other", ["capex"], ["CloseFridge"], range(2), sampling={"effort": "high"}
    )
    runs.fill(one, "CloseFridge", "capex", "01")
    runs.fill(two, "CloseFridge", "capex", "-----10")
    runs.fill(other, "CloseFridge", "capex", "11")
    (pooled,), notes = group(load([one.path, two.path]))
    assert len(pooled.episodes) == 4
    assert pooled.label == "capex · made-up (stand-in)"
    assert notes == [
        "capex · made-up (stand-in) is pooled from the runs one, two: their settings are equal and no start is in two."
    ]
    (a, b), notes = group(load([one.path, other.path]))
    assert (a.label, b.label) == (
        "capex · made-up (stand-in) [one]",
        "capex · made-up (stand-in) [other]",
    )
    assert "not pooled: they differ in sampling.effort" in notes[0]
    assert len({a.colour, b.colour}) == 2
    again = tmp_path / "again"
    shutil.copytree(one.path, again)
    (a, b), notes = group(load([one.path, again]))
    assert "both hold some of the same starts" in notes[0]
    (again / "manifest.json").write_text("{")
    data = load([one.path, again])
    (a, b), notes = group(data)
    assert "the settings of one are not known" in notes[0]
    assert any("manifest.json is damaged" in p for p in data.problems)
    assert len(load([one.path, one.path]).runs) == 1


def test_arms_keep_their_colours_and_order(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "base"], ["CloseFridge"], [0])
    for arm in ("expert", "mine", "capex", "base"):
        runs.fill(run, "CloseFridge", arm, "1")
    found = runs.sources_of(run.path)
    assert [(s.arm, s.colour) for s in found] == [
        ("base", 0),
        ("capex", 1),
        ("mine", 2),
        ("expert", 4),
    ]
    assert main_source(found).arm == "capex"


def test_waypoint_columns_mark_what_is_missing(synthetic):
    base = next(s for s in runs.sources_of(synthetic) if s.arm == "base")
    w = base.episodes[0].waypoints
    assert np.isnan(w.stated).all()
    assert set(w.label) <= {0, 1}
    assert calibration.calibration(base) is None
    assert calibration.tau_sweep(base) == []


def test_runs_of_one_rig_with_other_tasks_do_not_differ_in_their_words() -> None:
    ours = {"tau": 0.5, "world_files.rig:a.toml.tasks.Stack.steps": 100}
    theirs = {"tau": 0.5, "world_files.rig:a.toml.tasks.Lift.steps": 200}
    assert differences(ours, theirs) == []
    assert differences(ours, {**ours, "world_files.rig:a.toml.tasks.Stack.steps": 200}) == [
        "world_files.rig:a.toml.tasks.Stack.steps"
    ]
