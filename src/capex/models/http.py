"""A model behind HTTP. A provider is a dialect: build the body, read the answer, read the usage.
Attempts, retries, limits and keys are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from capex.models import (
    Answer,
    AttemptObserver,
    ChatSettings,
    Model,
    Observers,
    Reply,
    Request,
    RequestAttempt,
    Usage,
    prices,
    redact,
    wire,
)
from capex.models.body import ProviderFailure, parse, sound
from capex.models.retry import (
    RetryPolicy,
    Sent,
    clip,
    conclude,
    failed,
    refused,
    repeat,
    retry_after_s,
)

QUOTED_CHARACTERS = 120  # of a body that is no reply, in the sentence that says so


@dataclass(frozen=True)
class Dialect:
    """How a provider writes and reads. `answer` is None for a body that is no reply."""

    body: Callable[[str, Request], dict[str, Any]]  # of the model's name and a request
    answer: Callable[[Mapping[str, Any]], Answer | ProviderFailure | None]
    usage: Callable[[Mapping[str, Any]], Usage | None]


class HttpModel(Model):
    """A model behind a provider's wire.

    With `chat_settings`, a request too long for the context is refused before sending. Observers
    are told of it as an attempt that was not sent, so that a recorded episode meets it again.
    """

    def __init__(
        self,
        name: str,
        model: str,
        dialect: Dialect,
        endpoint: wire.Endpoint,
        policy: RetryPolicy | None = None,
        chat_settings: ChatSettings | None = None,
        tools_in_text: bool = False,
        forces_calls: bool = True,
    ):
        self.name, self.price_name = name, model
        # The pilot or an apprentice behind a server (`capex pilot serve`) remains a stand-in.
        self.stand_in = model.partition(":")[0] in ("pilot", "apprentice")
        self.chat_settings, self.tools_in_text = chat_settings, tools_in_text
        self.forces_calls = forces_calls
        self._dialect, self._endpoint, self._policy = dialect, endpoint, policy or RetryPolicy()

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """Send a request until it is answered or the policy gives up."""
        if refusal := _refusal(request, self.chat_settings):
            return repeat(request, [refusal], observer)
        body = sound(self.body(request))
        policy, clock, observer = self._policy, self._policy.clock, observer or Observers()
        limit_s = math.inf if request.deadline_s is None else request.deadline_s
        deadline = clock.now() + min(policy.deadline_s, limit_s)
        attempts: list[RequestAttempt] = []
        waited_s = 0.0
        while True:
            number = len(attempts) + 1
            observer.before(request, number)
            began = clock.now()
            sent = self._send(body, max(0.001, min(policy.read_s, deadline - began)))
            attempt = replace(sent.attempt, latency_s=clock.now() - began, waited_s=waited_s)
            attempts.append(attempt)
            observer.after(request, number, attempt)
            if not (sent.retry and policy.allows_another(attempts)):
                return conclude(attempts)
            wait_s, waiting = policy.wait_s(request, number, sent.retry_after_s), clock.now()
            if waiting + wait_s >= deadline:
                return conclude(attempts)
            clock.sleep(wait_s, observer.waiting)
            waited_s = clock.now() - waiting

    def body(self, request: Request) -> dict[str, Any]:
        """The request as the provider takes it; a model that refuses to be forced is not."""
        if not self.forces_calls:
            request = replace(request, tool_choice="auto")
        return self._dialect.body(self.price_name, request)

    def reread(self, body: Mapping[str, Any] | str | None) -> Answer | None:
        """The answer in a logged body, with what the provider wants resent in the next round."""
        answer = self._dialect.answer(body) if isinstance(body, Mapping) else None
        return answer if isinstance(answer, Answer) else None

    def _send(self, request_body: dict[str, Any], read_s: float) -> Sent:
        response = self._endpoint.send(request_body, self._policy, read_s)
        if isinstance(response, Sent):
            return response
        status, headers = response.status_code, dict(response.headers)
        body, kept = parse(response.content), redact.allowed_headers(headers)
        readable = body if isinstance(body, Mapping) else {}
        usage, answer = self._dialect.usage(readable), self._dialect.answer(readable)
        if usage is not None and not _counted(usage, answer):
            usage = None
        attempt = partial(
            RequestAttempt, latency_s=0.0, usage=usage, http_status=status, body=body, headers=kept
        )
        if not 200 <= status < 300:
            kind, retry, billed, sentence = refused(status, body, self._endpoint.key)
            refusal = attempt(
                f"http {status}", "yes" if usage else billed, kind=kind, error=sentence
            )
            return Sent(refusal, retry, retry_after_s(headers))
        if isinstance(answer, Answer):
            return Sent(attempt("incomplete" if answer.incomplete else "ok", "yes", answer=answer))
        billed = "yes" if usage else "unknown"
        if answer is None:
            sentence = (
                f"the server answered with HTTP {status}, but its body cannot be read as a reply:"
                f" {_quoted(response.content)}"
            )
            return Sent(attempt("unreadable", billed, kind="unreadable", error=sentence), True)
        kind, retry, sentence = failed(answer.code, answer.message)
        failure = attempt(f"failed: {clip(answer.code)}", billed, kind=kind, error=sentence)
        return Sent(failure, retry, retry_after_s(headers))


def _refusal(request: Request, chat: ChatSettings | None) -> RequestAttempt | None:
    if chat is None:
        return None
    needed, output = prices.tokens(request), request.sampling.max_output_tokens
    if needed + output <= chat.context_tokens:
        return None
    sentence = (
        f"the request has about {needed} tokens and may be answered with {output} more, which"
        f" exceeds the context of {chat.context_tokens}; nothing was sent (see --context-tokens)"
    )
    return RequestAttempt("not sent", "no", 0.0, kind="context", error=sentence)


def _counted(usage: Usage, answer: Answer | ProviderFailure | None) -> bool:
    """Whether a server counts tokens: no request is empty, and no reply that says something. One
    that counts none of them is not free.
    """
    said = isinstance(answer, Answer) and bool(answer.calls or answer.text)
    asked = usage.fresh + usage.cached + usage.cache_write
    return asked > 0 and (usage.output > 0 or not said)


def _quoted(content: bytes) -> str:
    """The first words of a body that is no reply, for a person to recognize it by."""
    words = clip(content[: 8 * QUOTED_CHARACTERS].decode("utf-8", errors="replace"))
    return f"{words[:QUOTED_CHARACTERS]!r}" if words else "it is empty"
