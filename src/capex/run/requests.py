"""What people ask of a running campaign, as files in its run directory; the collector reads them
between decisions.

    RUN/requests/pause.json              attempts stand still before their next decision, and no
                                         other begins
    RUN/requests/stop.json               attempts under way are finished, and no other begins
    RUN/requests/arranged.json           the scene that it waits for is ready, by whom and with
                                         which notes
    RUN/requests/words/CHAIN/0007.jsonl  words to the model of an attempt, a line each, and
    ..                       0007.told   before which decision each was told
    RUN/requests/wheel/CHAIN/0007.json   somebody wants to drive an attempt from here on, and where
                                         to call them
    ..                      0007.driven  what was driven, a line each time
    RUN/requests/rig.json                written by the collector: the process that owns the robot,
                                         which people stop without it

A request is for the campaign that runs: the next one begins by removing what is left of it. Words
are for one attempt; one that continues a cut-off attempt is told them again where they were told.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from capex.errors import CapexError, DamagedFile, UnknownName
from capex.method.codec import decoder
from capex.models.exchanges import append
from capex.run.files import now, read_json, remove_leftovers, write_bytes, write_json
from capex.untrusted import damage, lines, loads, read_bytes

REQUESTS, WHEEL = "requests", "wheel"
WORDS_MAX = 500  # characters of a sentence to the model
IN_RECORD = "operator_words"  # where a record says what its model was told, and others were not
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
    for folder in (run / REQUESTS, *(run / REQUESTS).glob("*/*")):
        remove_leftovers(folder)
    _arranged_file(run).unlink(missing_ok=True)
    _rig_file(run).unlink(missing_ok=True)
    for wish_left in (run / REQUESTS / WHEEL).glob("*/*.json"):
        wish_left.unlink(missing_ok=True)


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
class Ready:
    """Somebody says that a scene is arranged."""

    by: str
    notes: str = ""


def say_ready(run: Path, scene: str, ready: Ready) -> None:
    """Tell a campaign that waits for a scene that it is arranged; returns when that is on disk."""
    if not ready.by.strip():
        raise CapexError("an arrangement needs a name: say who arranged")
    (run / REQUESTS).mkdir(exist_ok=True)
    write_json(_arranged_file(run), {"scene": scene, **asdict(ready), "at": now()})


def take_ready(run: Path, scene: str) -> Ready | None:
    """Who says that a scene is arranged, once; what was said of another one counts for nothing."""
    path = _arranged_file(run)
    try:
        said = read_json(path)
    except (OSError, DamagedFile):
        return None
    path.unlink(missing_ok=True)
    if said.get("scene") != scene:
        return None
    return Ready(str(said.get("by", "")), str(said.get("notes", "")))


@dataclass(frozen=True)
class Word:
    """A sentence of the operator to the model of an attempt."""

    words: str
    by: str
    at: str  # UTC, ISO 8601


def say(run: Path, chain: str, start: int, words: str, by: str) -> Word:
    """Leave a sentence for the model of an attempt; returns when it is on disk."""
    if not words.strip() or len(words) > WORDS_MAX or not by.strip():
        raise CapexError(f"a word to the model has 1 to {WORDS_MAX} characters, and a name")
    word = Word(" ".join(words.split()), by.strip(), now())
    _append(words_file(run, chain, start), asdict(word))
    return word


def said(run: Path, chain: str, start: int) -> list[Word]:
    """The sentences left for an attempt, in order; a garbled line is none of them."""
    try:
        rows = list(lines(words_file(run, chain, start)))
    except (OSError, DamagedFile):
        return []
    words = []
    for line in rows:
        try:
            row = loads(line)
            words.append(Word(str(row["words"])[:WORDS_MAX], str(row["by"]), str(row["at"])))
        except (ValueError, KeyError, TypeError):
            continue
    return words


def told(run: Path, chain: str, start: int) -> list[int]:
    """The decision before which each sentence was told, as far as they were."""
    try:
        decisions = loads(read_bytes(_told_file(run, chain, start)))
    except (OSError, ValueError, DamagedFile):
        return []
    whole = isinstance(decisions, list) and all(type(d) is int for d in decisions)
    return decisions if whole else []


def keep_told(run: Path, chain: str, start: int, decisions: Sequence[int]) -> None:
    """Note before which decision each sentence was told."""
    write_bytes(_told_file(run, chain, start), json.dumps(list(decisions)).encode())


def forget_attempt(run: Path, chain: str, start: int) -> None:
    """The attempt is over, or begins anew."""
    wished = _wish_file(run, chain, start)
    words = words_file(run, chain, start), _told_file(run, chain, start)
    for path in (*words, wished, wished.with_suffix(".driven")):
        path.unlink(missing_ok=True)


def words_file(run: Path, chain: str, start: int) -> Path:
    """Where the sentences for an attempt lie."""
    return run / REQUESTS / "words" / chain / f"{start:04d}.jsonl"


@dataclass(frozen=True)
class Wish:
    """Somebody wants to drive an attempt: who, with what, and where they wait for its call."""

    by: str
    device: str
    port: int  # of the loopback interface
    key: str  # that the caller says first
    host: str = ""  # of the machine


_decode_wish = decoder(Wish, {})


def wish(run: Path, chain: str, start: int, wanted: Wish) -> None:
    """Ask to drive an attempt from its next decision on; returns when that is on disk, for the eyes
    of this user alone.
    """
    path = _wish_file(run, chain, start)
    path.parent.parent.parent.mkdir(exist_ok=True)
    path.parent.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.mkdir(exist_ok=True)
    write_json(path, asdict(wanted))


def take_wish(run: Path, chain: str, start: int) -> Wish | None:
    """Who wants to drive, once; None where nobody does."""
    path = _wish_file(run, chain, start)
    try:
        with damage(path):
            asked: Wish = _decode_wish(read_json(path))
    except DamagedFile:
        return None
    path.unlink(missing_ok=True)
    return asked


def wished(run: Path, chain: str, start: int) -> bool:
    """Whether somebody wants to drive."""
    return _wish_file(run, chain, start).exists()


def forget_wish(run: Path, chain: str, start: int, key: str) -> None:
    """Whoever wanted to drive, with this key, does not any more."""
    path = _wish_file(run, chain, start)
    with contextlib.suppress(OSError, DamagedFile):
        if read_json(path).get("key") == key:
            path.unlink(missing_ok=True)


def keep_driven(run: Path, chain: str, start: int, row: Mapping[str, Any]) -> None:
    """Note what was driven, for an attempt that continues this one if it is cut off."""
    _append(_wish_file(run, chain, start).with_suffix(".driven"), row)


def driven(run: Path, chain: str, start: int) -> list[Mapping[str, Any]]:
    """What was driven in an attempt that was cut off; a garbled line is nothing."""
    path = _wish_file(run, chain, start).with_suffix(".driven")
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


def _wish_file(run: Path, chain: str, start: int) -> Path:
    return run / REQUESTS / WHEEL / chain / f"{start:04d}.json"


def _arranged_file(run: Path) -> Path:
    return run / REQUESTS / "arranged.json"


def _rig_file(run: Path) -> Path:
    return run / REQUESTS / "rig.json"


def _told_file(run: Path, chain: str, start: int) -> Path:
    return words_file(run, chain, start).with_suffix(".told")


def _file(run: Path, kind: Kind) -> Path:
    return run / REQUESTS / f"{kind}.json"
