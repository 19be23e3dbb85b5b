"""The third room: one episode, frame by frame and decision by decision, alone or beside another
one of the same start.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from capex import codec
from capex.analysis.fork_origin import SavedState
from capex.errors import CapexError
from capex.method.observation import command_text
from capex.method.record import EpisodeRecord, Turn, WaypointRecord
from capex.models.exchanges import LOG, Exchange, read_log, read_times
from capex.operators.requests import takeovers_of
from capex.plan import orientation_matrix
from capex.pose import Array
from capex.run import LoadedEpisode, load_episode
from capex.run.live import find_picture
from capex.run.manifest import RecordedSettings
from capex.run.steps import read_steps
from capex.run.store import Run
from capex.studio.answers import Asked, get, number_of
from capex.studio.guard import Refused
from capex.studio.rooms.room import Room, Studio
from capex.untrusted import damage

OTHERS_MAX = 40
BODY_MAX = 100_000  # characters of a reply's body that are shown


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    return [
        Route("/api/episode", get(lambda asked: _episode(studio, asked))),
        Route("/api/episode/stage", get(lambda asked: studio.stage.cameras(_path(studio, asked)))),
        Route(
            "/api/episode/frame", get(lambda asked: frame_of(studio, _path(studio, asked), asked))
        ),
        Route("/api/episode/exchanges", get(lambda asked: _exchanges(studio, asked))),
        Route("/api/episode/others", get(lambda asked: _others(studio, asked))),
        Route("/api/episode/apart", get(lambda asked: _apart(studio, asked))),
    ]


ROOM = Room("episode", "Episode", _routes)


def _path(studio: Studio, asked: Asked) -> Path:
    run, chain = asked.get("run", ""), asked.get("chain", "")
    return studio.library.episode(run, chain, number_of(asked, "episode"))


def _episode(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Everything that is recorded but arrays, pictures and exchanges."""
    episode = load_episode(_path(studio, asked))
    record = episode.record
    settings = studio.library.run(asked["run"]).manifest.recorded
    return {
        **{
            name: getattr(record, name)
            for name in (
                *("world", "task", "arm", "start", "seed", "model", "stand_in", "instruction"),
                *("end", "steps", "horizon", "requests", "cost_usd", "labels_before", "weights"),
            )
        },
        "index": episode.index,
        "success": episode.success,
        "verdict": None if episode.verdict is None else vars(episode.verdict),
        "path": str(episode.path),
        "timing": episode.timing.as_json(),
        "tau": _tau(settings, record),
        "ledger": codec.to_json(record.ledger),
        "messages": codec.to_json(record.messages),
        "takeovers": [
            {k: v for k, v in row.items() if k != "moves"} for row in takeovers_of(record)
        ],
        "turns": [turn_of(turn) for turn in record.turns],
        "fork": [_fork_line(episode, turn) for turn in record.turns],
    }


def _tau(settings: RecordedSettings, record: EpisodeRecord) -> float | None:
    method = settings.arms.get(record.arm)
    return None if method is None else method.at(f"{record.world}:{record.task}").tau


def turn_of(turn: Turn) -> dict[str, Any]:
    """One decision as the pages draw it: a plan, and what became of it."""
    rows = turn.waypoints
    return {
        "decision": turn.decision,
        "step": turn.step,
        "steps": sum(row.steps for row in rows),
        "calls": turn.calls,
        "count": turn.committed,
        "reasoning": turn.reasoning,
        "skipped_reason": turn.skipped_reason,
        "repairs": list(turn.repairs),
        "located": [vars(point) for point in turn.located],
        "waypoints": [
            waypoint_of(row) | {"points": points}
            for row, points in zip(rows, _pointing(rows), strict=True)
        ],
        "outcomes": [
            {
                **{name: getattr(row, name) for name in ("status", "report", "label", "steps")},
                "tips": {arm: tip.position_m for arm, tip in row.tips.items()},
            }
            for row in rows
        ],
    }


def waypoint_of(row: WaypointRecord) -> dict[str, Any]:
    """A waypoint as it was sent, with what was stated and what calibration made of it."""
    return {
        "command": command_text(row.waypoint, several=len(row.waypoint.targets) > 1),
        "gripper": dict(row.waypoint.gripper_words),
        "stated": row.waypoint.confidence,
        "calibrated": row.calibrated,
        "at": {arm: list(point) for arm, point in row.clamped_m.items()},
    }


def _pointing(rows: Sequence[WaypointRecord]) -> list[dict[str, list[float]]]:
    """By waypoint and arm, the direction in which the gripper is to point, once the plan has said
    one.
    """
    kept: dict[str, Array] = {}
    found = []
    for row in rows:
        for arm, target in row.waypoint.targets.items():
            if target.orientation != "keep":
                kept[arm] = orientation_matrix(target.orientation, np.eye(3))
        found.append({arm: kept[arm][:, 2].tolist() for arm in row.waypoint.targets if arm in kept})
    return found


def _fork_line(episode: LoadedEpisode, turn: Turn) -> str:
    """What goes on from before a decision, otherwise."""
    state = SavedState(episode.chain, episode.index, turn.decision)
    run = episode.path.parents[3]
    return shlex.join(["capex", "fork", str(run), str(state), "--out", f"runs/{run.name}-fork"])


def frame_of(studio: Studio, episode: Path, asked: Asked) -> Response:
    """A picture of an episode; how the camera projects and where the tips are stand in headers."""
    tick, width = number_of(asked, "tick"), number_of(asked, "width", 480)
    frame = studio.stage.frame(episode, asked.get("camera", ""), tick, width)
    headers = {
        "X-Projection": json.dumps(frame.projection),
        "X-Tips": json.dumps(frame.tips),
        "Cache-Control": "private, max-age=600",
    }
    return Response(frame.jpeg, media_type="image/jpeg", headers=headers)


def _exchanges(studio: Studio, asked: Asked) -> dict[str, Any]:
    """The requests and replies of one decision, exactly as they were kept."""
    folder, decision = _path(studio, asked), number_of(asked, "decision")
    record = load_episode(folder).record
    if not 1 <= decision <= len(record.turns):
        raise Refused(404, f"the episode has {len(record.turns)} decisions; there is no {decision}")
    log = folder / LOG
    if not log.is_file():
        return {"attempts": []}
    ends = list(accumulate(turn.calls for turn in record.turns))
    first, last = ends[decision - 1] - record.turns[decision - 1].calls, ends[decision - 1]
    times, replies, found = read_times(log), 0, []
    with damage(log):
        for k, line in enumerate(read_log(log)):
            if first <= replies < last:
                seconds = times[k].latency_s if k < len(times) else None
                found.append({**_shown(line, folder), "seconds": seconds})
            replies += line.replied
    return {"attempts": found}


def _shown(line: Exchange, folder: Path) -> dict[str, Any]:
    """An attempt at the model; pictures by their hashes, and whether they are there."""
    names = ("number", "status", "http_status", "billed", "usage", "kind", "error", "answer")
    shown = {name: codec.to_json(getattr(line, name)) for name in names}
    if (request := line.request) is not None:
        parts = [p for m in request.get("messages", ()) for p in m.get("user", ())]
        shas = {p["sha256"] for p in parts if "sha256" in p}
        shown |= {"request": request, "kept": [s for s in shas if find_picture(folder, s)]}
    shown["body"] = json.dumps(line.body, indent=1, ensure_ascii=False)[:BODY_MAX]
    return shown


def _others(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Whole episodes of the same start by others: another method, the expert, a person."""
    here = _path(studio, asked)
    record = load_episode(here).record
    found = []
    for name, run in studio.library.runs().items():
        found += [row for row in _same_start(studio, name, run, record) if row["path"] != str(here)]
    return {"others": found[:OTHERS_MAX]}


def _apart(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Where two episodes of one start first differ: the first step whose commands are not the same,
    and the decision of the first one that it belongs to.
    """
    second = {name: asked.get(f"{name}2", "") for name in ("run", "chain", "episode")}
    folders = _path(studio, asked), _path(studio, second)
    actions, others = (read_steps(folder)["actions"] for folder in folders)
    both = min(len(actions), len(others))
    if actions.shape[1:] != others.shape[1:]:
        both = 0
    differ = np.flatnonzero((actions[:both] != others[:both]).any(axis=1))
    step = int(differ[0]) if differ.size else both
    if step == len(actions) == len(others):
        return {"step": None, "decision": None}
    turns = [turn for turn in load_episode(folders[0]).record.turns if turn.step <= step]
    return {"step": step, "decision": turns[-1].decision if turns else None}


def _same_start(studio: Studio, name: str, run: Run, record: EpisodeRecord) -> list[dict[str, Any]]:
    rows = []
    for chain in run.chains():
        folder = chain.episode(record.start)
        if f"--{record.task}--" not in chain.path.name or not folder.is_dir():
            continue
        try:
            other = studio.heads.episode(folder)
        except CapexError:
            continue
        same = (other.record.world, other.record.seed) == (record.world, record.seed)
        if same and other.record.resumed is None:
            rows.append(
                {
                    "run": name,
                    "chain": chain.path.name,
                    "index": other.index,
                    "arm": other.record.arm,
                    "model": other.record.model,
                    "success": other.success,
                    "path": str(folder),
                }
            )
    return rows
