"""Requests of people to a running campaign beside pause and stop (`run.control`), as files in its
run directory.

    RUN/requests/arranged.json           the awaited scene is ready: by whom, with which notes
    RUN/requests/messages/CHAIN/0007.jsonl    messages to the model of an attempt, a line each, and
    ..                          0007.delivered  the decision before which each was delivered
    RUN/requests/takeover/CHAIN/0007.json   a person wants to drive an attempt, and where to call
    ..                          0007.driven  what they drove, a line for each take-over
    RUN/requests/rig.json                written by the campaign: the process that owns the robot,
                                         which people stop without it

Messages belong to one attempt; one that continues a cut-off attempt gets them before the same
decisions.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capex import codec
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.models.exchanges import append
from capex.run.control import REQUESTS
from capex.run.files import now, read_json, write_bytes, write_json
from capex.untrusted import damage, lines, loads, read_bytes

TAKEOVER = "takeover"
MESSAGE_MAX = 500  # characters of a message to the model


@dataclass(frozen=True)
class RunningRig:
    """The process that owns the robot of a running campaign."""

    rig: str
    process: int
    host: str
    user: int  # a rig's socket is its user's own


def announce_rig(run: Path, rig: str, process: int) -> None:
    """Say which process of this machine a person's stop has to reach; returns once it is on
    disk.
    """
    (run / REQUESTS).mkdir(exist_ok=True)
    write_json(_rig_file(run), asdict(RunningRig(rig, process, socket.gethostname(), os.getuid())))


def running_rig(run: Path) -> RunningRig | None:
    """The process that was announced last; it may have ended since."""
    try:
        said = read_json(_rig_file(run))
        user = int(said.get("user", os.getuid()))
        return RunningRig(str(said["rig"]), int(said["process"]), str(said["host"]), user)
    except (OSError, DamagedFile, KeyError, TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class SceneReady:
    """A person confirms that a scene is arranged."""

    by: str
    notes: str = ""


def post_ready(run: Path, scene: str, ready: SceneReady) -> None:
    """Tell a campaign that waits for a scene that it is arranged; returns when that is on disk."""
    if not ready.by.strip():
        raise CapexError(
            "an arrangement needs a name: say who arranged", code=ErrorCode.PERSON_NEEDED
        )
    (run / REQUESTS).mkdir(exist_ok=True)
    write_json(_arranged_file(run), {"scene": scene, **asdict(ready), "at": now()})


def pop_ready(run: Path, scene: str) -> SceneReady | None:
    """The confirmation that a scene is arranged, once; one of another scene is dropped."""
    path = _arranged_file(run)
    try:
        said = read_json(path)
    except (OSError, DamagedFile):
        return None
    path.unlink(missing_ok=True)
    if said.get("scene") != scene:
        return None
    return SceneReady(str(said.get("by", "")), str(said.get("notes", "")))


@dataclass(frozen=True)
class OperatorMessage:
    """A message of an operator to the model of an attempt."""

    text: str
    by: str
    at: str  # UTC, ISO 8601


def post_message(run: Path, chain: str, start: int, text: str, by: str) -> OperatorMessage:
    """Leave a message for the model of an attempt; returns when it is on disk."""
    if not text.strip() or len(text) > MESSAGE_MAX or not by.strip():
        raise CapexError(f"message must be 1 to {MESSAGE_MAX} characters; `by` is required")
    message = OperatorMessage(" ".join(text.split()), by.strip(), now())
    _append(messages_file(run, chain, start), asdict(message))
    return message


def list_messages(run: Path, chain: str, start: int) -> list[OperatorMessage]:
    """The messages for an attempt, in order; a garbled line is none of them."""
    try:
        rows = list(lines(messages_file(run, chain, start)))
    except (OSError, DamagedFile):
        return []
    messages = []
    for line in rows:
        try:
            row = loads(line)
            messages.append(
                OperatorMessage(str(row["text"])[:MESSAGE_MAX], str(row["by"]), str(row["at"]))
            )
        except (ValueError, KeyError, TypeError):
            continue
    return messages


def delivered_at(run: Path, chain: str, start: int) -> list[int]:
    """The decision before which each message was delivered, as far as they were."""
    try:
        decisions = loads(read_bytes(_delivered_file(run, chain, start)))
    except (OSError, ValueError, DamagedFile):
        return []
    whole = isinstance(decisions, list) and all(type(d) is int for d in decisions)
    return decisions if whole else []


def mark_delivered(run: Path, chain: str, start: int, decisions: Sequence[int]) -> None:
    """Note before which decision each message was delivered."""
    write_bytes(_delivered_file(run, chain, start), json.dumps(list(decisions)).encode())


def messages_file(run: Path, chain: str, start: int) -> Path:
    """The file of an attempt's messages."""
    return run / REQUESTS / "messages" / chain / f"{start:04d}.jsonl"


@dataclass(frozen=True)
class TakeoverRequest:
    """A person wants to drive an attempt: their name, device, and the address to call."""

    by: str
    device: str
    port: int  # of the loopback interface
    key: str  # that the caller says first
    host: str = ""  # of the machine


def request_takeover(run: Path, chain: str, start: int, wanted: TakeoverRequest) -> None:
    """Ask to drive an attempt from its next decision on; returns when that is on disk, for the eyes
    of this user alone.
    """
    path = _takeover_file(run, chain, start)
    path.parent.parent.parent.mkdir(exist_ok=True)
    path.parent.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.mkdir(exist_ok=True)
    write_json(path, asdict(wanted))


def pop_takeover_request(run: Path, chain: str, start: int) -> TakeoverRequest | None:
    """The request to drive, once; None where there is none."""
    path = _takeover_file(run, chain, start)
    try:
        with damage(path):
            asked = codec.from_json(read_json(path), TakeoverRequest)
    except DamagedFile:
        return None
    path.unlink(missing_ok=True)
    return asked


def takeover_requested(run: Path, chain: str, start: int) -> bool:
    """Whether there is a request to drive."""
    return _takeover_file(run, chain, start).exists()


def withdraw_takeover(run: Path, chain: str, start: int, key: str) -> None:
    """Remove the request with this key."""
    path = _takeover_file(run, chain, start)
    with contextlib.suppress(OSError, DamagedFile):
        if read_json(path).get("key") == key:
            path.unlink(missing_ok=True)


def record_drive(run: Path, chain: str, start: int, row: Mapping[str, Any]) -> None:
    """Note what was driven, for an attempt that continues this one if it is cut off."""
    _append(_takeover_file(run, chain, start).with_suffix(".driven"), row)


def recorded_drives(run: Path, chain: str, start: int) -> list[Mapping[str, Any]]:
    """What was driven in an attempt that was cut off; a garbled line is nothing."""
    path = _takeover_file(run, chain, start).with_suffix(".driven")
    rows: list[Mapping[str, Any]] = []
    with contextlib.suppress(OSError, DamagedFile):
        for line in lines(path):
            with contextlib.suppress(ValueError):
                row = loads(line)
                if isinstance(row, dict) and {"decision", "by", "device", "moves"} <= row.keys():
                    rows.append(row)
    return rows


def _append(path: Path, row: Mapping[str, Any]) -> None:
    append(path, json.dumps(row).encode() + b"\n")


def _takeover_file(run: Path, chain: str, start: int) -> Path:
    return run / REQUESTS / TAKEOVER / chain / f"{start:04d}.json"


def _arranged_file(run: Path) -> Path:
    return run / REQUESTS / "arranged.json"


def _rig_file(run: Path) -> Path:
    return run / REQUESTS / "rig.json"


def _delivered_file(run: Path, chain: str, start: int) -> Path:
    return messages_file(run, chain, start).with_suffix(".delivered")
