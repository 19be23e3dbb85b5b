"""An episode that was cut off (a kill, a spent budget) continues without paying twice for answers.

`Continued` gives the answers in the log of the cut-off attempt, as long as the requests are the
same, and then asks the model itself. The world is deterministic and memory is what it was, so the
requests repeat; at the first that does not, the rest of the log is dropped. A request that had
outgrown the model's context, and after which the episode went on, is refused again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from capex.models import AttemptObserver, Model, Reply, Request, RequestAttempt, Wrapped
from capex.models.attempts import repeat
from capex.models.cassette import RecordedRequest, read_requests


class Continued(Wrapped):
    """A model whose first answers come from a log. Observers are told of those as attempts made
    `again`: counted, not paid. `waited` is told the seconds that each answer took back then.
    """

    def __init__(
        self, model: Model, log: Path, waited: Callable[[float], None] = lambda seconds: None
    ):
        super().__init__(model)
        self._waited = waited
        self._recorded: deque[RecordedRequest] = deque(read_requests(log, torn_end=True))

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """The logged answer while the requests repeat, then the model's."""
        attempts = self._logged(request)
        if not attempts:
            return self._model.complete(request, observer)
        self._waited(sum(a.waited_s + a.latency_s for a in attempts))
        return repeat(request, attempts, observer, paid=True)

    def _logged(self, request: Request) -> list[RequestAttempt]:
        """The attempts that settled this request; none once the log does not tell of it."""
        if not self._recorded:
            return []
        recorded = self._recorded.popleft()
        attempts = recorded.attempts() if recorded.hash == request.hash else []
        if attempts and attempts[-1].kind == "context" and self._recorded:
            return attempts
        # Cut off among the retries: those are the campaign's cost, not the episode's.
        if not attempts or attempts[-1].answer is None:
            self._recorded.clear()
            return []
        if answer := self._model.reread(attempts[-1].body):
            attempts[-1] = replace(attempts[-1], answer=answer)
        return attempts
