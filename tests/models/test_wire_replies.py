"""What a server answers and when it is asked again: odd replies, usage, waits and deadlines."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from capex.errors import CapexError, ErrorCode
from capex.models import ModelError, Request, RequestAttempt, Usage, openai_chat, openai_responses
from capex.models.retry import RetryPolicy, failed, refused, retry_after_s
from model_clients import (
    ACT,
    HASTY,
    LOOK,
    OK,
    REQUEST,
    WIRES,
    FakeClock,
    Tally,
    assert_books_agree,
    client,
)
from refusals import refuses
from wire_server import USAGE, Turn, WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")


@pytest.mark.parametrize("wire_name", WIRES)
def test_plain_reply(wire_name):
    tally = Tally()
    with WireServer([OK]) as server:
        model = client(wire_name, server)
        reply = model.complete(REQUEST, tally)
        assert_books_agree(tally, server)
    assert [(c.name, json.loads(c.arguments)) for c in reply.calls] == [
        ("act", {"reasoning": "closer"})
    ]
    assert reply.usage == USAGE == reply.attempts[0].usage
    assert not reply.incomplete
    assert dict(reply.attempts[0].headers).keys() == {"date", "x-request-id"}
    assert isinstance(reply.attempts[0].body, Mapping)
    assert model.price_name in model.name
    assert not model.stand_in


@pytest.mark.parametrize("wire_name", WIRES)
def test_odd_replies_come_through(wire_name):
    turns = {
        "incomplete": Turn(calls=[("act", {"reasoning": "cut"})], incomplete=True),
        "unknown tool": Turn(calls=[("fly", {})]),
        "two commands": Turn(
            calls=[("act", {"reasoning": "a"}), ("act", {"reasoning": "b"})], text="both"
        ),
        "missing usage": replace(OK, usage=None),
        "empty": Turn(),
        "2 MB": Turn(calls=[("act", {"reasoning": "x" * 2_000_000})]),
    }
    tally, replies = Tally(), {}
    with WireServer(list(turns.values())) as server:
        model = client(wire_name, server)
        for name in turns:
            replies[name] = model.complete(REQUEST, tally)
        assert_books_agree(tally, server)
        assert server.unreported == 1
    assert all(len(reply.attempts) == 1 for reply in replies.values())
    assert replies["incomplete"].incomplete
    assert replies["incomplete"].attempts[0].status == "incomplete"
    assert replies["incomplete"].usage == USAGE
    assert [c.name for c in replies["unknown tool"].calls] == ["fly"]
    assert [json.loads(c.arguments)["reasoning"] for c in replies["two commands"].calls] == [
        "a",
        "b",
    ]
    assert len({c.id for c in replies["two commands"].calls}) == 2
    assert replies["two commands"].text == "both"
    assert replies["missing usage"].usage is None
    assert replies["missing usage"].attempts[0].billed == "yes"
    assert (replies["empty"].calls, replies["empty"].text) == ((), "")
    assert len(replies["2 MB"].calls[0].arguments) > 2_000_000


@pytest.mark.parametrize("wire_name", ["responses", "chat"])
def test_wrong_types_come_through(wire_name):
    broken = Turn(
        calls=[("act", '{"reasoning": tru'), ("act", None), ("act", [1, "two"]), (7, "{}")]
    )
    with WireServer([broken]) as server:
        calls = client(wire_name, server).complete(REQUEST).calls
    assert [(c.name, c.arguments) for c in calls] == [
        ("act", '{"reasoning": tru'),
        ("act", ""),
        ("act", '[1, "two"]'),
        ("7", "{}"),
    ]


def test_usage_is_taken_only_where_it_adds_up():
    def chat(**usage: Any) -> Usage | None:
        return openai_chat.usage_of(
            {"usage": {"prompt_tokens": 100, "completion_tokens": 10, **usage}}
        )

    assert chat() == Usage(100, 0, 0, 10)
    assert chat(prompt_tokens_details=None, completion_tokens_details={}) == Usage(100, 0, 0, 10)
    assert chat(prompt_tokens_details={"cached_tokens": 60}) == Usage(40, 60, 0, 10)
    assert chat(total_tokens=150) == Usage(100, 0, 0, 50)  # reasoning left out of the output count
    assert chat(total_tokens=90) is None
    assert chat(prompt_tokens_details={"cached_tokens": 101}) is None
    assert chat(prompt_tokens_details={"cached_tokens": "60"}) is None
    assert chat(prompt_tokens="100") is None
    assert chat(completion_tokens=-1) is None
    assert chat(completion_tokens=True) is None
    assert openai_chat.usage_of({"usage": "many"}) is None
    assert openai_responses.usage_of({}) is None


def test_retry_after_is_obeyed_and_capped():
    waits = ["7", "3600", "-3", "soon"]
    turns = [Turn(fault="http", status=429, headers={"Retry-After": text}) for text in waits]
    with WireServer([*turns, OK]) as server:
        client("responses", server, clock := FakeClock()).complete(REQUEST)
    assert clock.slept[:2] == [7.0, 120.0]
    assert 3.0 < clock.slept[2] <= 4.0
    assert 6.0 < clock.slept[3] <= 8.0


def test_retry_after_as_date_goes_by_the_servers_clock():
    headers = {
        "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
        "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
    }
    assert retry_after_s(headers) == 30.0
    assert retry_after_s({"Retry-After": headers["Retry-After"]}, wall=lambda: 1792567700.0) == 10.0
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after_s({"Retry-After": "inf"}) is None
    assert retry_after_s({}) is None


def test_backoff_doubles_with_jitter_that_repeats():
    policy, other = RetryPolicy(), replace(REQUEST, system="other")
    waits = [policy.wait_s(REQUEST, n) for n in range(1, 12)]
    assert waits == [policy.wait_s(REQUEST, n) for n in range(1, 12)]
    assert all(
        0.75 * min(60, 2 ** (n - 1)) < w <= min(60, 2 ** (n - 1))
        for n, w in enumerate(waits, start=1)
    )
    assert policy.wait_s(REQUEST, 1) != policy.wait_s(other, 1)


def test_a_model_error_survives_the_way_between_processes():
    error = ModelError(
        "server",
        "the server failed",
        (RequestAttempt("http 500", "no", 0.1, kind="server", body={"a": 1}),),
    )
    again = pickle.loads(pickle.dumps(error))
    assert (again.kind, str(again), again.attempts) == (error.kind, str(error), error.attempts)


def test_gives_up_after_five_attempts():
    with WireServer([]) as server:
        with pytest.raises(ModelError, match=r"5 attempts") as error:
            client("chat", server).complete(REQUEST, tally := Tally())
        assert_books_agree(tally, server)
    assert error.value.kind == "server"
    assert len(error.value.attempts) == 5


def test_a_request_that_is_never_answered_is_sent_twice_at_most():
    with WireServer([Turn(fault="silent", worked=True)] * 5) as server:
        with pytest.raises(ModelError, match="may be billed") as error:
            client("responses", server, policy=HASTY).complete(REQUEST, tally := Tally())
        assert_books_agree(tally, server)
    assert [a.billed for a in error.value.attempts] == ["unknown", "unknown"]


def test_no_wait_is_begun_that_would_end_after_the_deadline():
    turns = [Turn(fault="http", status=429, headers={"Retry-After": "50"})] * 4
    with WireServer(turns) as server, pytest.raises(ModelError) as error:
        client("responses", server, clock := FakeClock()).complete(
            replace(REQUEST, deadline_s=120.0)
        )
    assert clock.slept == [50.0, 50.0]
    assert len(error.value.attempts) == 3


def test_the_deadline_of_a_decision_is_no_part_of_the_hash():
    assert replace(REQUEST, deadline_s=3.0).hash == REQUEST.hash
    assert replace(REQUEST, system="x").hash != REQUEST.hash
    assert replace(REQUEST, tools=(replace(ACT, strict=True), LOOK)).hash != REQUEST.hash


def test_an_observer_can_forbid_an_attempt():
    class Refuses(Tally):
        def before(self, request: Request, number: int) -> None:
            if number == 2:
                raise CapexError("the budget is spent")
            super().before(request, number)

    with WireServer([Turn(fault="http", status=500), OK]) as server:
        with refuses(ErrorCode.INVALID_INPUT, "budget"):
            client("chat", server).complete(REQUEST, tally := Refuses())
        assert server.requests == len(tally.attempts) == 1


def test_errors_are_told_apart_by_status_and_code():
    assert (
        refused(
            400,
            {
                "error": {
                    "type": "invalid_request_error",
                    "message": "Your credit balance is too low",
                }
            },
            "K",
        )[0]
        == "quota"
    )
    assert refused(402, None, "K")[0] == "quota"
    assert refused(529, {"error": {"type": "overloaded_error"}}, "K")[:3] == ("server", True, "no")
    assert refused(504, "gateway", "K")[:3] == ("server", True, "unknown")
    for words in (
        "This model's maximum context length is 32768 tokens",
        "The decoder prompt (length 40000) is longer than the maximum model length of 32768",
        "The input (40000 tokens) is longer than the model's context length (32768 tokens)",
        "the request exceeds the available context size, try increasing it",
        "litellm.ContextWindowExceededError: too much",
    ):
        assert refused(400, {"detail": words}, "K")[0] == "context"
        assert failed("bad", words)[:2] == ("context", False)
    kind, retry, _, sentence = refused(
        401,
        {"error": {"message": "Incorrect API key provided: sk-proj-********************abcd."}},
        "MY_KEY",
    )
    assert (kind, retry) == ("authentication", False)
    assert "MY_KEY" in sentence
    assert "abcd" not in sentence
