"""Verdicts within a campaign: where a world cannot judge, its operator is asked when an attempt is
committed, and a continued chain asks first for those that were left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from capex import worlds
from capex.campaign import world_files
from capex.campaign.extensions import ExtensionFactory
from capex.campaign.manifest import disown
from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode, RigFault
from capex.method.record import EndReason
from capex.registry import CAMPAIGN_PEOPLE, load
from capex.run import LoadedEpisode, load_chain, load_episode
from capex.run.store import Chain, Run
from capex.run.verdicts import Verdict, append_verdict, read_verdict
from capex.worlds import Spec


@dataclass(frozen=True)
class Question:
    """An attempt that waits for a verdict."""

    episode_dir: Path
    world: str
    task: str
    method: str
    start: int
    instruction: str
    criterion: str  # of success, in words
    rules: tuple[str, ...]  # those of the criterion that a reason may name as broken
    end: EndReason
    claimed_done: bool  # whether the model claimed that it was done


class Judge(Protocol):
    """Gives verdicts where a world cannot judge, and confirms that a robot is fine again."""

    @property
    def name(self) -> str:
        """As verdicts name it."""

    @property
    def stand_in(self) -> bool:
        """Whether it is scripted."""

    def recover(self, fault: RigFault, check: Callable[[], None]) -> bool:
        """The robot stopped; whether it is fine again. False ends the campaign."""

    def judge(self, question: Question) -> Verdict | None:
        """The verdict on an attempt; None: later."""


@dataclass(frozen=True)
class People:
    """The people of a campaign, or the scripted operator in their place."""

    judge: Judge | None = None
    named: str = ""  # as the manifest has it: person, scripted, or empty where nobody is needed
    extensions: tuple[ExtensionFactory, ...] = ()


def people_of(
    settings: Settings, specs: Mapping[tuple[str, str], Spec], person: Judge | None
) -> People:
    """The people beside the worlds of a campaign; a setting that needs them elsewhere is
    refused.
    """
    given = settings.operator is not None or settings.arrangements is not None
    if not given and all(spec.success != "operator" for spec in specs.values()):
        return People()
    people: People = load(CAMPAIGN_PEOPLE)(settings, specs, person)
    return people


LATER = (
    "a person judges these attempts later (--judge later): memory learns no success or failure from"
    " them until then; capex judge {}"
)


def refuse_without_operator(
    settings: Settings, specs: Mapping[tuple[str, str], Spec], operator: Judge | None
) -> None:
    """A campaign whose chains wait for verdicts needs somebody who gives them, in this process."""
    names = [spec.name for spec in specs.values() if waits(settings, spec)]
    if not names:
        return
    if settings.parallel > 1 or settings.ray is not None:
        raise CapexError(
            f"a person judges {names[0]} after each attempt, in this process; leave --parallel and"
            " --ray out, or judge afterwards with --judge later",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    if operator is None:
        raise CapexError(
            f"a person judges {names[0]} after each attempt, and there is nobody to ask; give an"
            " operator, or judge afterwards with --judge later",
            code=ErrorCode.PERSON_NEEDED,
        )
    if not operator.name.strip():  # known, or asked for, before the first attempt
        raise CapexError(
            f"a verdict needs a name: say who judges {names[0]}", code=ErrorCode.PERSON_NEEDED
        )


def waits(settings: Settings, spec: Spec) -> bool:
    """Whether the chains at a task wait for a person's verdicts."""
    return spec.success == "operator" and settings.judge == "now"


def question(episode: LoadedEpisode) -> Question:
    """What an operator is asked about an attempt."""
    record = episode.record
    criterion, rules = _criterion(episode)
    return Question(
        episode_dir=episode.path,
        world=record.world,
        task=record.task,
        method=record.arm,
        start=record.start,
        instruction=record.instruction,
        criterion=criterion,
        rules=rules,
        end=record.end,
        claimed_done=record.end is EndReason.DONE,
    )


def _criterion(episode: LoadedEpisode) -> tuple[str, tuple[str, ...]]:
    """What counts as success, and the rules: as the world says, and where it may not be loaded as
    the run's manifest has them.
    """
    record = episode.record
    try:
        known = worlds.tasks(record.world).get(record.task)
    except CapexError:
        said: Any = Run(episode.path.parents[3]).manifest.recorded.world_files
        for key in (record.world, world_files.TASKS, record.task):
            said = said.get(key) if isinstance(said, Mapping) else None
        row = said if isinstance(said, Mapping) else {}
        listed = row.get("rules")
        rules = tuple(map(str, listed)) if isinstance(listed, list) else ()
        return str(row.get("success", "")), rules
    return (known.criterion, known.rules) if known is not None else ("", ())


def ask(episode_dir: Path, operator: Judge) -> LoadedEpisode:
    """Ask about an attempt; its verdict is on disk when this returns. Without one it stays
    unjudged.
    """
    episode = load_episode(episode_dir)
    if episode.record.success is not None or episode.verdict is not None:
        return episode
    verdict = operator.judge(question(episode))
    if verdict is not None:
        append_verdict(episode_dir, verdict)
    return load_episode(episode_dir)


def ask_first(chain: Chain, operator: Judge) -> None:
    """Ask for every verdict that a chain lacks, in its order, until the operator says later."""
    for episode in load_chain(chain).episodes:
        if episode.success is None and ask(episode.path, operator).verdict is None:
            return


def unjudged_sentence(count: int, run: Path) -> str:
    """What a person has to do."""
    return f"{count} {'waits' if count == 1 else 'wait'} for a verdict: capex judge {run}"


def make_way(chain: Chain, start: int) -> None:
    """Move an attempt that was judged invalid aside, before its start runs again. From here on the
    verdict cannot be taken back.
    """
    episode_dir = chain.episode(start)
    verdict = read_verdict(episode_dir)
    if verdict is not None and verdict.verdict == "invalid":
        disown(Run(chain.path.parent.parent), episode_dir, to=chain.set_invalid(start))
