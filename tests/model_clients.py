"""Clients of the three wires against a loopback server, and both sides of the books."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from capex.models import (
    Model,
    Picture,
    Request,
    RequestAttempt,
    Text,
    Tool,
    ToolResult,
    UserMessage,
    anthropic,
    openai_chat,
    openai_responses,
)
from capex.models.probe import _png
from capex.models.retry import RetryPolicy
from wire_server import Turn, WireServer

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
TWO_LOOKS = Turn(calls=[("locate_pixel", {"u": 1}), ("locate_pixel", {"u": 2})], text="looking")
OK = Turn(calls=[("act", {"reasoning": "closer"})])


@dataclass
class FakeClock:
    """Passes only by sleeping."""

    time_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float, look: Callable[[], None] = lambda: None) -> None:
        look()
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

    def waiting(self) -> None:
        pass


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


# Also the good reply after a stalled one must come before the hasty deadline, on a busy machine too.
PATIENT, HASTY = RetryPolicy(read_s=20.0), RetryPolicy(read_s=1.0)


def decision_of(wire_name: str, server: WireServer) -> Request:
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
