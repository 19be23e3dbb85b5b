"""What the report shows: its sample, tables and files, stand-ins named everywhere, and sentences where data is missing."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import runs
from capex import report
from capex.analysis.forecast import forecast
from capex.campaign.status import read_status
from capex.errors import CapexError, ErrorCode
from capex.method.record import Turn
from capex.models import LedgerTotals
from capex.report import calibration
from capex.report.cards import choose_twins, sample
from capex.report.data import load
from capex.report.show import brief, duration, number, p_value, percent, significant
from capex.report.tables import Column, Row, Table, group_row, latex
from capex.run.files import write_json
from capex.run.writing import InvalidNote, Timing
from refusals import refuses

pytestmark = pytest.mark.filterwarnings(
    "error::UserWarning"
)  # what matplotlib says of a layout that does not fit


@pytest.fixture(scope="module")
def written(synthetic, tmp_path_factory):
    """Its report."""
    out = tmp_path_factory.mktemp("report")
    report.write([synthetic], out)
    return out


def test_a_sample_spreads_over_sources_tasks_and_outcomes(synthetic):
    found = runs.sources_of(synthetic)
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
        runs.commit(
            run.chain("kitchen", "CloseFridge", "capex"), runs.record(start=start, steps=steps)
        )
        runs.commit(
            run.chain("kitchen", "CloseFridge", "base"),
            runs.record(arm="base", start=start, success=start in (1, 4)),
        )
    (found,) = choose_twins(runs.sources_of(run.path))
    assert found.median_steps == 300
    assert found.both == 2
    assert (found.first[1].start, found.second[1].start) == (
        1,
        1,
    )  # of the starts that both solved, 200 is nearest to 300
    assert (found.first[0].arm, found.second[0].arm) == ("capex", "base")


def test_numbers_are_shown_as_people_write_them():
    assert [p_value(p) for p in (0.00001, 0.0016, 0.0274, 0.5, None, math.nan)] == [
        "< 0.0001",
        "0.0016",
        "0.027",
        "0.50",
        "—",
        "—",
    ]
    assert [significant(v) for v in (1234.5, 12.34, 1.234, math.inf, None)] == [
        "1,234",
        "12.3",
        "1.23",
        "∞",
        "—",
    ]
    assert percent(0.125) == "12.5 %"
    assert [duration(m) for m in (0.03, 0.999, 39.7, math.inf, None)] == [
        "1.80 s",
        "59.9 s",
        "39.7 min",
        "∞",
        "—",
    ]
    assert [brief(v) for v in (6.0, 90.30, 1.25, 244.0)] == ["6", "90.3", "1.25", "244"]


def test_tables_escape_what_latex_and_csv_would_read():
    nasty = r'a_b & 50% of $5 {x} \input{y} ~ ^ # <b>"q", z'
    table = Table(
        "t",
        nasty,
        (Column("x", "x", align="l"), Column("y", "y", number), Column(csv="z")),
        (Row((nasty, math.inf, None)), group_row("g")),
        (),
    )
    text = table.latex()
    assert (
        r"a\_b \& 50\% of \$5 \{x\} \textbackslash{}input\{y\} \textasciitilde{} \textasciicircum{} \# \textless{}b\textgreater{}"
        in text
    )
    assert r"$\infty$" in text
    assert latex("τ \N{MINUS SIGN} 1 ≥ …") == r"$\tau$ $-$ 1 $\ge$ \dots{}"
    (row,) = csv.DictReader(table.csv().splitlines())
    assert row == {"x": nasty, "y": "inf", "z": ""}


def paths(value, at=()):
    """Every place in a manifest."""
    yield at
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*at, key))


def put(value, at, new):
    if not at:
        return new
    return value | {at[0]: put(value[at[0]], at[1:], new)}


def test_a_manifest_with_any_field_of_another_type_ends_in_a_sentence(tmp_path):
    """What status and forecast read, and the numbers of the report."""
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], range(2))
    runs.fill(run, "CloseFridge", "capex", "10")
    told = {"run": "x", "changed": [{"name": "arms.capex.tau", "before": "a"}], "episodes": {}}
    told["episodes"] = {"kitchen--CloseFridge--capex": [0]}
    sound = run.manifest.as_json() | {
        "branched_from": told,
        "extensions": {"fork": {"run": "x", "seed": 0, "remember": False, "states": {"a": "b"}}},
    }
    sound |= {"fingerprint": {}, "price": None, "versions": {"mujoco": "4"}}
    arm = {
        "name": "capex",
        "memory": "chain",
        "tau": 0.5,
        "confidence": True,
        "task_tau": {"kitchen:CloseFridge": 0.4},
    }
    sound["settings"] = {"command": "collect", "tasks": ["kitchen:CloseFridge"], "round_size": 1}
    sound["settings"]["arms"] = {"capex": arm}
    tried = refused = 0
    for at in paths(sound):
        for value in (None, 3, "x", [1]):
            if at == ("format",) or not at:  # another format
                continue
            text = json.dumps(put(sound, at, value))
            (run.path / "manifest.json").write_text(text)
            for read in (read_status, lambda path: forecast(path, 5)):
                try:
                    found = read(run.path)
                except CapexError as error:
                    refused += "manifest.json is damaged: " in str(error)
                else:
                    _ = getattr(found, "note", ""), getattr(found, "sentences", ())
            sources = runs.sources_of(run.path)
            for source in sources:
                calibration.calibration(source), calibration.growth(source)
            tried += 1
    assert tried > 100
    assert refused > 100
    write_json(run.path / "manifest.json", put(sound, ("settings", "arms"), 3))
    with refuses(ErrorCode.DAMAGED_FILE, r"settings\.arms: Expected 'object', got 'int'$"):
        read_status(run.path)
    (problem, *_) = load([run.path]).problems
    assert "settings.arms: Expected 'object', got 'int'. Its settings are not known" in problem


def on_disk(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_full_disk_leaves_no_report_or_the_earlier_one(synthetic, small_disk, tmp_path):
    place, limit = small_disk

    def report_into(out, preexec_fn=None):
        words = [sys.executable, "-m", "capex.cli", "report", str(synthetic), "--out", str(out)]
        return subprocess.run(
            [*words, "--strips", "0"],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=preexec_fn,
        )

    failed = report_into(place / "report", limit)
    said = " ".join(failed.stderr.split())
    assert failed.returncode == 2
    if limit is None:
        assert f"the disk that holds '{place}/report' is full; make room and give" in said
    else:
        assert f"'{place}/report' cannot be read or written (File too large)" in said
    assert list(place.iterdir()) == []
    # In the place of an earlier report, with a file that is not the report's.
    earlier = place / "earlier"
    (earlier / "tables").mkdir(parents=True)
    for name in ("report.html", "tables/old.csv", "notes.txt"):
        (earlier / name).write_text("as it was")
    (earlier / "report.json").write_text(json.dumps({"files": ["report.html", "tables/old.csv"]}))
    before = on_disk(earlier)
    assert report_into(earlier, limit).returncode == 2
    assert on_disk(earlier) == before
    roomy = shutil.copytree(earlier, tmp_path / "roomy")
    assert report_into(roomy).returncode == 0
    index = json.loads((roomy / "report.json").read_text())
    assert set(on_disk(roomy)) == {*index["files"], "report.json", "notes.txt"}


def test_every_table_and_figure_is_written_and_names_the_stand_in(written):
    index = json.loads((written / "report.json").read_text())
    names = {p.relative_to(written).as_posix() for p in written.rglob("*") if p.is_file()} - {
        "report.json"
    }
    assert names == set(index["files"])
    tables = {n.split("/")[1].split(".")[0] for n in names if n.startswith("tables/")}
    assert tables >= {
        "headline",
        "attempts",
        "differences",
        "tasks",
        "task-costs",
        "plan-1",
        "plans-cut",
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
        for n in (
            "poster",
            "success",
            "starts",
            "experience-1",
            "reliability",
            "truncated",
            "weights-1",
            "tau",
            "tokens",
        )
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
            with Image.open(written / name) as picture:
                assert picture.text["Description"].startswith("Stand-in: made-up."), name
        if name.startswith("figures/") and name.endswith(".svg"):
            assert "Stand-in: made-up. What a stand-in does" in " ".join(
                (written / name).read_text().split()
            ), name
    page = (written / "report.html").read_text()
    assert page.count("<figure") == page.count("</figure>")
    assert page.count("What a stand-in does says nothing") == 1  # said once, above the result
    assert page.index("What a stand-in does") < page.index('class="result"')
    for block in page.split("<table id=")[1:]:
        assert "(stand-in)" in block.split('class="files"')[0]


def test_csv_holds_the_numbers_that_the_page_shows(written, synthetic):
    rows = {
        r["source"]: r
        for r in csv.DictReader((written / "tables/headline.csv").read_text().splitlines())
    }
    for source in runs.sources_of(synthetic):
        row = rows[source.label]
        solved = [bool(e.success) for e in source.episodes]
        assert (int(row["successes"]), int(row["n"])) == (sum(solved), 16)
        assert float(row["usd_per_success"]) == pytest.approx(
            sum(e.cost_usd for e in source.episodes) / sum(solved)
        )
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


def test_a_report_in_the_same_folder_replaces_the_earlier_one_and_nothing_else(
    written, small, tmp_path
):
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
    with refuses(ErrorCode.WRONG_CONTENT, "is not a run directory"):
        report.write([tmp_path], tmp_path / "out")
    with refuses(ErrorCode.MISSING_SETTING, "no run was named"):
        report.write([], tmp_path / "out")
    with refuses(ErrorCode.BAD_SETTING, "at least 0"):
        report.write([synthetic], tmp_path / "out", strips=-1)
    with refuses(ErrorCode.ALREADY_EXISTS, "is a run directory"):
        report.write([synthetic], synthetic)
    (tmp_path / "file").write_text("")
    with refuses(ErrorCode.ALREADY_EXISTS, "is a file"):
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
    chain = runs.fill(run, "CloseFridge", "capex", "00000")
    runs.fill(run, "CloseFridge", "base", "00")
    (chain.episode(1) / "record.json").write_text('{"task": "Close')
    torn = json.loads((chain.episode(2) / "record.json").read_text())
    (chain.episode(2) / "record.json").write_text(json.dumps({**torn, "steps": "many"}))
    (chain.episode(3) / "timing.json").unlink()
    writer = chain.begin(5)
    page = report.write([run.path], tmp_path / "out", strips=2)
    writer.discard()
    text = page.read_text()
    assert (
        "Run half is not finished. Missing: capex at CloseFridge: 4 of 6 starts; base at CloseFridge: 4 of 6 starts."
        in text
    )
    assert "episodes/0001 was left out: record.json is damaged" in text
    assert (
        "episodes/0002 was left out: record.json is damaged: steps: Expected &#39;int&#39;, got &#39;str&#39;."
        in text
    )
    assert "episodes/0003 was left out: timing.json is damaged: it cannot be read" in text
    assert "kitchen--CloseFridge--capex has 1 unfinished attempt, running now or cut off" in text
    assert (
        "capex · made-up (stand-in) has no success in 2 starts: what a success costs is infinite so far."
        in text
    )
    assert "0/2" in text
    assert "These runs do not have both." in text  # experience
    assert "no image of it was kept" in text  # strips


def test_a_run_of_invalid_attempts_alone_says_what_went_wrong(tmp_path):
    run = runs.new_run(tmp_path / "r", ["capex"], ["CloseFridge"], [0])
    ledger = LedgerTotals(attempts=3, cost_usd=0.0)
    note = InvalidNote(start=0, error="the server is down", ledger=ledger)
    for _ in range(2):
        run.chain("kitchen", "CloseFridge", "capex").begin(0).commit_invalid(
            note, Timing(episode_s=1.0), {}
        )
    text = report.write([run.path], tmp_path / "out").read_text()
    assert "holds no readable episode" in text
    assert "2 invalidated by: the server is down" in text
    assert "is not finished" not in text


def test_one_source_alone_has_nothing_to_pair(tmp_path):
    run = runs.new_run(tmp_path / "r", [], ["CloseFridge"], [])
    runs.fill(run, "CloseFridge", "expert", "11", model="expert", requests=0, cost_usd=None)
    text = report.write([run.path], tmp_path / "out", strips=0).read_text()
    assert "There is one source only, so there is nothing to pair." in text
    assert "it asked no model, so there is no cost per success" in text
    assert "No executed waypoint carries a stated confidence" in text


def test_the_command_prints_the_page_and_refuses_with_a_sentence(small, tmp_path):
    command = [sys.executable, "-m", "capex.cli", "report"]
    done = subprocess.run(
        [*command, str(small), "--out", str(tmp_path / "out"), "--strips", "0"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == str(tmp_path / "out" / "report.html")
    assert "base · made-up (stand-in) solved" in done.stdout
    refused = subprocess.run(
        [*command, str(tmp_path), "--out", str(tmp_path / "other")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "is not a run directory" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_models_words_reach_the_page_without_control_characters(tmp_path):
    run = runs.new_run(tmp_path / "run", ["capex"], ["CloseFridge"], range(1))
    hostile = "look\x1b[31m\x00 here\x9b2J \u202edesrever\u2066 & <b>bold</b>"
    turn = Turn(1, 0, 1, (runs.waypoint((0.4, 0.0, 0.3), 0.9, 0.8, 1),), 1, reasoning=hostile)
    chain = run.chain("kitchen", "CloseFridge", "capex")
    runs.commit(chain, runs.record(turns=[turn], instruction=hostile))
    assert (
        "\\u001b" in (chain.episode(0) / "record.json").read_text()
    )  # the record keeps what was said
    page = report.write([run.path], tmp_path / "out", strips=1)
    text = page.read_text()
    assert "look[31m here2J desrever &amp; &lt;b&gt;bold" in text
    for file in [page, *(tmp_path / "out" / "tables").iterdir()]:
        assert all(c.isprintable() or c in "\n\t" for c in file.read_text()), file


def test_foreign_text_is_no_formula_and_no_tag():
    texts = ("=1+1", "+1", "-1", "@x", "a\x1b[2J", "<script>|", "a\nb")
    rows = [Row((text, -1.5)) for text in texts]
    table = Table("t", "c", [Column("x", csv="x"), Column("n", csv="n")], rows, [])
    written = list(csv.reader(table.csv().splitlines()))
    assert [row[0] for row in written[1:6]] == ["'=1+1", "'+1", "'-1", "'@x", "a[2J"]
    assert {row[1] for row in written[1:6]} == {"-1.5"}
    assert "<script" not in table.markdown()
    assert "| a b |" in table.markdown()


@pytest.mark.parametrize("folder", ["tables", "figures"])
def test_a_report_is_not_written_through_a_link(tmp_path, folder):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["base"], 1, plans=1)
    outside, out = tmp_path / "outside", tmp_path / "report"
    outside.mkdir()
    out.mkdir()
    (out / folder).symlink_to(outside)
    with refuses(ErrorCode.NOT_PERMITTED):
        report.write([run.path], out, strips=0)
    assert not list(outside.iterdir())
