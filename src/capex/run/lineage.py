"""Where a run's episodes come from: the runs that it was branched from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capex.run.manifest import Origin
from capex.run.reading import LoadedChain


def parts(chain: LoadedChain, lineage: Sequence[Origin]) -> list[LoadedChain]:
    """A chain by who made its attempts: the run itself first, then those that it descends from, in
    the order of the lineage.
    """
    own_parts = []
    for origin in lineage:
        starts = frozenset(origin.episodes.get(chain.name, ()))
        names = frozenset(origin.invalid.get(chain.name, ()))
        copied = {
            a.path
            for a in chain.invalid
            if (a.index in starts if a.undoable else a.path.name in names)
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
