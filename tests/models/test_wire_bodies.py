"""The bodies that are sent, against the SDKs' own types."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from capex import models
from capex.models import AssistantMessage, ChatSettings, Sampling, ToolCall, ToolResult
from model_clients import ACT, LOOK, OK, PNG, REQUEST, TWO_LOOKS, WIRES, client, decision_of
from wire_server import BODIES, Turn, WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")


def _exhaust(value: Any) -> Any:
    """Pydantic checks an Iterable only when it is walked."""
    if isinstance(value, dict):
        return {k: _exhaust(v) for k, v in value.items()}
    return (
        [_exhaust(v) for v in value]
        if isinstance(value, Iterable) and not isinstance(value, str | bytes)
        else value
    )


@pytest.mark.parametrize(
    ("wire_name", "params"),
    [("responses", ResponseCreateParamsNonStreaming), ("chat", CompletionCreateParamsNonStreaming)],
)
@pytest.mark.parametrize("choice", ["auto", "required", "act"])
def test_bodies_validate_against_the_sdks_types(wire_name, params, choice):
    adapter = TypeAdapter(params)
    with WireServer([TWO_LOOKS, OK]) as server:
        request = replace(
            decision_of(wire_name, server),
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
        client("messages", server).complete(decision_of("messages", server))
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
        client("responses", server).complete(decision_of("responses", server))
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
        client("chat", server).complete(decision_of("chat", server))
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
