"""How well the starts of a rig were matched, attempt by attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capex.errors import DamagedFile
from capex.operators.arrangements import Match, read_match
from capex.report.sources import Source
from capex.run.summary import Summary


@dataclass(frozen=True)
class MatchedStart:
    """An attempt whose scene somebody arranged."""

    source: Source
    episode: Summary
    match: Match


def matched_starts(sources: Sequence[Source]) -> list[MatchedStart]:
    """Every arranged attempt, source by source; what cannot be read is left out."""
    found = []
    for source in sources:
        for episode in source.episodes:
            try:
                match = read_match(episode.path)
            except DamagedFile:
                continue
            if match is not None:
                found.append(MatchedStart(source, episode, match))
    return found
