"""What evaluations and studies print and write; the numbers and pictures are the report's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.run import load_chain
from capex.run.files import write_bytes
from capex.run.stats import wilson
from capex.run.store import find_run

TIMES = ("physics", "drawing", "network", "waiting")


def chain_summary(run: Path) -> list[tuple[str, str, str, str, str]]:
    """A row per chain: successes, rate, Wilson's interval, median steps of the successes."""
    rows = []
    for chain in find_run(run).chains():
        episodes = load_chain(chain).episodes
        if not episodes:
            continue
        judged = [e for e in episodes if e.success is not None]
        solved = [e.record.steps for e in judged if e.success]
        low, high = wilson(len(solved), len(judged)) if judged else (0.0, 1.0)
        middle = f"{statistics.median(solved):.0f}" if solved else "-"
        lacking = len(chain.asked() - {e.index for e in episodes})
        counts = f"{len(solved)}/{len(judged)}" + (f", {lacking} not run" if lacking else "")
        if waiting := len(episodes) - len(judged):
            counts += f", {waiting} not judged"
        rate = f"{len(solved) / len(judged):.2f}" if judged else "-"
        interval = f"{low:.2f} .. {high:.2f}"
        rows.append((chain.path.name, counts, rate, interval, middle))
    return rows


def time_shares(timings: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Where the seconds of rollouts went, as shares of their wall time; empty where none of them
    tells.
    """
    told = [t for t in timings if "waiting_s" in t and t["episode_s"] > 0]
    return {
        part: statistics.fmean(t[f"{part}_s"] / t["episode_s"] for t in told)
        for part in TIMES
        if told
    }


def study_tables(out: Path) -> list[Path]:
    """Write table.md and the report of a study's rollouts, without film strips."""
    try:  # here: a machine that only evaluates needs none of what the report draws with
        from capex import report
        from capex.report.data import load
        from capex.report.sections.students import students_table
        from capex.report.sources import group
        from capex.report.students import cells
    except ModuleNotFoundError as lacking:
        raise CapexError(
            f"the rollouts are done, but their table cannot be written here ({lacking}); give the"
            f" same command where all of capex is installed, or `capex report {out / 'rollouts'}`",
            code=ErrorCode.MISSING_PACKAGE,
        ) from lacking
    data = load([out / "rollouts"])
    sources, _ = group(data)
    problems = "".join(f"\n{problem}\n" for problem in data.problems)
    table = students_table(cells(data), sources).markdown() + problems
    write_bytes(out / "table.md", table.encode())
    return [out / "table.md", report.write([out / "rollouts"], out / "report", strips=0)]
