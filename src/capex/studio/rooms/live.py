"""The second room: a running episode as it happens, and what may be asked of its campaign."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from capex.operators import inbox
from capex.operators.inbox import MESSAGE_MAX
from capex.run import control
from capex.run.live import (
    began,
    camera_views,
    find_picture,
    read_events,
    under_way,
    watch,
    watched_at,
)
from capex.run.store import Chain, Run
from capex.studio.answers import BEAT_S, Asked, get, number_of, post, stream, text_of
from capex.studio.guard import Refused
from capex.studio.rooms.room import Room, Studio
from capex.untrusted import loads, read_bytes

EVERY_S = 0.08  # how often a followed attempt is looked at
LOOK_S = 0.5  # how often a new one is looked for
PICTURE_S = 3.0  # how long a picture that was announced is waited for
FRAME_S = 1.0  # how long a page waits for a camera's next picture before it asks again
SHA = re.compile(r"[0-9a-f]{64}")


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    async def events(request: Request) -> Response:
        asked = dict(request.query_params)
        run = studio.library.run(asked.get("run", ""))
        chain = studio.library.chain(asked["run"], asked["chain"]) if "chain" in asked else None
        start = number_of(asked, "start") if "start" in asked else None
        return stream(follow(run, chain, start))

    return [
        Route("/api/live", get(lambda _: {"attempts": attempts(studio)})),
        Route("/api/live/events", events),
        Route("/api/live/picture", get(lambda asked: _picture(studio, asked))),
        Route("/api/live/frame", get(lambda asked: _frame(studio, asked))),
        Route("/api/live/requests", get(lambda asked: _requests(studio, asked))),
        Route("/api/live/ask", post(lambda body: _ask(studio, body)), methods=["POST"]),
    ]


ROOM = Room("live", "Live", _routes)


def attempts(studio: Studio) -> list[dict[str, Any]]:
    """Every attempt under way, the newest first."""
    found = []
    for name, run in studio.library.runs().items():
        for chain in run.chains():
            for folder, start in _under_way(chain):
                row = {"run": name, "chain": chain.path.name, "start": start}
                found.append({**row, "began": began(folder)})
    return sorted(found, key=lambda row: -row["began"])


def _under_way(chain: Chain) -> list[tuple[Path, int]]:
    found = []
    for folder in chain.under_way():
        index = folder.name.rpartition("-")[2]
        if index.isdecimal() and (folder / "live").is_dir():
            found.append((folder, int(index)))
    return found


async def follow(
    run: Run, chain: Chain | None, start: int | None
) -> AsyncIterator[tuple[str, Any]]:
    """The events of an attempt from its beginning, and those to come. Without a start the campaign
    is followed: after an attempt comes the next one.
    """
    attempt: tuple[Path, Chain, int] | None = None
    offset, said_at, waiting = 0, time.monotonic(), False
    while True:
        if attempt is None:
            attempt, offset = _find(run, chain, start), 0
            if attempt is not None:
                waiting = False
                yield "attempt", {"chain": attempt[1].path.name, "start": attempt[2]}
            elif not waiting:
                waiting = True
                yield "waiting", _instead(chain, start)
        if attempt is not None:
            folder, of, index = attempt
            lines, offset = read_events(folder, offset)
            for line in _told(lines):
                said_at = time.monotonic()
                yield "live", line
            if not lines and not folder.exists():
                yield "over", {**_instead(of, index), "chain": of.path.name, "start": index}
                attempt = None
        if time.monotonic() - said_at > BEAT_S:
            said_at = time.monotonic()
            yield "", None
        await asyncio.sleep(EVERY_S if attempt is not None else LOOK_S)


def _told(lines: Sequence[bytes]) -> list[Any]:
    """Events as JSON; of motions that passed meanwhile only the last. A garbled line is none."""
    rows: list[Any] = []
    for line in lines:
        try:
            row = loads(line)
        except ValueError:
            continue
        if not isinstance(row, dict):
            continue
        if rows and row.get("event") == "moving" == rows[-1].get("event"):
            rows.pop()
        rows.append(row)
    return rows


def _find(run: Run, chain: Chain | None, start: int | None) -> tuple[Path, Chain, int] | None:
    """The attempt that is to be followed, if it runs: the newest where none is named."""
    if chain is not None and start is not None:
        folder = under_way(chain, start)
        return None if folder is None else (folder, chain, start)
    chains = [chain] if chain is not None else run.chains()
    found = [(folder, of, index) for of in chains for folder, index in _under_way(of)]
    return max(found, key=lambda row: began(row[0]), default=None)


def _instead(chain: Chain | None, start: int | None) -> dict[str, Any]:
    """What there is of an attempt that does not run."""
    whole = chain is not None and start is not None and chain.episode(start).is_dir()
    return {"whole": whole}


def _picture(studio: Studio, asked: Asked) -> Response:
    """A picture that the model was shown, of an attempt under way or of a whole one."""
    sha = asked.get("sha", "")
    if SHA.fullmatch(sha) is None:
        raise Refused(400, "'sha' is no hash of a picture")
    chain = studio.library.chain(asked.get("run", ""), asked.get("chain", ""))
    start = number_of(asked, "start")
    until = time.monotonic() + PICTURE_S
    while True:
        running = under_way(chain, start)
        for folder in (running, chain.episode(start)):
            if folder is None or (path := find_picture(folder, sha)) is None:
                continue
            kind, headers = path.suffix[1:], {"Cache-Control": "private, max-age=3600, immutable"}
            with contextlib.suppress(FileNotFoundError):  # gone with its attempt: whole now
                return Response(read_bytes(path), media_type=f"image/{kind}", headers=headers)
        if time.monotonic() > until or running is None:
            raise Refused(404, f"there is no picture {sha[:12]} of start {start}")
        time.sleep(0.03)


def _frame(studio: Studio, asked: Asked) -> Response:
    """What a rig's camera sees now, once it is newer than the one that the page has."""
    chain = studio.library.chain(asked.get("run", ""), asked.get("chain", ""))
    camera = asked.get("camera", "")
    if re.fullmatch(r"[\w.-]+", camera) is None or camera.startswith("."):
        raise Refused(400, "'camera' is no name of a camera")
    folder = under_way(chain, number_of(asked, "start"))
    if folder is None:
        return Response(status_code=205)  # it is over: no error that a browser would complain of
    after, until = asked.get("after", ""), time.monotonic() + FRAME_S
    if time.time() - watched_at(folder) > 1.0:
        watch(folder)
    path: Path | None = None
    while time.monotonic() < until:
        path = path or camera_views(folder).get(camera)
        with contextlib.suppress(OSError):
            if path is not None and (taken := str(path.stat().st_mtime_ns)) != after:
                headers = {"X-Taken": taken, "Cache-Control": "no-store"}
                return Response(read_bytes(path), media_type="image/jpeg", headers=headers)
        time.sleep(0.012)
    return Response(status_code=204)


def _requests(studio: Studio, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, as it lies on disk; of an attempt that is named also what was said to it."""
    run = studio.library.run(str(asked.get("run", "")))
    found: dict[str, Any] = {k: control.requested(run.path, k) for k in control.KINDS}
    if "chain" in asked:
        chain = studio.library.chain(asked["run"], asked["chain"])
        place = run.path, chain.path.name, number_of(asked, "start")
        decisions = inbox.delivered_at(*place)
        found["messages"] = [
            {**vars(message), "decision": decisions[k] if k < len(decisions) else None}
            for k, message in enumerate(inbox.list_messages(*place))
        ]
    return found


def _ask(studio: Studio, body: Mapping[str, Any]) -> dict[str, Any]:
    """Ask something of a running campaign; what is answered was read back from disk."""
    name, what, by = text_of(body, "run"), text_of(body, "what"), text_of(body, "by", 80)
    run = studio.library.run(name)
    if not studio.heads.status(run).running:
        raise Refused(409, f"run '{name}' does not run; there is nobody to ask")
    if what == "resume":
        control.withdraw(run.path, "pause")
    elif what in control.KINDS:
        control.request(run.path, what, by)
        if what == "stop":  # a campaign that stands still could not finish
            control.withdraw(run.path, "pause")
    elif what == "message":
        chain, start = studio.library.chain(name, text_of(body, "chain")), number_of(body, "start")
        if under_way(chain, start) is None:
            raise Refused(409, f"start {start} is not under way; its model cannot be told anything")
        text = text_of(body, "text", MESSAGE_MAX)
        inbox.post_message(run.path, chain.path.name, start, text, by)
    else:
        raise Refused(400, f"'{what[:40]}' cannot be asked; pause, resume, stop and message can")
    return _requests(studio, body)
