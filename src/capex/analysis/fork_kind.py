"""Forks as the core sees them: their runs, and their filter of exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capex import codec
from capex.dataset.selection import ExportFilter
from capex.run.manifest import Manifest, RunKind
from capex.run.summary import Summary

COMMAND = "fork"  # in the settings of a manifest, and in its extensions


@dataclass(frozen=True)
class ForkedRun:
    """What all forks of a run share, and the states that they resumed from."""

    run: str  # the name of the run whose states are forked
    seed: int
    remember: bool
    states: Mapping[str, str] = field(default_factory=dict)  # state -> SHA-256 of its record


def forked_run(manifest: Manifest) -> ForkedRun:
    """The fields of a run of forks; ValueError where one is missing or has another type."""
    return codec.from_json(manifest.extensions.get(COMMAND), ForkedRun, at=f"extensions.{COMMAND}")


def _sentence(manifest: Manifest) -> str:
    forked = forked_run(manifest)
    count = len(forked.states)
    states = "1 state" if count == 1 else f"{count} states"
    return f"forks of {states} of {forked.run}"


FORKS = RunKind(
    label="forks",
    fields=forked_run,
    sentence=_sentence,
    identity=lambda manifest: {"forks of": forked_run(manifest).run},
    no_replay="holds forks, whose beginnings lie in another run",
)


def _refusal(episode: Summary, given: bool) -> str:
    """Why a fork is not taken."""
    return "" if episode.resumed is None or given else "a fork; --forks takes them"


EXPORT_FILTER = ExportFilter(
    _refusal, "Take forks (`capex fork`) too: whole episodes whose beginnings are their origins'."
)
