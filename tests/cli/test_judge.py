"""`capex judge`, and the question that `capex collect` asks: at a terminal, on a pipe, from a table; also after a kill."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pty

import pytest
from rich.console import Console

import capex
from capex.campaign.judging import question
from capex.campaign.status import read_status
from capex.cli.judge import Judge, read_table, write_template
from capex.cli.keys import Keys
from capex.cli.verdicts import TerminalJudge
from capex.errors import ErrorCode
from capex.run.files import now
from capex.run.verdicts import Verdict, append_verdict, read_verdicts
from lab.campaigns import cli, collect, flags
from refusals import refuses

TASK = "lab.world:judged"
CHAIN = "lab.world--judged--capex"
PROMPT = "q later > "


@pytest.fixture
def unjudged(shm):
    run, _ = collect(shm / "run", TASK, arm="capex", starts="0:3", judge="later")
    return run


def read_until(stream, words: str) -> str:
    told = ""
    while not told.endswith(words):
        letter = stream.read(1)
        assert letter, told
        told += letter
    return told


def test_a_campaign_killed_between_an_episode_and_its_verdict_asks_first(shm):
    words = [*flags(shm / "run", TASK, arm="capex", starts="0:2"), "--by", "Ada"]
    with cli(*words, stdin=-1) as process:
        told = read_until(process.stdout, PROMPT)
        assert "success is: the left tip rose by 5 cm" in told
        process.kill()
    episode = shm / f"run/chains/{CHAIN}/episodes/0000"
    before = (episode / "record.json").read_bytes()
    assert read_verdicts(episode) == []
    told, _ = cli(*words, stdin=-1).communicate("f\n2\nit fell\ns\n")
    run = capex.load_run(shm / "run")
    assert [e.success for e in run.episodes] == [False, True], told
    assert (episode / "record.json").read_bytes() == before
    (verdict,) = read_verdicts(episode)
    assert (verdict.by, verdict.reason, verdict.words) == ("Ada", "dropped", "it fell")
    assert run.episodes[1].verdicts_seen["0"]["at"] == verdict.at
    assert told.index("start 0, ") < told.index("start 1, ")
    assert run.manifest.operators == {"Ada": False}


def test_a_terminal_gives_single_keys_and_undo_asks_again(unjudged):
    keyboard, terminal = pty.openpty()
    with cli("judge", str(unjudged.path), stdin=terminal) as process:
        for keys in ("Ada\n", "s", "u", "f", "\n", "\n", "i", "in the way\n", "q"):
            read_until(process.stdout, "name: " if keys == "Ada\n" else " > ")
            os.write(keyboard, keys.encode())
        told = process.stdout.read()
    assert "1 of 2 attempts wait for a verdict" in told
    verdicts = [[v.verdict for v in read_verdicts(e.path)] for e in unjudged.episodes]
    assert verdicts == [["success", "undo", "failure"], ["invalid"], []]
    run = capex.load_run(unjudged.path)
    assert [(a.index, a.undoable) for a in run.invalid] == [(1, True)]
    assert run.invalid[0].error == "judged invalid by Ada (in the way)"


def test_a_verdict_that_was_given_elsewhere_answers_the_question(unjudged):
    keyboard, terminal = pty.openpty()
    first = unjudged.episodes[0].path
    with cli("judge", str(unjudged.path), "--by", "Ada", stdin=terminal) as process:
        read_until(process.stdout, PROMPT)
        append_verdict(first, Verdict("failure", "Ben", now()))
        told = read_until(process.stdout, PROMPT)
        os.write(keyboard, b"q")
    assert "failure by Ben, given elsewhere" in told
    assert "start 1 (1 of 2 that wait)" in told
    assert [v.by for v in read_verdicts(first)] == ["Ben"]


def test_a_reason_names_the_rule_that_was_broken(unjudged):
    rules = ("the left arm brings the bread", "the plate does not move")
    asked = dataclasses.replace(question(unjudged.episodes[0]), rules=rules)
    screen = io.StringIO()
    judge = TerminalJudge("Ada", Keys(io.StringIO("f\nb\nby 3 cm\n")), Console(file=screen))
    verdict = judge.ask(asked)
    assert (verdict.reason, verdict.words) == ("broken: the plate does not move", "by 3 cm")
    assert "a: broken: the left arm brings the bread" in screen.getvalue()
    judge.confirm(unjudged.episodes[0].path, verdict)
    assert read_verdicts(unjudged.episodes[0].path) == [verdict]


def test_a_table_is_checked_whole_before_a_verdict_is_written(unjudged, shm):
    table = shm / "verdicts.csv"
    assert write_template(unjudged, table) == 3
    with open(table, newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows[1:]] == [f"{CHAIN}/{n}" for n in range(3)]

    def written(*lines: str) -> list[list[str]]:
        table.write_text("\n".join(("episode,verdict,by,reason,words", *lines)) + "\n")
        Judge(unjudged.path, by="Ada", csv=table).run()
        return [[v.verdict for v in read_verdicts(e.path)] for e in unjudged.episodes]

    good = f"{CHAIN}/0,failure,,dropped,on the floor"
    for wrong, code, sentence in (
        (
            f"{CHAIN}/1,perhaps,,,",
            ErrorCode.UNKNOWN_NAME,
            "line 3: a verdict is 'perhaps'; valid: success",
        ),
        (f"{CHAIN}/1,failure,,bad luck,", ErrorCode.UNKNOWN_NAME, "reason is 'bad luck'; valid: "),
        (f"{CHAIN}/7,success,,,", ErrorCode.NOT_FOUND, f"there is no episode '{CHAIN}/7'"),
        (f"{CHAIN}/0,success,,,", ErrorCode.INVALID_INPUT, "is judged twice in this table"),
    ):
        with refuses(code, sentence):
            written(good, wrong)
    assert [read_verdicts(e.path) for e in unjudged.episodes] == [[], [], []]
    path = f"{unjudged.episodes[1].path},success,Bob,,"
    assert written(good, path, f"{CHAIN}/2,,,,") == [["failure"], ["success"], []]
    assert written(good, path) == [["failure"], ["success"], []]
    assert written(f"{CHAIN}/0,undo,,,") == [["failure", "undo"], ["success"], []]
    assert read_table(capex.load_run(unjudged.path), table, "Ada") == []


def test_nobody_judges_without_a_name(unjudged, monkeypatch):
    monkeypatch.delenv("CAPEX_OPERATOR", raising=False)
    with refuses(ErrorCode.PERSON_NEEDED, "say who judges with --by NAME"):
        TerminalJudge(None, Keys(io.StringIO("s\n"))).ask(question(unjudged.episodes[0]))
    monkeypatch.setenv("CAPEX_OPERATOR", "Eve")
    judge = TerminalJudge(None, Keys(io.StringIO("s\n")))
    judge.confirm(unjudged.episodes[0].path, judge.ask(question(unjudged.episodes[0])))
    assert [v.by for v in read_verdicts(unjudged.episodes[0].path)] == ["Eve"]
    status = read_status(unjudged.path)
    assert f"2 wait for a verdict: capex judge {unjudged.path}" in status.sentences
    assert status.state == "finished, but for verdicts"
    assert status.as_json()["total"]["unjudged"] == 2
