"""The fifth room: attempts that a person judges, one after the other. Who judges sees neither the
method nor what another person said; a second judge's opinions are kept beside the verdicts.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from starlette.routing import BaseRoute, Route

from capex.campaign.judging import question
from capex.errors import CapexError
from capex.run import LoadedEpisode, load_episode
from capex.run.agreement import agreements
from capex.run.files import now
from capex.run.store import Run
from capex.run.verdicts import (
    BROKEN,
    REASONS,
    Verdict,
    Word,
    append_verdict,
    read_opinions,
    read_verdict,
)
from capex.studio.answers import Asked, get, post, text_of
from capex.studio.guard import Refused
from capex.studio.rooms.episode import frame_of
from capex.studio.rooms.room import Room, Studio

NAME_MAX, WORDS_MAX = 80, 1000  # characters


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    desk = Desk(studio)
    return [
        Route("/api/judge", get(desk.runs)),
        Route("/api/judge/queue", get(desk.queue)),
        Route("/api/judge/attempt", get(desk.attempt)),
        Route("/api/judge/stage", get(lambda asked: studio.stage.cameras(desk.find(asked).path))),
        Route(
            "/api/judge/frame", get(lambda asked: frame_of(studio, desk.find(asked).path, asked))
        ),
        Route("/api/judge/verdict", post(desk.verdict), methods=["POST"]),
    ]


ROOM = Room("judge", "Judge", _routes)


def key_of(episode: LoadedEpisode) -> str:
    """A name of an attempt that does not tell its method."""
    return hashlib.sha256(f"{episode.chain}/{episode.index}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Desk:
    """Where verdicts are given; one is written at a time."""

    studio: Studio
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _found: dict[tuple[Path, str], Path] = field(default_factory=dict)  # by run and key

    def runs(self, _: Asked) -> dict[str, Any]:
        """How many attempts of each run a person judges, and how many wait."""
        rows = []
        for name, run in self.studio.library.runs().items():
            if found := self._judged_by_people(run):
                waiting = sum(episode.verdict is None for episode in found)
                rows.append({"run": name, "attempts": len(found), "waiting": waiting})
        return {"runs": sorted(rows, key=lambda row: (not row["waiting"], row["run"]))}

    def queue(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The attempts that wait for one judge, by key and in an order that mixes the methods."""
        run = self.studio.library.run(str(asked.get("run", "")))
        by, second = str(asked.get("by", "")).strip(), _second(asked)
        found = self._judged_by_people(run)
        queues = {True: _for_second(found, by), False: [e for e in found if e.verdict is None]}
        done = [e for e in found if _said(e, by, second) is not None]
        answer: dict[str, Any] = {
            "queue": [key_of(e) for e in sorted(queues[second], key=_order)],
            "waiting": len(queues[False]),
            "second": len(queues[True]),
            "done": len(done),
            "reasons": list(REASONS),
            "broken": BROKEN,
        }
        if not queues[second]:  # before that it would tell a judge of the other
            answer["agreement"] = [vars(row) for row in agreements(e.path for e in found)]
        return answer

    def find(self, asked: Mapping[str, Any]) -> LoadedEpisode:
        """An attempt by its key."""
        run, key = self.studio.library.run(str(asked.get("run", ""))), str(asked.get("key", ""))
        known = self._found.get((run.path, key))
        if known is not None and known.is_dir():
            return load_episode(known)
        for episode in self._judged_by_people(run):
            self._found[run.path, key_of(episode)] = episode.path
            if key_of(episode) == key:
                return load_episode(episode.path)
        raise Refused(404, f"no attempt of this run that a person judges is called '{key[:20]}'")

    def attempt(self, asked: Asked) -> dict[str, Any]:
        """What a judge is told of an attempt: the task, its rules, how it ended, what is
        claimed.
        """
        episode = self.find(asked)
        about = question(episode)
        said = (turn.reasoning for turn in reversed(episode.record.turns) if turn.reasoning)
        names = ("world", "task", "start", "instruction", "criterion", "end", "claimed_done")
        return {
            **{name: getattr(about, name) for name in names},
            "key": key_of(episode),
            "rules": list(about.rules),
            "steps": episode.record.steps,
            "said": next(said, ""),
        }

    def verdict(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Write a verdict; what is answered was read back from disk."""
        word, by, second = (
            text_of(body, "verdict", 20),
            text_of(body, "by", NAME_MAX),
            _second(body),
        )
        if word not in get_args(Word):
            raise Refused(400, f"a verdict is '{word}'; valid: {', '.join(get_args(Word))}")
        reason, words = (str(body.get(name) or "") for name in ("reason", "words"))
        if max(len(reason), len(words)) > WORDS_MAX:
            raise Refused(400, f"a reason and words have at most {WORDS_MAX} characters each")
        with self._writing:
            episode = self._last(body, by, second) if word == "undo" else self.find(body)
            held = _said(episode, by, second)
            if word != "undo" and (held is not None or (not second and read_verdict(episode.path))):
                raise Refused(409, "this attempt has been judged meanwhile; take the next one")
            given = Verdict(word, by, now(), reason, " ".join(words.split()))  # type: ignore[arg-type]
            append_verdict(episode.path, given, second=second)
        return {"key": key_of(episode), "written": vars(given), **self.queue(body)}

    def _last(self, body: Mapping[str, Any], by: str, second: bool) -> LoadedEpisode:
        """The attempt that somebody judged last."""
        run = self.studio.library.run(text_of(body, "run"))
        said = [(e, v.at) for e in self._judged_by_people(run) if (v := _said(e, by, second))]
        if not said:
            raise Refused(409, f"there is no verdict of {by} to take back")
        return max(said, key=lambda pair: pair[1])[0]

    def _judged_by_people(self, run: Run) -> list[LoadedEpisode]:
        """The attempts of a run that the world does not judge; one that cannot be read is left
        out.
        """
        found = []
        for chain in run.chains():
            for index in chain.finished():
                try:
                    episode = self.studio.heads.episode(chain.episode(index))
                except CapexError:
                    continue
                if episode.record.success is None:
                    found.append(episode)
        return found


def _second(asked: Mapping[str, Any]) -> bool:
    return asked.get("second") in (True, "1")


def _order(episode: LoadedEpisode) -> tuple[int, str]:
    return episode.index, key_of(episode)


def _said(episode: LoadedEpisode, by: str, second: bool) -> Verdict | None:
    """What stands of somebody on an attempt."""
    if second:
        return read_opinions(episode.path).get(by)
    verdict = episode.verdict
    return verdict if verdict is not None and verdict.by == by else None


def _for_second(episodes: Sequence[LoadedEpisode], by: str) -> list[LoadedEpisode]:
    """What another person has judged and this one has not."""
    judged = [e for e in episodes if e.verdict is not None and e.verdict.by != by]
    return [e for e in judged if _said(e, by, True) is None]
