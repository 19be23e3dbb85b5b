"""The command line of campaigns: events for machines, status from outside, plans, forecasts, and how they read."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pty
import re
import subprocess
import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capex import worlds
from capex.campaign import events as ev
from capex.campaign.board import Board, ChainLine
from capex.campaign.driver import live_note
from capex.campaign.status import read_status
from capex.cli import AFTER_INTERRUPT, COMMANDS
from capex.cli.console import PlainConsole
from capex.cli.progress import duration, forecast_sentence, sentence, table, watching
from capex.run import LoadedEpisode
from capex.run.files import write_json
from capex.run.stats import wilson
from capex.run.summary import summarize
from capex.run.writing import Timing
from lab.campaigns import cli, collect, flags, price_file
from lab.model import LabModel
from runs import record


def _text(thing) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(thing)
    return console.export_text()


def test_json_events_tell_the_whole_campaign_and_status_agrees(shm):
    prices = price_file(shm)
    process = cli(*flags(shm / "run", starts="0:2", prices=prices), "--json-events")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    events = [json.loads(line) for line in out.splitlines()]
    names = [e["event"] for e in events]
    assert names[0] == "CampaignBegan"
    assert events[0]["ceiling_usd"] == 8 * 25
    assert names[-1] == "CampaignEnded"
    assert names.count("EpisodeBegan") == names.count("EpisodeEnded") == 8
    assert names.count("Forecast") == 1
    assert {e["phase"] for e in events if e["event"] == "EpisodeMoved"} >= {
        "waiting",
        "simulating",
        "queueing",
    }
    ended = [e for e in events if e["event"] == "EpisodeEnded"]
    cost = sum(e["cost_usd"] for e in ended)
    assert math.isclose(cost, events[-1]["spent_usd"])
    process = cli("status", str(shm / "run"), "--json")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    status = json.loads(out)
    assert status["state"] == "finished"
    assert status["total"]["episodes"] == 8
    assert status["total"]["successes"] == sum(e["success"] for e in ended)
    assert math.isclose(status["total"]["usd"], cost)
    assert math.isclose(float(status["spent_usd"]), cost)
    assert status["disk_bytes"] > 10_000
    low, high = wilson(status["total"]["successes"], 8)
    assert status["total"]["interval"] == [low, high]


def test_a_dry_run_prints_plan_tokens_ceiling_and_disk(shm):
    process = cli(*flags(shm / "run", prices=price_file(shm), campaign_usd=40), "--dry-run")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    words = " ".join(out.split())
    assert "16 of 2 tasks x 2 arms x 4 starts" in words
    assert "tokens at first (at most" in words
    assert "at most $40.00 (the campaign's budget" in words
    assert "are free" in words
    assert not (shm / "run").exists()


def test_a_dry_run_needs_neither_a_key_nor_a_run_directory(shm):
    bare = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    words = ["lab.world:low", "--model", "openai:gpt-6-astra", "--dry-run"]
    out, errors = cli("collect", *words, env=bare, cwd=shm).communicate()
    said = " ".join(out.split())
    assert "none named" in said, errors
    assert "about $19.60 (by what the paper's attempts cost)" in said
    assert "at most $500.00 (20 episodes of at most $25.00)" in said
    out, errors = cli("collect", *words, "--json-events", env=bare, cwd=shm).communicate()
    note = json.loads(out)
    assert (float(note["expected_usd"]), float(note["ceiling_usd"])) == (19.6, 500.0)
    assert list(shm.iterdir()) == []


def test_without_a_terminal_a_dear_campaign_asks_for_a_budget(shm):
    words = ["collect", "lab.world:low", "--model", "openai:gpt-6-astra", "--out", str(shm / "run")]
    process = cli(*words, env={**os.environ, "OPENAI_API_KEY": "none"}, stdin=subprocess.DEVNULL)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "set a budget with --campaign-usd, or agree with --yes" in " ".join(errors.split())
    assert not (shm / "run").exists()


def test_a_model_that_bills_and_has_no_price_needs_a_yes(shm):
    words = ["collect", "lab.world:low", "--model", "openai:unheard-of", "--out", str(shm / "run")]
    process = cli(*words, env={**os.environ, "OPENAI_API_KEY": "none"}, stdin=subprocess.DEVNULL)
    _, errors = process.communicate()
    said = " ".join(errors.split())
    assert process.returncode == 2
    assert "openai:unheard-of has no price" in said
    assert "give its price with --prices, or agree with --yes" in said
    assert not (shm / "run").exists()


def test_on_a_terminal_a_dear_campaign_asks_for_a_yes(shm):
    """Typed on a real pseudo-terminal: no leaves everything as it was."""
    leader, follower = pty.openpty()
    words = ["collect", "lab.world:low", "--model", "openai:gpt-6-astra", "--out", str(shm / "run")]
    process = cli(
        *words, env={**os.environ, "OPENAI_API_KEY": "none"}, stdin=follower, terminal=follower
    )
    os.close(follower)
    os.write(leader, b"no\n")
    said = b""
    with contextlib.suppress(OSError):  # how Linux tells that nobody holds the other end any more
        while chunk := os.read(leader, 4096):
            said += chunk
    process.wait()
    os.close(leader)
    text = " ".join(said.decode().split())
    assert process.returncode == 2
    assert "This campaign costs about $19.60" in text
    assert "Begin? Type yes:" in text
    assert "nothing was sent" in text
    assert not (shm / "run").exists()


def test_a_model_that_computes_here_is_seen_to_move(shm):
    class Here(LabModel):
        computes_here = True

    _, events = collect(shm / "run", "lab.world:high", model=Here(""), arm="base", starts="0:1")
    moved = [e for e in events if isinstance(e, ev.EpisodeMoved)]
    assert {e.decision for e in moved} == {0, 1, 2, 3, 4, 5, 6}
    assert max(e.steps for e in moved) > 0


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("report", "; the report is not finished, the same command makes it anew"),
        ("export", "; no dataset was written"),
        ("check", ""),
        ("status", ""),
        ("certify", "; what was finished is kept, the same command continues it"),
    ],
)
def test_after_an_interrupt_a_command_says_what_is_true(command, sentence):
    assert command in COMMANDS
    assert AFTER_INTERRUPT.get(command, "") == sentence


def test_consoles_show_no_control_character_but_their_own():
    shown = io.StringIO()
    console = PlainConsole(file=shown, width=100, force_terminal=True, color_system="standard")
    hostile = "one\x1b[2Jtwo\x00\x07\x9b3J \u202ethree\u2066\r\tfour\nfive"
    grid = Table("[bold]head[/]")
    grid.add_row(escape(hostile))
    console.print(hostile, markup=False)
    console.print(grid)
    console.print(f"[red]{escape(hostile)}[/]", style="bold")
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())  # rich's own colours
    assert "one[2Jtwo3J three" in text
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)
    assert "\x1b[31m" in shown.getvalue() or "\x1b[1;31m" in shown.getvalue()


def test_status_of_a_campaign_that_runs_elsewhere_that_died_and_that_paused(shm):
    run, _ = collect(shm / "run", starts="0:2")
    board = Board(run.chains)
    name = run.chains[0].name
    board(ev.EpisodeBegan(name, 7, 2, 1))
    board(ev.EpisodeMoved(name, 7, "waiting", 3, 21, 4, 0.5))
    board(ev.ChainPaused(run.chains[1].name, 60.0, "the server failed"))
    note = live_note(board)
    write_json(run.path / "live.json", note)
    status = read_status(run.path)
    assert status.running
    assert f"process {os.getpid()}" in status.state
    shown = _text(table(status.board, status.state, status.note))
    assert "start 7 waiting" in shown
    assert "paused 60 s: the server failed" in shown
    write_json(run.path / "live.json", {**note, "host": "elsewhere", "unix_time": time.time() - 5})
    assert read_status(run.path).running
    write_json(
        run.path / "live.json", {**note, "host": "elsewhere", "unix_time": time.time() - 500}
    )
    assert not read_status(run.path).running
    write_json(run.path / "live.json", {**note, "process": 2**22 + 1})
    status = read_status(run.path)
    assert not status.running
    assert status.state == "finished"
    collect(shm / "run", starts="0:2")
    (run.path / "chains" / name / "episodes/0001/record.json").write_text("{")
    status = read_status(run.path)
    assert "damaged" in status.sentences[0]
    assert status.state == "not running; the same command continues it"


def test_what_a_person_drove_counts_for_nobody_until_its_start_ran_again():
    line = ChainLine("a", wanted=3)
    line.add(0, False, 10, 0)
    line.add(1, True, 10, 1, driven=True)
    assert (line.episodes, line.successes, line.judged, line.driven, line.unjudged) == (
        2,
        0,
        1,
        1,
        0,
    )
    assert line.history.solved == [False, None]  # no forecast goes by it
    line.rejudge({0: False})  # a person judged it invalid
    assert (line.episodes, line.driven, line.unjudged) == (1, 0, 0)
    line.add(1, True, 10, 1)
    line.rejudge({0: False, 1: True})
    assert (line.successes, line.judged, line.unjudged) == (1, 2, 0)


def test_the_forecast_joins_both_uncertainties():
    def end(board: Board, chain: str, success: bool, cost: float | None) -> None:
        start = board.lines[chain].episodes
        made = record("task", "capex", start, success=success, requests=1, cost_usd=cost)
        summary = summarize(LoadedEpisode(chain, Path(), made, Timing(episode_s=10.0)))
        board(ev.EpisodeEnded(chain, summary))

    board = Board()
    board.lines["a"] = ChainLine("a", wanted=20)
    for success, cost in ((True, 1.0), (False, 2.0)):
        end(board, "a", success, cost)
    assert board.forecast() is None
    end(board, "a", True, 3.0)
    forecast = board.forecast()
    assert forecast.usd_per_success == 3.0
    low, high = wilson(2, 3)
    assert forecast.usd_per_success_low < 2 / high
    assert forecast.usd_per_success_high > 2 / low
    assert forecast.rest_usd == pytest.approx(34.0)
    assert 34 / 4 < forecast.rest_usd_low < 34 < forecast.rest_usd_high < 4 * 34
    assert "$3.00 a success (95 %:" in forecast_sentence(forecast)
    board.lines["b"] = ChainLine("b", wanted=3)
    for _ in range(3):
        end(board, "b", False, None)
    assert board.forecast().usd_per_success is None
    failing = Board()
    failing.lines["c"] = ChainLine("c", wanted=9)
    for _ in range(4):
        end(failing, "c", False, 0.5)
    assert "at least $" in forecast_sentence(failing.forecast())
    assert failing.lines["c"].usd_per_success == (math.inf, math.inf)
    assert "∞" in _text(table(failing, "x"))


def test_a_start_drawn_anew_is_named_as_it_was_asked_for():
    invalid = ev.AttemptInvalid("chain", worlds.FRESH + 7, "it broke", "again")
    assert sentence(invalid, Board()) == "chain start fresh:7: invalid (it broke); again"


def test_every_event_is_a_sentence_and_a_terminal_gets_a_table(shm):
    console = Console(width=140, force_terminal=True, record=True, file=io.StringIO())
    down = shm / "down"
    down.touch()

    def watch(event, board):
        live(event, board)
        if isinstance(event, ev.ChainPaused):
            down.unlink(missing_ok=True)
        assert sentence(event, board)

    with watching(console, json_events=False) as live:
        collect(shm / "run", model=f"lab.model:fails={down}", prices=price_file(shm), watch=watch)
    shown = console.export_text()
    assert "the model is down; next try in" in shown
    assert "forecast after 3 episodes" in shown
    assert "$/success" in shown
    assert "high capex" in shown
    assert "16/16" in shown


def test_times_for_people():
    assert [duration(s) for s in (4.4, 89, 300, 9000)] == ["4 s", "89 s", "5 min", "2.5 h"]
