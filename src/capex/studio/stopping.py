"""The red Stop: from any page to the processes that own the arms of running rigs.

A page's press goes over its own web socket to the rig's local socket and nowhere else: no file, no
collector and no other request of the page is in its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from capex.errors import CapexError
from capex.operators.inbox import RunningRig, running_rig
from capex.rigs.stops import LINE_MAX, NAME_MAX, stop_address
from capex.run.files import alive
from capex.run.store import Run
from capex.studio.answers import to_json
from capex.studio.rooms.room import Studio

LOOK_S = 1.0  # how often new rigs are looked for, for all pages together
SHOW_S = 0.5  # how often a page learns what holds the arms
ANSWER_S = 2.0  # a rig that ticks answers within a tick
KEY_MAX = 64  # characters


@dataclass
class RigStops:
    """The rigs that run below the studio's folders, and the pages that may stop them."""

    studio: Studio
    _found: dict[int, RunningRig] = field(default_factory=dict)
    _looked_at: float = -LOOK_S

    def routes(self) -> list[BaseRoute]:
        """Where pages connect."""
        return [WebSocketRoute("/api/stop", self.serve)]

    async def serve(self, page: WebSocket) -> None:
        """One page, until it is gone."""
        await page.accept()
        showing = asyncio.create_task(self._show(page))
        try:
            while True:
                await self._stop(page, await page.receive_text())
        except (WebSocketDisconnect, RuntimeError, KeyError):
            pass  # gone, or no text
        finally:
            showing.cancel()

    async def _show(self, page: WebSocket) -> None:
        """What every running rig says of itself, again and again: silence means a lost page."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await page.send_text(to_json({"rigs": await self._states()}))
                await asyncio.sleep(SHOW_S)

    async def _stop(self, page: WebSocket, text: str) -> None:
        """Carry a press out, and say whether the rig has confirmed it."""
        try:
            asked = json.loads(text)
            process, key = int(asked["process"]), str(asked["stop"])[:KEY_MAX]
            if not key:
                raise ValueError("no key")
            by = str(asked.get("by") or "the studio")[:NAME_MAX]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise RuntimeError("a page that talks nonsense") from None
        if process not in self._found:
            await self._look()
        state: Mapping[str, Any] | None = None
        if process in self._found:
            with contextlib.suppress(OSError, TimeoutError):
                state = await ask_rig(process, {"stop": key, "by": by})
        answer = {"key": key, "process": process, "carried": (state or {}).get("carried")}
        if state is not None:
            answer["rig"] = _row(process, self._found[process], state)
        await page.send_text(to_json(answer))

    async def _states(self) -> list[dict[str, Any]]:
        if time.monotonic() - self._looked_at >= LOOK_S:
            await self._look()
        rows = [self._state(process, rig) for process, rig in self._found.items()]
        return [row for row in await asyncio.gather(*rows) if row is not None]

    async def _state(self, process: int, rig: RunningRig) -> dict[str, Any] | None:
        """None where the rig has ended."""
        if rig.host != socket.gethostname():
            return {"process": process, "rig": rig.rig, "elsewhere": rig.host}
        if rig.user != os.getuid():
            where = f"{rig.host} under another user"
            return {"process": process, "rig": rig.rig, "elsewhere": where}
        try:
            return _row(process, rig, await ask_rig(process, {}))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except (OSError, TimeoutError):
            return {"process": process, "rig": rig.rig, "silent": True}

    async def _look(self) -> None:
        self._looked_at = time.monotonic()
        with contextlib.suppress(OSError):
            self._found = await run_in_threadpool(self._announced)

    def _announced(self) -> dict[int, RunningRig]:
        announced = [(run, running_rig(run.path)) for run in self.studio.library.runs().values()]
        return {r.process: r for run, r in announced if r is not None and self._runs(run, r)}

    def _runs(self, run: Run, rig: RunningRig) -> bool:
        if rig.host == socket.gethostname():
            ours = rig.user == os.getuid()
            return stop_address(rig.process).exists() if ours else alive(rig.process)
        try:
            return self.studio.heads.status(run).running
        except (CapexError, OSError, KeyError, TypeError, ValueError):  # damaged: not our concern
            return False


async def ask_rig(process: int, question: Mapping[str, Any]) -> dict[str, Any]:
    """What a rig's process answers; OSError where it is gone, TimeoutError where it says nothing
    for too long, though it may still have heard.
    """
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_unix_connection(str(stop_address(process)))
        try:
            writer.write(json.dumps(question).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        finally:
            writer.close()
    try:
        answer = json.loads(line[: 4 * LINE_MAX])
    except ValueError:
        raise ConnectionError("the rig's process hung up") from None
    if not isinstance(answer, dict):
        raise ConnectionError("the rig's process said nothing of sense")
    return answer


def _row(process: int, rig: RunningRig, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "process": process,
        "rig": str(state.get("rig", rig.rig)),
        "held": str(state.get("held") or ""),
        "stop": state.get("stop"),
    }
