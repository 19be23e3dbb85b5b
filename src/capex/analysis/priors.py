"""What the calibrator of `capex-transfer` begins with: labels of other tasks in earlier runs.

Only of runs that are named and lie still, never of chains beside it: a chain must not depend on how
far the others have come. The numbers go into the manifest, and so into whatever reads it (replay,
forks); if the earlier run has changed since, a campaign is not continued with the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode
from capex.method.calibrator import Labelled, priors
from capex.pose import Array
from capex.run import load_run


def with_priors(settings: Settings) -> Settings:
    """The settings with what `--prior` gives to the methods that take it."""
    takers = [m.name for m in settings.methods if m.transfer and not m.priors]
    if settings.prior is None:
        if takers:
            raise CapexError(
                f"the arm {takers[0]} begins with labels of earlier runs, and none was named; write"
                " --prior RUN, or take the arm capex",
                code=ErrorCode.MISSING_SETTING,
            )
        return settings
    if not takers:
        raise CapexError(
            f"--prior {settings.prior} means nothing to the arm {settings.methods[0].name}; add"
            " --arm capex-transfer, or leave it out",
            code=ErrorCode.NOT_APPLICABLE,
        )
    paths = [Path(name.strip()) for name in settings.prior.split(",") if name.strip()]
    if settings.out.resolve() in {path.resolve() for path in paths}:
        raise CapexError(
            f"--prior {settings.prior} names the run that is collected, which changes; name earlier"
            " ones",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    labels = labelled(paths)
    if not labels:
        raise CapexError(
            f"--prior {settings.prior} holds no labelled waypoint with a confidence; name a run of"
            " `capex collect` by an arm that states them, such as capex",
            code=ErrorCode.NO_DATA,
        )
    held = priors(labels)
    methods = (replace(m, priors=held) if m.name in takers else m for m in settings.methods)
    return replace(settings, methods=tuple(methods))


def labelled(paths: Iterable[Path]) -> Labelled:
    """By WORLD:TASK the features (n, 8) and reach labels (n,) of some runs, in the order of runs,
    chains and starts' slots; forks and damaged episodes are left out.
    """
    rows: dict[str, list[tuple[tuple[float, ...], int]]] = {}
    for path in paths:
        run = load_run(path)
        if run.manifest.recorded.command == "fork":
            raise CapexError(
                f"{path} holds forks, which repeat their origins; name another run",
                code=ErrorCode.WRONG_CONTENT,
            )
        for chain in run.chains:
            for episode in chain.episodes:
                waypoints = [w for turn in episode.record.turns for w in turn.waypoints]
                rows.setdefault(f"{chain.world}:{chain.task}", []).extend(
                    (w.features, w.label)
                    for w in waypoints
                    if w.features is not None and w.label is not None
                )
    return {task: _columns(pairs) for task, pairs in rows.items() if pairs}


def _columns(pairs: list[tuple[tuple[float, ...], int]]) -> tuple[Array, Array]:
    features, labels = zip(*pairs, strict=True)
    return np.array(features, dtype=np.float64), np.array(labels, dtype=np.float64)
