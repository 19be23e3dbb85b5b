"""What people ask of a running campaign, as files in its run directory; the collector reads them
between decisions.

    RUN/requests/pause.json    attempts stand still at their next decision, and no other begins
    RUN/requests/stop.json     attempts under way are finished, and no other begins

A request is for the campaign that runs: the next one begins by removing what is left of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from capex.errors import CapexError, DamagedFile, UnknownName
from capex.run.files import now, read_json, write_json

REQUESTS = "requests"
Kind = Literal["pause", "stop"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def request(run: Path, kind: Kind, by: str) -> None:
    """Ask the campaign that writes a run; returns when the request is on disk."""
    if kind not in KINDS:
        raise UnknownName("request", kind, KINDS)
    if not by.strip():
        raise CapexError("a request needs a name: say who asks")
    (run / REQUESTS).mkdir(exist_ok=True)
    write_json(_file(run, kind), {"by": by.strip(), "at": now()})


def requested(run: Path, kind: Kind) -> Mapping[str, Any] | None:
    """Who asked, and when; None where nobody did."""
    try:
        return read_json(_file(run, kind))
    except OSError:
        return None
    except DamagedFile:  # it was asked, by whom is lost
        return {"by": "somebody", "at": ""}


def withdraw(run: Path, kind: Kind) -> None:
    """Take a request back, or off: it was carried out."""
    _file(run, kind).unlink(missing_ok=True)


def forget(run: Path) -> None:
    """What was asked of an earlier campaign is nothing to this one."""
    for kind in KINDS:
        withdraw(run, kind)


def _file(run: Path, kind: Kind) -> Path:
    return run / REQUESTS / f"{kind}.json"
