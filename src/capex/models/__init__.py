"""The Model contract: a request in, a reply out, nothing remembered, every attempt accounted for.

A model is asked with `complete(request)`. Retries are the client's own and visible: a reply lists
its attempts, one ledger row each. Images travel in user messages, tool results are text only: the
shape that every server accepts. Keys come from environment variables. `make(NAME)` finds a model by
the name that a user types.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol, runtime_checkable

from capex import trust
from capex.codec import Amount, Count
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.models.prompt_values import Centimetres, PromptValues

Effort = Literal["none", "minimal", "low", "medium", "high"]


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Picture:
    """A labelled PNG in a user message; the label is sent as text before it."""

    label: str
    png: bytes = field(repr=False)
    camera: str = field(default="", compare=False)  # that shows the present scene; not sent

    @property
    def sha256(self) -> str:
        """Name under which the exchange log stores the picture once."""
        return hashlib.sha256(self.png).hexdigest()


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it: the arguments are the raw JSON text, however broken."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class UserMessage:
    """What the harness says: texts and pictures in order."""

    parts: tuple[Text | Picture, ...]


@dataclass(frozen=True)
class AssistantMessage:
    """An earlier reply of the same decision; `replay` is resent verbatim to its provider."""

    calls: tuple[ToolCall, ...]
    text: str = ""
    replay: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """The harness's answer to one call, text only."""

    call_id: str
    text: str
    position_cm: Centimetres | None = field(default=None, compare=False)  # in the text; not sent


Message = UserMessage | AssistantMessage | ToolResult


@dataclass(frozen=True)
class Tool:
    """A function that the model may call; `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    # The server keeps to the schema; each object must forbid other properties and require its own.
    strict: bool = False


@dataclass(frozen=True)
class Sampling:
    """Settings of a request. None: the provider's default, or for chat: that of `ChatSettings`."""

    max_output_tokens: int = 8000
    effort: Effort | None = "medium"
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


@dataclass(frozen=True)
class ChatSettings:
    """Context and default sampling (the paper's, for Qwen) of a chat: server. None: not sent."""

    context_tokens: int = 32_768
    temperature: float | None = 1.0
    top_p: float | None = 0.95
    top_k: int | None = 20  # not part of OpenAI's own API; vLLM and most other servers take it


@dataclass(frozen=True)
class Request:
    """One stateless request. Static text (system, tools) stands first, so that caches hit."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    sampling: Sampling = Sampling()
    tool_choice: str = "required"  # "auto", "required", or the name of the only tool allowed
    cache_key: str = ""  # one per run: lets a provider route a common prefix to one cache
    deadline_s: float | None = None  # wall time for all attempts; no part of the hash
    # what the texts print, for a model in process; never sent, logged or hashed
    values: PromptValues | None = field(default=None, repr=False, compare=False)

    @property
    def hash(self) -> str:
        """sha256 over all that the model sees and is asked for; pictures enter by their hash."""
        return hashlib.sha256(json.dumps(describe(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Usage:
    """Billed tokens. Input is either fresh, cached or cache write; output includes reasoning."""

    fresh: Count
    cached: Count
    cache_write: Count
    output: Count
    reasoning: Count = 0

    def plus(self, more: Usage | None) -> Usage:
        """The sum of two; None adds nothing."""
        if more is None:
            return self
        return Usage(
            self.fresh + more.fresh,
            self.cached + more.cached,
            self.cache_write + more.cache_write,
            self.output + more.output,
            self.reasoning + more.reasoning,
        )


NO_TOKENS = Usage(0, 0, 0, 0)


@dataclass(frozen=True)
class LedgerTotals:
    """Sums over the attempts at a model, as a record holds them. The cost is None when that of one
    attempt is not known; its known part is listed apart.
    """

    requests: Count = 0
    attempts: Count = 0
    missing_usage: Count = 0  # billed, but no usage came back
    unknown_billing: Count = 0  # accepted perhaps, and nothing came back
    tokens: Usage | None = None
    cost_usd: Amount | None = None
    known_cost_usd: Amount | None = None
    # Held at the worst case because the cost is not known.
    held_usd: Amount = 0.0


@dataclass(frozen=True)
class Answer:
    """What the model said in one attempt."""

    calls: tuple[ToolCall, ...]
    text: str = ""
    incomplete: bool = False  # cut off by the token limit; billed all the same
    replay: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


Billed = Literal["yes", "no", "unknown"]
REPLIED = ("ok", "incomplete")  # statuses of an attempt that the model answered


@dataclass(frozen=True)
class RequestAttempt:
    """One request on the wire, whatever became of it, or one that was refused on this side."""

    # ok, incomplete, http 429, timeout, connection, failed: CODE, unreadable, too large, not sent
    status: str
    billed: Billed  # unknown: it may have been accepted, but no usage came back
    latency_s: float
    usage: Usage | None = None
    http_status: int | None = None
    kind: str = ""  # of a failure, as in ModelError; empty when the model answered
    error: str = ""
    answer: Answer | None = None
    body: Mapping[str, Any] | str | None = None  # the response as received
    headers: Mapping[str, str] = field(default_factory=dict)  # allow-listed ones only
    waited_s: float = 0.0  # before it was sent, because the attempt before it had failed

    @property
    def replied(self) -> bool:
        """Whether the model answered: only such attempts count as requests."""
        return self.status in REPLIED


@dataclass(frozen=True)
class Reply:
    """What came back: tool calls in order, text beside them, and every attempt that it took."""

    calls: tuple[ToolCall, ...]
    text: str
    usage: Usage | None
    attempts: tuple[RequestAttempt, ...]
    incomplete: bool = False  # cut off by the token limit; billed all the same
    replay: tuple[Mapping[str, Any], ...] = ()

    @property
    def seconds(self) -> float:
        """Wall time from the first attempt to the answer, the waits between attempts included."""
        return sum(a.waited_s + a.latency_s for a in self.attempts)

    def as_message(self) -> AssistantMessage:
        """The reply as part of the next round's request."""
        return AssistantMessage(self.calls, self.text, self.replay)


class ModelError(CapexError):
    """No reply could be had. The code is MODEL_FAILED for all of them; `kind` says why, and is
    what retries and campaigns decide by. The attempts were made all the same and are kept.

    Kinds: authentication, permission, quota, not_found, bad_request, context (stopped at once);
    rate_limit, conflict, server, timeout, connection, unreadable (retries did not help); failed
    (the provider said so); too_large; cassette, script (no recorded answer left).
    """

    code = ErrorCode.MODEL_FAILED

    def __init__(self, kind: str, sentence: str, attempts: tuple[RequestAttempt, ...] = ()):
        self.kind, self.attempts = kind, attempts
        super().__init__(sentence)


@runtime_checkable
class Model(Protocol):
    """A model behind any wire. It shows every attempt to the observer, before and after sending.

    A model of your own has the first three and `complete`; the rest has defaults. Inherit from this
    class, or leave them out: `make`, `collect` and `run_episode` fill them in (`with_defaults`).
    """

    name: str  # as the user wrote it, for example openai:NAME
    price_name: str  # the name to look up in the price table
    stand_in: bool  # the pilot, a script: its results say nothing about any foundation model
    tools_in_text: bool = False  # it writes calls as JSON text; the system prompt shows it how
    forces_calls: bool = True  # a request may require a call; where not, `auto` is all it takes
    computes_here: bool = False  # with the core that an episode holds, not elsewhere while it waits
    chat_settings: ChatSettings | None = None  # of a chat: model

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """Answer a request, or raise ModelError with the attempts made."""
        raise NotImplementedError

    def reread(self, body: Mapping[str, Any] | str | None) -> Answer | None:
        """The answer in a logged body, with its `replay`; None when the log holds all of it."""
        return None

    def reseeded(self, shift: int) -> Model:
        """The same model with another seed, `shift` beyond its own, where it has one; one that
        samples needs none.
        """
        return self


class Wrapped(Model):
    """A model around another, with the same name and properties."""

    def __init__(self, model: Model):
        self._model = model
        self.name, self.price_name, self.stand_in = model.name, model.price_name, model.stand_in
        for name in ("tools_in_text", "forces_calls", "computes_here", "chat_settings"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        return self._model.complete(request, observer)

    def reread(self, body: Mapping[str, Any] | str | None) -> Answer | None:
        return self._model.reread(body) if hasattr(self._model, "reread") else None

    def reseeded(self, shift: int) -> Model:
        inner = self._model
        return Wrapped(inner.reseeded(shift)) if hasattr(inner, "reseeded") else self


def with_defaults(model: Model) -> Model:
    """A user's own model may leave out what has a default: it is wrapped then."""
    # Who inherits lacks nothing; only for the others every member is looked at.
    whole = Model in type(model).__mro__ or isinstance(model, Model)
    return model if whole else Wrapped(model)


class AttemptObserver(Protocol):
    """Sees every attempt as it happens: the ledger reserves and settles, the log writes."""

    def before(self, request: Request, number: int) -> None:
        """About to send attempt `number` (from 1); raise to forbid it."""

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt ended, however it ended."""

    def again(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt paid for before the episode was cut off counts towards it now, unsent."""

    def waiting(self) -> None:
        """The client waits before its next attempt; asked several times a second, and raises to
        end the wait.
        """


class CostObserver(AttemptObserver, Protocol):
    """An observer that counts what attempts cost: a campaign's ledger."""

    @property
    def spent_usd(self) -> Decimal | None:
        """Dollars of the totals, known or possible; None without a price."""

    def recorded(self) -> LedgerTotals:
        """The totals for a record."""


class Observers:
    """Any number of observers as one. The last (the ledger) sees beginnings last and ends first."""

    def __init__(self, *observers: AttemptObserver):
        self._observers = observers

    def before(self, request: Request, number: int) -> None:
        for observer in self._observers:
            observer.before(request, number)

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        for observer in reversed(self._observers):
            observer.after(request, number, attempt)

    def again(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        for observer in self._observers:
            observer.again(request, number, attempt)

    def waiting(self) -> None:
        for observer in self._observers:
            observer.waiting()


def describe(request: Request) -> dict[str, Any]:
    """A request as plain JSON, pictures by their hashes: what is hashed, logged and compared."""
    return {
        "system": request.system,
        "tools": [vars(t) | {} for t in request.tools],
        "messages": [_describe_message(m) for m in request.messages],
        "sampling": vars(request.sampling) | {},
        "tool_choice": request.tool_choice,
    }


def _describe_message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        parts = [
            {"text": p.text} if isinstance(p, Text) else {"picture": p.label, "sha256": p.sha256}
            for p in message.parts
        ]
        return {"user": parts}
    if isinstance(message, AssistantMessage):
        return {"assistant": [vars(c) | {} for c in message.calls], "text": message.text}
    return {"result": message.text, "call": message.call_id}


CHAT_KINDS = ("chat", "chat-text")

# kind -> module:function that builds it from what follows the colon
MODELS = {
    "openai": "capex.models.openai_responses:make",
    "chat": "capex.models.openai_chat:make",
    "chat-text": "capex.models.openai_chat:make_text",
    "anthropic": "capex.models.anthropic:make",
    "cassette": "capex.models.cassette:make",
    "script": "capex.models.scripted:make",
    "pilot": "capex.pilot:make",
    "apprentice": "capex.pilot:make_apprentice",
}


# Kinds whose name holds no address and no path: a recorded name of these is safe to use again.
WELL_KNOWN = ("openai", "anthropic", "pilot", "apprentice")


def allow(name: str) -> None:
    """Permit the module of a model that the user named; the package's own need no permission."""
    kind = name.partition(":")[0]
    if kind not in MODELS:
        trust.allow(modules=[kind])


def make(name: str, chat: ChatSettings | None = None) -> Model:
    """The model that a user named: openai:NAME, chat:NAME@URL, chat-text:NAME@URL, anthropic:NAME,
    cassette:RUN, script:FILE, pilot, apprentice:SKILL,SEED, or my_lab.models:NAME, a module of the
    user's own (its kind has a dot) with a function `make(NAME)`. `chat` belongs to chat: models.
    """
    kind, _, rest = name.partition(":")
    if kind not in MODELS and "." not in kind:
        raise UnknownName("kind of model", kind, MODELS)
    if kind not in MODELS:
        trust.require_module(kind, "model")
    module, _, function = MODELS.get(kind, f"{kind}:make").partition(":")
    try:
        factory: Callable[..., Model] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if kind in MODELS:
            raise
        raise CapexError(
            f"the model '{name}' names the module {kind}, which cannot be imported ({error});"
            " is it on the path?",
            code=ErrorCode.NOT_FOUND,
        ) from None
    return with_defaults(factory(rest) if chat is None else factory(rest, chat))
