"""The studio's application: rooms, static files, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from capex.errors import CapexError
from capex.studio.answers import answer, get
from capex.studio.guard import Guard, Refused
from capex.studio.library import Library
from capex.studio.rooms import ROOMS
from capex.studio.rooms.room import Studio
from capex.studio.stopping import RigStops

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Address:
    """Where a studio is reached."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """What is opened in a browser."""
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{name}:{self.port}/{self.token}/"


def application(library: Library, address: Address, drives: tuple[str, ...] = ()) -> Guard:
    """The studio over a library of runs, behind its guard. `drives`: worlds besides the package's
    that may be driven.
    """
    studio = Studio(library, drives)
    studio.read_ahead()
    routes: list[BaseRoute] = [Route("/api/studio", get(lambda _: _about(studio)))]
    routes += RigStops(studio).routes()
    for room in ROOMS:
        routes += room.routes(studio)
    routes += [Route(f"/{name}", _file(content, name)) for name, content in static_files().items()]
    routes.append(Route("/", _file(static_files()["index.html"], "index.html")))
    handlers: dict[Any, Callable[..., Any]] = {
        Refused: lambda _, error: answer({"error": str(error)}, error.status),
        CapexError: lambda _, error: answer({"error": str(error)}, 400),
        OSError: lambda _, error: answer({"error": _file_sentence(error)}, 500),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app, address.token, address.host, address.port)


def static_files() -> dict[str, bytes]:
    """Every file of the pages by its address; what is not among them is not served."""
    found: dict[str, bytes] = {}

    def gather(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                gather(entry, f"{prefix}{entry.name}/")
            elif Path(entry.name).suffix in TYPES:
                found[f"{prefix}{entry.name}"] = entry.read_bytes()

    gather(resources.files("capex.studio") / "static", "")
    found["shared.css"] = (resources.files("capex.report") / "shared.css").read_bytes()
    return found


def _file(content: bytes, name: str) -> Callable[[Request], Any]:
    async def endpoint(_: Request) -> Response:
        return Response(content, media_type=TYPES[Path(name).suffix])

    return endpoint


def _about(studio: Studio) -> dict[str, Any]:
    return {
        "folders": [str(folder) for folder in studio.library.folders],
        "rooms": [{"name": room.name, "title": room.title} for room in ROOMS],
    }


def _file_sentence(error: OSError) -> str:
    return f"'{error.filename or 'a file'}' cannot be read or written ({error.strerror or error})"
