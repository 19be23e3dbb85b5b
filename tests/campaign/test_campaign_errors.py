"""What goes wrong during a campaign: models that fail, worlds that break, budgets that end, disks that fill, people who press Ctrl-C."""

from __future__ import annotations

import io
import json
import math
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

import capex
from capex.campaign import events as ev
from capex.campaign.replay import replay
from capex.campaign.scheduling import Pauses
from capex.cli.progress import watching
from capex.errors import ErrorCode
from capex.models import ModelError, Request, Text, UserMessage, openai_chat
from capex.models.cassette import Continued
from capex.models.exchanges import ExchangeLog
from capex.run.files import read_json, write_json
from capex.run.spend import Spend
from capex.run.store import Chain
from lab.campaigns import cli, collect, contents, flags, kinds, price_file
from lab.model import LabModel, waypoints
from refusals import model_fails, refuses
from wire_server import Turn, WireServer


def test_a_model_that_is_down_pauses_its_chains_and_no_start_is_lost(shm):
    down = shm / "down"
    model = f"lab.model:fails={down}"
    collect(shm / "run", model=model, starts="0:1")  # it has answered once
    down.touch()

    def watch(event, board):
        if isinstance(event, ev.ChainPaused) and event.seconds > 0.15:
            down.unlink(missing_ok=True)

    run, events = collect(shm / "run", model=model, watch=watch)
    paused = [e for e in events if isinstance(e, ev.ChainPaused)]
    by_chain = {
        c: [round(e.seconds, 2) for e in paused if e.chain == c] for c in {e.chain for e in paused}
    }
    assert len(by_chain) == 4
    assert all(pauses == [0.05, 0.1, 0.2][: len(pauses)] for pauses in by_chain.values())
    assert "nobody listens" in paused[0].reason
    assert len(run.episodes) == 16
    assert run.invalid == ()


def test_one_pause_is_said_once_however_many_find_the_model_down(shm):
    down = shm / "down"
    down.touch()
    shown = io.StringIO()

    def watch(event, board):
        plain(event, board)
        if (
            isinstance(event, ev.ChainPaused)
            and len({e.chain for e in seen if isinstance(e, ev.ChainPaused)} | {event.chain}) == 4
        ):
            down.unlink(missing_ok=True)
        seen.append(event)

    seen = []
    with watching(Console(file=shown, width=200), json_events=False) as plain:
        collect(
            shm / "run",
            model=f"lab.model:fails={down}",
            round_size=4,
            watch=watch,
            pauses=Pauses(first_s=1.0),
        )
    paused = [e for e in seen if isinstance(e, ev.ChainPaused)]
    assert {e.chain for e in paused} == {e.chain for e in seen if hasattr(e, "chain")}
    assert len(paused) < sum(
        isinstance(e, ev.AttemptInvalid) for e in seen
    )  # several attempts of a round found it out
    lines = shown.getvalue().splitlines()
    assert sum("the model is down" in line for line in lines) < len(paused)
    assert not any("invalid" in line for line in lines)


def test_an_outage_in_mid_episode_costs_neither_the_start_nor_what_was_paid(shm):
    class Flaky(LabModel):
        asked = 0

        def complete(self, request, observer=None):
            self.asked += 1
            if 5 <= self.asked <= 8:
                raise ModelError("server", "the server failed (HTTP 503)")
            return super().complete(request, observer)

    one = {"names": "lab.world:high", "arm": "base", "starts": "0:3", "slots": 1}
    collect(shm / "calm", **one, model=LabModel(""))
    run, _ = collect(shm / "run", **one, model=Flaky(""))
    assert [a.note.counts for a in run.invalid] == [True]
    assert run.invalid[0].note.continues
    assert {k: v for k, v in contents(shm / "run").items() if "invalid" not in k} == contents(
        shm / "calm"
    )
    paid = Spend(shm / "run" / "spend.jsonl").account().attempts
    assert paid == sum(e.record.requests for e in run.episodes)


def test_a_world_that_breaks_is_tried_twice_and_recorded_as_invalid(shm):
    run, events = collect(shm / "run", "lab.world:broken", arm="base", starts="0:2")
    assert run.episodes == ()
    assert [a.path.name for a in run.invalid] == ["0000-1", "0000-2", "0001-1", "0001-2"]
    assert [e.then for e in events if isinstance(e, ev.AttemptInvalid)] == [
        "again",
        "recorded as invalid",
    ] * 2
    again, events = collect(shm / "run", "lab.world:broken", arm="base", starts="0:2")
    assert "EpisodeBegan" not in kinds(events)
    assert len(again.invalid) == 4
    more, _ = collect(shm / "run", "lab.world:broken", arm="base", starts="0:2", retry_invalid=True)
    assert len(more.invalid) == 8


def test_a_key_that_is_refused_stops_the_campaign_and_leaves_the_start_open(shm):
    class Locked(LabModel):
        def complete(self, request, observer=None):
            raise ModelError("authentication", "the server refused the key (HTTP 401)")

    with model_fails("authentication"):
        collect(shm / "run", model=Locked(""))
    run, _ = collect(shm / "run", model=LabModel(""))
    assert len(run.episodes) == 16


def test_a_mistake_in_a_world_stops_its_chain_and_is_raised_when_the_rest_is_done(shm):
    class Buggy(LabModel):
        def complete(self, request, observer=None):
            if '"plan_max": 24' in request.system:
                raise ZeroDivisionError("a mistake of mine")
            return super().complete(request, observer)

    with pytest.raises(ZeroDivisionError, match="a mistake of mine") as caught:
        collect(shm / "run", model=Buggy(""))
    assert "in complete" in caught.value.__notes__[0]
    run = capex.load_run(shm / "run")
    assert {c.arm: len(c.episodes) for c in run.chains} == {"base": 4, "capex": 0}
    assert not list((shm / "run").rglob(".writing-*"))


def test_labels_that_no_calibrator_can_learn_from_stop_their_chain_alone(shm):
    collect(shm / "run", starts="0:1")
    spoiled = next((shm / "run").glob("chains/*--capex/episodes/*/record.json"))
    record = read_json(spoiled)
    labelled = [w for t in record["turns"] for w in t["waypoints"] if w["label"] is not None]
    labelled[0] |= {"features": [1e150] * 8, "label": 0}
    write_json(spoiled, record)
    with pytest.raises(ArithmeticError, match="features nearer their usual range"):
        collect(shm / "run", starts="0:4")
    chains = capex.load_run(shm / "run").chains
    whole = {c.path.name: len(c.episodes) for c in chains}
    assert whole.pop(spoiled.parents[2].name) == 1
    assert set(whole.values()) == {4}


class Mute(LabModel):
    """Talks, but calls nothing while its file exists."""

    def complete(self, request, observer=None):
        reply = super().complete(request, observer)
        return (
            reply
            if not os.path.exists(self.path)
            else replace(reply, calls=(), text="As a language model \x1b[31mI only talk.")
        )


def _mute(path):
    model = Mute("")
    model.path = path
    path.touch()
    return model


@pytest.mark.parametrize("round_size", [1, 4])
def test_a_chain_whose_model_never_calls_a_tool_stops_and_quotes_it(shm, round_size):
    one = {"names": "lab.world:high", "arm": "capex", "starts": "0:9", "round_size": round_size}
    model = _mute(shm / "mute")
    words = r"has not made a valid tool call in any episode of lab.world:high; it said: 'As a language model \\x1b\[31mI only talk.'"
    with refuses(ErrorCode.GIVEN_UP, words):
        collect(shm / "run", **one, model=model)
    run = capex.load_run(shm / "run")
    count = len(run.episodes)
    assert 3 <= count <= max(3, round_size)
    assert {(e.record.end, e.record.success, e.record.requests) for e in run.episodes} == {
        ("silent", False, 18)
    }
    assert run.invalid == ()
    for more in (1, 2):  # continued, it tries one start and stops again
        with refuses(ErrorCode.GIVEN_UP, "has not made a valid tool call"):
            collect(shm / "run", **one, model=model)
        assert len(capex.load_run(shm / "run").episodes) == count + more
    (shm / "mute").unlink()
    run, _ = collect(shm / "run", **one, model=model)
    assert len(run.episodes) == 9
    assert [e.record.end == "silent" for e in run.episodes] == [True] * (count + 2) + [False] * (
        9 - count - 2
    )


def test_a_run_from_before_the_limit_on_silence_goes_on_without_it(shm):
    one = {"names": "lab.world:high", "arm": "capex"}
    model = LabModel("")
    run, _ = collect(shm / "run", **one, starts="0:1", model=model)
    assert run.manifest.settings["arms"]["capex"]["silent_decisions"] == 3
    manifest = read_json(shm / "run" / "manifest.json")
    del manifest["settings"]["arms"]["capex"]["silent_decisions"]
    write_json(shm / "run" / "manifest.json", manifest)
    run, _ = collect(shm / "run", **one, starts="0:3", model=_mute(shm / "mute"))
    assert [(e.record.end, e.record.requests) for e in run.episodes][1:] == [("decisions", 36)] * 2
    assert "silent_decisions" not in run.manifest.settings["arms"]["capex"]
    with refuses(ErrorCode.OTHER_SETTINGS, r"--silent-decisions of arm capex: None before, 2 now"):
        collect(shm / "run", **one, starts="0:4", model=model, silent_decisions=2)
    run, _ = collect(shm / "off", **one, starts="0:1", model=model, silent_decisions=0)
    assert "silent_decisions" not in run.manifest.settings["arms"]["capex"]


@pytest.mark.parametrize("fault", ["silent", "creep", "stall", "drip", "pour"])
def test_an_episodes_minutes_end_a_request_in_flight(shm, fault):
    hanging = Turn(calls=lambda request: waypoints(request), fault=fault, worked=True)
    with WireServer([Turn(calls=lambda request: waypoints(request)), hanging]) as server:
        model, prices = f"chat:qwen@{server.url}", price_file(shm, "qwen")
        one = {
            "names": "lab.world:high",
            "arm": "base",
            "starts": "0:1",
            "episode_minutes": 0.05,
        }  # the first answer must come within it on a busy machine too
        run, _ = collect(shm / "run", **one, model=model, prices=prices)
        assert server.requests == 2
    (episode,) = run.episodes
    assert run.invalid == ()
    assert (
        episode.record.end,
        episode.record.success,
        episode.record.requests,
        len(episode.record.turns),
    ) == ("time", False, 1, 1)
    assert episode.record.cost_usd is None  # the request in flight may be billed
    assert episode.record.ledger.unknown_billing == 1
    account = Spend(shm / "run" / "spend.jsonl").account()
    assert (account.attempts, account.unknown, account.unsettled) == (2, 1, 0)
    assert account.held_usd > 0
    assert [(r.difference, r.damaged) for r in replay(shm / "run")] == [("", "")]


def test_a_dear_campaign_needs_a_budget_or_a_yes_before_anything_is_sent(shm):
    with WireServer([Turn(calls=lambda request: waypoints(request))] * 400) as server:
        one = {
            "model": f"chat:qwen@{server.url}",
            "prices": price_file(shm, "qwen", 10, 50),
            "starts": "0:1",
            "yes": False,
        }
        sentence = r"costs about \$4.24 \(by what the paper's attempts cost, scaled .*at most \$100.00 .*nothing was sent: .*--campaign-usd"
        with refuses(ErrorCode.NO_PRICE, sentence):
            collect(shm / "run", **one)
        asked = []

        def confirm(cost, answer):
            asked.append(cost)
            return answer

        with refuses(ErrorCode.NO_PRICE, "nothing was sent"):
            collect(shm / "run", **one, confirm=lambda cost: confirm(cost, False))
        assert server.requests == 0
        assert not (shm / "run").exists()
        run, events = collect(shm / "run", **one, confirm=lambda cost: confirm(cost, True))
        assert len(asked) == 2
        assert len(run.episodes) == 4
        assert "about $4.24" in events[0].ceiling
        assert math.isclose(events[0].expected_usd, 4.24)
        collect(shm / "run", **one)  # nothing is left to run
        with refuses(ErrorCode.NO_PRICE, "nothing was sent"):
            collect(shm / "run", **{**one, "starts": "0:2"})
        collect(shm / "run", **{**one, "starts": "0:2"}, campaign_usd=80)
        collect(shm / "cheap", **{**one, "names": "lab.world:low", "arm": "base"})  # at most $25
        with refuses(ErrorCode.NO_PRICE, "nothing bounds the cost"):
            collect(shm / "successes", **one, until_successes=1)


FAULTS = [
    Turn(fault="http", status=500, headers={"retry-after-ms": "20"}),
    Turn(fault="http", status=429, headers={"retry-after-ms": "20"}),
    Turn(fault="reset", worked=True),
    Turn(fault="truncated", worked=True),
    Turn(fault="failed", code="server_error", headers={"retry-after-ms": "20"}),
]


def test_faults_in_a_tenth_of_the_requests_and_the_ledger_equals_the_servers_count(shm):
    answering = Turn(calls=lambda request: waypoints(request))
    turns = [FAULTS[n // 10 % len(FAULTS)] if n % 10 == 0 else answering for n in range(2000)]
    prices = price_file(shm, "qwen")
    with WireServer(turns) as server:
        run, _ = collect(shm / "run", model=f"chat:qwen@{server.url}", prices=prices)
        assert len(run.episodes) == 16
        account = Spend(shm / "run" / "spend.jsonl").account()
        assert account.attempts == server.requests > 40
        tokens = [
            sum(getattr(u, name) for u in server.reported)
            for name in ("fresh", "cached", "cache_write", "output", "reasoning")
        ]
        assert list(vars(account.tokens).values()) == tokens
        assert account.unknown == server.unreported > 0
        assert account.unsettled == 0
    tried = sum(e.record.ledger.attempts for e in run.episodes)
    invalid = [a.note.ledger.attempts for a in run.invalid if not a.note.continues]
    assert tried + sum(invalid) <= server.requests


# -- a full context ---------------------------------------------------------------------------------------------------------------------

LOOK = ("locate_pixel", {"camera": "back_left", "u": 3, "v": 20})
VERBOSE = Turn(calls=[LOOK], text="word " * 8000)
BRIEF = Turn(calls=lambda request: waypoints(request))
REFUSED = Turn(
    fault="http",
    status=400,
    message="This model's maximum context length is 12000 tokens. Shorten it.",
)
ONE = {
    "names": "lab.world:high",
    "arm": "capex",
    "starts": "0:1",
    "decisions": 3,
    "max_output_tokens": 1000,
}


@pytest.mark.parametrize("checked", ["here", "by the server"])
def test_a_model_that_fills_its_context_has_failed_its_decision_not_the_attempt(shm, checked):
    context = {"context_tokens": 12_000 if checked == "here" else 1_000_000}
    turns = [VERBOSE, *([REFUSED] if checked == "by the server" else []), BRIEF, BRIEF]
    with WireServer(turns) as server:
        model = f"chat:qwen@{server.url}"
        run, _ = collect(shm / "run", model=model, prices=price_file(shm, "qwen"), **context, **ONE)
        assert server.turns == []
        sent = server.requests
        (episode,) = run.episodes
        first, *others = episode.record.turns
        reason = (
            "context of 12000; nothing was sent"
            if checked == "here"
            else "maximum context length is 12000 tokens"
        )
        assert first.skipped_reason.startswith(
            "spent without motion: after round 1 the decision no longer fitted the model's context (the request "
        )
        assert reason in first.skipped_reason
        assert (first.calls, len(first.located), first.waypoints) == (1, 1, ())
        assert [(turn.skipped_reason, turn.calls) for turn in others] == [
            ("", 1)
        ] * 2  # the episode went on
        assert f"Act 1: {first.skipped_reason}" in json.dumps(
            list(episode.exchanges())[-1].request
        )  # and the model was told
        assert run.invalid == ()
        # Four attempts: three were answered and paid for; the one that was refused, or not even sent, cost nothing.
        ledger = episode.record.ledger
        assert (episode.record.requests, ledger.attempts, ledger.unknown_billing) == (3, 4, 0)
        account = Spend(shm / "run" / "spend.jsonl").account()
        assert (account.attempts, account.held_usd, float(account.settled_usd)) == (
            4,
            0,
            episode.record.cost_usd,
        )
        assert [r.difference for r in replay(run.path)] == [""]
        again, _ = collect(shm / "again", model=f"cassette:{run.path}", **ONE)
        assert again.episodes[0].record.turns == episode.record.turns
        # Cut off before its last answer, it continues behind the refusal and pays for that answer alone.
        before = {name: (episode.path / name).read_bytes() for name in ("record.json", "steps.npz")}
        log = (episode.path / "exchanges.jsonl").read_bytes().splitlines(keepends=True)
        chain = Chain(episode.path.parent.parent)
        shutil.rmtree(episode.path)
        chain.unfinished(0).parent.mkdir(exist_ok=True)
        chain.unfinished(0).write_bytes(b"".join(log[:-1]))
        server.turns = [BRIEF]
        collect(shm / "run", model=model, **context, **ONE)
        assert server.requests == sent + 1
        assert {name: (episode.path / name).read_bytes() for name in before} == before
        assert (episode.path / "exchanges.jsonl").read_bytes().splitlines(keepends=True)[
            :-1
        ] == log[:-1]
        assert Spend(shm / "run" / "spend.jsonl").account().attempts == 5


def test_a_first_request_that_does_not_fit_stops_the_chain_with_a_sentence(shm):
    with WireServer([BRIEF]) as server:
        small = {"model": f"chat:qwen@{server.url}", "context_tokens": 3000, **ONE}
        with model_fails(
            "context", r"exceeds the context of 3000; nothing was sent \(see --context-tokens\)"
        ):
            collect(shm / "run", **small)
        assert server.requests == 0
    run = capex.load_run(shm / "run")
    assert run.episodes == ()
    assert [a.note.counts for a in run.invalid] == [False]


def test_a_refusal_that_ends_a_log_is_not_believed_for_ever(shm):
    log = ExchangeLog(shm)
    request = Request("system", (UserMessage((Text("what now?"),)),), ())
    with WireServer([REFUSED, BRIEF]) as server:
        model = openai_chat.make(f"qwen@{server.url}")
        with model_fails("context"):
            model.complete(request, log)
        server.turns = [Turn(text="now it fits")]
        assert Continued(model, shm / "exchanges.jsonl").complete(request).text == "now it fits"


# -- budgets ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_the_campaigns_budget_holds_with_any_price_workers_and_crashes(shm, seed):
    rng = random.Random(seed)
    crash = shm / "crash"
    prices = price_file(shm, fresh=rng.choice([0.1, 3, 40]), output=rng.choice([0.2, 9, 200]))
    run = shm / "run"
    free = {
        "prices": prices,
        "model": f"lab.model:crash={crash}",
        "starts": "0:6",
        "slots": 3,
        "max_output_tokens": 100,
    }
    engine = {"parallel": 2} if seed else {}
    whole, _ = collect(shm / "whole", **free)
    cost = Spend(shm / "whole/spend.jsonl").total()
    assert cost == sum(Decimal(str(e.record.cost_usd)) for e in whole.episodes)
    limit = cost * Decimal(rng.randint(60, 85)) / 100
    if engine:
        crash.touch()
    _, events = collect(run, **free, **engine, campaign_usd=float(limit))
    spent = Spend(run / "spend.jsonl")
    assert spent.total() <= Decimal(str(float(limit)))
    assert [e.why for e in events if isinstance(e, ev.ChainEnded)].count("every start has run") < 4
    assert any(
        "does not cover the next request" in e.reason
        for e in events
        if isinstance(e, ev.AttemptCutOff)
    )
    assert events[-1].why == "out of budget"
    assert not crash.exists()
    before = spent.account().attempts
    run_, _ = collect(run, **free, **engine, campaign_usd=1000)
    assert contents(run) == contents(shm / "whole")
    recorded = sum(e.record.ledger.attempts for e in run_.episodes)
    account = spent.account()
    assert before < account.attempts
    assert (
        account.attempts - recorded == account.unsettled <= 3 * bool(engine)
    )  # only what was in flight at the crash was paid twice


def test_a_budget_that_covers_no_request_is_refused_before_the_first_episode(shm):
    with refuses(
        ErrorCode.BUDGET_TOO_SMALL, r"budget of \$0.05 covers no request: the next may cost \$0.5"
    ):
        collect(shm / "run", prices=price_file(shm), campaign_usd=0.05)
    with refuses(
        ErrorCode.BUDGET_TOO_SMALL, r"a budget of \$0.50 per episode covers no request of arm capex"
    ):
        collect(shm / "run", prices=price_file(shm), episode_usd=0.5)
    assert not (shm / "run").exists()


def test_an_episodes_budget_ends_the_episode_and_not_the_chain(shm):
    run, _ = collect(shm / "run", prices=price_file(shm), episode_usd=0.6, arm="base")
    assert {e.record.end for e in run.episodes} >= {"cost"}
    assert len(run.episodes) == 8
    assert max(e.record.cost_usd for e in run.episodes) <= 0.6


def test_hours_end_a_campaign_between_episodes(shm):
    run, events = collect(shm / "run", campaign_hours=0.0)
    assert run.episodes == ()
    stopping = next(e for e in events if isinstance(e, ev.Stopping))
    assert not stopping.at_once
    assert events[-1].why == "stopped"


# -- interruptions ---------------------------------------------------------------------------------------------------------------------


def _begun(process: subprocess.Popen) -> None:
    for line in process.stdout:
        if '"EpisodeMoved"' in line and '"decision": 2' in line:
            return
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize("engine", [{}, {"parallel": 2}])
def test_ctrl_c_once_finishes_what_runs_and_twice_stops_at_once(shm, engine):
    out = shm / "run"
    slow = {"model": "lab.model:delay=0.2", "slots": 4, **engine}
    process = cli(*flags(out, **slow), "--json-events")
    _begun(process)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; what was finished is kept" in errors
    once = capex.load_run(out)
    assert 4 <= len(once.episodes) < 16
    assert '"Stopping"' in said
    assert '"AttemptCutOff"' not in said
    process = cli(*flags(out, **slow), "--json-events", start_new_session=True)
    _begun(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert '"AttemptCutOff"' in said
    assert not list(out.rglob(".writing-*"))
    assert list(out.glob("chains/*/unfinished/*.jsonl"))
    paid = Spend(out / "spend.jsonl").account()
    run, _ = collect(out, model=slow["model"])
    assert len(run.episodes) == 16
    account = Spend(out / "spend.jsonl").account()
    recorded = sum(e.record.ledger.attempts for e in run.episodes)
    assert recorded <= account.attempts <= recorded + 4
    assert paid.attempts < account.attempts


# -- disks -----------------------------------------------------------------------------------------------------------------------------


def _sentence(process: subprocess.Popen) -> str:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 2, out + errors
    assert "Traceback" not in errors
    return " ".join(errors.split())


def test_a_full_disk_is_a_sentence_and_leaves_whole_episodes(small_disk, shm):
    place, limit = small_disk
    out = place / "run"
    words = _sentence(cli(*flags(out, starts="0:40", slots=2), preexec_fn=limit))
    assert "No space left" in words or "is full" in words or "File too large" in words
    assert not list(out.rglob(".writing-*"))
    run = capex.load_run(out)
    assert run.damaged == ()
    if limit is None:
        shutil.copytree(out, shm / "run")
        run, _ = collect(shm / "run")
        assert len([e for e in run.episodes if e.index < 4]) == 16


def test_a_run_directory_that_cannot_be_written_is_a_sentence(small_disk):
    place, limit = small_disk
    assert "'/proc/run' cannot be read or written" in _sentence(cli(*flags(Path("/proc/run"))))
    if limit is None:
        collect(place / "run", starts="0:1", arm="base")
        before = contents(place / "run")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        assert "cannot be read or written (Read-only file system)" in _sentence(
            cli(*flags(place / "run", arm="base"))
        )
        assert contents(place / "run") == before
