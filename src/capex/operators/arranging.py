"""The scene of an attempt is arranged by an operator, like a stored one, and its pictures are
kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capex.campaign.extensions import Attempt, CampaignExtension
from capex.operators import Operator, Standby
from capex.operators.arrangements import (
    Arrangement,
    Match,
    arrangements_of,
    find_arrangement,
    made_by,
    read_image,
    store_arrangement,
    write_match,
)
from capex.operators.matching import MatchView, compare_all, mean_difference
from capex.operators.scenes import Scenes
from capex.worlds import Env, Image, Spec, Start


def exterior_images(env: Env) -> dict[str, Image]:
    """What the cameras that stand in the room see now."""
    return env.observe([c.name for c in env.spec.cameras if c.kind == "exterior"])


def scene_name(start: Start, standby: Standby) -> str:
    """How a scene that is waited for is called, on the terminal and in the studio."""
    return f"{standby.chain} start {start.index}"


def match_view(start: Start, arrangement: Arrangement | None, standby: Standby) -> MatchView:
    """The files by which a person sees how far the scene is from the stored one."""
    files = {} if arrangement is None else arrangement.images
    about: dict[str, object] = {"chain": standby.chain, "start": start.index}
    if arrangement is not None:
        about |= {"source": arrangement.source, "notes": arrangement.notes}
    stored = {camera: read_image(path) for camera, path in files.items()}
    return MatchView(standby.run_dir, stored, scene_name(start, standby), about)


@dataclass(frozen=True)
class ArrangedBy:
    """Makes the extension of attempts whose scenes an operator arranges."""

    operator: Operator
    scenes: Mapping[str, Scenes]  # by WORLD:TASK, sources of stored arrangements

    def __call__(self, attempt: Attempt) -> CampaignExtension:
        if attempt.env.spec.success != "operator":
            return CampaignExtension()
        return Arranging(attempt, self.operator, self.scenes.get(attempt.env.spec.name))


class Arranging(CampaignExtension):
    """An operator arranges the scene before an attempt, and attends it while the robot moves, home
    as well.
    """

    def __init__(self, attempt: Attempt, operator: Operator, scenes: Scenes | None):
        self._attempt, self._operator, self._scenes = attempt, operator, scenes
        self._standby = Standby(attempt.run_dir, attempt.chain.path.name, attempt.lease.check)
        self._attended = contextlib.ExitStack()
        self._end_now: Callable[[], bool] = lambda: False

    def before_reset(self, env: Env, start: Start) -> None:
        self._attend(env)

    def prepare(self, env: Env, start: Start) -> None:
        """The scene is arranged and its pictures are kept; returns when the attempt may begin."""
        self._attended.close()
        self._attempt.lease.phase("arranging")
        self._arrange(env, start)
        self._attempt.lease.phase("simulating")
        self._attend(env)

    def end_now(self) -> bool:
        return self._end_now()

    def close(self) -> None:
        self._attended.close()

    def _attend(self, env: Env) -> None:
        self._end_now = self._attended.enter_context(self._operator.attend(env))

    def _arrange(self, env: Env, start: Start) -> None:
        chain = self._attempt.chain
        place = arrangements_of(chain)
        stored = find_arrangement(place, start.index) or self._taken(env.spec, place, start.index)
        match = self._operator.arrange(env, start, stored, self._standby)
        images = exterior_images(env)
        if stored is None:
            source = made_by(chain.path.name)
            stored = store_arrangement(place, start.index, images, source, match.notes)
            match = replace(match, score=None, changed=None)
        else:
            match = measured(match, stored, images)
        write_match(self._attempt.folder, replace(match, arrangement=stored.folder.name), images)

    def _taken(self, spec: Spec, place: Path, start: int) -> Arrangement | None:
        """From another run, a folder of pictures or a dataset, where the user named one."""
        if self._scenes is None or start not in self._scenes.starts():
            return None
        images = self._scenes.images(spec, start)
        return store_arrangement(place, start, images, f"{self._scenes.name}, start {start}")


def measured(match: Match, stored: Arrangement, images: Mapping[str, Image]) -> Match:
    """A match with the difference between the stored pictures and those of the attempt."""
    differences = compare_all({c: read_image(p) for c, p in stored.images.items()}, images)
    if not differences:
        return replace(match, score=None, changed=None)
    score, changed = mean_difference(differences)
    return replace(match, score=score, changed=changed)
