"""A robot that there is once: starts are arrangements that later arms match, nothing is shared or repeated, and what is cut off is kept."""

from __future__ import annotations

import json
import os
import pty
import signal
import threading
import time
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PillowImage
from rich.console import Console

import lab.world
from capex.campaign.prepare import refuse_sharing, specs_of
from capex.campaign.replay import replay
from capex.campaign.settings import resolve
from capex.cli.keys import Keys
from capex.cli.operator import TerminalOperator
from capex.cli.verdicts import TerminalJudge
from capex.errors import ErrorCode, OperatorLeft, RigFault
from capex.operators.arrangements import ARRANGEMENTS, read_arrangement, read_match
from capex.rigs.campaign_rules import choose_operator
from capex.run.frames import FRAMES
from lab.campaigns import cli, collect, flags
from lab.operator import LabOperator
from refusals import refuses

TASK = "lab.world:robot"
CHAIN = "lab.world--robot--{}"


def arranged(out: Path, words: str, *, operator: LabOperator | None = None, **options):
    operator = operator or LabOperator(words)
    options = {"starts": "0:2", **options}
    run, events = collect(out, TASK, operator=operator, **options)
    return run, events, operator


@pytest.fixture(autouse=True)
def sound():
    yield
    lab.world.FAULTS.clear()
    lab.world.NOT_CLEARED.clear()


def test_the_first_attempt_makes_an_arrangement_and_the_others_match_it(shm):
    run, events, operator = arranged(shm / "run", "ssss")
    began = [(e.chain, e.start) for e in events if type(e).__name__ == "EpisodeBegan"]
    assert began == [(CHAIN.format(m), s) for s in (0, 1) for m in ("capex", "base")]
    assert [(start, a is not None) for start, a in operator.arranged] == [
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    ]
    stored = read_arrangement(run.path / ARRANGEMENTS / "lab.world--robot" / "0001")
    assert stored.source == "first attempt of lab.world--robot--capex"
    assert list(stored.images) == ["back_left", "back_right"]
    matches = {(e.record.arm, e.index): read_match(e.path) for e in run.episodes}
    assert matches["capex", 0].score is None
    assert matches["base", 0].score == matches["base", 0].changed == 0.0
    assert matches["base", 0].by == "Ada"
    assert matches["base", 0].stand_in
    assert matches["base", 1].arrangement == "0001"
    for episode in run.episodes:
        marks = int((episode.path / FRAMES / "marks").read_text())
        assert marks == episode.record.steps + 1
        assert (episode.path / FRAMES / "closed").is_file()
        assert not (episode.path / "begun.json").exists()
        assert (episode.path / "arrangement" / "back_left.png").is_file()


def test_the_operator_attends_the_robot_on_its_way_home_too(shm, monkeypatch):
    events = []

    class Attending(LabOperator):
        def arrange(self, *args):
            events.append("arranges")
            return super().arrange(*args)

        @contextmanager
        def attend(self, env):
            events.append("attends")
            yield lambda: False
            events.append("leaves")

    reset = lab.world.LabEnv.reset
    monkeypatch.setattr(
        lab.world.LabEnv, "reset", lambda *args: events.append("reset") or reset(*args)
    )
    arranged(shm / "run", "s", operator=Attending("s"), arm="capex", starts="0")
    attempt = events[events.index("attends") :]
    assert attempt == ["attends", "reset", "leaves", "arranges", "attends", "leaves"]


def test_a_key_stops_the_arms_while_they_move(tmp_path):
    ours, theirs = pty.openpty()
    stopped = threading.Event()

    robot = lab.world.make("lab.world", "robot")
    robot.stop = stopped.set
    with os.fdopen(theirs, "r") as terminal, closing(Keys(terminal)) as keys:
        operator = TerminalOperator(TerminalJudge("Ada", keys, Console(quiet=True), nullcontext))
        os.write(ours, b" ")  # of an earlier question
        time.sleep(0.1)
        with operator.attend(robot) as ended:
            time.sleep(0.3)
            assert not stopped.is_set()
            os.write(ours, b" ")
            assert stopped.wait(20)
            os.write(ours, b"e")
            until = time.monotonic() + 20
            while not ended() and time.monotonic() < until:
                time.sleep(0.01)
            assert ended()
    os.close(ours)


def test_one_arm_after_the_other(shm):
    _, events, operator = arranged(shm / "run", "ssss", order="turn")
    began = [(e.chain, e.start) for e in events if type(e).__name__ == "EpisodeBegan"]
    assert began == [(CHAIN.format(m), s) for m in ("capex", "base") for s in (0, 1)]
    assert [a is not None for _, a in operator.arranged] == [False, False, True, True]


def test_arrangements_of_another_run_or_a_folder_of_pictures(shm):
    first, _, _ = arranged(shm / "first", "ss", arm="capex")
    run, _, operator = arranged(shm / "base", "ss", arm="base", arrangements=first.path)
    assert [a.source for _, a in operator.arranged] == [f"{first.path}, start {n}" for n in (0, 1)]
    assert read_match(run.episodes[0].path).score == 0.0
    pictures = shm / "pictures"
    pictures.mkdir()
    for number in (0, 1):
        white = np.full((20, 40, 3), 255, np.uint8)
        PillowImage.fromarray(white).save(pictures / f"{number:04d}.png")
    run, _, operator = arranged(shm / "white", "ss", arm="base", arrangements=pictures)
    assert list(operator.arranged[0][1].images) == ["back_left"]
    assert read_match(run.episodes[0].path).score > 0.2
    with refuses(ErrorCode.UNKNOWN_START, r"it has no start 2 of lab\.world:robot; it has 2"):
        arranged(shm / "more", "", starts="0:3", arrangements=pictures)
    with refuses(ErrorCode.OTHER_SETTINGS, r"differ|other settings \(--arrangements"):
        arranged(shm / "white", "ss", arm="base", arrangements=first.path)


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ({"parallel": 2}, ErrorCode.NOT_APPLICABLE, "--parallel 2: lab.world:robot is one robot"),
        ({"slots": 3}, ErrorCode.NOT_APPLICABLE, "--slots 3: .* leave --slots out"),
        ({"round_size": 2}, ErrorCode.NOT_APPLICABLE, "--round-size 2: "),
        (
            {"ray": "local"},
            ErrorCode.NOT_APPLICABLE,
            "--ray local: lab.world:robot is one robot beside this machine",
        ),
        (
            {"operator": "scripted"},
            ErrorCode.NOT_APPLICABLE,
            "--operator scripted: lab.world:robot is no simulated room",
        ),
        (
            {"names": f"{TASK} lab.world:low"},
            ErrorCode.CONFLICTING_SETTINGS,
            "lab.world:robot is one robot and lab.world:low is",
        ),
    ],
)
def test_what_one_robot_cannot_serve_is_refused(shm, options, code, sentence):
    names = options.get("names", TASK).split()
    given = {k: v for k, v in options.items() if k != "names"}
    settings = resolve(names, {"out": str(shm / "run"), **given})
    specs = specs_of(settings)

    def refuse():
        refuse_sharing(settings, specs)
        choose_operator(settings, specs, None)

    with refuses(code, sentence):
        refuse()


def test_recorded_answers_are_not_said_to_a_robot(shm):
    run, _, _ = arranged(shm / "run", "ss", arm="capex")
    with refuses(ErrorCode.NOT_APPLICABLE, "recorded answers are never said to a robot again"):
        arranged(shm / "again", "", model=f"cassette:{run.path}")
    assert {r.skipped for r in replay(run.path)} == {"recorded answers are not said to a robot"}


def test_a_fault_leaves_an_invalid_attempt_and_its_start_runs_again(shm):
    lab.world.FAULTS[:] = ["an arm was lost"]
    lab.world.NOT_CLEARED[:] = ["the e-stop is pressed"]
    run, _, operator = arranged(
        shm / "run", "ss", arm="capex", operator=LabOperator("ss", recoveries=2)
    )
    assert operator.faults == ["an arm was lost", "the e-stop is pressed"]
    assert [e.index for e in run.episodes] == [0, 1]
    (invalid,) = run.invalid
    assert invalid.error == "an arm was lost"
    assert not invalid.note.counts
    assert invalid.note.ledger.requests >= 1
    assert (invalid.path / FRAMES / "closed").is_file()
    assert (invalid.path / "exchanges.jsonl").is_file()
    assert not run.chains[0].path.joinpath("unfinished").exists()
    # The second attempt matches what the first arranged, and asked the model anew.
    assert [a is not None for _, a in operator.arranged] == [False, True, False]


def test_a_rig_that_is_not_fine_again_stops_the_campaign(shm):
    lab.world.FAULTS[:] = ["an arm was lost"]
    with pytest.raises(RigFault, match="an arm was lost"):
        arranged(shm / "run", "")
    run, _, _ = arranged(shm / "run", "ssss")
    assert len(run.episodes) == 4
    assert len(run.invalid) == 1


def test_an_attempt_that_is_stopped_at_once_is_kept_as_invalid(shm):
    def stop(event, board):
        if type(event).__name__ == "EpisodeMoved" and event.steps:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        arranged(shm / "run", "", arm="capex", model="lab.model:delay=0.02", watch=stop)
    run, _, _ = arranged(shm / "run", "ss", arm="capex", model="lab.model:delay=0.02")
    assert [a.error for a in run.invalid] == ["cut off"]
    assert [e.index for e in run.episodes] == [0, 1]


class Leaver(LabOperator):
    def arrange(self, *given):
        if len(self.arranged) == 1:
            raise OperatorLeft
        return super().arrange(*given)


def test_an_operator_may_leave_before_an_attempt(shm):
    run, events, _ = arranged(shm / "run", "s", operator=Leaver("s"), arm="capex")
    assert [e.index for e in run.episodes] == [0]
    assert not run.invalid
    assert events[-1].why == "stopped"


def test_a_killed_attempt_is_kept_as_invalid_with_what_it_had(shm):
    out = shm / "run"
    words = flags(out, TASK, arm="capex", starts="0", model="lab.model:delay=0.1", judge="later")
    process = cli(*words, "--by", "Ada", stdin=-1)
    process.stdin.write("\n")
    process.stdin.flush()
    episodes = out / "chains" / CHAIN.format("capex") / "episodes"
    deadline = time.monotonic() + 60
    while not any(
        json.loads(p.read_text())["note"]["ledger"]["requests"]
        for p in episodes.glob(".*/begun.json")
    ):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    run, _, operator = arranged(
        out, "", arm="capex", starts="0", model="lab.model:delay=0.1", judge="later"
    )
    (invalid,) = run.invalid
    assert invalid.error == "killed"
    assert invalid.note.ledger.requests >= 1
    assert invalid.timing.episode_s > 0
    assert (invalid.path / FRAMES / "marks").is_file()
    assert (invalid.path / "arrangement" / "match.json").is_file()
    assert operator.arranged[0][1] is not None
    first = next(run.episodes[0].exchanges())
    assert first.number == 1
