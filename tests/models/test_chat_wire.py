"""The chat wire's own rules, and the names of models."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from capex import models
from capex.errors import ErrorCode, UnknownName
from capex.models import ChatSettings, ModelError, Text, UserMessage
from capex.models.openai_chat import calls_in_text
from model_clients import CANARY, OK, REQUEST, Tally, client, decision_of
from refusals import model_fails, refuses
from wire_server import Turn, WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")


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
        request = decision_of("chat", server)
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
        client("chat", server).complete(decision_of("chat", server))
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
    with refuses(ErrorCode.BAD_SETTING, r"write openai:NAME"):
        models.make("openai")
    for wrong in ("chat:", "chat:name", "chat:@http://localhost", "chat:name@localhost:8000"):
        with refuses(ErrorCode.BAD_SETTING, r"write chat:NAME@URL"):
            models.make(wrong)
    with refuses(ErrorCode.BAD_SETTING, "environment variables"):
        models.make("chat:m@http://user:hidden@localhost/v1")
    assert models.make("chat:m@http://localhost:8000").name == "chat:m@http://localhost:8000/v1"
    assert models.make("chat:a/b@2@http://localhost:8000/v1").price_name == "a/b@2"
    for missing, code, words in (
        ("script:", ErrorCode.BAD_SETTING, "write script:FILE"),
        (f"script:{tmp_path}/none.json", ErrorCode.UNREADABLE_FILE, "none.json"),
        ("cassette:", ErrorCode.BAD_SETTING, "write cassette:RUN"),
        (f"cassette:{tmp_path}", ErrorCode.WRONG_CONTENT, "no recorded exchanges"),
    ):
        with refuses(code, words):
            models.make(missing)
    assert models.make("openai:gpt-test").name == "openai:gpt-test"
    monkeypatch.delenv("OPENAI_API_KEY")
    with model_fails("authentication", "OPENAI_API_KEY is not set"):
        models.make("openai:gpt-test")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ключ")
    with model_fails("authentication", "OPENAI_API_KEY holds characters"):
        models.make("openai:gpt-test")


def test_anthropic_name(monkeypatch):
    assert models.make("anthropic:anthropic-test").price_name == "anthropic-test"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with model_fails("authentication", "ANTHROPIC_API_KEY is not set"):
        models.make("anthropic:anthropic-test")


def test_anthropic_missing_names_the_install_line(monkeypatch):

    monkeypatch.setitem(sys.modules, "anthropic", None)
    with refuses(ErrorCode.MISSING_PACKAGE, r'pip install "capex\[anthropic\]"'):
        models.make("anthropic:anthropic-test")


def test_openai_base_url_points_elsewhere(monkeypatch):
    with WireServer([OK]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        models.make("openai:gpt-test").complete(REQUEST)
        assert server.requests == 1
        assert server.headers[0]["authorization"] == f"Bearer {CANARY}"
