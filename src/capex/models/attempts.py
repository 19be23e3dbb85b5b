"""From attempts to a reply or an error, whether they were made now or long ago."""

from __future__ import annotations

from collections.abc import Sequence

from capex.models import Attempt, AttemptObserver, ModelError, Reply, Request


def conclude(attempts: Sequence[Attempt]) -> Reply:
    """The reply that the last attempt brought, or ModelError when it brought none: the same for the
    same attempts, so that a recording repeats it.
    """
    last = attempts[-1]
    if (answer := last.answer) is None:
        count = f" ({len(attempts)} attempts)" if len(attempts) > 1 else ""
        raise ModelError(last.kind, last.error + count, tuple(attempts))
    return Reply(
        answer.calls, answer.text, last.usage, tuple(attempts), answer.incomplete, answer.replay
    )


def repeat(
    request: Request,
    attempts: Sequence[Attempt],
    observer: AttemptObserver | None,
    *,
    paid: bool = False,
) -> Reply:
    """Show known attempts to the observer and end as they ended. Those `paid` for before the
    episode was cut off count, but cost nothing now.
    """
    for number, attempt in enumerate(attempts if observer is not None else (), start=1):
        assert observer is not None
        if paid:
            observer.again(request, number, attempt)
        else:
            observer.before(request, number)
            observer.after(request, number, attempt)
    return conclude(attempts)
