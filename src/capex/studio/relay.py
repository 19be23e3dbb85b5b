"""Between a page that drives and an attempt of a running campaign, which calls here between two of
its decisions (`operators.takeover`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from capex.loopback import HOST
from capex.operators import inbox
from capex.operators.inbox import TakeoverRequest
from capex.operators.takeover import FRAME, FRAME_MAX, PICTURE, proof
from capex.run.live import under_way
from capex.run.store import Chain
from capex.studio.answers import to_json
from capex.untrusted import loads

WAIT_S = 0.5  # how often it is looked whether the attempt is still there
MESSAGE_MAX = 2000  # bytes that a page sends for one tick
CALL_S = 10.0  # how long after it took the request an attempt may take to call
ELSEWHERE = "the attempt does not reach this studio: it runs on another machine"
UNWRITABLE = "the attempt cannot be asked: its run directory cannot be written"
GONE = "the attempt ended before its next decision; there is nothing to drive any more"


@dataclass(frozen=True)
class Place:
    """The attempt that is wanted, and who wants it."""

    chain: Chain
    start: int
    by: str
    device: str

    @property
    def names(self) -> tuple[Path, str, int]:
        """Run, chain and start, as requests name an attempt."""
        return self.chain.path.parent.parent, self.chain.path.name, self.start


class Relay:
    """Waits for the attempt's call, then passes on what page and attempt say."""

    def __init__(self, page: WebSocket, place: Place):
        self._page, self._place, self._key = page, place, secrets.token_urlsafe(24)
        self._called: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]

    async def run(self) -> None:
        """One turn, from the request to the end of the call."""
        self._called = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(self._answer, HOST, 0)
        port = int(server.sockets[0].getsockname()[1])
        request = TakeoverRequest(
            self._place.by, self._place.device, port, self._key, socket.gethostname()
        )
        hearing = asyncio.create_task(self._page.receive_text())
        try:
            try:
                inbox.request_takeover(*self._place.names, request)
            except OSError as error:
                await self._end({"event": "failed", "error": f"{UNWRITABLE} ({error.strerror})"})
                return
            await self._tell({"event": "asked", "by": self._place.by})
            call = await self._wait(hearing)
            if call is None:
                return
            await self._pass_on(*call, hearing)
        except (WebSocketDisconnect, RuntimeError, KeyError):
            pass  # the page is gone, and with the call's end the attempt knows
        finally:
            hearing.cancel()
            inbox.withdraw_takeover(*self._place.names, self._key)
            server.close()
            if self._called.done():
                self._called.result()[1].close()
            self._called.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        with contextlib.suppress(OSError, ValueError, asyncio.TimeoutError):
            said = await asyncio.wait_for(reader.readline(), 5)
        nonce, _, shown = said.decode("ascii", "replace").strip().partition(" ")
        known = hmac.compare_digest(shown.encode(), proof(self._key, f"attempt {nonce}").encode())
        if self._called.done() or not known:
            writer.close()
        else:
            writer.write(proof(self._key, f"studio {nonce}").encode())
            self._called.set_result((reader, writer))

    async def _wait(
        self, hearing: asyncio.Task[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The call; None where the person or the attempt is gone before it."""
        taken = 0  # how often it was seen that the request was taken, and nobody called
        while True:
            either: set[asyncio.Future[Any]] = {self._called, hearing}
            await asyncio.wait(either, timeout=WAIT_S, return_when="FIRST_COMPLETED")
            if self._called.done():
                return self._called.result()
            if hearing.done():  # whatever it was: nothing can be driven yet
                hearing.result()
                await self._end({"event": "over", "kept": False, "handed": 0})
                return None
            taken += not inbox.takeover_requested(*self._place.names)
            gone = under_way(self._place.chain, self._place.start) is None
            if gone or taken * WAIT_S > CALL_S:
                await self._end({"event": "failed", "error": GONE if gone else ELSEWHERE})
                return None

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hearing: asyncio.Task[str]
    ) -> None:
        telling = asyncio.create_task(self._hear_attempt(reader))
        speaking = asyncio.create_task(self._hear_page(writer, hearing))
        try:
            await asyncio.wait({telling, speaking}, return_when="FIRST_COMPLETED")
            if telling.done():  # the attempt has hung up: it goes on, or is over
                steps = telling.result()
                await self._end({"event": "over", "kept": True, "handed": steps})
        finally:
            for task in (telling, speaking):
                task.cancel()
            await asyncio.gather(telling, speaking, return_exceptions=True)
            writer.close()

    async def _hear_attempt(self, reader: asyncio.StreamReader) -> int:
        """Pass states and pictures on; returns how many ticks were driven."""
        ticks = 0
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, ValueError):
            while True:
                kind, size = FRAME.unpack(await reader.readexactly(FRAME.size))
                if size > FRAME_MAX:
                    break
                body = await reader.readexactly(size)
                if kind == PICTURE:
                    await self._page.send_bytes(body)
                    continue
                message = loads(body)
                ticks = int(message.get("tick", ticks))
                await self._tell(message)
        return ticks

    async def _hear_page(self, writer: asyncio.StreamWriter, hearing: asyncio.Task[str]) -> None:
        text = await hearing
        while True:
            line = text.replace("\n", " ").encode()
            if len(line) <= MESSAGE_MAX:
                writer.write(line + b"\n")
                await writer.drain()
            text = await self._page.receive_text()

    async def _tell(self, message: object) -> None:
        await self._page.send_text(to_json(message))

    async def _end(self, message: object) -> None:
        await self._tell(message)
        await self._page.close()
