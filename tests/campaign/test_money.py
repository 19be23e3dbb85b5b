"""Budgets hold for every sequence of faults, spending is never forgotten, and no wait outlives Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
from dataclasses import replace
from decimal import Decimal

import pytest

import capex
from budget_storm import ABOVE, FAULTS, Storm
from capex.campaign import events as ev
from capex.campaign.ledger import Budget, Ledger
from capex.campaign.repair import repair
from capex.campaign.status import read_status
from capex.errors import BudgetExceeded, ErrorCode
from capex.models import Request, RequestAttempt, Sampling, Text, Usage, UserMessage
from capex.models.prices import load_prices, worst_case
from capex.report.data import load
from capex.run.files import write_json
from capex.run.pace import PACE, Rate
from capex.run.spend import Spend
from lab.campaigns import collect, price_file
from lab.model import LabModel, waypoints
from refusals import refuses
from wire_server import Turn, WireServer

D = Decimal
PRICE = load_prices().find("gpt-6-astra")
REQUEST = Request("s", (UserMessage((Text("t"),)),), (), Sampling(max_output_tokens=100))
WORST = worst_case(REQUEST, PRICE)
ONE = {"names": "lab.world:high", "arm": "base", "starts": "0:1"}
ANSWER = Turn(calls=lambda request: waypoints(request))
SOON = {"retry-after-ms": "1"}
REFUSING = Turn(fault="http", status=429, headers={"retry-after": "482"})
GATEWAY = Turn(fault="http", status=504, headers=SOON, worked=True)


def ctrl_c(request):
    """The server's answer is about to leave when the user presses it."""
    os.kill(os.getpid(), signal.SIGINT)
    return ()


def test_random_faults_kills_and_interrupts_exceed_no_announced_maximum(shm):
    storm = Storm(shm, seed=0)
    for number in range(60):
        storm.sequence(number)
    tally = storm.tally
    assert tally.broken == []
    assert tally.seen.keys() >= {"answer", "finished", *FAULTS, ABOVE, "killed in flight"}


# -- one ledger per start ---------------------------------------------------------------------------


def test_a_ledger_counts_what_earlier_attempts_at_the_start_took():
    budget = Budget(3 * WORST)
    ledger = Ledger(PRICE, (budget,), carried_usd=D("2.5") * WORST)
    with pytest.raises(BudgetExceeded, match="of it without an answer") as caught:
        ledger.before(REQUEST, 1)
    assert caught.value.by_losses
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), vars(again)) == (str(caught.value), vars(caught.value))
    answered = RequestAttempt("ok", "yes", 0.0, Usage(1, 0, 0, 1))
    ledger = Ledger(PRICE, (budget,), carried_usd=2 * WORST)
    ledger.again(REQUEST, 1, answered)  # part of what is carried
    ledger.before(REQUEST, 2)
    assert ledger.counted_usd == 3 * WORST
    ledger.after(REQUEST, 2, RequestAttempt("timeout", "unknown", 0.0))
    with pytest.raises(BudgetExceeded):
        ledger.before(REQUEST, 3)


def test_a_budget_that_answers_used_up_is_the_models_own():
    ledger = Ledger(PRICE, (Budget(D("1.5") * WORST),))
    ledger.before(REQUEST, 1)
    ledger.after(REQUEST, 1, RequestAttempt("ok", "yes", 0.0))  # its usage is not known
    with pytest.raises(BudgetExceeded) as caught:
        ledger.before(REQUEST, 2)
    assert not caught.value.by_losses


@pytest.mark.parametrize("fault", ["504", "unreadable", "oversized"])
def test_retries_that_may_have_been_billed_stay_within_the_starts_budget(shm, fault):
    big = json.dumps({"choices": [], "more": "x" * 8_000_001}).encode()
    faults = {
        "504": GATEWAY,
        "unreadable": Turn(fault="body", body=b"<html>", headers=SOON, worked=True),
        "oversized": Turn(fault="body", body=big, worked=True),
    }
    with WireServer([ANSWER, *[faults[fault]] * 60]) as server:
        model, prices = f"chat:qwen@{server.url}", price_file(shm, "qwen")
        run, events = collect(shm / "run", **ONE, model=model, prices=prices, episode_usd=3)
        assert server.requests < 30
    account = Spend(shm / "run" / "spend.jsonl").account()
    assert 2 < account.total_usd <= 3
    assert D(str(events[0].ceiling_usd)) == 3
    assert run.episodes == ()  # a server that fails is no failure of the model
    assert run.invalid[-1].note.final
    assert [e.then for e in events if isinstance(e, ev.AttemptInvalid)][-1] == "recorded as invalid"
    again, events = collect(shm / "run", **ONE, model=model, prices=prices, episode_usd=3)
    assert not any(isinstance(e, ev.EpisodeBegan) for e in events)
    assert len(again.invalid) == len(run.invalid)


def test_requests_in_flight_at_kills_count_against_their_start_for_ever(shm):
    price = price_file(shm)
    first = {**ONE, "prices": price, "episode_usd": 3}
    collect(shm / "run", **first, model=LabModel(""))
    spend = Spend(shm / "run" / "spend.jsonl")
    for _ in range(5):
        spend.reserve(D("0.55"), start=("lab.world--high--base", 1))
    before = spend.total()
    run, events = collect(shm / "run", **{**first, "starts": "0:2"}, model=LabModel(""))
    assert [e.record.start for e in run.episodes] == [0]
    assert run.invalid[0].note.final
    assert Spend(shm / "run" / "spend.jsonl").total() == before
    # What the kills left is part of the maximum of the start, not on top of it.
    assert D(str(events[0].ceiling_usd)) == before - D("2.75") + 3


def test_a_cost_is_settled_where_the_providers_limits_cannot_be_written(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    ledger = Ledger(PRICE, spend=spend, rate=Rate(requests=5))
    ledger.before(REQUEST, 1)
    (tmp_path / PACE).unlink()
    (tmp_path / PACE).mkdir()
    with refuses(ErrorCode.CANNOT_WRITE):
        ledger.after(REQUEST, 1, RequestAttempt("ok", "yes", 0.0, Usage(1, 0, 0, 1)))
    account = spend.account()
    assert (account.unsettled, account.held_usd, account.settled_usd) == (0, 0, D("0.00006"))


# -- spending is not forgotten ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["missing", "emptied", "shortened", "garbled"])
def test_a_spend_file_that_has_lost_lines_stops_the_campaign_until_it_is_repaired(shm, loss):
    out, options = shm / "run", {**ONE, "starts": "0:3", "slots": 1, "prices": price_file(shm)}
    collect(out, **options)
    path = out / "spend.jsonl"
    whole, account = path.read_bytes(), Spend(path).account()
    lines = whole.splitlines(keepends=True)
    if loss == "missing":
        path.unlink()
    else:
        lost = {"emptied": [], "shortened": lines[:6], "garbled": [*lines[:4], b"?\n", *lines[5:]]}
        path.write_bytes(b"".join(lost[loss]))
    damaged = path.read_bytes() if path.is_file() else None
    with refuses(ErrorCode.SPENT_UNKNOWN, r"capex repair .*run` enter what the records hold"):
        collect(out, **{**options, "starts": "0:4"})
    if loss != "garbled":
        assert any("capex repair" in sentence for sentence in read_status(out).sentences)
        assert any("has lost lines" in problem for problem in load([out]).problems)
    listed = repair(out, dry_run=True).spend
    assert listed.kept is None
    assert (path.read_bytes() if path.is_file() else None) == damaged
    done = repair(out).spend
    assert "entered now" in done.sentence or done.kept is None
    assert (None if done.kept is None else done.kept.read_bytes()) == damaged
    found = Spend(path).account()
    for name in ("settled_usd", "total_usd"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(account, name)))
    assert (found.attempts, found.requests) == (account.attempts, account.requests)
    assert found.tokens == account.tokens
    assert repair(out).spend is None
    run, _ = collect(out, **{**options, "starts": "0:4"})
    assert len(run.episodes) == 4


@pytest.mark.parametrize("cut_off", [False, True])
def test_lost_replies_are_noticed_where_an_outage_had_more_attempts(shm, cut_off):
    """The retries of an outage stand in spend.jsonl alone: they do not make up for lost lines."""
    out = shm / "run"
    given = {**ONE, "prices": price_file(shm, "qwen"), "episode_usd": 30}
    waiting = Turn(ctrl_c, fault="http", status=429, headers={"retry-after": "482"})
    last = [waiting] if cut_off else [ANSWER] * 10
    with WireServer([*[GATEWAY] * 5, *[ANSWER] * 3, *last]) as server:
        given["model"] = f"chat:qwen@{server.url}"
        with contextlib.suppress(KeyboardInterrupt):
            collect(out, **given)
        path = out / "spend.jsonl"
        whole, account = path.read_bytes().splitlines(keepends=True), Spend(path).account()
        assert account.attempts > account.requests + 4
        path.write_bytes(b"".join(whole[: 10 + 2]))  # the outage and one reply
        lost = account.requests - 1
        with refuses(ErrorCode.SPENT_UNKNOWN, f"lacks {lost} requests"):
            collect(out, **given)
        assert repair(out).spend.requests == lost
        assert Spend(path).account().settled_usd == account.settled_usd
        assert repair(out).spend is None


def test_what_a_cut_off_attempt_may_have_been_billed_takes_the_rest_of_its_budget(shm):
    out = shm / "run"
    given = {**ONE, "prices": price_file(shm, "qwen"), "episode_usd": 3}
    waiting = Turn(ctrl_c, fault="http", status=504, headers={"retry-after": "482"})
    with WireServer([ANSWER, waiting]) as server:
        model = f"chat:qwen@{server.url}"
        with pytest.raises(KeyboardInterrupt):
            collect(out, **given, model=model)
    (out / "spend.jsonl").unlink()
    with refuses(ErrorCode.SPENT_UNKNOWN, "is missing, and with it 2 requests"):
        collect(out, **given, model=model)
    assert repair(out).spend.usd == 3
    assert Spend(out / "spend.jsonl").total() == 3
    run, _ = collect(out, **given, model=model)
    assert run.invalid[0].note.final


def test_a_runs_budget_is_remembered(shm):
    priced = {**ONE, "prices": price_file(shm)}
    collect(shm / "run", **priced, campaign_usd=7)
    run, events = collect(shm / "run", **{**priced, "starts": "0:2"})
    assert run.manifest.plan.campaign_usd == D("7.0")
    assert "budget of $7.00, set by an earlier command, still holds" in events[0].warning
    run, events = collect(shm / "run", **{**priced, "starts": "0:2"}, campaign_usd=9)
    assert run.manifest.plan.campaign_usd == D("9.0")
    assert "still holds" not in events[0].warning
    Spend(shm / "run" / "spend.jsonl").reserve(D(9), start=("other", 0))
    collect(shm / "run", **{**priced, "starts": "0:2"})  # nothing is left to run
    with refuses(
        ErrorCode.BUDGET_TOO_SMALL, r"\$9.00, set by an earlier command, covers no request"
    ):
        collect(shm / "run", **{**priced, "starts": "0:3"})


@pytest.mark.parametrize(
    ("plan", "code", "words"),
    [
        (None, ErrorCode.DAMAGED_FILE, "plan: Expected 'object'"),
        (7, ErrorCode.DAMAGED_FILE, "plan: Expected 'object'"),
        ({"campaign_usd": [1]}, ErrorCode.DAMAGED_FILE, "plan.campaign_usd: Expected"),
        ({"campaign_usd": "-3"}, ErrorCode.BAD_SETTING, "the budget in the manifest"),
    ],
)
def test_a_remembered_budget_that_cannot_be_read_ends_in_a_sentence(shm, plan, code, words):
    priced = {**ONE, "prices": price_file(shm)}
    run, _ = collect(shm / "run", **priced, campaign_usd=7)
    write_json(shm / "run" / "manifest.json", run.manifest.as_json() | {"plan": plan})
    with refuses(code, words):
        collect(shm / "run", **{**priced, "starts": "0:2"})


def test_a_request_above_its_worst_case_is_named(shm):
    above = replace(ANSWER, usage=Usage(fresh=10**6, cached=0, cache_write=0, output=10))
    with WireServer([above, *[ANSWER] * 50]) as server:
        model, prices = f"chat:qwen@{server.url}", price_file(shm, "qwen")
        _, events = collect(shm / "run", **ONE, model=model, prices=prices, episode_usd=25)
    (named,) = [e for e in events if isinstance(e, ev.CostAboveBound)]
    assert (named.chain, named.start, named.requests) == ("lab.world--high--base", 0, 1)
    assert 9 < named.usd < 10
    assert any("more than the worst case" in s for s in read_status(shm / "run").sentences)
    assert any("more than their worst case" in p for p in load([shm / "run"]).problems)


# -- waits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["interleave", "turn"])
def test_a_model_that_has_never_answered_ends_the_campaign_after_three_tries(shm, order):
    down = shm / "down"
    down.touch()
    model, tried = f"lab.model:fails={down}", []

    def watch(event, board):
        tried.append(event)

    with refuses(ErrorCode.GIVEN_UP, r"not answered once in 3 tries .*nobody listens"):
        collect(shm / "run", model=model, order=order, watch=watch)
    began = [e.chain for e in tried if isinstance(e, ev.EpisodeBegan)]
    assert max(began.count(chain) for chain in began) == 3
    assert tried[-1].why == "stopped"
    down.unlink()
    run, _ = collect(shm / "run", model=model)
    assert len(run.episodes) == 16


WAITS = {
    "Retry-After": ({}, Turn(ctrl_c, fault="http", status=429, headers={"retry-after": "482"})),
    "a rate limit": (
        {"requests_per_minute": 1},
        Turn(lambda request: ctrl_c(request) or waypoints(request)),
    ),
}


@pytest.mark.parametrize(
    ("wait", "parallel"), [("Retry-After", 1), ("Retry-After", 2), ("a rate limit", 1)]
)
def test_one_ctrl_c_ends_a_wait(shm, wait, parallel):
    options, turn = WAITS[wait]
    one = {**ONE, **options, "starts": "0:2", "round_size": parallel, "parallel": parallel}
    seen = []
    with WireServer([turn, REFUSING, REFUSING]) as server:
        model = f"chat:qwen@{server.url}"
        with pytest.raises(KeyboardInterrupt):
            collect(shm / "run", **one, model=model, watch=lambda e, board: seen.append(e))
        assert server.requests <= parallel  # none was sent again after a wait
    assert sum(isinstance(e, ev.AttemptCutOff) for e in seen) == parallel
    assert [e.at_once for e in seen if isinstance(e, ev.Stopping)] == [False]
    assert capex.load_run(shm / "run").invalid == ()
