"""`capex judge`: verdicts on attempts that a person judges, one by one or from a table."""

from __future__ import annotations

import csv
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import OmitArgPrefixes, Positional, arg

from capex.cli.allowing import Allowed
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.help import Examples
from capex.errors import CapexError, ErrorCode, as_cell
from capex.run import LoadedEpisode, LoadedRun, load_run
from capex.run.agreement import agreements
from capex.run.verdicts import Verdict, append_verdict, read_verdict

COLUMNS = ("episode", "verdict", "by", "reason", "words")


@dataclass(frozen=True)
class Judge:
    """Judge the attempts of a run that wait for a verdict: success, failure or invalid. A verdict
    is added to its episode, never overwritten, and can be taken back.
    """

    EXAMPLES: ClassVar[Examples] = {
        "One attempt after the other, with pictures and the model's claim": (
            "capex judge runs/rig --by Ada"
        ),
        "The verdicts of a table that was filled in elsewhere": (
            "capex judge runs/rig --csv verdicts.csv --by Ada"
        ),
    }

    path: Positional[Annotated[Path, arg(metavar="RUN")]]
    """The run directory."""
    by: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Who judges; stands in every verdict (default: CAPEX_OPERATOR from the environment, else you
    are asked)."""
    csv: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Take verdicts from this table: episode (a path, or CHAIN/START), verdict (success, failure,
    invalid, undo), by, reason, words. All rows are checked before one is written (default: ask)."""
    csv_template: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write such a table of the attempts that wait, and ask nothing (default: none)."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Ask, or read or write a table."""
        run = load_run(self.path)
        if self.csv_template is not None:
            count = write_template(run, self.csv_template)
            _say(f"{self.csv_template}: {count} attempts to judge")
            print_next("capex", "judge", self.path, "--csv", self.csv_template)
            return 0
        if self.csv is not None:
            rows = read_table(run, self.csv, self.by)
            for episode, verdict in rows:
                append_verdict(episode.path, verdict)
            _say(f"{len(rows)} verdicts written")
        else:
            self._ask()
        held = load_run(self.path)
        left = len(waiting(held))
        _say(f"{self.path}: {left} of {len(held.episodes)} attempts wait for a verdict")
        for row in agreements(episode.path for episode in held.episodes):
            _say(str(row))
        if not left:
            print_next("capex", "report", self.path, "--out", Path("reports", self.path.name))
        return 0

    def _ask(self) -> None:
        """One attempt after the other, as the run lacks them now."""
        from capex.campaign.judging import question
        from capex.cli.keys import Keys
        from capex.cli.verdicts import TerminalJudge, who_judges

        with closing(Keys()) as keys:
            judge = TerminalJudge(who_judges(self.by, keys), keys)
            while left := waiting(load_run(self.path)):
                verdict = judge.ask(question(left[0]), f" (1 of {len(left)} that wait)")
                if verdict is None and read_verdict(left[0].path) is None:
                    return
                judge.confirm(left[0].path, verdict)
            judge.offer_undo(self.path)


def waiting(run: LoadedRun) -> list[LoadedEpisode]:
    """The attempts of a run without a verdict."""
    return [episode for episode in run.episodes if episode.success is None]


def write_template(run: LoadedRun, path: Path) -> int:
    """A table of the attempts that wait; returns how many."""
    rows = [f"{episode.chain}/{episode.index}" for episode in waiting(run)]
    with open(path, "x", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(COLUMNS)
        table.writerows((as_cell(name), "", "", "", "") for name in rows)
    return len(rows)


def read_table(run: LoadedRun, path: Path, by: str | None) -> list[tuple[LoadedEpisode, Verdict]]:
    """The verdicts of a table that the run does not hold yet; a sentence about the first row that
    is wrong. Rows without a verdict say nothing.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        table = csv.DictReader(file)
        names = tuple(table.fieldnames or ())
        if missing := [name for name in COLUMNS[:2] if name not in names]:
            raise CapexError(
                f"{path} has no column {missing[0]}; its columns are {', '.join(COLUMNS)}",
                code=ErrorCode.UNREADABLE_FILE,
            )
        if unknown := [name for name in names if name not in COLUMNS]:
            raise CapexError(
                f"{path} has a column '{unknown[0]}'; valid: {', '.join(COLUMNS)}",
                code=ErrorCode.UNKNOWN_NAME,
            )
        rows = [{k: (v or "").strip() for k, v in row.items() if k} for row in table]
    known = _by_name(run)
    seen: set[Path] = set()
    verdicts = []
    for number, row in enumerate(rows, 2):
        if not row["verdict"]:
            continue
        try:
            episode = _find(row["episode"], known, run)
            verdict = _verdict(row, by)
        except CapexError as error:
            raise CapexError(
                f"{path}, line {number}: {error}; no verdict was written", code=error.code
            ) from None
        if episode.path in seen:
            raise CapexError(
                f"{path}, line {number}: {row['episode']} is judged twice in this table; no verdict"
                " was written"
            )
        seen.add(episode.path)
        if not _said(episode.verdict, verdict):
            verdicts.append((episode, verdict))
    return verdicts


def _by_name(run: LoadedRun) -> dict[str, LoadedEpisode]:
    """Episodes under every name that a table may use."""
    from capex.run import load_episode

    undoable = [load_episode(a.path) for a in run.invalid if a.undoable]
    known: dict[str, LoadedEpisode] = {}
    for episode in (*run.episodes, *undoable):
        known[f"{episode.chain}/{episode.index}"] = episode
        known[str(episode.path.resolve())] = episode
    return known


def _find(name: str, known: dict[str, LoadedEpisode], run: LoadedRun) -> LoadedEpisode:
    chain, _, start = name.rpartition("/")
    names = (
        f"{chain}/{int(start)}" if start.isdigit() else name,
        str(Path(name).resolve()),
        str((run.path / name).resolve()),
    )
    episode = next((known[n] for n in names if n in known), None)
    if episode is None:
        example = next((n for n in known if not n.startswith("/")), "CHAIN/START")
        raise CapexError(
            f"there is no episode '{name}' in {run.path}; write for example {example}",
            code=ErrorCode.NOT_FOUND,
        )
    if episode.record.success is not None:
        raise CapexError(
            f"the world itself judged {name}; a person has nothing to add",
            code=ErrorCode.NOT_APPLICABLE,
        )
    return episode


def _verdict(row: dict[str, str], by: str | None) -> Verdict:
    from capex.cli.keys import Keys
    from capex.cli.verdicts import who_judges
    from capex.run.files import now

    name = who_judges(row.get("by") or by, Keys())
    reason, words = row.get("reason", ""), row.get("words", "")
    return Verdict(row["verdict"], name, now(), reason, words)  # type: ignore[arg-type]


def _said(held: Verdict | None, given: Verdict) -> bool:
    """Whether a verdict stands already, so that a table may be read twice."""
    if held is None:
        return given.verdict == "undo"
    same = ("verdict", "by", "reason", "words")
    return all(getattr(held, name) == getattr(given, name) for name in same)


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
