"""Where a run's episodes come from: the runs that it was branched from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capex.run.reading import LoadedChain

BRANCHED_FROM = "branched_from"  # in a manifest


def branched_from(told: Mapping[str, Any]) -> Any:
    """What a manifest, or what it tells of an earlier branch, says of the run that was branched."""
    return told.get(BRANCHED_FROM)


@dataclass(frozen=True)
class Origin:
    """A run that a branch began with, as the branch's manifest tells of it; what is garbled there
    counts as not told.
    """

    run: str
    changed: Mapping[str, Any]  # a setting by its path, as in arms.capex.tau -> what it was
    episodes: Mapping[str, frozenset[Any]]  # chain -> the starts of its episodes then
    # Chain -> the folders of its invalidated attempts; None: older branches do not tell.
    invalid: Mapping[str, frozenset[Any]] | None


def origins(manifest: Mapping[str, Any]) -> list[Origin]:
    """The runs that a run descends from by branches, the nearest first."""
    lineage = []
    told = branched_from(manifest)
    while isinstance(told, Mapping):
        changed = told.get("changed")
        settings = (
            [c for c in changed if isinstance(c, Mapping) and "name" in c]
            if isinstance(changed, list)
            else []
        )
        lineage.append(
            Origin(
                run=str(told.get("run", "another run")),
                changed={str(c["name"]): c.get("before") for c in settings},
                episodes=_listed(told.get("episodes"), int),
                invalid=_listed(told["invalid"], str) if "invalid" in told else None,
            )
        )
        told = branched_from(told)
    return lineage


def _listed(told: Any, kind: type) -> dict[str, frozenset[Any]]:
    lists = told.items() if isinstance(told, Mapping) else ()
    return {
        chain: frozenset(x for x in held if type(x) is kind)
        for chain, held in lists
        if isinstance(held, list)
    }


def parts(chain: LoadedChain, lineage: Sequence[Origin]) -> list[LoadedChain]:
    """A chain by who made its attempts: the run itself first, then those that it descends from, in
    the order of the lineage.
    """
    own_parts = []
    for origin in lineage:
        starts = origin.episodes.get(chain.name, frozenset())
        names = None if origin.invalid is None else origin.invalid.get(chain.name, frozenset())
        copied = {
            a.path
            for a in chain.invalid
            if (a.index in starts if names is None or a.undoable else a.path.name in names)
        }
        own, inherited = (
            replace(
                chain,
                episodes=tuple(e for e in chain.episodes if (e.index in starts) is old),
                invalid=tuple(a for a in chain.invalid if (a.path in copied) is old),
            )
            for old in (False, True)
        )
        own_parts.append(own)
        chain = inherited
    return [*own_parts, chain]
