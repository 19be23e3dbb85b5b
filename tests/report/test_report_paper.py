"""What the paper prints and the first screen says, against counts by hand."""

from __future__ import annotations

import csv
import json

import pytest
from matplotlib.figure import Figure as Canvas

import runs
from capex import worlds
from capex.method.commit import committed
from capex.method.record import Turn
from capex.report import calibration, compare, experience
from capex.report.data import load
from capex.report.examples import example_plan
from capex.report.plots.poster import poster_figure
from capex.report.poster import choose_films, sentence, title
from capex.report.sections import results
from capex.report.sections.plans import plan_table
from capex.report.sections.section import SectionInput
from capex.report.sections.summary import summary
from capex.report.sections.tasks import by_task_section
from capex.report.sources import group


def test_the_first_tenth_of_plans_stands_beside_the_last(synthetic):
    source = next(s for s in runs.sources_of(synthetic) if s.arm == "capex")
    found = calibration.growth(source)
    by_hand = {"first": [], "last": []}
    for chain in experience.chains(source):
        cut = []
        for episode in chain:
            record = json.loads((episode.path / "record.json").read_text())
            cut += [t["committed"] < len(t["waypoints"]) for t in record["turns"]]
        tenth = len(cut) // 10
        by_hand["first"] += cut[:tenth]
        by_hand["last"] += cut[-tenth:]
    assert found.chains == 2
    assert found.first_tenth == compare.Tally(sum(by_hand["first"]), len(by_hand["first"]))
    assert found.last_tenth == compare.Tally(sum(by_hand["last"]), len(by_hand["last"]))
    assert found.without_labels.n + found.with_labels.n == sum(e.plans for e in source.episodes)
    assert found.last_tenth.successes > found.first_tenth.successes


def test_the_example_is_a_plan_that_calibration_cut(synthetic):
    source = next(s for s in runs.sources_of(synthetic) if s.arm == "capex")
    found = example_plan(source)
    calibrated = [w.calibrated for w in found.turn.waypoints]
    stated = [w.waypoint.confidence for w in found.turn.waypoints]
    assert found.lowered
    assert committed(stated, 0.5) == len(stated)
    assert committed(calibrated, 0.5) == found.turn.committed < len(stated)
    table = plan_table(found)
    assert table.cells(table.rows[1])[1:] == [f"{p:.2f}" for p in calibrated]
    assert table.cells(table.rows[2])[found.turn.committed + 1] == "deferred"
    assert f"waypoint {found.turn.committed + 1} is the first below τ = 0.5" in table.caption
    base = next(s for s in runs.sources_of(synthetic) if s.arm == "base")
    assert example_plan(base) is None


def test_tasks_are_counted_as_better_worse_and_significant(tmp_path):
    run = runs.new_run(tmp_path / "r", ["base", "capex"], [*runs.TASKS, "OpenDrawer"], range(8))
    for task, base, capex in (
        (runs.TASKS[0], "00000000", "11111110"),  # 7 against 0: p = 0.016
        (runs.TASKS[1], "00000001", "00000011"),  # 1 against 0: p = 1
        ("OpenDrawer", "00000001", "00000000"),
    ):
        runs.fill(run, task, "base", base)
        runs.fill(run, task, "capex", capex)
    given = runs.section_input(run.path)
    sources, lines, compared = given.sources, given.totals, given.compared
    assert compared[0].by_task == compare.TaskCounts(3, 2, 1, 1, 0)
    section = summary(given)[0]
    assert any(
        "in 2 of 3 tasks, significantly in 1 of them (p < 0.05, exact McNemar); it is worse in 1,"
        " significantly in 0." in text
        for text in section.text
    )
    (row,) = csv.DictReader(section.tables[2].csv().splitlines())
    assert (row["tasks_better"], row["tasks_better_significantly"]) == ("2", "1")
    assert float(row["success_ratio"]) == pytest.approx(9 / 2)
    assert sentence(lines, compared) == (
        "capex solved 9 of 24 starts, base 2 of the same 24, at $1.33 instead of $6.00 per success."
    )
    assert title(sources) == (
        "capex against base with made-up (stand-in) on CloseFridge, OpenDrawer and"
        " PickPlaceCounterToStove"
    )
    (main, solved), (other, failed) = choose_films(sources, compared)
    assert (main.arm, solved.success, other.arm, failed.success) == ("capex", True, "base", False)
    assert solved.key == failed.key


def test_the_page_has_horizon_criterion_and_amounts_by_task(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], runs.TASKS, range(2))
    runs.fill(run, runs.TASKS[0], "capex", "11", cost_usd=0.5, requests=3)
    runs.fill(run, runs.TASKS[1], "capex", "10", cost_usd=0.5, requests=3)
    data = load([run.path])
    section = by_task_section(SectionInput(data, group(data)[0]))[0]
    tasks, amounts = section.tables
    fridge = next(tasks.cells(r) for r in tasks.rows if r.values[0] == "CloseFridge")
    told = worlds.tasks("kitchen")["CloseFridge"]
    assert fridge == ["CloseFridge", str(told.horizon), told.criterion, "2/2", "0.50"]
    assert tasks.cells(tasks.rows[-1]) == ["Average over tasks", "", "", "75.0 %", ""]
    shown = [amounts.cells(r)[2:] for r in amounts.rows if r.kind != "group"]
    assert shown == [
        ["0.50", "3.00", "30.0 s"],
        ["1.00", "6.00", "1.00 min"],
        ["0.67", "4.00", "40.0 s"],
    ]


def test_every_interval_is_drawn_with_its_point(tmp_path):
    """Even at 0 of n, where the bar has no length."""
    run = runs.new_run(tmp_path / "r", ["base", "capex"], ["CloseFridge"], range(4))
    runs.fill(run, "CloseFridge", "base", "0000")
    runs.fill(run, "CloseFridge", "capex", "0001")
    lines, _ = results(runs.sources_of(run.path))
    figure = poster_figure(lines)
    for panel, points in zip(figure.panels, (2, 1), strict=True):  # no success: nothing to divide
        axes = Canvas().add_subplot()
        panel.draw(axes)
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        whiskers = [line for line in axes.lines if len(line.get_xdata()) == 2]
        assert len(dots) == points
        assert len(whiskers) == 2 * points  # each on its lighter ground


def test_a_waypoint_without_a_probability_cuts_no_plan(tmp_path):
    """A gripper command alone states a confidence that the commit rule does not use."""

    def turn(number, rows, committed):
        planned = tuple(runs.waypoint((0.4, 0.0, 0.3), q, p, None) for q, p in rows)
        return Turn(number, 0, 1, planned, committed)

    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(1))
    whole = turn(1, [(0.9, 0.9), (0.3, None), (0.9, 0.9)], 3)
    cut = turn(2, [(0.9, 0.9), (0.3, None), (0.9, 0.2), (0.9, 0.9)], 2)
    turns = [whole, cut, *(turn(k, [(0.9, 0.9), (0.9, 0.9)], 2) for k in range(3, 11))]
    runs.commit(
        run.chain("kitchen", "CloseFridge", "capex"), runs.record(turns=turns, weights=[0.0] * 8)
    )
    (source,) = runs.sources_of(run.path)
    (episode,) = source.episodes
    assert calibration.cut_places(episode) == {1: 3}
    assert calibration.cut_places_as_stated(episode, 0.5) == {}
    assert calibration.growth(source).first_tenth == compare.Tally(0, 1)
    found = example_plan(source)
    assert (found.turn.decision, found.lowered) == (2, True)
