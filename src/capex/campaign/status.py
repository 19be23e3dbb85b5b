"""Where a campaign stands, read from its run directory: for one that runs elsewhere or
has ended.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex.campaign.board import Board
from capex.campaign.ceiling import bytes_text
from capex.campaign.driver import HEARTBEAT_S, LiveNote, from_live, read_note
from capex.campaign.judging import unjudged_sentence
from capex.campaign.names import start_text
from capex.campaign.repair import forgotten_sentence
from capex.run import Depth, LoadedRun, load_run
from capex.run.files import alive
from capex.run.manifest import kind_of
from capex.run.reading import Held
from capex.run.spend import Account, Spend
from capex.run.store import SPEND, Run

FRESH_S = 10 * HEARTBEAT_S
UNFINISHED = "not running; the same command continues it"


@dataclass(frozen=True)
class CampaignStatus:
    """The board of a run, and what else there is to say."""

    run: LoadedRun
    board: Board
    running: bool
    state: str
    account: Account | None
    disk_bytes: int

    @property
    def unfinished(self) -> bool:
        """Whether it was stopped before its end."""
        return self.state == UNFINISHED

    @property
    def note(self) -> str:
        """One line under the table."""
        words = [f"model {self.run.manifest.recorded.label}"]
        if self.run.manifest.stand_in:
            words[0] += " (a stand-in)"
        if self.account is not None:
            a = self.account
            held = f", {a.unsettled} unsettled" if a.unsettled else ""
            priced = f"${a.total_usd:.2f} spent or held" if self.run.manifest.price else "no price"
            words.append(f"{a.attempts} attempts at the model{held}, {priced}")
        words.append(f"{bytes_text(self.disk_bytes)} on disk")
        return "; ".join(words)

    @property
    def sentences(self) -> list[str]:
        """What deserves attention."""
        sentences = [f"damaged and left out: {d.path}: {d.reason}" for d in self.run.damaged]
        if self.run.damaged:
            sentences.append(
                f"`capex repair {self.run.path}` moves what is damaged aside, and collect then runs"
                " those starts again"
            )
        if lacking := forgotten_sentence(Run(self.run.path), self.board.forgotten):
            sentences.append(lacking)
        if aside := sum(len(chain.moved_aside()) for chain in Run(self.run.path).chains()):
            sentences.append(
                f"{aside} damaged {'attempt was' if aside == 1 else 'attempts were'} moved aside;"
                " the cost stays in the dollars spent"
            )
        above = Spend(self.run.path / SPEND).slots() if self.account is not None else {}
        sentences += [
            above_bound_sentence(*slot, account.overruns, float(account.overrun_usd))
            for slot, account in sorted(above.items())
            if account.overruns
        ]
        if unjudged := self.board.unjudged:
            sentences.append(unjudged_sentence(unjudged, self.run.path))
        if judged_invalid := [a for a in self.run.invalid if a.verdict is not None]:
            count = len(judged_invalid)
            sentences.append(
                f"{count} {'attempt was' if count == 1 else 'attempts were'} judged invalid; what"
                " they took stays counted, and their starts run again"
            )
        if (kind := kind_of(self.run.manifest)) is not None:
            sentences.append(kind.sentence(self.run.manifest))
        for origin in self.run.manifest.origins[:1]:
            count = sum(len(starts) for starts in origin.episodes.values())
            names = ", ".join(c.name for c in origin.changed) or "nothing that is known"
            sentences.append(
                f"branched from {origin.run} with its {count} episodes; {names} changed"
            )
        return sentences

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        total = self.board.total
        return {
            "run": str(self.run.path),
            "state": self.state,
            "running": self.running,
            "chains": {name: line.as_json() for name, line in self.board.lines.items()},
            "total": total.as_json(),
            "hours_left": self.board.hours_left,
            "spent_usd": (
                None
                if self.account is None or not self.run.manifest.price
                else str(self.account.total_usd)
            ),
            "attempts": None if self.account is None else self.account.attempts,
            "disk_bytes": self.disk_bytes,
            "damaged": [str(d.path) for d in self.run.damaged],
            "moved_aside": [
                str(p) for chain in Run(self.run.path).chains() for p in chain.moved_aside()
            ],
        }


def above_bound_sentence(chain: str, start: int, requests: int, usd: float) -> str:
    """Requests that cost more than they could."""
    count = "1 request" if requests == 1 else f"{requests} requests"
    return (
        f"{chain} start {start_text(start)}: {count} cost more than the worst case that was"
        f" reserved, ${usd:.4f} in all; the price row or the token counts of the server are wrong."
        " Budgets count what was reported, so the announced maximum can be exceeded by as much"
    )


def read_status(
    path: Path, depth: Depth = Depth.WHOLE, *, held: Held | None = None, disk: bool = True
) -> CampaignStatus:
    """Read everything there is; nothing is changed. Without
    `disk` the size of the files is left at 0.
    """
    run = load_run(path, depth, held)
    spend = Spend(run.path / SPEND)
    board = Board(run.chains, spend, run.manifest.origins)
    live = _live(run.path)
    if live is not None:
        from_live(board, live)
        board.given_hours_left = live.hours_left
    plan = run.manifest.plan
    if plan.starts and live is None:
        for chain in run.chains:
            line = board.lines[chain.name]
            line.until = plan.until_successes
            tried = {e.index for e in chain.episodes}
            line.wanted = None if line.until is not None else len(tried | set(plan.starts))
    account = spend.account() if spend.path.is_file() else None
    files = (f for f in run.path.rglob("*") if f.is_file()) if disk else ()
    size = sum(f.stat().st_size for f in files)
    return CampaignStatus(
        run, board, live is not None, _state(board, live, planned=bool(plan.starts)), account, size
    )


def _live(path: Path) -> LiveNote | None:
    """The note of a driver that still runs, as far as one can tell."""
    note = read_note(path)
    if note is None:
        return None
    if note.host == socket.gethostname():
        return note if note.process == os.getpid() or alive(note.process) else None
    return note if abs(time.time() - note.unix_time) < FRESH_S else None


def _state(board: Board, live: LiveNote | None, *, planned: bool) -> str:
    if live is not None:
        return f"running on {live.host} (process {live.process})"
    if not planned:  # a student: nobody wrote down how many starts there are to be
        return "not running"
    unjudged = ", but for verdicts" if board.unjudged else ""
    return UNFINISHED if _left(board) else f"finished{unjudged}"


def _left(board: Board) -> bool:
    """Whether anything is still to run."""
    return any(line.left is None or line.left > 0 for line in board.lines.values())
