"""Anthropic's models, each as particular as its provider documents: a whole decision on every one of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from capex.campaign.ledger import Ledger
from capex.method.context import NO_CONTEXT, EpisodeContext
from capex.method.demonstrator import run_episode
from capex.method.dialogue import LAST_ROUND, NO_CALL, ONLY_ACT
from capex.method.memory import Memory
from capex.method.presets import preset
from capex.models import (
    Effort,
    ModelError,
    Sampling,
    Text,
    ToolResult,
    UserMessage,
    anthropic,
    claude,
    openai_chat,
)
from capex.models.cassette import Cassette, Continued
from capex.models.exchanges import LOG, ExchangeLog, read_log
from capex.models.probe import probe
from capex.worlds import Start
from model_clients import OK, REQUEST, TWO_LOOKS, Tally, assert_books_agree
from refusals import model_fails
from toy import ToyEnv
from wire_server import CLAUDE_UNFORCED, CLAUDE_WITHOUT_EFFORT, Turn, WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")

EARLIER = ("claude-opus-5", "claude-opus-4-6", *CLAUDE_WITHOUT_EFFORT)
HOP = ("act", {"reasoning": "a hop", "left": {"delta_cm": [0, 0, 2]}, "confidence": 0.9})
LOOK = ("locate_pixel", {"camera": "back_left", "u": 3, "v": 3})


def _named(name: str, server: WireServer):
    return anthropic.make(name, base_url=server.root)


@pytest.mark.parametrize("name", [*CLAUDE_UNFORCED, *EARLIER])
def test_two_rounds_of_a_decision(name):
    """The first reply goes back with its thinking; what the model refuses is not sent."""
    tally = Tally()
    with WireServer([TWO_LOOKS, OK]) as server:
        model = _named(name, server)
        first = model.complete(REQUEST, tally)
        results = [ToolResult(call.id, "12 cm") for call in first.calls]
        second = replace(
            REQUEST, messages=(*REQUEST.messages, first.as_message(), *results), tool_choice="act"
        )
        reply = model.complete(second, tally)
        assert server.refused == []
        assert_books_agree(tally, server)
        one, two = server.bodies
    assert [c.name for c in first.calls] == ["locate_pixel"] * 2
    assert [c.name for c in reply.calls] == ["act"]
    forced = name not in CLAUDE_UNFORCED
    assert one["tool_choice"] == {"type": "any" if forced else "auto"}
    assert two["tool_choice"] == ({"type": "tool", "name": "act"} if forced else {"type": "auto"})
    thoughts = [b["type"] for b in two["messages"][1]["content"]].count("thinking")
    assert thoughts == (not forced)
    level = None if name in CLAUDE_WITHOUT_EFFORT else {"effort": "medium"}
    assert one.get("output_config") == level


@pytest.mark.parametrize("edit", ["dropped", "changed"])
def test_the_server_refuses_thinking_that_is_not_returned_as_it_was(edit):
    """The peer is as strict as the provider: without its blocks, a second round is an error."""
    with WireServer([TWO_LOOKS, OK]) as server:
        model = _named("claude-opus-5-5", server)
        first = model.complete(REQUEST)
        thought, *rest = first.replay
        assert thought["type"] == "thinking"
        replay = tuple(rest) if edit == "dropped" else ({**thought, "signature": "x"}, *rest)
        results = [ToolResult(call.id, "12 cm") for call in first.calls]
        messages = (*REQUEST.messages, replace(first.as_message(), replay=replay), *results)
        with pytest.raises(ModelError, match="thinking") as error:
            model.complete(replace(REQUEST, messages=messages))
    assert error.value.kind == "bad_request"
    assert [a.billed for a in error.value.attempts] == ["no"]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [("none", "low"), ("minimal", "low"), ("low", "low"), ("high", "high"), (None, None)],
)
def test_effort_is_sent_at_a_level_that_the_provider_has(asked: Effort | None, sent: str | None):
    request = replace(REQUEST, sampling=Sampling(effort=asked))
    with WireServer([OK]) as server:
        _named("claude-opus-5-5", server).complete(request)
        assert server.bodies[0].get("output_config") == (None if sent is None else {"effort": sent})


@pytest.mark.parametrize(
    ("name", "forces", "takes_effort"),
    [
        ("claude-opus-5-5", False, True),
        ("anthropic.claude-sonnet-5-5-v1:0", False, True),
        ("anthropic/claude-opus-5.5", False, True),
        ("claude-mythos-preview", False, True),
        ("claude-opus-6", False, True),  # newer than the table
        ("claude-opus-5", True, True),
        ("claude-opus-5-20260724", True, True),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", True, True),
        ("claude-opus-4-5@20251101", True, True),
        ("claude-sonnet-4-20250514", True, False),
        ("claude-haiku-4-5-20251001", True, False),
        ("claude-3-7-sonnet-latest", True, False),
        ("anthropic/claude-3.5-sonnet", True, False),
        ("gpt-6-astra", True, False),
        ("my-gateways-alias", True, False),
    ],
)
def test_names(name, forces, takes_effort):
    assert claude.forces_calls(name) == forces
    assert (claude.effort(name, "medium") is not None) == takes_effort


def test_the_same_model_behind_a_chat_server_is_not_forced_either():
    with WireServer([OK]) as server:
        model = openai_chat.make(f"anthropic/claude-opus-5.5@{server.url}")
        assert [c.name for c in model.complete(REQUEST).calls] == ["act"]
        assert server.refused == []
        assert server.bodies[0]["tool_choice"] == "auto"


def test_the_probe_asks_without_force_too():
    with WireServer([Turn(calls=[("report_colour", {"colour": "red"})])] * 2) as server:
        assert all(works for _, works, _ in probe(_named("claude-opus-5-5", server)))
        assert server.refused == []


def _episode(model, context=NO_CONTEXT):
    method = preset("capex", decisions=1, image_size=64)
    return run_episode(ToyEnv(), Start("reach", 0), model, method, Memory(), context)


def test_a_decision_of_a_model_that_cannot_be_forced(tmp_path):
    """A reply without a call goes back as a defect; in the last round only act is carried out, and the model is told so."""
    words = Turn(text="I would lift the gripper.")
    looks = [Turn(calls=[LOOK])] * 3
    with WireServer([words, *looks, words, Turn(calls=[HOP])]) as server:
        model, ledger = _named("claude-opus-5-5", server), Ledger(price=None)
        log = ExchangeLog(tmp_path, model)
        episode = _episode(model, EpisodeContext(ledger=ledger, log=log))
        assert server.refused == []
        bodies = server.bodies
        assert ledger.totals.requests == ledger.totals.attempts == len(server.reported) == 6
        assert ledger.totals.missing_usage == ledger.totals.unknown_billing == 0
    (turn,) = episode.record.turns
    assert turn.waypoints
    assert {body["tool_choice"]["type"] for body in bodies} == {"auto"}
    sent = [json.dumps(body["messages"]) for body in bodies]
    assert [NO_CALL in text for text in sent] == [False, True, True, True, True, True]
    assert [LAST_ROUND in text for text in sent] == [False] * 5 + [True]
    # What was asked is logged as it was sent, and replays.
    asked = [line.request for line in read_log(tmp_path / LOG)]
    assert {request["tool_choice"] for request in asked} == {"auto"}
    again = _episode(Cassette(tmp_path))
    assert again.record.turns == episode.record.turns


def test_a_last_round_without_act_spends_the_decision():
    with WireServer([Turn(calls=[LOOK])] * 6) as server:
        episode = _episode(_named("claude-opus-5-5", server))
        last = server.bodies[-1]["messages"][-1]["content"]
    assert ONLY_ACT in episode.record.turns[0].skipped_reason
    # In the result itself: text behind results makes these models end their turn.
    assert [block["type"] for block in last] == ["tool_result"]
    assert last[0]["content"].endswith(LAST_ROUND)


def test_an_episode_that_was_cut_off_goes_on_with_its_thinking(tmp_path):
    with WireServer([TWO_LOOKS, OK, OK]) as server:
        model = _named("claude-opus-5-5", server)
        asked = replace(REQUEST, tool_choice="auto")
        first = model.complete(asked, ExchangeLog(tmp_path, model))
        results = [ToolResult(call.id, "12 cm") for call in first.calls]
        again = Continued(_named("claude-opus-5-5", server), tmp_path / LOG)
        assert again.forces_calls is False
        logged = again.complete(asked)
        assert logged.replay == first.replay
        again.complete(replace(asked, messages=(*asked.messages, logged.as_message(), *results)))
        assert server.refused == []
        assert server.requests == 2


# Gemini 3 behind its OpenAI-compatible endpoint, and OpenRouter: what they add comes back


def test_gemini_gets_its_thought_signature_back():
    with WireServer([TWO_LOOKS, OK]) as server:
        model = openai_chat.make(f"gemini-3-pro@{server.url}")
        first = model.complete(REQUEST)
        results = [ToolResult(call.id, "12 cm") for call in first.calls]
        messages = (*REQUEST.messages, first.as_message(), *results)
        assert [c.name for c in model.complete(replace(REQUEST, messages=messages)).calls] == [
            "act"
        ]
        assert server.refused == []
        bare = replace(first.as_message(), replay=())
        with model_fails("bad_request", "missing a thought_signature"):
            model.complete(replace(REQUEST, messages=(*REQUEST.messages, bare, *results)))


def test_unknown_fields_of_a_chat_reply_go_back_as_they_came():
    details = [{"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 0}]
    arguments = '{ "u":1 }'  # a signature holds for the text
    message = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}],
        "refusal": None,
        "audio": None,
        "reasoning": "hm",
        "reasoning_content": "",
        "reasoning_details": details,
        "tool_calls": [
            {
                "id": "a",
                "index": 0,
                "type": "function",
                "extra_content": {"google": {"thought_signature": "c2ln"}},
                "function": {"name": "locate_pixel", "arguments": arguments, "thought": "s"},
            },
            {"id": "b", "function": {"name": "locate_pixel", "arguments": "{broken"}},
        ],
    }
    turn = Turn(
        fault="body", body=json.dumps({"choices": [{"message": message}]}).encode(), worked=True
    )
    with WireServer([turn, OK]) as server:
        model = openai_chat.make(f"m@{server.url}")
        first = model.complete(REQUEST)
        results = [ToolResult(call.id, "12 cm") for call in first.calls]
        note = UserMessage((Text("go on"),))
        model.complete(
            replace(REQUEST, messages=(*REQUEST.messages, first.as_message(), *results, note))
        )
        sent = server.bodies[1]["messages"][2]
    one, _ = message["tool_calls"]
    assert sent.pop("tool_calls") == [
        one,
        {
            "id": "b",
            "type": "function",
            "function": {"name": "locate_pixel", "arguments": '{"unreadable": "{broken"}'},
        },
    ]
    assert sent == {
        key: message[key]
        for key in ("role", "content", "reasoning", "reasoning_content", "reasoning_details")
    }
