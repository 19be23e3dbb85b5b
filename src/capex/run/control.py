"""Requests of people to a running campaign, as files in its run directory; the campaign reads them
between decisions. This module has those that every campaign obeys; extensions put their own beside
them.

    RUN/requests/pause.json        attempts wait before their next decision, and no other begins
    RUN/requests/stop.json         attempts under way are finished, and no other begins
    RUN/requests/NAME/CHAIN/0007.* requests to one attempt, of an extension

A request is for the campaign that runs: the next one begins by removing what is left of it, but for
requests to attempts (other suffixes than .json), which a continued attempt meets again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from capex.errors import CapexError, DamagedFile, ErrorCode, UnknownName
from capex.run.files import now, read_json, remove_leftovers, write_json
from capex.untrusted import is_plain

REQUESTS = "requests"
Kind = Literal["pause", "stop"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def request(run: Path, kind: Kind, by: str) -> None:
    """Ask the campaign that writes a run; returns when the request is on disk."""
    if kind not in KINDS:
        raise UnknownName("request", kind, KINDS)
    if not by.strip():
        raise CapexError("a request needs a name: `by` is required", code=ErrorCode.PERSON_NEEDED)
    (run / REQUESTS).mkdir(exist_ok=True)
    write_json(_file(run, kind), {"by": by.strip(), "at": now()})


def requested(run: Path, kind: Kind) -> Mapping[str, Any] | None:
    """By whom and when it was requested; None where it was not."""
    try:
        return read_json(_file(run, kind))
    except OSError:
        return None
    except DamagedFile:  # it was requested, the name is lost
        return {"by": "somebody", "at": ""}


def withdraw(run: Path, kind: Kind) -> None:
    """Remove a request: it was taken back, or carried out."""
    _file(run, kind).unlink(missing_ok=True)


def forget(run: Path) -> None:
    """Remove the requests to an earlier campaign."""
    if not is_plain(run / REQUESTS):
        return
    for folder in (run / REQUESTS, *(run / REQUESTS).glob("*/*")):
        if folder.is_dir():
            remove_leftovers(folder)
            for left in folder.glob("*.json"):
                left.unlink(missing_ok=True)


def attempt_requested(run: Path, chain: str, start: int) -> bool:
    """Whether there is any request to an attempt."""
    folder = run / REQUESTS
    return is_plain(folder) and any(folder.glob(f"*/{chain}/{start:04d}.*"))


def forget_attempt(run: Path, chain: str, start: int) -> None:
    """Remove the requests to an attempt that is over, or begins anew."""
    if attempt_requested(run, chain, start):
        for path in (run / REQUESTS).glob(f"*/{chain}/{start:04d}.*"):
            path.unlink(missing_ok=True)


def _file(run: Path, kind: Kind) -> Path:
    return run / REQUESTS / f"{kind}.json"
