"""Kinds of runs that extensions make; the command in a manifest's settings names the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capex.registry import RUN_KINDS, load

if TYPE_CHECKING:
    from capex.run.manifest import Manifest


@dataclass(frozen=True)
class RunKind:
    """A kind of run, by name in `registry.RUN_KINDS`."""

    label: str  # of its sources in a report
    fields: Callable[[Manifest], Any]  # its own, decoded; ValueError where one has another type
    sentence: Callable[[Manifest], str]  # about a run of this kind
    identity: Callable[[Manifest], Mapping[str, Any]]  # what episodes depend on besides settings
    no_replay: str  # why no such run is replayed


def kind_of(manifest: Manifest) -> RunKind | None:
    """The kind of a run that an extension made; None for every other run."""
    command = manifest.recorded.command
    if command not in RUN_KINDS:
        return None
    kind: RunKind = load(RUN_KINDS[command])
    return kind
