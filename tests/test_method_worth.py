"""The study of skill by method: its cells run and continue, its statistics agree with what is known."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
STUDY = """
model = "pilot:{seed},blur={skill}"
skills = [10]
seeds = [0]
tasks = ["kitchen:TurnOnMicrowave"]
starts = "0:2"
price = "gpt-6-astra"
[arms]
capex = { decisions = 1 }
base = { decisions = 2 }
[parts]
"the whole method" = "base"
"""


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import method_worth_tables

    return method_worth_tables


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a program of benchmarks/ here and returns what it printed."""
    monkeypatch.syspath_prepend(BENCHMARKS)

    def call(program: str, *args: object) -> str:
        monkeypatch.setattr(sys, "argv", [program, *map(str, args)])
        importlib.import_module(program).main()
        return str(capsys.readouterr().out)

    return call


def test_the_studys_own_file_names_known_arms_and_pairs_every_part(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from method_worth import STUDY as FILE
    from method_worth import cells, read_study

    from capex.campaign.settings import resolve

    study = read_study(FILE)
    every = list(cells(study))
    assert len({c.name for c in every}) == len(every)
    assert set(study["parts"].values()) | {"capex"} == set(study["arms"])
    for cell in every:
        resolve(cell.task, {"model": cell.model, "starts": cell.starts, **cell.options}, dry=True)


def test_a_study_stops_in_time_continues_and_ends_in_tables_and_a_figure(run, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    out, study = tmp_path / "out", tmp_path / "study.toml"
    said = run("method_worth", out, study, "--parallel", 1, "--minutes", 0)
    assert "0 of 2 chains are whole" in said
    assert "1 of 1 chains are whole" in run(
        "method_worth", out, study, "--parallel", 1, "--cells", "1:2"
    )
    said = run("method_worth", out, study, "--parallel", 1)
    assert "2 of 2 chains are whole, 0 failed" in said
    cell = json.loads((out / "cells" / "10--0--TurnOnMicrowave--capex.json").read_text())
    assert [e["start"] for e in cell["episodes"]] == [0, 1]
    assert all(len(e["label"]) == len(e["stated"]) for e in cell["episodes"])
    said = run("method_worth_tables", out, study)
    assert "| base" in said
    assert "the whole method" in said
    run("method_worth_figure", out, tmp_path / "worth.png", study)
    assert (tmp_path / "worth.png").read_bytes()[:4] == b"\x89PNG"


def _arm(tables, chains: list[list[tuple[bool, int]]]):
    rows = {
        (0.5, 0, f"task {task}", start): {"success": success, "requests": requests}
        for task, chain in enumerate(chains)
        for start, (success, requests) in enumerate(chain)
    }
    return tables.Arm(rows)


def test_arms_are_paired_by_start_and_swapped_by_chain(tables):
    # Twelve chains of four starts: ours solves one more in each, with half the requests.
    ours = _arm(tables, [[(True, 5), (True, 5), (False, 10), (False, 10)]] * 12)
    other = _arm(tables, [[(True, 10), (False, 20), (False, 20), (False, 20)]] * 12)
    pair = tables.Pair(ours, other)
    gain, ends, only, lost = pair.success()
    assert (gain, only, lost) == (0.25, 12, 0)
    assert ends[0] < 0.25 < ends[1]
    assert pair.swapped() == pytest.approx(2 / 2**12)  # only all chains as they are, or all swapped
    assert pair.ratio("requests")[0] == pytest.approx((30 / 2) / 70)
    assert pair.swapped("requests") == pytest.approx(2 / 2**12)
    with_, without, test = pair.where_both_solved("requests")
    assert (with_, without, test.smaller, test.larger) == (5, 10, 12, 0)
    assert tables.Pair(ours, ours).swapped() == 1.0


def test_an_arm_without_a_success_has_no_ratio(tables):
    ours, other = _arm(tables, [[(True, 5)]] * 3), _arm(tables, [[(False, 9)]] * 3)
    assert tables.Pair(ours, other).ratio("requests") is None
    assert np.isfinite(tables.Pair(ours, other).swapped("requests"))
