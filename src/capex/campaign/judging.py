"""Verdicts within a campaign: where a world cannot judge, its operator is asked when an attempt is
committed, and a continued chain asks first for those that were left.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capex import worlds
from capex.campaign.manifest import disown
from capex.campaign.settings import Settings
from capex.errors import CapexError
from capex.operators import Operator, Question
from capex.rigs.campaign_files import TASKS
from capex.run import LoadedEpisode, load_chain, load_episode
from capex.run.store import Chain, Run
from capex.run.verdicts import append_verdict, read_verdict
from capex.worlds import Spec

LATER = (
    "a person judges these attempts later (--judge later): memory learns no success or failure from"
    " them until then; capex judge {}"
)


def refuse_without_operator(
    settings: Settings, specs: Mapping[tuple[str, str], Spec], operator: Operator | None
) -> None:
    """A campaign whose chains wait for verdicts needs somebody who gives them, in this process."""
    names = [spec.name for spec in specs.values() if waits(settings, spec)]
    if not names:
        return
    if settings.parallel > 1 or settings.ray is not None:
        raise CapexError(
            f"a person judges {names[0]} after each attempt, in this process; leave --parallel and"
            " --ray out, or judge afterwards with --judge later"
        )
    if operator is None:
        raise CapexError(
            f"a person judges {names[0]} after each attempt, and there is nobody to ask; give an"
            " operator, or judge afterwards with --judge later"
        )
    if not operator.name.strip():  # known, or asked for, before the first attempt
        raise CapexError(f"a verdict needs a name: say who judges {names[0]}")


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
        claimed_done=record.end == "done",
    )


def _criterion(episode: LoadedEpisode) -> tuple[str, tuple[str, ...]]:
    """What counts as success, and the rules: as the world says, and where it may not be loaded as
    the run's manifest has them.
    """
    record = episode.record
    try:
        known = worlds.tasks(record.world).get(record.task)
    except CapexError:
        said: Any = Run(episode.path.parents[3]).manifest
        for key in ("settings", "rigs", record.world, TASKS, record.task):
            said = said.get(key) if isinstance(said, Mapping) else None
        row = said if isinstance(said, Mapping) else {}
        listed = row.get("rules")
        rules = tuple(map(str, listed)) if isinstance(listed, list) else ()
        return str(row.get("success", "")), rules
    return (known.criterion, known.rules) if known is not None else ("", ())


def ask(episode_dir: Path, operator: Operator) -> LoadedEpisode:
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


def ask_first(chain: Chain, operator: Operator) -> None:
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
