"""Tables on wide and on narrow terminals."""

from __future__ import annotations

import io

import pytest
from rich.table import Table
from rich.text import Text

from capex.cli.console import PlainConsole
from capex.cli.tables import FittedTable

CRITERION = "the head is up by at least 60 degrees and the hand is 25 cm away from the mixer"


def shown(width: int, *tables: Table) -> list[str]:
    console = PlainConsole(width=width, file=io.StringIO(), record=True)
    console.print(FittedTable(*tables))
    return [line.rstrip() for line in console.export_text().splitlines()]


def tasks(*names: str) -> Table:
    table = Table(title="tasks", caption="that was all")
    for name in names:
        table.add_column(name, no_wrap=name == "horizon", overflow="fold")
    row = {
        "task": "OpenStandMixerHead",
        "horizon": "450",
        "note": "",
        "state": Text("[ok]", style="green"),
        "success": CRITERION,
    }
    table.add_row(*(row[name] for name in names))
    return table


ALL = ("task", "horizon", "note", "state", "success")


@pytest.mark.parametrize("width", [200, 100, 90])
def test_a_table_that_fits_breaks_no_word(width):
    lines = shown(width, tasks(*ALL))
    assert all(len(line) <= width for line in lines)
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert [row[0] for row in cells if row[0]] == ["OpenStandMixerHead"]
    assert " ".join(row[4] for row in cells) == CRITERION


@pytest.mark.parametrize("width", [60, 40, 30])
def test_one_that_does_not_becomes_a_list(width):
    lines = shown(width, tasks(*ALL))
    assert all(len(line) <= width for line in lines)
    assert lines[:3] == ["tasks", "OpenStandMixerHead", "  horizon: 450; state: [ok]"]
    assert lines[-1] == "that was all"
    assert " ".join(line.strip() for line in lines[3:-1]) == f"success: {CRITERION}"


def test_a_smaller_table_is_tried_before_the_list():
    few = ("task", "horizon")
    assert shown(60, tasks(*ALL), tasks(*few)) == shown(60, tasks(*few))
    assert shown(200, tasks(*ALL), tasks(*few)) == shown(200, tasks(*ALL))
    assert shown(20, tasks(*ALL), tasks(*few))[1:3] == ["OpenStandMixerHead", "  horizon: 450"]
