"""The physical table: success by people's verdicts, claims that they rejected, reasons, who judged, and what changed."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from capex.report.data import load
from capex.report.sections.section import SectionInput
from capex.report.sections.verdicts import verdicts_section
from capex.report.sources import group
from capex.run import Manifest
from capex.run.store import create_run
from capex.run.verdicts import Verdict, append_verdict
from runs import commit, record


def episode(run, arm, start, *words, end="done", seen=None):
    """An attempt that people judged with these words, one after the other."""
    made = record("Lift", arm, start, success=None, world="lab.world", end=end, cost_usd=1.0)
    timing = {}
    if seen is not None:
        words_seen = {start: v and v["verdict"] for start, v in seen.items()}
        made = replace(made, verdicts_seen=words_seen)
        timing["verdicts_seen_at"] = {start: v["at"] for start, v in seen.items() if v}
    chain = run.chain("lab.world", "Lift", arm)
    folder = commit(chain, made, seconds=60.0, **timing)
    for number, word in enumerate(words):
        verdict, _, reason = word.partition(":")
        at = f"2026-11-16T00:{start:02d}:{number:02d}+00:00"
        append_verdict(folder, Verdict(verdict, "Ada", at, reason))  # type: ignore[arg-type]
    return chain


@pytest.fixture
def section(shm):
    run = create_run(shm / "run", Manifest(settings={"arms": {}}, operators={"Ada": True}))
    episode(run, "base", 0, "failure:dropped")
    episode(run, "base", 1, "failure:dropped", end="horizon")
    episode(run, "base", 2, "success")
    episode(run, "base", 3)
    episode(run, "capex", 0, "success")
    episode(run, "capex", 1, "success", "undo", "failure")
    chain = episode(run, "capex", 2, "invalid")
    chain.set_invalid(2)
    at = "2026-11-16T00:01:00+00:00"
    episode(run, "capex", 2, "success", seen={"1": {"verdict": "success", "at": at}, "0": None})
    for start, word in enumerate(("failure", "success", "success")):
        other = run.chain("lab.world", "Lift", "base").episode(start)
        append_verdict(other, Verdict(word, "Ben", at), second=True)  # type: ignore[arg-type]
    data = load([shm / "run"])
    (made,) = verdicts_section(SectionInput(data, group(data)[0]))
    return made


def rows_of(section, name):
    table = next(t for t in section.tables if t.name == name)
    return list(csv.DictReader(io.StringIO(table.csv())))


def test_the_physical_table_counts_verdicts_and_rejected_claims(section):
    base, capex = rows_of(section, "physical")
    assert (base["successes"], base["n"], base["unjudged"]) == ("1", "3", "1")
    assert (base["claims"], base["claims_rejected"]) == ("2", "1")
    assert float(base["minutes_per_success"]) == float(base["usd_per_success"]) == 4
    assert (capex["successes"], capex["n"], capex["invalid_attempts"]) == ("2", "3", "1")
    assert (capex["claims"], capex["claims_rejected"]) == ("3", "1")
    # The attempt that was judged invalid counts with its cost and time.
    assert float(capex["minutes_per_success"]) == float(capex["usd_per_success"]) == 2
    assert float(capex["requests_per_success"]) == 6


def test_reasons_judges_and_changes_are_told(section):
    reasons = [list(row.values()) for row in rows_of(section, "failure-reasons")]
    assert reasons == [["dropped", "2", "0"], ["no reason given", "0", "1"]]
    assert rows_of(section, "judges") == [
        {"judge": "Ada (stand-in)", "success": "4", "failure": "3", "invalid": "1", "undo": "1"}
    ]
    agreed, note = section.notes
    assert "Ada and Ben agree on 2 of 3 (Cohen's kappa 0.40)" in agreed
    assert "1 verdict was changed after later episodes had learned from them" in note
    assert "lab.world--Lift--capex start 1 (success, now failure), seen by 1" in note


def test_worlds_that_judge_themselves_have_no_such_section(shm):
    run = create_run(shm / "run", Manifest(settings={"arms": {}}))
    commit(run.chain("kitchen", "CloseFridge", "base"), record(arm="base"))
    data = load([shm / "run"])
    assert verdicts_section(SectionInput(data, group(data)[0])) == []
