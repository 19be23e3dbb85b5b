"""One plan to look at: the first in which experience changed what was trusted."""

from __future__ import annotations

from dataclasses import dataclass

from capex.method.record import Turn
from capex.report.calibration import cut_places, cut_places_as_stated
from capex.report.experience import chains
from capex.report.sources import Source
from capex.run import read_record
from capex.run.summary import Summary

RUN_AT_LEAST = 2  # waypoints before the cut: a plan cut at once shows little


@dataclass(frozen=True)
class ExamplePlan:
    """A plan of a source with its confidences and outcomes."""

    source: Source
    episode: Summary
    number: int  # of the episode in its chain, from 1
    turn: Turn
    first: bool  # whether it is the episode's first plan
    lowered: bool  # whether the stated confidences alone would have run all of it


def example_plan(source: Source) -> ExamplePlan | None:
    """The first plan of a chain that calibration cut though the stated confidences would have run
    it all, preferably an episode's first; else the first plan that was cut. None without one.
    """
    best: tuple[tuple[bool, bool, bool, int], Summary, int, int] | None = None
    for chain in chains(source):
        for number, episode in enumerate(chain, start=1):
            tau = source.tau_of(episode)
            if tau is None or not episode.truncated:
                continue
            anyway = cut_places_as_stated(episode, tau)
            for plan, place in cut_places(episode).items():
                rank = (plan in anyway, plan > 0, place <= RUN_AT_LEAST, number)
                if best is None or rank < best[0]:
                    best = rank, episode, number, plan
    if best is None:
        return None
    rank, episode, number, plan = best
    planned = [t for t in read_record(episode.path).turns if t.waypoints]
    return ExamplePlan(source, episode, number, planned[plan], plan == 0, not rank[0])
