"""The filter of exports for forks."""

from __future__ import annotations

from capex.dataset.selection import ExportFilter
from capex.run.summary import Summary


def refusal(episode: Summary, given: bool) -> str:
    """Why a fork is not taken."""
    return "" if episode.resumed is None or given else "a fork; --forks takes them"


FORKS = ExportFilter(
    refusal, "Take forks (`capex fork`) too: whole episodes whose beginnings are their origins'."
)
