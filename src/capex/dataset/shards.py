"""Workers shoot one episode each into a shard of their own; the parent gets the shards in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from capex.dataset.selection import Candidate
from capex.errors import CapexError
from capex.run.jobs import run_jobs
from capex.worlds.cache import OF_THIS_PROCESS

Tell = Callable[[int, int], None]  # frames done, frames in all


class HasAttempt(Protocol):
    """A job is about an attempt."""

    @property
    def attempt(self) -> Candidate: ...


Job = TypeVar("Job", bound=HasAttempt)
Shard = TypeVar("Shard")


def shoot_in_order(
    shoot: Callable[[Job], Shard], jobs: Sequence[Job], parallel: int, tell: Tell
) -> Iterator[Shard]:
    """The shards in the order of their jobs, each as soon as those before it are there."""
    total, done, next_index = sum(job.attempt.summary.steps for job in jobs), 0, 0
    waiting: dict[int, Shard] = {}
    for index, result in run_jobs(shoot, jobs, parallel):
        if isinstance(result, CapexError):
            raise CapexError(
                f"{jobs[index].attempt.summary.path} could not be exported: {result}",
                code=result.code,
            )
        waiting[index] = result
        while next_index in waiting:
            yield waiting.pop(next_index)
            next_index += 1
        done += jobs[index].attempt.summary.steps
        tell(done, total)
    OF_THIS_PROCESS.close()
