"""The seventh room: a person drives a world from the page, and what they do is recorded like any
other demonstrator's, as `human`; or takes a campaign's attempt over for a while. One person at
a time.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from capex import worlds
from capex.campaign.api import demonstrate
from capex.campaign.names import parse_names
from capex.errors import CapexError
from capex.operators.page_operator import PageOperator
from capex.operators.teleop_channel import Message, TeleopChannel
from capex.operators.teleoperation import Teleoperator
from capex.registry import ROBOT_NAMES
from capex.run.live import under_way
from capex.run.manifest import MANIFEST
from capex.run.store import Chain, Run, chain_name
from capex.studio.answers import Asked, get, number_of, text_of, to_json
from capex.studio.guard import Refused
from capex.studio.relay import Place, Relay
from capex.studio.rooms.room import Room, Studio
from capex.untrusted import loads

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
DEVICES = ("keyboard", "gamepad", "pointer")
HUMAN = "human"
FIRST_S = 10.0  # how long a page that has the seat may take to say what it wants
OWN_RIGS = ("rig:room", "rig:room-live")  # simulated rooms of the package
OFFERED = ("kitchen",)  # worlds whose tasks are listed; every other can be named
T = TypeVar("T")
TAKEN = "somebody else drives already; one person drives at a time"


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    seat = Seat(studio)
    return [
        Route("/api/drive", get(seat.about)),
        WebSocketRoute("/api/drive/wheel", seat.drive),
        WebSocketRoute("/api/drive/takeover", seat.take_over),
    ]


ROOM = Room("drive", "Drive", _routes)


@dataclass(frozen=True)
class Trip:
    """What is to be driven."""

    name: str  # WORLD:TASK
    start: int
    out: Path
    by: str
    device: str


@dataclass(frozen=True)
class Seat:
    """Where one person at a time drives."""

    studio: Studio
    _taken: threading.Lock = field(default_factory=threading.Lock)

    def about(self, _: Asked) -> dict[str, Any]:
        """What can be driven, and where it goes."""
        tasks = [f"{world}:{task}" for world in OFFERED for task in worlds.tasks(world)]
        return {"tasks": [*tasks, *self._own()], "taken": self._taken.locked()}

    def _own(self) -> list[str]:
        """The tasks of the worlds that this studio was given to drive."""
        tasks = []
        for given in self.studio.drives:
            world, task = worlds.split_name(given)
            tasks += [f"{world}:{t}" for t in ([task] if task else worlds.tasks(world))]
        return tasks

    async def drive(self, page: WebSocket) -> None:
        """One attempt of one person."""
        trip = await self._seated(page, self._trip)
        if trip is None:
            return
        loop, out = asyncio.get_running_loop(), asyncio.Queue[Message]()

        def tell(message: Message) -> None:
            loop.call_soon_threadsafe(out.put_nowait, message)

        channel = TeleopChannel(tell)
        threading.Thread(target=self._attempt, args=(trip, channel), daemon=True).start()
        listening = asyncio.create_task(_listen(page, channel))
        try:
            await _speak(page, channel, out)
        finally:
            channel.leave()
            listening.cancel()

    async def take_over(self, page: WebSocket) -> None:
        """One person's turn in an attempt of a running campaign."""
        place = await self._seated(page, self._place)
        if place is None:
            return
        try:
            await Relay(page, place).run()
        finally:
            self._taken.release()

    async def _seated(self, page: WebSocket, read: Callable[[Mapping[str, Any]], T]) -> T | None:
        """What a page wants, once it has the seat; None where it does not get it, after it was told
        why.
        """
        await page.accept()
        if not self._taken.acquire(blocking=False):
            await page.send_text(to_json({"event": "failed", "error": TAKEN}))
            await page.close(4409)
            return None
        wanted = None
        try:
            wanted = read(_object(await asyncio.wait_for(page.receive_text(), FIRST_S)))
        except CapexError as refusal:
            await page.send_text(to_json({"event": "failed", "error": str(refusal)}))
            await page.close(4400)
        except TimeoutError:
            late = f"the page did not say what to drive within {FIRST_S:g} s; open it again"
            await page.send_text(to_json({"event": "failed", "error": late}))
            await page.close(4408)
        except (WebSocketDisconnect, KeyError):  # gone, or no text
            pass
        finally:
            if wanted is None:
                self._taken.release()
        return wanted

    def _place(self, body: Mapping[str, Any]) -> Place:
        name = text_of(body, "run")
        chain, start = (
            self.studio.library.chain(name, text_of(body, "chain")),
            number_of(body, "start"),
        )
        self._allow(_world(chain))
        if under_way(chain, start) is None:
            raise Refused(409, f"start {start} is not under way; there is nothing to take over")
        return Place(chain, start, text_of(body, "by", 80), _device(body))

    def _trip(self, body: Mapping[str, Any]) -> Trip:
        name, start = text_of(body, "task", 200), number_of(body, "start")
        self._allow(worlds.split_name(name)[0])
        ((world, task),) = parse_names([name])[:1]
        run, folder = text_of(body, "run", 60), self.studio.library.folders[0]
        if RUN_NAME.fullmatch(run) is None:
            raise Refused(400, f"'{run}' is no name of a run; letters, digits, - and _ are right")
        if (folder / MANIFEST).exists():
            raise Refused(409, f"{folder} is one run; start the studio with a folder of runs")
        if (out := folder / run).is_symlink():
            raise Refused(409, f"'{run}' is a link; choose another name")
        if Run(out).chain(world, task, HUMAN).episode(start).is_dir():
            raise Refused(409, f"start {start} of {name} has been driven into '{run}' already")
        return Trip(f"{world}:{task}", start, out, text_of(body, "by", 80), _device(body))

    def _allow(self, world: str) -> None:
        """A page may name no file and no module of its own."""
        own = {worlds.split_name(given)[0] for given in self.studio.drives}
        if world not in {*worlds.WORLDS, *ROBOT_NAMES.values(), *OWN_RIGS, *own}:
            raise Refused(
                403,
                f"'{world[:80]}' may not be driven from this studio; start it with"
                " --drive WORLD to allow that",
            )

    def _attempt(self, trip: Trip, channel: TeleopChannel) -> None:
        """Runs in a thread of its own; the campaign's own thread drives."""
        try:
            person = Teleoperator(channel, trip.by, trip.device)
            run = demonstrate(
                person,
                trip.name,
                out=trip.out,
                person=PageOperator(trip.by),
                starts=[trip.start],
                slots=1,
            )
            made = [e for e in run.episodes if e.index == trip.start and e.chain.endswith(HUMAN)]
            over: dict[str, Any] = {"event": "over", "kept": bool(made)}
            if made:
                (episode,) = made[:1]
                over |= {"run": trip.out.name, "chain": episode.chain, "episode": episode.index}
                over |= {"end": episode.record.end, "success": episode.success}
            channel.send(over)
        except (CapexError, OSError, ImportError) as error:
            channel.send({"event": "failed", "error": str(error)})
        finally:
            self._taken.release()
            channel.send(None)


def _world(chain: Chain) -> str:
    """The world of a chain's run, as its campaign names it."""
    for name in Run(chain.path.parent.parent).manifest.recorded.tasks:
        world, task = worlds.split_name(name)
        if chain.path.name.startswith(chain_name(world, task, "")):
            return world
    return chain.path.name


def _device(body: Mapping[str, Any]) -> str:
    device = str(body.get("device", DEVICES[0]))
    if device not in DEVICES:
        raise Refused(400, f"a device is '{device[:40]}'; valid: {', '.join(DEVICES)}")
    return device


def _object(text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(400, "a message must be a JSON object")
    return value


async def _listen(page: WebSocket, channel: TeleopChannel) -> None:
    try:
        while True:
            channel.receive(_object(await page.receive_text()))
    except (WebSocketDisconnect, Refused, KeyError, RuntimeError):
        channel.leave()


async def _speak(page: WebSocket, channel: TeleopChannel, out: asyncio.Queue[Message]) -> None:
    while (message := await out.get()) is not None:
        try:
            if isinstance(message, bytes):
                await page.send_bytes(message)
            else:
                await page.send_text(to_json(message))
        except (WebSocketDisconnect, RuntimeError):
            channel.leave()
            return
    await page.close()
