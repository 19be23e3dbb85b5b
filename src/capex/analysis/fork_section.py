"""Forks: what became of each saved state, and where forks part from their origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from capex.analysis.fork_origin import fork_in
from capex.analysis.fork_outcomes import ForkRow, fork_rows
from capex.report import show
from capex.report.compare import Tally, grouped
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source, plain
from capex.report.tables import ROWS_SHOWN, Column, Row, Table, file_table, group_row, tally_names

ORIGIN = "origin, as recorded"
NAMES = (
    *("source", "chain", "episode", "decision", "repetition", "seed", "success", "steps"),
    *("decisions", "requests", "parts_at_decision", "parts_at_step", "parts_by"),
)


def forks_section(given: SectionInput) -> list[Section]:
    """Nothing where no source holds forks."""
    data, sources = given.data, given.sources
    forked = [s for s in sources if s.resumed]
    if not forked:
        return []
    rows = fork_rows(data, forked)
    section = Section("forks", "Forks")
    section.text.append(
        f"{sum(len(s.episodes) for s in forked)} forks of {len(rows)} saved"
        f" {'state' if len(rows) == 1 else 'states'}. Steps, decisions and requests count from the"
        " state on; a fork parts from its origin at the first decision whose plan, commitment or"
        " outcome differs."
    )
    listed = [row for of_state in rows.values() for row in of_state]
    section.tables += [_states_table(listed, forked), _forks_table(listed, forked)]
    if any(not row.compared for row in listed):
        section.notes.append("The records of some origins are missing: partings are not known.")
    return [section]


def _states_table(listed: Sequence[ForkRow], sources: Sequence[Source]) -> Table:
    columns = (
        Column(csv="state"),
        Column("Source", "source", align="l"),
        Column("Forks", "forks"),
        Column("Solved", tally_names(""), show.fraction),
        Column("Median steps", "median_steps", show.number),
        Column("Median decisions", "median_decisions", show.number),
        Column("Median requests", "median_requests", show.number),
        Column("Parts from the origin", "parts", align="l", sentences=True),
    )
    rows = []
    for state, of_state in grouped(listed, lambda row: row.state).items():
        rows.append(
            group_row(f"{plain(state.chain)}, episode {state.episode}, decision {state.decision}")
        )
        for label, forks in grouped(of_state, _label).items():
            verdicts = [row.success for row in forks if row.success is not None]
            medians = (
                float(median(getattr(row, name) for row in forks))
                for name in ("steps", "decisions", "requests")
            )
            solved = Tally(sum(verdicts), len(verdicts))
            parts = "" if forks[0].source is None else _partings(forks)
            rows.append(Row((str(state), label, len(forks), solved, *medians, parts)))
    caption = (
        "Each state: what its origin did from there on, then the forks of each source, and at which"
        " decision they part from the origin."
    )
    folded = len(rows) > ROWS_SHOWN
    return Table("forks", caption, columns, rows, sources, "folded" if folded else "open")


def _label(row: ForkRow) -> str:
    return ORIGIN if row.source is None else row.source.label


def _partings(forks: Sequence[ForkRow]) -> str:
    """2: 3 by plan, 1 by commitment; 4: 1 by outcome; never: 1."""
    if not all(row.compared for row in forks):
        return show.MISSING
    counts = Counter((row.parting.decision, row.parting.what) for row in forks if row.parting)
    by_decision: dict[int, list[str]] = {}
    for (decision, what), number in sorted(counts.items()):
        by_decision.setdefault(decision, []).append(f"{number} by {what}")
    words = [f"decision {d}: {', '.join(texts)}" for d, texts in by_decision.items()]
    same = sum(row.parting is None for row in forks)
    return "; ".join([*words, *([f"never: {same}"] if same else [])])


def _forks_table(listed: Sequence[ForkRow], sources: Sequence[Source]) -> Table:
    rows = []
    for row in listed:
        fork = None if row.episode is None else fork_in(row.episode.extensions)
        which = (None, None) if fork is None else (fork.repetition, fork.seed)
        success = None if row.success is None else int(row.success)
        parting = row.parting
        parts: tuple[object, ...] = (None, None, None)
        if parting is not None:
            parts = parting.decision, parting.step, parting.what
        state = row.state.chain, row.state.episode, row.state.decision
        amounts = row.steps, row.decisions, row.requests
        rows.append(Row((_label(row), *state, *which, success, *amounts, *parts)))
    return file_table("fork_episodes", "Every fork, and its origin.", NAMES, rows, sources)
