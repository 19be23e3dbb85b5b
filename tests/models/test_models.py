"""The model clients against a loopback server: every fault, every attempt counted, no secret kept, nothing sent elsewhere."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import logging
import pickle
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from capex import models
from capex.campaign.ledger import Ledger
from capex.errors import CapexError, UnknownName
from capex.models import (
    AssistantMessage,
    ChatSettings,
    Model,
    ModelError,
    Observers,
    Picture,
    Request,
    RequestAttempt,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    anthropic,
    openai_chat,
    openai_responses,
    redact,
    wire,
)
from capex.models.body import parse
from capex.models.cassette import Cassette
from capex.models.exchanges import ExchangeLog, read_log
from capex.models.openai_chat import calls_in_text
from capex.models.probe import _png, probe
from capex.models.retry import RetryPolicy, failed, refused, retry_after_s
from capex.models.scripted import Scripted
from wire_server import BODIES, USAGE, Turn, WireServer

CANARY = "sk-canary-Zq7hT4wXk29LmPv0"
WIRES = ("responses", "chat", "messages")
PNG = _png()
ACT = Tool(
    "act",
    "Move.",
    {
        "type": "object",
        "properties": {"reasoning": {"type": "string"}},
        "required": [],
        "additionalProperties": False,
    },
)
LOOK = Tool(
    "locate_pixel",
    "Look.",
    {"type": "object", "properties": {"u": {"type": "integer"}}, "required": ["u"]},
)
REQUEST = Request(
    system="You move a robot.",
    messages=(
        UserMessage(
            (Text("Close the fridge."), Picture("left camera:", PNG), Picture("wrist camera:", PNG))
        ),
    ),
    tools=(ACT, LOOK),
    cache_key="run-1",
)
OK = Turn(calls=[("act", {"reasoning": "closer"})])


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch):
    """Any connection or look-up beyond this machine fails the test."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert address[0] in ("127.0.0.1", "::1", "localhost"), f"a test connected to {address}"
        return connect(self, address)

    def guarded_look_up(host, *args, **settings):
        assert host in ("127.0.0.1", "::1", "localhost", None), f"a test looked up {host}"
        return look_up(host, *args, **settings)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)


def test_the_guard_guards():
    with pytest.raises(AssertionError, match="connected to"):
        socket.socket().connect(("192.0.2.1", 80))
    with pytest.raises(AssertionError, match="looked up"):
        socket.create_connection(("example.com", 80))


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CAPEX_CHAT_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    for name in (
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "OPENAI_CUSTOM_HEADERS",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


@dataclass
class FakeClock:
    """Passes only by sleeping."""

    time_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_s += seconds


@dataclass
class Tally:
    """The client's side of the books."""

    sent: int = 0
    attempts: list[RequestAttempt] = field(default_factory=list)

    def before(self, request: Request, number: int) -> None:
        self.sent += 1

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        assert len(self.attempts) == self.sent - 1
        self.attempts.append(attempt)


def client(
    wire_name: str, server: WireServer, clock: FakeClock | None = None, **settings: Any
) -> Model:
    settings["policy"] = replace(settings.pop("policy", PATIENT), clock=clock or FakeClock())
    if wire_name == "responses":
        return openai_responses.make("gpt-test", base_url=server.url, **settings)
    if wire_name == "chat":
        return openai_chat.make(f"qwen-test@{server.url}", **settings)
    return anthropic.make("anthropic-test", base_url=server.root, **settings)


def assert_books_agree(tally: Tally, server: WireServer) -> None:
    """Requests, tokens and unknown costs are the same on both sides, exactly."""
    assert tally.sent == len(tally.attempts) == server.requests
    assert [a.usage for a in tally.attempts if a.usage] == server.reported
    assert sum(a.usage is None and a.billed != "no" for a in tally.attempts) == server.unreported


PATIENT, HASTY = RetryPolicy(read_s=20.0), RetryPolicy(read_s=0.25)


@dataclass(frozen=True)
class Fault:
    """A fault, and what must become of a request that meets it once before the server recovers."""

    turn: Turn
    status: str
    billed: str
    retried: bool = True
    kind: str = ""
    policy: RetryPolicy = PATIENT


FAULTS = {
    "429": Fault(
        Turn(fault="http", status=429, code="rate_limit_exceeded"),
        "http 429",
        "no",
        kind="rate_limit",
    ),
    "429 with Retry-After": Fault(
        Turn(fault="http", status=429, headers={"Retry-After": "7"}),
        "http 429",
        "no",
        kind="rate_limit",
    ),
    "408": Fault(Turn(fault="http", status=408), "http 408", "no", kind="timeout"),
    "409": Fault(Turn(fault="http", status=409), "http 409", "no", kind="conflict"),
    "500": Fault(Turn(fault="http", status=500), "http 500", "no", kind="server"),
    "502": Fault(
        Turn(fault="http", status=502, worked=True, body=b"<html>bad gateway</html>"),
        "http 502",
        "unknown",
        kind="server",
    ),
    "503": Fault(Turn(fault="http", status=503), "http 503", "no", kind="server"),
    "reset": Fault(Turn(fault="reset", worked=True), "connection", "unknown", kind="connection"),
    "no reply in time": Fault(
        Turn(fault="silent", worked=True), "timeout", "unknown", kind="timeout", policy=HASTY
    ),
    "body stalls": Fault(
        Turn(calls=OK.calls, fault="stall", worked=True),
        "timeout",
        "unknown",
        kind="timeout",
        policy=HASTY,
    ),
    "body drips": Fault(
        Turn(calls=OK.calls, fault="drip", worked=True),
        "timeout",
        "unknown",
        kind="timeout",
        policy=HASTY,
    ),
    "body drips, of unknown length": Fault(
        Turn(calls=OK.calls, fault="pour", worked=True),
        "timeout",
        "unknown",
        kind="timeout",
        policy=HASTY,
    ),
    "headers creep": Fault(
        Turn(fault="creep", worked=True), "timeout", "unknown", kind="timeout", policy=HASTY
    ),
    "truncated JSON": Fault(
        Turn(calls=OK.calls, fault="truncated", worked=True),
        "unreadable",
        "unknown",
        kind="unreadable",
    ),
    "empty body": Fault(
        Turn(fault="body", worked=True), "unreadable", "unknown", kind="unreadable"
    ),
    "a list": Fault(
        Turn(fault="body", body=b"[1]", worked=True), "unreadable", "unknown", kind="unreadable"
    ),
    "deep": Fault(
        Turn(fault="body", body=b'{"a":' * 50_000, worked=True),
        "unreadable",
        "unknown",
        kind="unreadable",
    ),
    "nested": Fault(
        Turn(fault="body", body=b'{"a":' * 300 + b"1" + b"}" * 300, worked=True),
        "unreadable",
        "unknown",
        kind="unreadable",
    ),
    "wrong shape": Fault(
        Turn(
            fault="body",
            body=b'{"status": null, "output": "x", "choices": {}, "content": 3}',
            worked=True,
        ),
        "unreadable",
        "unknown",
        kind="unreadable",
    ),
    "quota": Fault(
        Turn(fault="http", status=429, code="insufficient_quota"), "http 429", "no", False, "quota"
    ),
    "400": Fault(
        Turn(fault="http", status=400, message="no such field"),
        "http 400",
        "no",
        False,
        "bad_request",
    ),
    "context": Fault(
        Turn(fault="http", status=400, code="context_length_exceeded"),
        "http 400",
        "no",
        False,
        "context",
    ),
    "401": Fault(
        Turn(fault="http", status=401, message=f"bad key {CANARY}"),
        "http 401",
        "no",
        False,
        "authentication",
    ),
    "403": Fault(Turn(fault="http", status=403), "http 403", "no", False, "permission"),
    "404": Fault(Turn(fault="http", status=404), "http 404", "no", False, "not_found"),
    "redirect": Fault(
        Turn(fault="http", status=307, headers={"Location": "http://192.0.2.1/"}),
        "http 307",
        "no",
        False,
        "bad_request",
    ),
    "9 MB packed": Fault(
        Turn(
            fault="body",
            body=gzip.compress(bytes(9_000_000)),
            headers={"Content-Encoding": "gzip"},
            worked=True,
        ),
        "too large",
        "unknown",
        False,
        "too_large",
    ),
    "packed, and no JSON": Fault(
        Turn(
            fault="body",
            body=gzip.compress(b"[1]"),
            headers={"Content-Encoding": "gzip"},
            worked=True,
        ),
        "unreadable",
        "unknown",
        kind="unreadable",
    ),
    "9 MB": Fault(
        Turn(fault="body", body=b'{"a":"' + b"x" * 9_000_000 + b'"}', worked=True),
        "too large",
        "unknown",
        False,
        "too_large",
    ),
}


@pytest.mark.parametrize("wire_name", WIRES)
@pytest.mark.parametrize("name", FAULTS)
def test_fault(name, wire_name):
    fault, tally = FAULTS[name], Tally()
    with WireServer([fault.turn, OK]) as server:
        model = client(wire_name, server, policy=fault.policy)
        if fault.retried:
            reply = model.complete(REQUEST, tally)
            assert [c.name for c in reply.calls] == ["act"]
            attempts = reply.attempts
            assert len(attempts) == 2
        else:
            with pytest.raises(ModelError) as error:
                model.complete(REQUEST, tally)
            attempts = error.value.attempts
            assert len(attempts) == 1
            assert error.value.kind == fault.kind
            assert CANARY not in str(error.value)
        assert_books_agree(tally, server)
    first = attempts[0]
    assert (first.status, first.billed, first.kind) == (fault.status, fault.billed, fault.kind)
    assert len(first.error) > 20
    assert tuple(tally.attempts) == attempts


GREEDY = """
import resource, sys
from capex.models import Request, Text, UserMessage, ModelError, make
model, request = make(sys.argv[1]), Request("", (UserMessage((Text("hello"),)),), ())
def ask():
    try:
        return str(model.complete(request).calls)
    except ModelError as error:
        return str(error)
print(ask())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(ask())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_body_that_unpacks_to_200_mb_is_refused_as_it_comes():
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([*(packer.compress(bytes(1_000_000)) for _ in range(200)), packer.flush()])
    assert len(bomb) < 300_000
    with WireServer(
        [OK, Turn(fault="body", body=bomb, headers={"Content-Encoding": "gzip"})]
    ) as server:
        command = [sys.executable, "-c", GREEDY, f"chat:qwen@{server.url}"]
        out = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    assert "act" in out[0]
    assert "the reply is larger than 8 MB" in out[1]
    assert int(out[2]) < 64_000  # kilobytes that it took at its peak


@pytest.mark.parametrize("wire_name", WIRES)
def test_a_packed_reply_is_read(wire_name):
    with WireServer([OK]) as server:
        client(wire_name, server).complete(REQUEST)
        turn = replace(OK, usage=USAGE)
        body = gzip.compress(json.dumps(BODIES[wire_name](turn, server.bodies[0])).encode())
        server.turns.append(Turn(fault="body", body=body, headers={"Content-Encoding": "gzip"}))
        assert [c.name for c in client(wire_name, server).complete(REQUEST).calls] == ["act"]


@pytest.mark.parametrize("wire_name", WIRES)
def test_what_cannot_be_read_is_quoted_by_its_first_words(wire_name):
    page = b"<html>\n<title>Sign in \x1b[31mto the proxy</title>" + b" and more" * 500
    with (
        WireServer([Turn(fault="body", body=page)] * 5) as server,
        pytest.raises(ModelError) as error,
    ):
        client(wire_name, server).complete(REQUEST)
    assert "cannot be read as a reply: '<html> <title>Sign in [31mto the proxy</title>" in str(
        error.value
    )
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("wire_name", WIRES)
def test_a_servers_text_loses_its_control_characters(wire_name):
    hostile = (
        "no \x1b]0;owned\x07 such\x00 \x9b2J model \u202edesrever\u2066 "
        + CANARY[:9]
        + "\x00"
        + CANARY[9:]
    )
    turns = [
        Turn(fault="http", status=400, code="bad\x1bcode", message=hostile),
        Turn(fault="failed", code="bad\x1bcode", message=hostile),
    ]
    with WireServer(turns) as server:
        for _ in turns:
            with pytest.raises(ModelError) as error:
                client(wire_name, server).complete(REQUEST)
            said = str(error.value) + error.value.attempts[0].status
            assert all(c.isprintable() for c in said), ascii(said)
            assert "such 2J model desrever" in said
            assert CANARY not in said


# An error body of the messages wire has no usage.
@pytest.mark.parametrize(
    ("wire_name", "usage"),
    [(w, u) for w in WIRES for u in (None, USAGE) if not (w == "messages" and u)],
)
@pytest.mark.parametrize(
    ("code", "retried"),
    [("server_error", True), ("rate_limit_exceeded", True), ("invalid_image", False)],
)
def test_failure_inside_a_200(wire_name, code, retried, usage):
    turn, tally = Turn(fault="failed", code=code, usage=usage, worked=usage is None), Tally()
    with WireServer([turn, OK]) as server:
        model = client(wire_name, server)
        if retried:
            assert len(model.complete(REQUEST, tally).attempts) == 2
        else:
            with pytest.raises(ModelError, match="reports a failure") as error:
                model.complete(REQUEST, tally)
            assert error.value.kind == "failed"
        assert_books_agree(tally, server)
    assert tally.attempts[0].status == f"failed: {code}"
    assert tally.attempts[0].billed == ("yes" if usage else "unknown")


@pytest.mark.parametrize("wire_name", WIRES)
def test_request_that_is_never_taken_in_is_not_billed(wire_name):
    big = replace(REQUEST, messages=(UserMessage((Picture("huge:", PNG + bytes(6_000_000)),)),))
    tally = Tally()
    with WireServer([Turn(fault="deaf"), OK], receive_buffer=4096) as server:
        reply = client(wire_name, server, policy=RetryPolicy(write_s=0.3, read_s=20.0)).complete(
            big, tally
        )
        assert_books_agree(tally, server)
    assert [(a.status, a.billed) for a in reply.attempts] == [("timeout", "no"), ("ok", "yes")]


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (httpx2.ConnectTimeout(""), ("timeout", "no")),
        (httpx2.PoolTimeout(""), ("timeout", "no")),
        (httpx2.WriteTimeout(""), ("timeout", "no")),
        (httpx2.ReadTimeout(""), ("timeout", "unknown")),
        (httpx2.ConnectError(""), ("connection", "no")),
        (httpx2.WriteError(""), ("connection", "no")),
        (httpx2.ReadError(""), ("connection", "unknown")),
        (httpx2.RemoteProtocolError(""), ("connection", "unknown")),
        (None, ("connection", "unknown")),
    ],
)
def test_what_was_not_sent_whole_is_not_billed(cause, expected):
    sent = wire.lost(cause)
    assert (sent.attempt.status, sent.attempt.billed) == expected
    assert sent.retry


@pytest.mark.parametrize("wire_name", WIRES)
def test_the_ledger_equals_the_servers_books(wire_name):
    """Every fault in one episode, each followed by a reply."""
    quick = [fault.turn for fault in FAULTS.values() if fault.policy is PATIENT]
    ledger, tally = Ledger(price=None), Tally()
    with WireServer([turn for fault in quick for turn in (fault, OK)]) as server:
        model = client(wire_name, server)
        while server.turns:
            with contextlib.suppress(ModelError):
                model.complete(REQUEST, Observers(tally, ledger))
        assert_books_agree(tally, server)
        totals = ledger.totals
        assert totals.attempts == server.requests == 2 * len(quick)
        assert totals.requests == len(server.reported) == len(quick)
        assert totals.missing_usage + totals.unknown_billing == server.unreported
        assert vars(totals.tokens) == {
            name: sum(getattr(u, name) for u in server.reported) for name in vars(USAGE)
        }


@pytest.mark.parametrize("wire_name", WIRES)
def test_nobody_listens(wire_name):
    with WireServer([]) as server:
        model = client(wire_name, server, clock := FakeClock())
    with pytest.raises(ModelError, match="is it running") as error:
        model.complete(REQUEST)
    assert [(a.status, a.billed) for a in error.value.attempts] == [("connection", "no")] * 5
    assert error.value.kind == "connection"
    assert len(clock.slept) == 4


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
        with pytest.raises(CapexError, match="budget"):
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


# The bodies that we send


def _exhaust(value: Any) -> Any:
    """Pydantic checks an Iterable only when it is walked."""
    if isinstance(value, dict):
        return {k: _exhaust(v) for k, v in value.items()}
    return (
        [_exhaust(v) for v in value]
        if isinstance(value, Iterable) and not isinstance(value, str | bytes)
        else value
    )


def _decision(wire_name: str, server: WireServer) -> Request:
    """Round two of a decision: the first reply replayed, its results, and new pictures."""
    first = client(wire_name, server).complete(REQUEST)
    results = tuple(ToolResult(call.id, f"result {n}") for n, call in enumerate(first.calls))
    return replace(
        REQUEST,
        messages=(
            *REQUEST.messages,
            first.as_message(),
            *results,
            UserMessage((Picture("left again:", PNG),)),
        ),
    )


TWO_LOOKS = Turn(calls=[("locate_pixel", {"u": 1}), ("locate_pixel", {"u": 2})], text="looking")


@pytest.mark.parametrize(
    ("wire_name", "params"),
    [("responses", ResponseCreateParamsNonStreaming), ("chat", CompletionCreateParamsNonStreaming)],
)
@pytest.mark.parametrize("choice", ["auto", "required", "act"])
def test_bodies_validate_against_the_sdks_types(wire_name, params, choice):
    adapter = TypeAdapter(params)
    with WireServer([TWO_LOOKS, OK]) as server:
        request = replace(
            _decision(wire_name, server),
            tool_choice=choice,
            tools=(replace(ACT, strict=True), LOOK),
        )
        client(wire_name, server).complete(request)
        bodies = server.bodies
    for body in bodies:
        assert set(body) - _keys_of(params) == ({"top_k"} if wire_name == "chat" else set())
        _exhaust(adapter.validate_python(body))


def _keys_of(params: Any) -> set[str]:
    return set(params.__required_keys__) | set(params.__optional_keys__)


def test_messages_bodies_validate_against_the_sdks_types():
    from anthropic.types import Message
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

    with WireServer([TWO_LOOKS, OK]) as server:
        client("messages", server).complete(_decision("messages", server))
        bodies = server.bodies
    adapter = TypeAdapter(MessageCreateParamsNonStreaming)
    for body in bodies:
        assert set(body) <= _keys_of(MessageCreateParamsNonStreaming)
        _exhaust(adapter.validate_python(body))
    assert [m["role"] for m in bodies[1]["messages"]] == ["user", "assistant", "user"]
    assert [b["type"] for b in bodies[1]["messages"][2]["content"]] == [
        "tool_result",
        "tool_result",
        "text",
        "image",
    ]
    assert bodies[0]["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert bodies[0]["tool_choice"] == {"type": "any"}
    Message.model_validate(BODIES["messages"](TWO_LOOKS, {"model": "m"}))


@pytest.mark.parametrize(
    "turn", [OK, TWO_LOOKS, replace(OK, incomplete=True), Turn(fault="failed", code="server_error")]
)
def test_fixtures_validate_as_the_sdks_types(turn):
    Response.model_validate(BODIES["responses"](turn, {"model": "m", "instructions": "s"}))
    if turn.fault != "failed":
        ChatCompletion.model_validate(BODIES["chat"](turn, {"model": "m"}))


def test_responses_body():
    with WireServer([TWO_LOOKS, OK]) as server:
        client("responses", server).complete(_decision("responses", server))
        first, second = server.bodies
    assert first["instructions"] == REQUEST.system
    assert (first["store"], first["truncation"], first["max_output_tokens"]) == (
        False,
        "disabled",
        8000,
    )
    assert (first["reasoning"], first["include"]) == (
        {"effort": "medium"},
        ["reasoning.encrypted_content"],
    )
    assert (first["parallel_tool_calls"], first["tool_choice"], first["prompt_cache_key"]) == (
        True,
        "required",
        "run-1",
    )
    image = {
        "type": "input_image",
        "image_url": "data:image/png;base64," + base64.b64encode(PNG).decode(),
        "detail": "high",
    }
    texts = [
        {"type": "input_text", "text": t}
        for t in ("Close the fridge.", "left camera:", "wrist camera:")
    ]
    assert first["input"][0]["content"] == [texts[0], texts[1], image, texts[2], image]
    sent_back = second["input"][1:]
    assert (
        sent_back[:4] == BODIES["responses"](TWO_LOOKS, {"model": "m"})["output"]
    )  # verbatim, reasoning included
    assert sent_back[4:6] == [
        {"type": "function_call_output", "call_id": f"call_{n}", "output": f"result {n}"}
        for n in (0, 1)
    ]
    assert sent_back[6]["content"][1] == image
    assert json.dumps(second).startswith(
        json.dumps(first)[: json.dumps(first).index('"input"')]
    )  # what is static stands first, unchanged


def test_reasoning_that_led_to_nothing_is_not_sent_back():
    with WireServer([Turn(incomplete=True), OK]) as server:
        reply = client("responses", server).complete(REQUEST)
    assert reply.incomplete
    assert reply.replay == ()


def test_sampling_settings_reach_the_wire():
    plain = replace(
        REQUEST,
        sampling=Sampling(effort=None, temperature=0.5, top_p=0.9, top_k=5),
        tools=(),
        cache_key="",
    )
    with WireServer([OK] * 3) as server:
        client("responses", server).complete(plain)
        client("chat", server).complete(REQUEST)
        client("chat", server).complete(plain)
        responses, qwen, chat = server.bodies
    assert not {"reasoning", "include", "tool_choice", "prompt_cache_key"} & set(responses)
    assert (responses["temperature"], responses["top_p"], responses["top_k"]) == (0.5, 0.9, 5)
    assert (qwen["temperature"], qwen["top_p"], qwen["top_k"], qwen["max_tokens"]) == (
        1.0,
        0.95,
        20,
        8000,
    )
    assert (chat["temperature"], chat["top_p"], chat["top_k"]) == (0.5, 0.9, 5)
    assert "tools" not in chat


def test_what_a_chat_server_is_sent_by_default_is_a_setting():
    typed = replace(REQUEST, sampling=Sampling(top_p=0.5))
    with WireServer([OK] * 2) as server:
        name = f"chat:m@{server.url}"
        models.make(name, ChatSettings(temperature=0.2, top_p=None, top_k=None)).complete(REQUEST)
        models.make(
            name.replace("chat:", "chat-text:"), ChatSettings(temperature=None, top_k=3)
        ).complete(typed)
        plain, text = server.bodies
    assert plain["temperature"] == 0.2
    assert not {"top_p", "top_k"} & set(plain)
    assert (text["top_p"], text["top_k"]) == (0.5, 3)  # what a request says wins
    assert "temperature" not in text


def test_chat_puts_pictures_after_text_only_results():
    with WireServer([TWO_LOOKS, OK]) as server:
        client("chat", server).complete(_decision("chat", server))
        messages = server.bodies[1]["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [m["content"] for m in messages[3:5]] == ["result 0", "result 1"]
    assert [p["type"] for p in messages[5]["content"]] == ["text", "image_url"]
    assert messages[5]["content"][1]["image_url"]["detail"] == "high"


@pytest.mark.parametrize("wire_name", WIRES)
def test_broken_arguments_and_lone_surrogates_can_be_sent_again(wire_name):
    said = AssistantMessage(
        (ToolCall("a", "act", '{"x": "\ud800'), ToolCall("b", "act", '{"x": "\\ud800"}')),
        "so \udfff",
    )
    request = replace(
        REQUEST,
        messages=(
            *REQUEST.messages,
            said,
            ToolResult("a", "no JSON: \ud800"),
            ToolResult("b", "hm"),
        ),
    )
    with WireServer([OK]) as server:
        client(wire_name, server).complete(request)
        body = json.dumps(server.bodies[0])
    if wire_name != "responses":
        assert "unreadable" in body


def test_lone_surrogates_and_infinities_in_a_reply_are_replaced():
    body = b'{"choices": [{"message": {"content": "a\\ud800b", "n": [1e999, NaN]}}]}'
    with WireServer([Turn(fault="body", body=body, worked=True)]) as server:
        reply = client("chat", server).complete(REQUEST)
    assert reply.text == "a\ufffdb"
    json.dumps(reply.attempts[0].body, allow_nan=False).encode()


# The chat wire's own rules


def test_a_request_too_long_for_the_context_is_not_sent():
    long = replace(REQUEST, messages=(UserMessage((Text("x" * 100_000),)),))
    with WireServer([OK] * 2) as server:
        with pytest.raises(
            ModelError,
            match=r"about 25\d\d\d tokens .* exceeds the context of 32768; nothing was sent",
        ) as error:
            client("chat", server).complete(long, tally := Tally())
        assert error.value.kind == "context"
        assert server.requests == 0
        assert [(a.status, a.billed, a.kind, a.usage) for a in tally.attempts] == [
            ("not sent", "no", "context", None)
        ]
        assert error.value.attempts == tuple(tally.attempts)
        client("chat", server, chat=ChatSettings(context_tokens=40_000)).complete(long)
        assert server.requests == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"calls": [{"tool": "act", "arguments": {"a": 1}}]}', [("act", '{"a": 1}')]),
        (
            'Let me see.\n```json\n{"calls": [{"tool": "act", "arguments_json": "{\\"a\\": 1}"}]}\n```',
            [("act", '{"a": 1}')],
        ),
        (
            '{"note": "first", "calls": [{"tool": "look", "arguments": {}}, {"tool": "act"}]} done',
            [("look", "{}"), ("act", "{}")],
        ),
        (
            '{"calls": [{"tool": "act", "arguments": {}}]} no: {"calls": [{"tool": "look", "arguments": {}}]}',
            [("look", "{}")],
        ),
        (
            '<tool_call>\n{"name": "act", "arguments": {"a": 1}}\n</tool_call>',
            [("act", '{"a": 1}')],
        ),
        (
            'the set { x, y } and {"a": {"b": 1}} then {"tool": "act", "arguments": {}}',
            [("act", "{}")],
        ),
        ('{"calls": {"tool": "act", "arguments": {}}}', [("act", "{}")]),
        ('{"calls": [{"tool": 3, "arguments": {}}, 7, null, {"arguments": {}}]}', []),
        ('{"calls": [{"tool": "act", "arguments": {"a": 1}', []),
        ('{"name": "act", "description": "Move.", "schema": {}}', []),
        ("no call at all", []),
        ("", []),
        ("{" * 100_000, []),
        ('{"a":' * 100_000, []),
        ('{"calls": [' * 50_000, []),
        ('{"calls": ' + "[" * 200 + "]" * 200 + "}", []),
    ],
)
def test_calls_in_text(text, expected):
    calls = calls_in_text(text)
    assert [(c.name, c.arguments) for c in calls] == expected
    assert len({c.id for c in calls}) == len(calls)


def test_json_in_text_becomes_calls_and_is_answered_in_text():
    said = '{"calls": [{"tool": "locate_pixel", "arguments": {"u": 3}}]}'
    with WireServer([Turn(text=said), OK]) as server:
        request = _decision("chat", server)
        client("chat", server).complete(request)
        messages = server.bodies[1]["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[2]["content"] == said
    assert [p.get("text") for p in messages[3]["content"]] == [
        "Result: result 0",
        "left again:",
        None,
    ]


def test_chat_text_describes_the_tools_instead_of_sending_them():
    with WireServer([OK]) as server:
        model = models.make(f"chat-text:some/model@{server.url}")
        model.complete(replace(REQUEST, tool_choice="act"))
        body = server.bodies[0]
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
    assert all(
        word in body["messages"][0]["content"]
        for word in ("locate_pixel", '{"calls": [', "only act is allowed")
    )


def test_reasoning_of_a_chat_server_is_sent_back_within_the_decision():
    message = {
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "a", "function": {"name": "act", "arguments": "{}"}}],
    }
    turn = Turn(
        fault="body", body=json.dumps({"choices": [{"message": message}]}).encode(), worked=True
    )
    with WireServer([turn, OK]) as server:
        client("chat", server).complete(_decision("chat", server))
        assert server.bodies[1]["messages"][2]["reasoning_content"] == "hm"


def test_openai_headers_do_not_go_to_other_servers(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-only-0123456789")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Gateway-Auth: secret\nAuthorization: Bearer other")
    monkeypatch.delenv("CAPEX_CHAT_API_KEY")
    with WireServer([OK, OK]) as server:
        models.make(f"chat:m@{server.url}").complete(REQUEST)
        monkeypatch.setenv("CAPEX_CHAT_API_KEY", "chat-key-123")
        models.make(f"chat:m@{server.url}").complete(REQUEST)
        without, with_key = server.headers
    assert without["authorization"] == "Bearer none"
    assert with_key["authorization"] == "Bearer chat-key-123"
    assert not {"openai-organization", "openai-project", "gateway-auth"} & set(without)


# Names


def test_names(monkeypatch, tmp_path):
    with pytest.raises(UnknownName, match="there is no kind of model 'opanai'; valid: openai, "):
        models.make("opanai:gpt")
    with pytest.raises(CapexError, match=r"write openai:NAME"):
        models.make("openai")
    for wrong in ("chat:", "chat:name", "chat:@http://localhost", "chat:name@localhost:8000"):
        with pytest.raises(CapexError, match=r"write chat:NAME@URL"):
            models.make(wrong)
    with pytest.raises(CapexError, match="environment variables"):
        models.make("chat:m@http://user:hidden@localhost/v1")
    assert models.make("chat:m@http://localhost:8000").name == "chat:m@http://localhost:8000/v1"
    assert models.make("chat:a/b@2@http://localhost:8000/v1").price_name == "a/b@2"
    for missing in ("script:", f"script:{tmp_path}/none.json", "cassette:", f"cassette:{tmp_path}"):
        with pytest.raises(CapexError, match=r"script|cassette|exchanges"):
            models.make(missing)
    assert models.make("openai:gpt-test").name == "openai:gpt-test"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        models.make("openai:gpt-test")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ключ")
    with pytest.raises(ModelError, match="OPENAI_API_KEY holds characters"):
        models.make("openai:gpt-test")


def test_anthropic_name(monkeypatch):
    assert models.make("anthropic:anthropic-test").price_name == "anthropic-test"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY is not set"):
        models.make("anthropic:anthropic-test")


def test_anthropic_missing_names_the_install_line(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(CapexError, match=r'pip install "capex\[anthropic\]"'):
        models.make("anthropic:anthropic-test")


def test_openai_base_url_points_elsewhere(monkeypatch):
    with WireServer([OK]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        models.make("openai:gpt-test").complete(REQUEST)
        assert server.requests == 1
        assert server.headers[0]["authorization"] == f"Bearer {CANARY}"


# The exchange log and the cassette


def _files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.parametrize("wire_name", WIRES)
def test_no_secret_is_kept(wire_name, tmp_path):
    quoted = f"quoting {CANARY}"
    turns = [
        Turn(
            fault="http",
            status=500,
            message=quoted,
            headers={"x-request-id": CANARY, "retry-after": "1"},
        ),
        Turn(fault="body", body=quoted.encode(), worked=True),
        Turn(calls=[("act", {"reasoning": quoted, CANARY: 1})], text=quoted),
        Turn(fault="http", status=401, code=CANARY, message=quoted),
    ]
    with WireServer(turns) as server:
        model = client(wire_name, server)
        log = ExchangeLog(tmp_path, model)
        model.complete(REQUEST, log)
        with pytest.raises(ModelError) as error:
            model.complete(REQUEST, log)
        assert CANARY in json.dumps(server.headers)  # it was sent
    files = _files(tmp_path)
    assert len(files["exchanges.jsonl"].splitlines()) == 4
    assert redact.REDACTED.encode() in files["exchanges.jsonl"]
    for name, content in files.items():
        assert CANARY.encode() not in content, name
        assert b"uthorization" not in content, name
        assert b"cookie" not in content, name
    assert CANARY not in str(error.value)
    assert CANARY not in repr(model) + repr(vars(model))


@pytest.mark.parametrize("wire_name", WIRES)
def test_no_secret_is_logged(wire_name, caplog):
    caplog.set_level(logging.DEBUG)
    with WireServer(
        [
            Turn(fault="http", status=500, message=CANARY),
            Turn(fault="http", status=401, message=CANARY),
        ]
    ) as server:
        with pytest.raises(ModelError):
            client(wire_name, server).complete(REQUEST)
        assert server.requests == 2
    assert "127.0.0.1" in caplog.text  # the SDK and its HTTP client do log
    assert CANARY not in caplog.text


def test_other_keys_of_the_environment_are_scrubbed_too(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "abcdefgh-12345")
    monkeypatch.setenv("VLLM_API_KEY", "EMPTY")
    assert redact.scrub({"a": ["x abcdefgh-12345 y", 3], "b": "EMPTY"}) == {
        "a": ["x [redacted] y", 3],
        "b": "EMPTY",
    }
    assert (
        redact.scrub("desk-lamp-and-other-words, task-specific-instruction")
        == "desk-lamp-and-other-words, task-specific-instruction"
    )


def _record(folder: Path, wire_name: str = "responses") -> list[Request]:
    """A small episode: a retry, two rounds, a request made twice, and one that fails."""
    turns = [
        Turn(fault="http", status=429),
        TWO_LOOKS,
        OK,
        replace(OK, usage=None),
        Turn(fault="http", status=400),
    ]
    with WireServer(turns) as server:
        model = client(wire_name, server)
        log = ExchangeLog(folder, model)
        first = model.complete(REQUEST, log)
        results = tuple(ToolResult(call.id, "x 40 cm") for call in first.calls)
        second = replace(REQUEST, messages=(*REQUEST.messages, first.as_message(), *results))
        model.complete(second, log)
        model.complete(second, log)
        last = replace(REQUEST, tool_choice="act")
        with pytest.raises(ModelError):
            model.complete(last, log)
    return [REQUEST, second, second, last]


def test_exchange_log(tmp_path):
    requests = _record(tmp_path)
    lines = list(read_log(tmp_path / "exchanges.jsonl"))
    assert [(line["number"], line["status"]) for line in lines] == [
        (1, "http 429"),
        (2, "ok"),
        (1, "ok"),
        (1, "ok"),
        (1, "http 400"),
    ]
    assert [line["hash"] for line in lines if line["number"] == 1] == [r.hash for r in requests]
    assert [line["request"] for line in lines if line["number"] == 1] == [
        json.loads(json.dumps(models.describe(r))) for r in requests
    ]
    assert lines[1]["body"]["usage"]["input_tokens_details"] == {
        "cached_tokens": 250,
        "cache_write_tokens": 50,
    }
    assert lines[1]["usage"] == vars(USAGE)
    assert [line["body"].get("instructions") for line in lines[1:4]] == ["[as sent]"] * 3
    assert [p.name for p in (tmp_path / "images").iterdir()] == [f"{Picture('', PNG).sha256}.png"]
    assert (tmp_path / "exchanges.jsonl").read_text().count(REQUEST.system) == 1
    assert "latency" not in (tmp_path / "exchanges.jsonl").read_text()
    assert len((tmp_path / "exchange_times.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize("wire_name", WIRES)
def test_cassette_repeats_a_recording_byte_for_byte(wire_name, tmp_path):
    recorded, again = tmp_path / "run/chains/w--t--capex/episodes/0000", tmp_path / "again"
    requests = _record(recorded, wire_name)
    cassette = models.make(f"cassette:{tmp_path}/run")
    assert isinstance(cassette, Cassette)

    class AsRecorded:
        name, price_name, stand_in = cassette.recorded_name, cassette.price_name, cassette.stand_in

        def complete(self, request, observer=None):
            return cassette.complete(request, observer)

    log, tally = ExchangeLog(again, AsRecorded()), Tally()
    assert len(cassette.complete(requests[0], log).attempts) == 2
    cassette.complete(requests[1], log)
    assert cassette.complete(requests[2], log).usage is None
    with pytest.raises(ModelError, match="refused the request") as error:
        cassette.complete(requests[3], log)
    assert error.value.kind == "bad_request"
    assert _files(again) == _files(recorded)
    assert AsRecorded.price_name.endswith("-test")
    with pytest.raises(ModelError, match="made more often than it was recorded"):
        cassette.complete(requests[0], tally)
    assert tally.sent == 0


def test_a_model_of_ones_own_may_leave_out_what_has_a_default():
    class Own:
        name, price_name, stand_in, computes_here = "lab:x", "x", False, True

        def complete(self, request, observer=None):
            return reply

        def reread(self, body):
            return answer

    reply, answer = object(), object()
    model = models.with_defaults(Own())
    assert (model.name, model.price_name, model.stand_in) == ("lab:x", "x", False)
    assert (model.computes_here, model.tools_in_text, model.chat_settings) == (True, False, None)
    assert (model.complete(REQUEST), model.reread({})) == (reply, answer)
    scripted = Scripted([])
    assert models.with_defaults(scripted) is scripted


def test_cassette_says_what_differs(tmp_path):
    requests = _record(tmp_path / "a")
    other = replace(REQUEST, system="Another task altogether.")
    with WireServer([OK]) as server:
        client("chat", server).complete(other, ExchangeLog(tmp_path / "b"))

    def complaint(*asked: Request) -> str:
        cassette = Cassette(tmp_path)
        for request in asked[:-1]:
            cassette.complete(request)
        with pytest.raises(ModelError) as error:
            cassette.complete(asked[-1])
        assert error.value.kind == "cassette"
        return str(error.value)

    user = UserMessage((Text("Close the door."), *REQUEST.messages[0].parts[1:]))
    changed = complaint(replace(REQUEST, messages=(user,)))
    assert (
        "messages[0].user[0].text differs: recorded 'Close the fridge.', given 'Close the door.'"
        in changed
    )
    assert f"request 1 of {tmp_path}/a/exchanges.jsonl" in changed
    assert "system differs: recorded 'Another task altogether.'" in complaint(
        replace(other, system="Another task.")
    )
    assert "sampling.top_k differs: recorded None, given 3" in complaint(
        replace(REQUEST, sampling=Sampling(top_k=3))
    )
    picture = UserMessage(
        (
            REQUEST.messages[0].parts[0],
            Picture("left camera:", PNG + b"x"),
            REQUEST.messages[0].parts[2],
        )
    )
    assert "messages[0].user[1].sha256 differs" in complaint(replace(REQUEST, messages=(picture,)))
    shorter = replace(requests[1], messages=requests[1].messages[:-1])
    assert "where the recorded one has messages[3].result" in complaint(REQUEST, shorter)
    assert "tool_choice differs: recorded 'act', given 'auto'" in complaint(
        *requests[:3], replace(REQUEST, tool_choice="auto")
    )


def test_cassette_refuses_a_damaged_log(tmp_path):
    _record(tmp_path)
    log = tmp_path / "exchanges.jsonl"
    log.write_bytes(log.read_bytes()[:-30])
    with pytest.raises(CapexError, match=r"exchanges.jsonl is damaged: line 5 cannot be read"):
        Cassette(tmp_path)


# The scripted model and the probe


def test_scripted_model(tmp_path):
    entries = [[["act", {"reasoning": "go"}], ["act", '{"broken']], "I give up."]
    (tmp_path / "replies.json").write_text(json.dumps(entries))
    model, again = (
        models.make(f"script:{tmp_path}/replies.json"),
        Scripted([[("act", {"reasoning": "go"}), ("act", '{"broken')], "I give up."]),
    )
    tally = Tally()
    for scripted in (model, again):
        first, second = scripted.complete(REQUEST, tally), scripted.complete(REQUEST, tally)
        assert first.calls == (
            ToolCall("call_1_1", "act", '{"reasoning": "go"}'),
            ToolCall("call_1_2", "act", '{"broken'),
        )
        assert (second.calls, second.text) == ((), "I give up.")
        assert first.usage is not None
        assert first.usage.fresh > 0
        assert second.usage == replace(first.usage, output=3)
        with pytest.raises(ModelError, match="no reply left: all 2 were given"):
            scripted.complete(REQUEST, tally)
    assert tally.sent == len(tally.attempts) == 4
    assert model.stand_in
    for broken in ('{"a": 1}', "[[1]]", "nothing"):
        (tmp_path / "broken.json").write_text(broken)
        with pytest.raises(CapexError, match="script"):
            models.make(f"script:{tmp_path}/broken.json")


@pytest.mark.parametrize("wire_name", WIRES)
def test_probe(wire_name):
    named = Turn(calls=[("report_colour", {"colour": "Red"})])
    refusal = Turn(fault="http", status=400, message="no images here")
    with WireServer(
        [
            named,
            refusal,
            replace(named, usage=None),
            Turn(text="red?"),
            Turn(fault="http", status=401),
        ]
    ) as server:
        model = client(wire_name, server)
        found = [{what: ok for what, ok, _ in probe(model)} for _ in range(4)]
    names = ("reachable", "takes pictures", "calls tools", "reports usage")
    assert [tuple(f.get(name) for name in names) for f in found] == [
        (True, True, True, True),
        (True, False, True, False),
        (True, False, False, True),
        (False, None, None, None),
    ]


def test_reading_hostile_text_ends():
    for text in (
        "{" * 2_000_000,
        '{"a":' * 400_000,
        '{"a" ' * 400_000,
        '{"calls": [' * 200_000,
        '{ "' * 600_000,
    ):
        calls_in_text(text)
        assert isinstance(parse(text.encode()), str)
