"""Re-runs a recorded campaign from its exchanges, without a model, and compares records: the proof
that a run can be reproduced.

Every episode is run again from its own exchange log with the memory that the records before it
left. It must make the same requests, pixels included, and leave the same record and the same steps,
to the last bit.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capex import worlds
from capex.campaign.attempt import AttemptJob, AttemptSettings, CutOff, Invalid, run_attempt
from capex.campaign.chain import Slot, learn
from capex.campaign.demonstrators import demonstrator
from capex.campaign.recall import as_seen_then, forgotten
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.method.memory import Memory
from capex.method.presets import MethodSettings
from capex.method.record import EndReason
from capex.models import (
    AttemptObserver,
    Model,
    ModelError,
    Reply,
    Request,
    Sampling,
    UserMessage,
    describe,
    pictures,
)
from capex.models.cassette import first_difference, read_requests
from capex.models.exchanges import LOG
from capex.models.retry import repeat
from capex.registry import REPEAT_REQUESTS, load
from capex.run import LoadedChain, LoadedEpisode, LoadedRun, load_run
from capex.run.files import read_json
from capex.run.manifest import fingerprint, kind_of
from capex.run.steps import read_steps
from capex.run.store import PROMPT, Chain
from capex.untrusted import picture, read_bytes
from capex.worlds import Env
from capex.worlds.robots import refuse_repeating


@dataclass(frozen=True)
class Replayed:
    """One episode: its first difference, or nothing; why it was skipped; or what is damaged, so
    that it is left out.
    """

    path: Path
    difference: str = ""
    skipped: str = ""
    damaged: str = ""


class Recording(Model):
    """The model of one recorded episode, under the name it had. It answers in the recorded order,
    and only to the recorded requests.

    Pictures are compared by their pixels, so that another PNG encoder makes no difference; with
    `blind` they are not compared.
    """

    def __init__(self, episode: LoadedEpisode, blind: bool):
        self._folder, self._blind = episode.path, blind
        log = episode.path / LOG  # absent where not even the first request was within the budget
        self._requests = deque(read_requests(log) if log.is_file() else ())
        self._asked = (e.request or {} for e in episode.exchanges() if e.number == 1)
        first = next(episode.exchanges(), None)
        self.name, self.price_name, self.stand_in = (
            episode.record.model,
            first.price_name if first else "",
            episode.record.stand_in,
        )
        self.tools_in_text = self.name.startswith("chat-text:")
        asked = (first.request if first else None) or {}
        self.forces_calls = asked.get("tool_choice") != "auto"

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """The recorded answer; ModelError at the first request that differs."""
        recorded, asked = (
            self._requests.popleft() if self._requests else None,
            next(self._asked, None),
        )
        if recorded is None or asked is None:
            if observer is not None:
                observer.before(request, 1)  # where the budget ended the episode, it does so again
            raise ModelError("cassette", "a request more is made than was recorded")
        if recorded.hash != request.hash and (given := self._as_seen(request, asked)) != asked:
            raise ModelError(
                "cassette", f"request {recorded.number}: {first_difference(asked, given)[1]}"
            )
        # No answer: it had outgrown the context, or the episode's time ended while it waited.
        return repeat(request, recorded.attempts(), observer)

    def clock(self) -> float:
        """Time for an episode that ended by its wall time: it stands still until all that was
        recorded has been asked.
        """
        return 0.0 if self._requests else 1.0

    def _as_seen(self, request: Request, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The request described, with the recorded name for every picture that shows the same."""
        recorded = iter(
            [
                part["sha256"]
                for m in asked["messages"]
                for part in m.get("user", ())
                if "sha256" in part
            ]
        )
        described = describe(request)
        shown = iter(
            [
                p
                for m in request.messages
                if isinstance(m, UserMessage)
                for p in m.parts
                if hasattr(p, "png")
            ]
        )
        for part in (
            part for m in described["messages"] for part in m.get("user", ()) if "sha256" in part
        ):
            sha, drawn = next(recorded, ""), next(shown)
            if sha and (self._blind or self._same_pixels(sha, drawn.png)):
                part["sha256"] = sha
        return described

    def _same_pixels(self, sha256: str, png: bytes) -> bool:
        image = pictures.find(self._folder / pictures.IMAGES, sha256)
        if not image.is_file():
            return False
        try:
            kept = picture(read_bytes(image)).convert("RGB")
        except (OSError, ValueError):
            return False
        return np.array_equal(np.asarray(kept), np.asarray(picture(png).convert("RGB")))


def replay(path: Path, *, recorded_images: bool = False) -> Iterator[Replayed]:
    """Replay every episode of a run, chain by chain."""
    run = load_run(path)
    settings = run.manifest.recorded
    if (kind := kind_of(run.manifest)) is not None:
        raise CapexError(
            f"{path} {kind.no_replay}; give the run of a `capex collect`",
            code=ErrorCode.WRONG_CONTENT,
        )
    if settings.command != "collect":
        raise CapexError(
            f"{path} was not collected with a model, so there are no exchanges to replay; give the"
            " run of a `capex collect`",
            code=ErrorCode.WRONG_CONTENT,
        )
    for name in settings.tasks:
        refuse_repeating(worlds.split_name(name)[0], "capex replay")
    for damage in run.damaged:
        yield Replayed(damage.path, damaged=damage.reason)
    for chain in run.chains:
        if chain.arm in settings.arms:
            yield from _replay_chain(run, chain, settings.arms[chain.arm], recorded_images)
        else:
            yield from (
                Replayed(e.path, skipped="not an arm of this campaign") for e in chain.episodes
            )


def _attempt_settings(run: LoadedRun) -> AttemptSettings:
    settings = run.manifest.recorded
    return AttemptSettings(
        price=run.manifest.price,
        limits=settings.limits,
        sampling=settings.sampling or Sampling(),
        template=run.path / PROMPT if settings.prompt is not None else None,
        hints=settings.hints,
        seed=settings.seed,
    )


def _replay_chain(
    run: LoadedRun, chain: LoadedChain, method: MethodSettings, blind: bool
) -> Iterator[Replayed]:
    settings, round_size = _attempt_settings(run), run.manifest.recorded.round_size
    before = {
        start
        for origin in run.manifest.origins[:1]
        for start in origin.episodes.get(chain.name, ())
    }
    memory, learned = Memory(), iter(chain.episodes)
    following = next(learned, None)
    env: Env | None = None
    try:
        for episode in chain.episodes:
            while (
                following is not None
                and following.position < episode.position // round_size * round_size
            ):
                if method.memory == "chain":
                    learn(memory, following.record, following.path)
                following = next(learned, None)
            if episode.index in before:
                yield Replayed(episode.path, skipped="from before the run was branched")
                continue
            if lost := forgotten(chain, method, episode.position // round_size * round_size):
                yield Replayed(
                    episode.path,
                    damaged=f"the memory that it saw cannot be made again: {lost} is damaged",
                )
                continue
            env = env or worlds.make(f"{chain.world}:{chain.task}")
            if env.spec.exclusive:
                yield Replayed(episode.path, skipped="recorded answers are not said to a robot")
                continue
            seen = as_seen_then(chain, episode)
            if seen is None:
                yield Replayed(episode.path, skipped="what its memory saw was run again since")
                continue
            shown = memory if not episode.verdicts_seen else seen
            try:
                difference = _difference(episode, env, method, settings, shown.snapshot(), blind)
            except DamagedFile as damage:
                yield Replayed(
                    episode.path, damaged=f"{damage.path.name} is damaged: {damage.reason}"
                )
                continue
            if difference and {**run.manifest.fingerprint, "gl": ""} != fingerprint():
                difference += (
                    " (this machine's fingerprint is not that of the recording, so bits may differ)"
                )
            yield Replayed(episode.path, difference=difference)
    finally:
        if env is not None:
            env.close()


def _difference(
    episode: LoadedEpisode,
    env: Env,
    method: MethodSettings,
    settings: AttemptSettings,
    memory: Memory,
    blind: bool,
) -> str:
    """Run one episode again in a scratch folder and compare."""
    record, steps_was = episode.record, read_steps(episode.path)
    recording = Recording(episode, blind)
    clock = recording.clock if record.end is EndReason.TIME else None
    if clock is not None and settings.limits.wall_s is not None:
        settings = replace(settings, limits=replace(settings.limits, wall_s=0.5))
    with tempfile.TemporaryDirectory(prefix="capex-") as folder:
        chain = Chain(Path(folder) / episode.chain)
        slot = Slot(episode.index, episode.position)
        seen = episode.verdicts_seen
        steered = bool(record.messages or record.human_steps)
        repeat = (load(REPEAT_REQUESTS)(record),) if steered else ()
        job = AttemptJob(
            chain,
            env.spec.name,
            method,
            slot,
            memory,
            settings,
            seen,
            extensions=repeat,
            again=True,
        )
        outcome = run_attempt(env, demonstrator(recording, method), job, clock=clock)
        if isinstance(outcome, CutOff):
            return outcome.why
        if isinstance(outcome, Invalid):
            return str(outcome.error)
        was, now = read_json(episode.path / "record.json"), read_json(outcome.path / "record.json")
        if blind:
            now["images"] = was["images"]
        if was != now:
            return f"record.json: {first_difference(was, now)[1]}"
        steps_now = read_steps(outcome.path)
        for name in sorted({*steps_was, *steps_now}):
            if (
                name not in steps_was
                or name not in steps_now
                or not np.array_equal(steps_was[name], steps_now[name])
            ):
                return f"steps.npz: '{name}' differs"
    return ""
