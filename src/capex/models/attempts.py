"""From attempts to a reply or an error, whether they were made now or long ago."""

from __future__ import annotations

from collections.abc import Sequence

from capex.models import AttemptObserver, ModelError, Observers, Reply, Request, RequestAttempt


def conclude(attempts: Sequence[RequestAttempt]) -> Reply:
    """The reply that the last attempt brought, or its ModelError: the same for a recording."""
    last = attempts[-1]
    if (answer := last.answer) is None:
        count = f" ({len(attempts)} attempts)" if len(attempts) > 1 else ""
        raise ModelError(last.kind, last.error + count, tuple(attempts))
    calls, text, tried = answer.calls, answer.text, tuple(attempts)
    return Reply(calls, text, last.usage, tried, answer.incomplete, answer.replay)


def repeat(
    request: Request,
    attempts: Sequence[RequestAttempt],
    observer: AttemptObserver | None,
    *,
    paid: bool = False,
) -> Reply:
    """Show known attempts to the observer and end as they ended. Those `paid` for before the
    episode was cut off count, but cost nothing now.
    """
    observer = observer or Observers()
    for number, attempt in enumerate(attempts, start=1):
        if paid:
            observer.again(request, number, attempt)
        else:
            observer.before(request, number)
            observer.after(request, number, attempt)
    return conclude(attempts)
