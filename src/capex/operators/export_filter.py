"""The filter of exports for episodes that a person helped to."""

from __future__ import annotations

from capex.dataset.certify import driven
from capex.dataset.selection import ExportFilter
from capex.run.summary import Summary


def refusal(episode: Summary, given: bool) -> str:
    """Why an episode that a person drove in is never taken."""
    return driven(episode.human_steps) if episode.human_steps else ""


HELPED = ExportFilter(refusal)
