"""The first room: all runs below the given folders, those that run now first, and the attempts of
one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from capex import worlds
from capex.campaign.repair import collect_command
from capex.campaign.status import CampaignStatus
from capex.errors import CapexError
from capex.run import LoadedEpisode
from capex.run.manifest import MANIFEST
from capex.run.store import Run, chain_name
from capex.studio.answers import Asked, changes, get, stream
from capex.studio.rooms.room import Room, Studio

EVERY_S = 1.0
INVALID_MAX = 20  # invalid attempts of a run that are named


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    async def events(_: Request) -> Response:
        return stream(changes(lambda: everything(studio), EVERY_S))

    def attempts(asked: Asked) -> Any:
        return run_page(studio, asked.get("run", ""))

    return [
        Route("/api/campaigns", get(lambda _: everything(studio))),
        Route("/api/campaigns/events", events),
        Route("/api/campaigns/run", get(attempts)),
    ]


ROOM = Room("campaigns", "Campaigns", _routes)


def everything(studio: Studio) -> dict[str, Any]:
    """Every run in short, live ones first, then those that were stopped, then by the time of
    their last change.
    """
    rows = [_short(studio, name, run) for name, run in studio.library.runs().items()]
    rows.sort(key=_order)
    return {"runs": rows}


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    return not row.get("running"), not row.get("unfinished"), -row["changed"], row["name"]


def _short(studio: Studio, name: str, run: Run) -> dict[str, Any]:
    """A run in short; one that cannot be read says so and spoils no other."""
    try:
        return {**described(name, studio.heads.status(run)), "changed": _changed(run)}
    except (CapexError, OSError, KeyError, TypeError, ValueError) as error:
        return {"name": name, "error": f"this run cannot be read: {error}", "changed": 0.0}


def described(name: str, status: CampaignStatus) -> dict[str, Any]:
    """What the page shows of a run."""
    manifest, board = status.run.manifest, status.board
    total, missing = board.total.as_json(), _not_begun(status)
    if total["wanted"] is not None:
        total["wanted"] += len(missing) * len(manifest.plan.starts)
    forecast = board.forecast() if status.running else None
    phases = Counter(m.phase for line in board.lines.values() for m in line.now.values())
    spent = status.account.total_usd if status.account is not None else None
    return {
        "name": name,
        "path": str(status.run.path),
        "model": manifest.recorded.label,
        "stand_in": manifest.stand_in,
        "state": status.state,
        "running": status.running,
        "unfinished": status.unfinished,
        "command": _command(status),
        "chains": [line.as_json() for line in board.lines.values()],
        "total": total,
        "not_begun": missing,
        "hours_left": board.hours_left,
        "usd": float(spent) if spent is not None and manifest.price else None,
        "usd_rest": None if forecast is None else forecast.rest_usd,
        "usd_rest_low": None if forecast is None else forecast.rest_usd_low,
        "usd_rest_high": None if forecast is None else forecast.rest_usd_high,
        "phases": dict(phases),
        "invalid": [
            {"chain": a.chain, "start": a.index, "why": a.error[:400]}
            for a in status.run.invalid[-INVALID_MAX:]
        ],
        "damaged": [f"{d.path.name}: {d.reason}"[:400] for d in status.run.damaged[:INVALID_MAX]],
    }


def _not_begun(status: CampaignStatus) -> list[str]:
    """The chains that are planned and of which nothing was collected yet."""
    settings = status.run.manifest.recorded
    names = [
        chain_name(*worlds.split_name(t), arm) for t in settings.tasks for arm in settings.arms
    ]
    return [name for name in names if name not in status.board.lines]


def _command(status: CampaignStatus) -> str | None:
    path = status.run.path
    changed_ns = (path / MANIFEST).stat().st_mtime_ns
    return _continuing(path, changed_ns) if status.unfinished else None


@lru_cache(maxsize=256)
def _continuing(path: Path, changed_ns: int) -> str | None:
    """The command that goes on with a run that was stopped, read again once it changes."""
    return collect_command(Run(path))


def run_page(studio: Studio, name: str) -> dict[str, Any]:
    """A run with all its attempts, chain by chain, in columns: thousands are shown."""
    status = studio.heads.status(studio.library.run(name))
    chains = [
        {
            **status.board.lines[chain.name].as_json(),
            "world": chain.world,
            "task": chain.task,
            "arm": chain.arm,
            "attempts": columns(chain.episodes),
        }
        for chain in status.run.chains
    ]
    return {**described(name, status), "chains": chains, "sentences": status.sentences}


def columns(episodes: Sequence[LoadedEpisode]) -> dict[str, list[Any]]:
    """Attempts as columns."""
    records = [e.record for e in episodes]
    return {
        "index": [e.index for e in episodes],
        "start": [r.start for r in records],
        "success": [e.success for e in episodes],
        "end": [r.end for r in records],
        "driven": [r.human_steps for r in records],
        "steps": [r.steps for r in records],
        "requests": [r.requests for r in records],
        "usd": [r.cost_usd for r in records],
        "seconds": [round(e.seconds, 1) for e in episodes],
    }


def _changed(run: Run) -> float:
    """When something last began or ended in a run, unix time."""
    places = [run.path, *(chain.episodes_path for chain in run.chains())]
    return max((p.stat().st_mtime for p in places if p.exists()), default=0.0)
