"""The sixth room: the scene that a campaign waits for, live and stored over each other. Whoever has
arranged it says so here; what was matched is stored with the attempt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from capex.errors import DamagedFile
from capex.models.pictures import encode_jpeg
from capex.operators.arrangements import Arrangement, arrangements_of, find_arrangement, read_image
from capex.operators.inbox import SceneReady, post_ready
from capex.operators.matching import LIVE, compare, scene_to_arrange
from capex.run.files import bytes_of
from capex.run.store import Run
from capex.studio.answers import Asked, changes, get, post, stream, text_of
from capex.studio.guard import Refused
from capex.studio.rooms.room import Room, Studio
from capex.untrusted import read_bytes

EVERY_S, LOOK_S = 0.2, 1.0  # how often a scene is looked at, and new ones are looked for
NOTES_MAX = 500


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    async def events(request: Request) -> Response:
        run = studio.library.run(request.query_params.get("run", ""))
        return stream(changes(lambda: _state(run), EVERY_S))

    async def scenes(_: Request) -> Response:
        return stream(changes(lambda: {"scenes": _waiting(studio)}, LOOK_S))

    return [
        Route("/api/arrange/scenes", scenes),
        Route("/api/arrange/events", events),
        Route("/api/arrange/picture", get(lambda asked: _picture(studio, asked))),
        Route("/api/arrange/ready", post(lambda body: _ready(studio, body)), methods=["POST"]),
    ]


ROOM = Room("arrange", "Arrange", _routes)


def _waiting(studio: Studio) -> list[dict[str, Any]]:
    """Every scene that some campaign waits for."""
    found = []
    for name, run in studio.library.runs().items():
        with contextlib.suppress(DamagedFile):
            run.require_plain()
            if (scene := scene_to_arrange(run.path)) is None:
                continue
            found.append({"run": name, "scene": scene.get("scene")})
    return found


def _state(run: Run) -> dict[str, Any]:
    """The scene that a run waits for, and when its picture was taken."""
    try:
        scene = scene_to_arrange(run.path) or {"scene": None}
        stamps = [path.stat().st_mtime_ns for path in (run.path / LIVE).glob("*.jpg")]
    except OSError:  # removed at this moment: it is ready
        return {"scene": None}
    return {**scene, "taken": str(max(stamps, default=0))}


def _picture(studio: Studio, asked: Asked) -> Response:
    """The live picture of a camera, the stored one, or the edges of both."""
    run, camera, kind = _run(studio, asked), asked.get("camera", ""), asked.get("kind", "live")
    if (scene := scene_to_arrange(run.path)) is None:
        return Response(status_code=204)  # it was ready a moment ago
    if camera not in scene["cameras"] or "/" in camera:
        raise Refused(404, f"no scene of this run waits before a camera '{camera[:40]}'")
    live = run.path / LIVE / f"{camera}.jpg"
    if kind == "live":
        seen = bytes_of(live)
        return Response(seen, status_code=204 if seen is None else 200, media_type="image/jpeg")
    stored = _stored(studio, asked.get("run", ""), scene)
    if stored is None or camera not in stored.images:
        raise Refused(404, f"there is no stored picture of camera '{camera[:40]}'")
    if kind == "stored":
        return Response(read_bytes(stored.images[camera]), media_type="image/png")
    if kind != "edges":
        raise Refused(400, f"a picture is '{kind[:40]}'; valid: live, stored, edges")
    difference = compare(read_image(stored.images[camera]), read_image(live))
    return Response(encode_jpeg(difference.edges), media_type="image/jpeg")


def _stored(studio: Studio, run: str, scene: Mapping[str, Any]) -> Arrangement | None:
    chain, start = str(scene.get("chain", "")), scene.get("start")
    if type(start) is not int:
        return None
    return find_arrangement(arrangements_of(studio.library.chain(run, chain)), start)


def _ready(studio: Studio, body: Mapping[str, Any]) -> dict[str, Any]:
    """The scene is arranged: the robot moves next."""
    run, title = _run(studio, body), text_of(body, "scene")
    scene = scene_to_arrange(run.path)
    if scene is None or scene.get("scene") != title:
        raise Refused(409, "this scene is no longer waited for; look at the one that is")
    notes = str(body.get("notes") or "").strip()
    if len(notes) > NOTES_MAX:
        raise Refused(400, f"notes have at most {NOTES_MAX} characters")
    post_ready(run.path, title, SceneReady(text_of(body, "by", 80), notes))
    return {"ready": title, "score": scene.get("score")}


def _run(studio: Studio, asked: Mapping[str, Any]) -> Run:
    return studio.library.run(str(asked.get("run", "")))
