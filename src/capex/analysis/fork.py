"""`capex.fork`: go on from saved states of recorded episodes, with another model, method or seed.

    import capex

    state = "kitchen--OpenDrawer--capex/4@3"
    run = capex.fork("runs/first", state, tau=0.3, times=5, out="runs/bolder")

Forks are episodes of a new run. Each is shown what its origin was shown at that moment, the memory
of its chain, the acts so far, the located points, the steps and decisions left; its dollars begin
anew. No fork learns from another, and none enters a dataset unless it is asked for.
"""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import codec, models, trust, worlds
from capex.analysis.fork_kind import ForkedRun
from capex.analysis.fork_origin import (
    FORM,
    KEY,
    TIMES_MAX,
    Fork,
    SavedState,
    find_state,
    fork_number,
    fork_of,
    parse_state,
)
from capex.analysis.fork_run import open_forks
from capex.campaign.api import Watch, gl_backend, run_campaign
from capex.campaign.driver import ResumedSlots
from capex.campaign.engines import Campaign
from capex.campaign.extensions import Attempt, CampaignExtension
from capex.campaign.prepare import ask_before_spending, prepare, refuse_small_budgets
from capex.campaign.recall import recall
from capex.campaign.scheduling import Pauses
from capex.errors import CapexError, ErrorCode
from capex.method.context import Prefix
from capex.method.memory import Memory
from capex.method.presets import PRESETS
from capex.method.record import EpisodeRecord
from capex.models import Model, Sampling, pictures
from capex.operators.requests import takeovers_of
from capex.run import LoadedChain, LoadedEpisode, LoadedRun, load_chain, load_episode, read_record
from capex.run.manifest import RecordedSettings
from capex.run.steps import read_steps
from capex.run.store import PROMPT, Chain, find_run
from capex.untrusted import read_bytes
from capex.worlds import Env, Start

# Of a campaign these mean nothing to forks: their starts, tasks and order are their origins'.
NOT_OF_FORKS = (
    *("starts", "until_successes", "max_starts", "seed", "round_size", "ray"),
    *("order", "operator", "arrangements", "judge", "prompt", "hints"),
)
SEED_MAX = 2**31 - 1


@dataclass(frozen=True)
class ResumeFromState:
    """Makes the extension of a fork: the folder of its origin, and the state."""

    episode: Path
    fork: Fork

    def __call__(self, attempt: Attempt) -> CampaignExtension:
        return ForkedAttempt(self.episode, self.fork, attempt.folder)


class ForkedAttempt(CampaignExtension):
    """An attempt that begins with the decisions of another episode, up to a saved state of it."""

    def __init__(self, episode: Path, fork: Fork, folder: Path):
        self._episode, self._fork, self._folder = episode, fork, folder
        self._prefix = Prefix(read_record(episode), read_steps(episode), fork.decision)

    @property
    def prefix(self) -> Prefix:
        return self._prefix

    def wrap_model(self, model: Model) -> Model:
        return models.with_defaults(model).reseeded(self._fork.seed)

    def record_fields(self, record: EpisodeRecord) -> EpisodeRecord:
        """Its origin; the pictures of the start are copied from it."""
        for sha256 in record.images.values():
            kept = pictures.find(self._episode / pictures.IMAGES, sha256)
            copied = self._folder / pictures.IMAGES / kept.name
            if kept.is_file() and not copied.exists():
                copied.parent.mkdir(exist_ok=True)
                copied.write_bytes(read_bytes(kept))
        extensions = {**record.extensions, KEY: codec.to_json(self._fork)}
        return replace(record, resumed=self._fork.resumed, extensions=extensions)


@dataclass(frozen=True)
class Origin:
    """A state of a recorded episode, found and checked."""

    state: SavedState
    episode: LoadedEpisode
    memory: Memory
    sha256: str  # of the record

    @property
    def task(self) -> str:
        """WORLD:TASK."""
        return f"{self.episode.record.world}:{self.episode.record.task}"


def fork(
    run: str | Path,
    states: str | Sequence[str],
    *,
    times: int = 1,
    seed: int = 0,
    remember: bool = False,
    model: str | Model | None = None,
    yes: bool = False,
    confirm: Callable[[str], bool] | None = None,
    watch: Watch | None = None,
    retry_invalid: bool = False,
    pauses: Pauses | None = None,
    **options: Any,
) -> LoadedRun:
    """Fork states of a run, CHAIN/EPISODE@DECISION, `times` each, or go on with that; returns what
    the run directory `out` then holds.

    What is not given is as in the run: model, method, sampling, limits. A stand-in with a seed of
    its own has it shifted by `seed` in the first fork of a state, by one more in each further one;
    with 0 the first repeats its origin. remember: each fork of the one state also sees those before
    it, as episodes of a chain do. options: those of `capex.collect` but for what the origins
    decide.
    """
    _refuse(times, seed, options)
    if isinstance(model, str):
        models.allow(model)
    held = find_run(Path(run)).manifest.recorded
    named = [states] if isinstance(states, str) else list(states)
    with closing(_Finder(Path(run), held)) as finder:
        origins = [finder.find(state) for state in dict.fromkeys(map(parse_state, named))]
    if not origins:
        raise CapexError(f"no state was named; write {FORM}", code=ErrorCode.MISSING_SETTING)
    if remember and len(origins) > 1:
        raise CapexError(
            f"--remember: forks of {len(origins)} states share no memory; fork each in its own"
            " --out",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    first = origins[0].episode.record
    with ExitStack() as stack:
        config = _as_before(Path(run), held, origins, model, options.get("arm"), stack)
        began: Any = {"starts": (first.start,), "seed": first.seed}
        ready = prepare(
            origins[0].task,
            config=config,
            model=model,
            presets={**PRESETS, **held.arms},
            **options,
            **began,
        )
        opened = open_forks(
            ready,
            ForkedRun(Path(run).resolve().name, seed, remember),
            [(o.state, o.sha256) for o in origins],
            times,
        )
        ready = replace(ready, settings=opened.settings)
        refuse_small_budgets(ready)
        if not yes:
            ask_before_spending(ready, confirm)
        fork_run, price = opened.create(gl_backend())
        for origin in origins:
            opened.keep_record(origin.state, origin.episode.path / "record.json")
        asked = opened.settings.model if model is None or isinstance(model, str) else ready.model
        settings = opened.settings
        campaign = Campaign(
            fork_run,
            settings,
            ready.specs,
            asked,
            price=price,
            stand_in=ready.model.stand_in,
            computes_here=ready.model.computes_here,
            retry_invalid=retry_invalid,
            pauses=pauses or Pauses(),
            begins_with=origins[0].memory if remember else None,
            resumed=_resumed(Path(run), origins, opened.numbers, times, seed),
        )
        return run_campaign(campaign, watch)


def _refuse(times: int, seed: int, options: Mapping[str, Any]) -> None:
    for name, value, most in (("times", times, TIMES_MAX), ("seed", seed, SEED_MAX)):
        least = 1 if name == "times" else 0
        if type(value) is not int or not least <= value <= most:
            raise CapexError(
                f"--{name} is {value!r}; it must be between {least} and {most}",
                code=ErrorCode.BAD_SETTING,
            )
    for name in NOT_OF_FORKS:
        if options.get(name) is not None:
            raise CapexError(
                f"'{name}' is no setting of forks: it is as in their origins",
                code=ErrorCode.UNKNOWN_NAME,
            )


class _Finder:
    """Finds states of a run. What several of them share is looked at once: a chain, a world, the
    memory that an episode was shown.
    """

    def __init__(self, run: Path, settings: RecordedSettings):
        self._run, self._settings = run, settings
        self._chains: dict[str, LoadedChain] = {}
        self._memories: dict[Path, Memory] = {}
        self._envs: dict[str, Env] = {}
        self._headers: dict[tuple[str, Start], str] = {}

    def find(self, state: SavedState) -> Origin:
        """A state to go on from, or a sentence why it is none."""
        folder = find_state(self._run, state)
        episode = load_episode(folder)
        record = episode.record
        if (fork := fork_of(record)) is not None:
            raise CapexError(
                f"{folder} is a fork itself; fork {fork.origin}, its origin",
                code=ErrorCode.WRONG_CONTENT,
            )
        if state.decision > len(record.turns):
            raise CapexError(
                f"{folder} has {len(record.turns)} decisions; there is no state before decision"
                f" {state.decision}",
                code=ErrorCode.NOT_FOUND,
            )
        drove = [row for row in takeovers_of(record) if row["decision"] <= state.decision]
        if drove:
            raise CapexError(
                f"{folder}: a person drove before decision {drove[0]['decision']}; only states of"
                " earlier decisions can be forked",
                code=ErrorCode.NOT_APPLICABLE,
            )
        then, now = str(read_steps(folder)["header"]), self._header(record)
        if then != now:
            raise CapexError(
                f"{folder} was recorded as {then}; this version of the world has {now}",
                code=ErrorCode.STATE_MISMATCH,
            )
        sha256 = hashlib.sha256(read_bytes(folder / "record.json")).hexdigest()
        return Origin(state, episode, self._memory(episode), sha256)

    def close(self) -> None:
        """Free what it holds."""
        for env in self._envs.values():
            env.close()

    def _header(self, record: EpisodeRecord) -> str:
        """What the saved states of a start belong to; a world must have some."""
        name, start = f"{record.world}:{record.task}", Start(record.task, record.start, record.seed)
        if (name, start) in self._headers:
            return self._headers[name, start]
        env = self._envs.get(name) or self._envs.setdefault(name, worlds.make(name))
        if not env.spec.can_save:
            raise CapexError(
                f"{name} has no saved states, so nothing can be forked there; a simulated world has"
                " them",
                code=ErrorCode.UNSUPPORTED,
            )
        env.reset(start)
        return self._headers.setdefault((name, start), env.save_state().header)

    def _memory(self, episode: LoadedEpisode) -> Memory:
        method, chain = self._settings.arms.get(episode.record.arm), episode.path.parent.parent
        if method is None:
            return Memory().snapshot()
        if chain.name not in self._chains:
            self._chains[chain.name] = load_chain(Chain(chain))
        if episode.path not in self._memories:
            loaded = self._chains[chain.name]
            self._memories[episode.path] = recall(
                loaded, episode, method, self._settings.round_size
            )
        return self._memories[episode.path]


def _as_before(
    run: Path,
    settings: RecordedSettings,
    origins: Sequence[Origin],
    model: str | Model | None,
    arm: Any,
    stack: ExitStack,
) -> dict[str, Any]:
    """The settings of the run that is forked, in the place of a config file."""
    if len(tasks := sorted({o.task for o in origins})) > 1:
        listed = ", ".join(tasks)
        raise CapexError(
            f"the states are of several tasks ({listed}); fork each in its own --out",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    arms = sorted({o.episode.record.arm for o in origins})
    if arm is None and (len(arms) > 1 or arms[0] not in settings.arms):
        raise CapexError(
            f"the states are of the arm {' and '.join(arms)}; say --arm",
            code=ErrorCode.MISSING_SETTING,
        )
    if model is None and settings.sampling is None:
        raise CapexError(
            f"{run} asked no model (`capex expert`?); say which goes on with --model",
            code=ErrorCode.MISSING_SETTING,
        )
    config: dict[str, Any] = {"arm": arms[0]}
    if settings.sampling is None:
        return config
    chat = {} if settings.chat is None else vars(settings.chat)
    sampling = {**vars(settings.sampling), **chat}
    if model is not None and model != settings.model:  # what another server takes may differ
        sampling = {k: v for k, v in sampling.items() if k in ("effort", "max_output_tokens")}
    usual = vars(Sampling())
    config |= {k: v for k, v in sampling.items() if v is not None and v != usual.get(k)}
    wall_s = settings.limits.wall_s
    config |= {"steps": settings.limits.steps, "episode_minutes": wall_s and wall_s / 60}
    if model is None:
        config["model"] = _model_again(settings.label)
    if settings.prompt is not None:
        config["prompt"] = run / PROMPT
    if settings.hints:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="capex-")))
        config["hints"] = folder / "hints.txt"
        config["hints"].write_text(settings.hints, encoding="utf-8")
    return config


def _model_again(name: str) -> str:
    """The model of the run that is forked. One that names a server, a file or a module is used only
    where the user names it: the run may be anybody's, and a server gets the user's key.
    """
    kind = name.partition(":")[0]
    if kind not in models.WELL_KNOWN and kind not in trust.held().modules:
        raise CapexError(
            f"the run was made by the model '{name}', which names a server, a file or a module; if"
            f" you trust it, say --model {shlex.quote(name)}",
            code=ErrorCode.NOT_PERMITTED,
        )
    return name


def _resumed(
    run: Path, origins: Sequence[Origin], numbers: Mapping[SavedState, int], times: int, seed: int
) -> ResumedSlots:
    """By number of a fork, the extension that resumes it and the memory of its origin."""
    resumed: dict[int, tuple[ResumeFromState, Memory]] = {}
    for origin in origins:
        state, number = origin.state, numbers[origin.state]
        step = origin.episode.record.turns[state.decision - 1].step
        for repetition in range(times):
            fork = Fork(
                run=run.resolve().name,
                chain=state.chain,
                episode=state.episode,
                decision=state.decision,
                step=step,
                state=number,
                repetition=repetition,
                seed=seed + repetition,
            )
            resume = ResumeFromState(origin.episode.path, fork)
            resumed[fork_number(number, repetition)] = resume, origin.memory
    return resumed
