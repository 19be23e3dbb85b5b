"""The exchange log, the cassette, the scripted model and the probe; no secret is kept."""

from __future__ import annotations

import base64
import json
import logging
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from capex import models
from capex.errors import ErrorCode
from capex.models import (
    ModelError,
    Picture,
    Request,
    Sampling,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    redact,
)
from capex.models.body import parse
from capex.models.cassette import Cassette
from capex.models.exchanges import LOG, ExchangeLog, read_log
from capex.models.openai_chat import calls_in_text
from capex.models.probe import probe
from capex.models.scripted import Scripted
from model_clients import CANARY, OK, PNG, REQUEST, TWO_LOOKS, WIRES, Tally, client
from refusals import model_fails, refuses
from wire_server import USAGE, Turn, WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")


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


def _split(text: str, at: int, between: str) -> str:
    return text[:at] + between + text[at:]


# The canary as a server may give it back.
ENCODINGS = {
    "upper case": CANARY.upper(),
    "base64": base64.b64encode(CANARY.encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("="),
    "base64 of a header": base64.b64encode(f"Bearer {CANARY}\r\n".encode()).decode(),
    "base64 of basic authorization": base64.b64encode(f"me:{CANARY}".encode()).decode(),
    "base64 in lines": _split(base64.b64encode(CANARY.encode()).decode(), 11, "\r\n"),
    "hex": CANARY.encode().hex(),
    "HEX": CANARY.encode().hex().upper(),
    "URL": quote(CANARY.replace("-", "%2D")),
    "URL, every byte": "".join(f"%{byte:02x}" for byte in CANARY.encode()),
    "URL, twice": "".join(f"%25{byte:02X}" for byte in CANARY.encode()),
    "JSON escapes": "".join(f"\\u{ord(c):04x}" for c in CANARY),
    "one JSON escape": CANARY.replace("c", "\\u0063", 1),
    "JSON in JSON": json.dumps(json.dumps(CANARY.replace("c", "\\u0063", 1))),
    "split by an escaped line break": _split(CANARY, 9, "\\n"),
    "split by a control character": _split(CANARY, 9, "\x00"),
    "bytes as Python shows them": "".join(f"\\x{byte:02x}" for byte in CANARY.encode()),
    "HTML": "".join(f"&#{ord(c)};" for c in CANARY),
    "HTML in hex": "".join(f"&#x{ord(c):X};" for c in CANARY),
}


@pytest.mark.parametrize("wire_name", WIRES)
def test_no_encoded_secret_is_kept(wire_name, tmp_path):
    """In errors, replies, arguments of calls, headers and what is no reply at all."""
    with WireServer([]) as server:
        model = client(wire_name, server)
        for name, encoded in ENCODINGS.items():
            header = "".join(c for c in encoded if c.isprintable())
            said, headers = f"x {encoded} y", {"x-request-id": header}
            server.turns += [
                Turn(fault="http", status=500, message=said, headers=headers),
                Turn(fault="body", body=f"<p>{said}".encode(), worked=True),
                Turn(calls=[("act", {"reasoning": said, encoded: 1})], text=said),
                Turn(fault="http", status=401, code=encoded, message=said),
            ]
            log = ExchangeLog(tmp_path / name.replace(" ", "-"))
            model.complete(REQUEST, log)
            with pytest.raises(ModelError) as error:
                model.complete(REQUEST, log)
            lines = [json.loads(line) for line in (log.folder / LOG).read_text().splitlines()]
            assert len(lines) == 4
            kept = [text for line in lines for text in _texts(line)] + [str(error.value)]
            for text in kept:
                # From the middle of what was sent: a line break or a clipping may have cut it.
                assert encoded[12:30] not in text, (name, text)
                assert header[12:30] not in text, (name, text)
            assert sum(redact.REDACTED in text for text in kept) >= 8, name


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [t for pair in value.items() for inner in pair for t in _texts(inner)]
    if isinstance(value, list):
        return [t for inner in value for t in _texts(inner)]
    return [value] if isinstance(value, str) else []


def test_what_is_no_key_stays_as_it_is(monkeypatch):
    """Pictures, encrypted reasoning and words around a key are kept to the letter."""
    monkeypatch.setenv("LAB_TOKEN", "nvapi-Ab_cd/12+34=")
    blob = base64.b64encode(random.Random(0).randbytes(60_000)).decode()
    words = (
        "take the \\n new cup %20 100% of \\u00b0C &#8; C:\\new\\table &amp; sk-ok \u00e9\U0001f600"
    )
    for text in (blob, words, "\\", "%", "&#", ""):
        assert redact.scrub(text) == text
        assert redact.scrub({"a": [text, {text: 1}]}) == {"a": [text, {text: 1}]}
    hidden = base64.b64encode(b"nvapi-Ab_cd/12+34=").decode()
    assert redact.scrub(f"{words} {hidden} {words}").startswith(f"{words} [redacted]")
    # Where a backslash stands before a key, it is no escape.
    assert redact.scrub("C:\\nvapi-Ab_cd/12+34=!") == "C:\\[redacted]!"


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
    assert [(line.number, line.status) for line in lines] == [
        (1, "http 429"),
        (2, "ok"),
        (1, "ok"),
        (1, "ok"),
        (1, "http 400"),
    ]
    assert [line.hash for line in lines if line.number == 1] == [r.hash for r in requests]
    assert [line.request for line in lines if line.number == 1] == [
        json.loads(json.dumps(models.describe(r))) for r in requests
    ]
    assert lines[1].body["usage"]["input_tokens_details"] == {
        "cached_tokens": 250,
        "cache_write_tokens": 50,
    }
    assert lines[1].usage == USAGE
    assert [line.body.get("instructions") for line in lines[1:4]] == ["[as sent]"] * 3
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
    with model_fails("bad_request", "refused the request"):
        cassette.complete(requests[3], log)
    assert _files(again) == _files(recorded)
    assert AsRecorded.price_name.endswith("-test")
    with model_fails("cassette"):
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
    with refuses(ErrorCode.DAMAGED_FILE, r"exchanges.jsonl is damaged: line 5 cannot be read"):
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
        with model_fails("script", "all 2 were given"):
            scripted.complete(REQUEST, tally)
    assert tally.sent == len(tally.attempts) == 4
    assert model.stand_in
    for broken in ('{"a": 1}', "[[1]]", "nothing"):
        (tmp_path / "broken.json").write_text(broken)
        with refuses(ErrorCode.UNREADABLE_FILE):
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
