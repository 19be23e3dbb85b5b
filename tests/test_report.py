"""The report's numbers against counts by hand and brute force, its files, and what it says where data is missing."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

import runs
from capex import report
from capex.calibrator import Calibrator
from capex.commit import committed
from capex.errors import CapexError
from capex.ledger import Spend
from capex.memory.record import Turn
from capex.models import Usage
from capex.report import calibration, compare, costs, experience
from capex.report.cards import choose_twins, sample
from capex.report.data import load
from capex.report.sections.summary import summary
from capex.report.sources import group, main_source
from capex.report.tables import Row, Table, latex, p_value, percent, rate, significant

TASKS = ["CloseFridge", "PickPlaceCounterToStove"]
ARMS = ["capex", "base", "capex-fresh"]
pytestmark = pytest.mark.filterwarnings("error::UserWarning")  # what matplotlib says of a layout that does not fit


def sources_of(*paths):
    return group(load(paths))[0]


def fill(run, task, arm, solved, **fields):
    """One episode per verdict, starts from 0."""
    chain = run.chain("kitchen", task, arm)
    for start, success in enumerate(solved):
        if success != "-":
            runs.commit(chain, runs.record(task, arm, start, success={"1": True, "0": False, "?": None}[success], **fields))
    return chain


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """A campaign of two tasks, three arms and eight starts, made up."""
    path = tmp_path_factory.mktemp("synthetic") / "run"
    runs.campaign(path, TASKS, ARMS, 8)
    return path


@pytest.fixture(scope="module")
def written(synthetic, tmp_path_factory):
    """Its report."""
    out = tmp_path_factory.mktemp("report")
    report.write([synthetic], out)
    return out


def test_denominators_are_scorable_starts_and_pairs_are_valid_in_both(tmp_path):
    run = runs.new_run(tmp_path / "r", ["base", "capex"], ["CloseFridge"], range(8))
    fill(run, "CloseFridge", "base", "0010-?01")
    fill(run, "CloseFridge", "capex", "01111?-0")
    base, capex = sources_of(run.path)
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
    chain = fill(run, "CloseFridge", "capex", "100", cost_usd=2.0, requests=5)
    note = {
        "task": "CloseFridge",
        "start": {"index": 3, "seed": 0},
        "model": "made-up",
        "error": "the server failed",
        "ledger": {"requests": 4, "attempts": 9, "cost_usd": 1.5, "tokens": None},
    }
    chain.begin(3).commit_invalid(note, {"episode_s": 30.0}, {})
    (source,) = sources_of(run.path)
    found = compare.totals(source)
    assert found.tally == compare.Tally(1, 3)
    assert (found.usd.value, found.requests.value, found.minutes.value) == (7.5, 19.0, 2.0)
    assert found.usd.per_attempt == 7.5 / 4
    assert found.invalid == 1
    bill = costs.bill(source)
    assert (bill.requests, bill.wire_attempts, bill.invalid, bill.errors) == (19, 3 * 6 + 9, 1, {"the server failed": 1})
    assert bill.tokens == Usage(3000, 1500, 300, 900, 240)
    assert bill.cache_hits == pytest.approx(1500 / 4800)
    assert bill.without_tokens == 1


def test_no_success_is_infinite_and_an_unknown_price_is_no_number(tmp_path):
    run = runs.new_run(tmp_path / "r", ["base", "capex"], ["CloseFridge"], range(2))
    fill(run, "CloseFridge", "base", "00")
    fill(run, "CloseFridge", "capex", "11", cost_usd=None)
    base, capex = (compare.totals(s) for s in sources_of(run.path))
    assert math.isinf(base.usd.value)
    assert rate(base.usd) == "∞"
    assert capex.usd == compare.Rate(None, None, None)
    assert rate(capex.usd) == "—"


def test_sources_without_a_common_start_get_fisher_and_cochran_mantel_haenszel(tmp_path):
    one = runs.new_run(tmp_path / "one", ["base"], TASKS, range(20))
    two = runs.new_run(tmp_path / "two", ["capex"], TASKS, range(20), seed=1)
    for task in TASKS:
        fill(one, task, "base", "1" * 4 + "0" * 16)
        fill(two, task, "capex", "1" * 15 + "0" * 5, seed=1)
    (found,) = compare.comparisons(sources_of(one.path, two.path))
    assert found.pairs.n == 0
    assert len(found.unpaired) == 2
    a, b, p = found.unpaired["kitchen", "CloseFridge"]
    assert (a, b) == (compare.Tally(4, 20), compare.Tally(15, 20))
    assert p == pytest.approx(0.0012, abs=1e-4)
    assert found.across.p < 1e-4


def test_runs_that_are_compared_though_their_settings_differ_say_so(tmp_path):
    one = runs.new_run(tmp_path / "one", ["base"], ["CloseFridge"], range(2), sampling={"effort": "low"})
    two = runs.new_run(tmp_path / "two", ["capex"], ["CloseFridge"], range(2), sampling={"effort": "high"})
    fill(one, "CloseFridge", "base", "01")
    fill(two, "CloseFridge", "capex", "11")
    sources = sources_of(one.path, two.path)
    notes = summary([compare.totals(s) for s in sources], compare.comparisons(sources)).notes
    assert notes == ["capex · made-up (stand-in) and base · made-up (stand-in) also differ in sampling.effort."]


def test_memory_is_judged_without_first_episodes_and_split_by_a_success_in_memory(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "capex-fresh"], TASKS, range(6))
    fill(run, TASKS[0], "capex", "001101")  # a success in memory from start 3 on
    fill(run, TASKS[0], "capex-fresh", "010001")
    fill(run, TASKS[1], "capex", "111111")  # from start 1 on
    fill(run, TASKS[1], "capex-fresh", "101010")
    (found,) = experience.experiences(sources_of(run.path))
    assert found.left_out == 2
    assert found.identical == 2
    assert found.before_success == compare.Pairs(both=0, only_first=1, only_second=1, neither=0)  # starts 1 and 2 of the first task
    assert found.after_success == compare.Pairs(both=3, only_first=0, only_second=4, neither=1)
    assert found.everything.n == 10
    assert found.also_differ == ()
    assert [m.name for m in found.measures] == ["control steps", "model requests", "wall time, s"]
    assert found.measures[0].test.equal == 3


def test_medians_and_sign_tests_are_of_starts_solved_by_both(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "capex-fresh"], ["CloseFridge"], range(6))
    for arm, steps in (("capex", [9, 10, 20, 30, 40, 50]), ("capex-fresh", [9, 15, 25, 35, 30, 50])):
        chain = run.chain("kitchen", "CloseFridge", arm)
        for start, n in enumerate(steps):
            runs.commit(
                chain, runs.record("CloseFridge", arm, start, success=not (arm == "capex" and start == 5), steps=n, requests=n // 5)
            )
    (found,) = experience.experiences(sources_of(run.path))
    steps = found.measures[0]
    assert (steps.with_memory, steps.cleared) == (25, 27.5)  # starts 1 to 4: 10 20 30 40 against 15 25 35 30
    assert (steps.test.smaller, steps.test.larger, steps.test.equal) == (3, 1, 0)


def test_with_rounds_a_success_of_the_same_round_is_not_in_memory(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "capex-fresh"], ["CloseFridge"], range(6), round_size=3)
    fill(run, "CloseFridge", "capex", "111000")
    fill(run, "CloseFridge", "capex-fresh", "000000")
    (found,) = experience.experiences(sources_of(run.path))
    assert (found.left_out, found.after_success.n, found.before_success.n) == (3, 3, 0)


def plan(number, rows):
    return Turn(number, 0, 1, tuple(runs.waypoint((0.4, 0.0, 0.3), q, p, y) for q, p, y in rows), len(rows))


def test_tau_sweep_is_the_commit_rule_on_every_recorded_plan(synthetic):
    source = next(s for s in sources_of(synthetic) if s.arm == "capex")
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
                    right, wrong, unknown = right + (y[n] == 0), wrong + (y[n] == 1), unknown + (y[n] == -1)
        assert (found.plans, found.cut, found.deferred, found.right, found.wrong, found.unknown) == (
            total,
            cut,
            deferred,
            right,
            wrong,
            unknown,
        )
    assert found.cut > 0
    assert found.right > 0


def test_calibration_is_judged_on_executed_waypoints_as_predicted_before(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(2))
    chain = run.chain("kitchen", "CloseFridge", "capex")
    first = [plan(1, [(0.9, 0.9, 1), (0.9, 0.9, 0), (0.8, 0.8, None)])]
    second = [plan(1, [(0.9, 0.6, 1), (0.7, 0.4, None)]), plan(2, [(0.95, 0.2, 0), (None, None, None)])]
    runs.commit(chain, runs.record(start=0, turns=first))
    runs.commit(chain, runs.record(start=1, turns=second, weights=[0.0] * 8, labels=2))
    (source,) = sources_of(run.path)
    found = calibration.calibration(source)
    assert found.n == 4
    assert found.reached == 0.5
    assert found.high == 1.0
    assert found.below_tau == 0.0
    stated, calibrated = found.predictors
    assert stated.mean == pytest.approx((0.9 + 0.9 + 0.9 + 0.95) / 4)
    assert calibrated.mean == pytest.approx((0.9 + 0.9 + 0.6 + 0.2) / 4)
    assert stated.ece == pytest.approx(abs((0.9 + 0.9 + 0.9 + 0.95) / 4 - 0.5))  # all in the highest bin
    assert calibrated.auroc == pytest.approx((0.5 + 1 + 0 + 1) / 4)
    assert [b.count for b in calibrated.bins] == [0, 0, 1, 0, 0, 0, 1, 0, 0, 2]


def test_truncation_and_weights_follow_the_labels_seen(synthetic):
    source = next(s for s in sources_of(synthetic) if s.arm == "capex")
    rows = calibration.truncation(source)
    assert sum(r.plans.n for r in rows) == sum(e.plans for e in source.episodes)
    assert sum(r.plans.successes for r in rows) == sum(e.truncated for e in source.episodes) > 0
    assert rows[0].name == "1 to 10"
    paths = calibration.weight_paths(source)
    assert [p.task for p in paths] == TASKS
    assert paths[0].weights.shape == (7, 8)
    assert paths[0].numbers == tuple(range(2, 9))


def test_a_prediction_equals_what_the_calibrator_said(synthetic):
    """The page's calibrated confidences are the recorded ones, made with the weights that stand beside them."""
    source = next(s for s in sources_of(synthetic) if s.arm == "capex")
    record = json.loads((source.episodes[3].path / "record.json").read_text())
    rows = [w for t in record["turns"] for w in t["waypoints"]]
    again = Calibrator(tuple(record["weights"])).predict([w["features"] for w in rows], [w["stated"] for w in rows])
    assert list(source.episodes[3].waypoints.calibrated) == pytest.approx(again)


def exchange(status, usage, billed="yes"):
    return json.dumps({"status": status, "billed": billed, "usage": usage})


def test_cost_per_decision_assigns_retries_to_the_decision_that_they_served(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(1))
    turns = [plan(1, [(0.9, 0.9, 1)]), plan(2, [(0.9, 0.9, 1)])]
    turns[0] = Turn(1, 0, 2, turns[0].waypoints, 1)
    made = runs.commit(run.chain("kitchen", "CloseFridge", "capex"), runs.record(turns=turns, requests=3))
    million = {"fresh": 1_000_000, "cached": 0, "cache_write": 0, "output": 0, "reasoning": 0}  # 10 dollars each
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
    (made / "exchanges.jsonl").write_text("\n".join(lines[:3]) + "\n")  # a log that lacks a reply is not believed
    assert costs.decision_curve(source, data.runs) is None


def test_the_campaigns_books_stand_beside_its_records(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(1))
    fill(run, "CloseFridge", "capex", "1", cost_usd=0.25)
    spend = Spend(run.path / "spend.jsonl")
    spend.settle(spend.reserve(Decimal("1")), Decimal("0.25"))
    spend.settle(spend.reserve(Decimal("1")), Decimal("0.1"))  # an attempt that was cut off
    spend.reserve(Decimal("0.5"))
    data = load([run.path])
    problems = []
    (found,) = costs.books(data.runs, group(data)[0], problems)
    assert (found.account.settled_usd, found.account.held_usd, found.recorded) == (Decimal("0.35"), Decimal("0.5"), Decimal("0.25"))
    assert problems == []


def test_equal_runs_are_pooled_and_said_so_unequal_ones_are_not(tmp_path):
    one = runs.new_run(tmp_path / "one", ["capex"], ["CloseFridge"], range(2))
    two = runs.new_run(tmp_path / "two", ["capex"], ["CloseFridge"], [5, 6])
    other = runs.new_run(tmp_path / "other", ["capex"], ["CloseFridge"], range(2), sampling={"effort": "high"})
    fill(one, "CloseFridge", "capex", "01")
    fill(two, "CloseFridge", "capex", "-----10")
    fill(other, "CloseFridge", "capex", "11")
    (pooled,), notes = group(load([one.path, two.path]))
    assert len(pooled.episodes) == 4
    assert pooled.label == "capex · made-up (stand-in)"
    assert notes == ["capex · made-up (stand-in) is pooled from the runs one, two: their settings are equal and no start is in two."]
    (a, b), notes = group(load([one.path, other.path]))
    assert (a.label, b.label) == ("capex · made-up (stand-in) [one]", "capex · made-up (stand-in) [other]")
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
        fill(run, "CloseFridge", arm, "1")
    found = sources_of(run.path)
    assert [(s.arm, s.colour) for s in found] == [("base", 0), ("capex", 1), ("mine", 2), ("expert", 4)]
    assert main_source(found).arm == "capex"


def test_a_sample_spreads_over_sources_tasks_and_outcomes(synthetic):
    found = sources_of(synthetic)
    strata = {(s.number, e.task, e.success) for s in found for e in s.episodes}
    chosen = sample(found, len(strata))
    assert {(s.number, e.task, e.success) for s, e in chosen} == strata
    assert len(sample(found, 1000)) == 48
    assert len({e.path for _, e in sample(found, 30)}) == 30
    assert sample(found, 0) == []
    assert sample(found, 30) == sample(found, 30)


def test_twins_share_a_start_at_the_median_length(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex", "base"], ["CloseFridge"], range(5))
    for start, steps in enumerate([100, 200, 300, 400, 900]):
        runs.commit(run.chain("kitchen", "CloseFridge", "capex"), runs.record(start=start, steps=steps))
        runs.commit(run.chain("kitchen", "CloseFridge", "base"), runs.record(arm="base", start=start, success=start in (1, 4)))
    (found,) = choose_twins(sources_of(run.path))
    assert found.median_steps == 300
    assert found.both == 2
    assert (found.first[1].start, found.second[1].start) == (1, 1)  # of the starts that both solved, 200 is nearest to 300
    assert (found.first[0].arm, found.second[0].arm) == ("capex", "base")


def test_numbers_are_shown_as_people_write_them():
    assert [p_value(p) for p in (0.00001, 0.0016, 0.0274, 0.5, None, math.nan)] == ["< 0.0001", "0.0016", "0.027", "0.50", "—", "—"]
    assert [significant(v) for v in (1234.5, 12.34, 1.234, math.inf, None)] == ["1,234", "12.3", "1.23", "∞", "—"]
    assert percent(0.125) == "12.5 %"


def test_tables_escape_what_latex_and_csv_would_read():
    nasty = r'a_b & 50% of $5 {x} \input{y} ~ ^ # <b>"q", z'
    table = Table("t", nasty, ("x", "y"), "lr", (Row((nasty, "∞")), Row(("g",), "group")), ({"x": nasty, "y": math.inf, "z": None},), ())
    text = table.latex()
    assert (
        r"a\_b \& 50\% of \$5 \{x\} \textbackslash{}input\{y\} \textasciitilde{} \textasciicircum{} \# \textless{}b\textgreater{}" in text
    )
    assert r"$\infty$" in text
    assert latex("τ \N{MINUS SIGN} 1 ≥ …") == r"$\tau$ $-$ 1 $\ge$ \dots{}"
    (row,) = csv.DictReader(table.csv().splitlines())
    assert row == {"x": nasty, "y": "inf", "z": ""}


def test_every_table_and_figure_is_written_and_names_the_stand_in(written):
    index = json.loads((written / "report.json").read_text())
    names = {p.relative_to(written).as_posix() for p in written.rglob("*") if p.is_file()} - {"report.json"}
    assert names == set(index["files"])
    tables = {n.split("/")[1].split(".")[0] for n in names if n.startswith("tables/")}
    assert tables >= {
        "headline",
        "differences",
        "tasks",
        "pairs",
        "starts",
        "experience",
        "medians",
        "calibration",
        "reliability",
        "truncated",
        "tau",
        "cost",
        "episodes",
    }
    figures = {n.split("/")[1] for n in names if n.startswith("figures/")}
    assert figures >= {
        f"{n}.{kind}"
        for n in ("success", "starts", "experience-1", "reliability", "truncated", "weights-1", "tau", "tokens")
        for kind in ("svg", "png")
    }
    for name in names:
        if name.endswith((".csv", ".tex", ".svg")):
            text = (written / name).read_text().lower()
            assert "stand-in" in text, name
        if name.endswith(".tex"):
            assert text.count(r"\begin{tabular}") == 1
        if name.endswith(".png"):
            assert (written / name).read_bytes().startswith(b"\x89PNG")
    page = (written / "report.html").read_text()
    assert page.count("<figure") == page.count("</figure>")
    for block in page.split("<table id=")[1:]:
        assert "stand-in" in block.split('class="files"')[0].lower()
    for block in page.split('<figure id="figure-')[1:]:
        assert "stand-in" in block.split("</figure>")[0].lower()


def test_csv_holds_the_numbers_that_the_page_shows(written, synthetic):
    rows = {r["source"]: r for r in csv.DictReader((written / "tables/headline.csv").read_text().splitlines())}
    for source in sources_of(synthetic):
        row = rows[source.label]
        solved = [bool(e.success) for e in source.episodes]
        assert (int(row["successes"]), int(row["n"])) == (sum(solved), 16)
        assert float(row["usd_per_success"]) == pytest.approx(sum(e.cost_usd for e in source.episodes) / sum(solved))
        assert f"{sum(solved)}/16" in (written / "report.html").read_text()
    assert len((written / "tables/episodes.csv").read_text().splitlines()) == 1 + 48
    starts = list(csv.DictReader((written / "tables/starts.csv").read_text().splitlines()))
    assert len(starts) == 16


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two starts of the base arm."""
    path = tmp_path_factory.mktemp("small") / "run"
    runs.campaign(path, ["CloseFridge"], ["base"], 2)
    return path


def test_a_report_in_the_same_folder_replaces_the_earlier_one_and_nothing_else(written, small, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(written, out)
    (out / "figures" / "mine.svg").write_text("mine")
    assert (out / "figures" / "reliability.svg").exists()
    page = report.write([small], out, strips=0)
    assert page == out / "report.html"
    assert not (out / "figures" / "reliability.svg").exists()
    assert (out / "figures" / "mine.svg").read_text() == "mine"
    assert not list(out.rglob(".writing-*"))


def test_bad_arguments_get_a_sentence(synthetic, tmp_path):
    with pytest.raises(CapexError, match="is not a run directory"):
        report.write([tmp_path], tmp_path / "out")
    with pytest.raises(CapexError, match="no run was named"):
        report.write([], tmp_path / "out")
    with pytest.raises(CapexError, match="at least 0"):
        report.write([synthetic], tmp_path / "out", strips=-1)
    with pytest.raises(CapexError, match="is a run directory"):
        report.write([synthetic], synthetic)
    (tmp_path / "file").write_text("")
    with pytest.raises(CapexError, match="is a file"):
        report.write([synthetic], tmp_path / "file")
    assert not (tmp_path / "out").exists()


def test_an_empty_run_gets_a_page_and_a_sentence(tmp_path):
    runs.new_run(tmp_path / "empty", ["capex"], ["CloseFridge"], range(3))
    page = report.write([tmp_path / "empty"], tmp_path / "out").read_text()
    assert "Run empty holds no chain yet: there is nothing to report from it." in page
    assert "There is nothing to report yet" in page
    assert "capex at CloseFridge: 3 of 3 starts" in page


def test_a_half_finished_run_with_a_damaged_record_and_no_success_says_all_of_it(tmp_path):
    run = runs.new_run(tmp_path / "half", ["capex", "base"], ["CloseFridge"], range(6))
    chain = fill(run, "CloseFridge", "capex", "00000")
    fill(run, "CloseFridge", "base", "00")
    (chain.episode(1) / "record.json").write_text('{"task": "Close')
    torn = json.loads((chain.episode(2) / "record.json").read_text())
    (chain.episode(2) / "record.json").write_text(json.dumps({**torn, "steps": "many"}))
    (chain.episode(3) / "timing.json").unlink()
    writer = chain.begin(5)
    page = report.write([run.path], tmp_path / "out", strips=2)
    writer.discard()
    text = page.read_text()
    assert "Run half is not finished. Missing: capex at CloseFridge: 4 of 6 starts; base at CloseFridge: 4 of 6 starts." in text
    assert "episodes/0001 was left out: record.json is damaged" in text
    assert "episodes/0002 was left out: it garbles a field (steps is &#39;many&#39;; a whole number of at least 0 is right)" in text
    assert "episodes/0003 was left out: it cannot be read" in text
    assert "kitchen--CloseFridge--capex has 1 unfinished attempt, running now or cut off" in text
    assert "capex · made-up (stand-in) has no success in 2 starts: what a success costs is infinite so far." in text
    assert "0/2" in text
    assert "These runs do not have both." in text  # experience
    assert "no image of it was kept" in text  # strips


def test_a_run_of_invalid_attempts_alone_says_what_went_wrong(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], [0])
    ledger = {"requests": 0, "attempts": 3, "cost_usd": 0.0, "tokens": None}
    note = {"start": {"index": 0, "seed": 0}, "error": "the server is down", "ledger": ledger}
    for _ in range(2):
        run.chain("kitchen", "CloseFridge", "capex").begin(0).commit_invalid(note, {"episode_s": 1.0}, {})
    text = report.write([run.path], tmp_path / "out").read_text()
    assert "holds no readable episode" in text
    assert "2 invalidated by: the server is down" in text
    assert "is not finished" not in text


def test_one_source_alone_has_nothing_to_pair(tmp_path):
    run = runs.new_run(tmp_path / "r", [], ["CloseFridge"], [])
    fill(run, "CloseFridge", "expert", "11", model="expert", requests=0, cost_usd=None)
    text = report.write([run.path], tmp_path / "out", strips=0).read_text()
    assert "There is one source only, so there is nothing to pair." in text
    assert "it asked no model, so there is no cost per success" in text
    assert "No executed waypoint carries a stated confidence" in text


def test_the_command_prints_the_page_and_refuses_with_a_sentence(small, tmp_path):
    command = [sys.executable, "-m", "capex.cli", "report"]
    done = subprocess.run(
        [*command, str(small), "--out", str(tmp_path / "out"), "--strips", "0"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == str(tmp_path / "out" / "report.html")
    assert "base · made-up (stand-in) solved" in done.stdout
    refused = subprocess.run([*command, str(tmp_path), "--out", str(tmp_path / "other")], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "is not a run directory" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_waypoint_columns_mark_what_is_missing(synthetic):
    base = next(s for s in sources_of(synthetic) if s.arm == "base")
    w = base.episodes[0].waypoints
    assert np.isnan(w.stated).all()
    assert set(w.label) <= {0, 1}
    assert calibration.calibration(base) is None
    assert calibration.tau_sweep(base) == []
