"""Runs in short, read again and again: what cannot change is read once."""

from __future__ import annotations

import threading
from pathlib import Path

from capex.campaign.driver import LIVE
from capex.campaign.status import CampaignStatus, read_status
from capex.run import Depth, LoadedEpisode, load_episode
from capex.run.store import EPISODES, SPEND, Run

Signature = tuple[tuple[int, int], ...]
NOTHING = (0, 0)


class Heads:
    """Episodes without their decisions, and the status of runs; safe among threads."""

    def __init__(self) -> None:
        self._episodes: dict[Path, LoadedEpisode] = {}
        self._statuses: dict[Path, tuple[Signature, CampaignStatus]] = {}
        self._lock = threading.Lock()

    def episode(self, folder: Path) -> LoadedEpisode:
        """An episode's head. One that the world judged stays as it is; others get verdicts."""
        return load_episode(folder, Depth.HEADS, self._episodes)

    def status(self, run: Run) -> CampaignStatus:
        """Where a run stands, computed again only when its files have changed."""
        with self._lock:
            before = _signature(run)
            known = self._statuses.get(run.path)
            if known is not None and known[0] == before and not known[1].board.unjudged:
                return known[1]
            status = read_status(run.path, Depth.HEADS, held=self._episodes, disk=False)
            self._statuses[run.path] = before, status
            return status


def _signature(run: Run) -> Signature:
    """Changes when an attempt begins, ends or is invalidated, or something is spent."""
    chains = [chain.path for chain in run.chains()]
    places = [run.path / "manifest.json", run.path / LIVE, run.path / SPEND, *chains]
    places += [chain / name for chain in chains for name in (EPISODES, "invalid")]
    return tuple(map(_stamp, places))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return NOTHING
    return found.st_mtime_ns, found.st_size
