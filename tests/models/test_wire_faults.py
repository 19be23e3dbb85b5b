"""Every fault of a server, on every wire: retried or not, counted once, said in a sentence."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import subprocess
import sys
import zlib
from dataclasses import dataclass, replace

import httpx2
import pytest

from capex.campaign.ledger import Ledger
from capex.models import ModelError, Observers, Picture, Usage, UserMessage, wire
from capex.models.prices import load_prices, worst_case
from capex.models.retry import RetryPolicy
from model_clients import (
    CANARY,
    HASTY,
    OK,
    PATIENT,
    PNG,
    REQUEST,
    WIRES,
    FakeClock,
    Tally,
    assert_books_agree,
    client,
)
from wire_server import BODIES, USAGE, Turn, WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")


def test_the_guard_guards():
    with pytest.raises(AssertionError, match="connected to"):
        socket.socket().connect(("192.0.2.1", 80))
    with pytest.raises(AssertionError, match="looked up"):
        socket.create_connection(("example.com", 80))


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
    **{
        str(status): Fault(
            Turn(fault="http", status=status, worked=True),
            f"http {status}",
            "unknown",
            kind="server",
        )
        for status in (504, 520, 522, 524, 598, 599)
    },
    "521": Fault(Turn(fault="http", status=521), "http 521", "no", kind="server"),
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
def test_zero_usage_is_not_a_free_request(wire_name):
    """A server that counts no request or no reply leaves the cost unknown; an empty answer to counted input is known."""
    nothing, silent = Usage(0, 0, 0, 0), replace(USAGE, output=0, reasoning=0)
    price = load_prices().find("gpt-6-astra")
    ledger = Ledger(price)
    turns = [replace(OK, usage=nothing), Turn(usage=silent), replace(OK, usage=silent)]
    with WireServer(turns) as server:
        model = client(wire_name, server)
        reply = model.complete(REQUEST, ledger)
        assert (reply.usage, reply.attempts[0].billed) == (None, "yes")
        assert (ledger.totals.missing_usage, ledger.totals.cost_usd) == (1, None)
        assert ledger.spent_usd == worst_case(REQUEST, price)
        assert model.complete(REQUEST, ledger).usage == silent
        assert ledger.totals.missing_usage == 1
        assert model.complete(REQUEST, ledger).usage is None
        assert ledger.totals.missing_usage == 2


@pytest.mark.parametrize("wire_name", WIRES)
def test_nobody_listens(wire_name):
    with WireServer([]) as server:
        model = client(wire_name, server, clock := FakeClock())
    with pytest.raises(ModelError, match="is it running") as error:
        model.complete(REQUEST)
    assert [(a.status, a.billed) for a in error.value.attempts] == [("connection", "no")] * 5
    assert error.value.kind == "connection"
    assert len(clock.slept) == 4
