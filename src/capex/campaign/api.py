"""`capex.collect`: a campaign from Python. The command line calls it too.

    import capex

    run = capex.collect(
        "kitchen:CloseFridge,TurnOnMicrowave", arm="capex,base", model="pilot", starts="0:20",
        out="runs/first", parallel=2,
    )
    for episode in run.episodes:
        print(episode.chain, episode.index, episode.success)

Call it under `if __name__ == "__main__":` when `parallel` is more than 1: worker processes import
the script that started them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from capex import worlds
from capex.campaign.check import refuse_sharing, refuse_starts, specs_of
from capex.campaign.conduct import Watch, gl_backend, run_campaign
from capex.campaign.demonstrators import (
    WITHOUT_MODEL,
    Asked,
    demonstrator,
    method_without_model,
    require_offer,
)
from capex.campaign.engines import Campaign
from capex.campaign.judging import Judge, people_of, refuse_without_operator
from capex.campaign.manifest import open_campaign, open_without_model
from capex.campaign.names import parse_names
from capex.campaign.patience import Pauses
from capex.campaign.prepare import ask_before_spending, prepare, refuse_small_budgets
from capex.campaign.settings import OPTIONS, Settings
from capex.errors import UnknownName
from capex.method.episode import Demonstrator
from capex.models import Model
from capex.registry import HAS_ROOM, load
from capex.run import Depth, LoadedRun
from capex.run.files import write_bytes
from capex.run.store import PROMPT, Run


def collect(
    names: str | Sequence[str] = (),
    *,
    config: str | Path | None = None,
    model: str | Model | None = None,
    branch: bool = False,
    retry_invalid: bool = False,
    yes: bool = False,
    confirm: Callable[[str], bool] | None = None,
    watch: Watch | None = None,
    pauses: Pauses | None = None,
    operator: Judge | str | None = None,
    person: Judge | None = None,
    depth: Depth = Depth.WHOLE,
    **options: Any,
) -> LoadedRun:
    """Run a campaign, or continue it, and return what the run directory then holds.

    names: WORLD:TASK[,TASK..|all], or several of those. options: the names of
    `campaign.settings.OPTIONS`, of which `out` is needed. model: a name, or a model of your own as
    long as everything stays in this process. branch: changed settings go into a run beside it that
    begins with its episodes. A campaign that may cost more than
    $25 needs `campaign_usd`, or `yes`, or a `confirm` that is told what it may cost and answers
    yes. watch: told of every event. operator: who arranges and judges where a world cannot: one of
    your own, or "person" or "scripted"; person: who is asked where it is a person. depth: of the
    episodes that are returned, `Depth.HEADS` without their decisions. A campaign that
    ends early because something failed raises that, after everything else has run; Ctrl-C raises
    KeyboardInterrupt once the store is whole.
    """
    named = operator if isinstance(operator, str) else None
    asked_person = person if isinstance(operator, str | None) else operator
    ready = prepare(
        names, config=config, model=model, operator=named, named_by_user=True, **options
    )
    people = people_of(ready.settings, ready.specs, asked_person)
    refuse_without_operator(ready.settings, ready.specs, people.judge)
    refuse_small_budgets(ready)
    if not yes:
        ask_before_spending(ready, confirm)
    run, price = open_campaign(
        ready.settings.out,
        ready.settings,
        ready.price,
        stand_in=ready.model.stand_in,
        branch=branch,
        gl_backend=gl_backend(),
        operator=people.named,
    )
    settings = _with_own_prompt(ready.settings, run)
    asked = settings.model if model is None or isinstance(model, str) else ready.model
    campaign = Campaign(
        run,
        settings,
        ready.specs,
        asked,
        price=price,
        judge=people.judge,
        extensions=people.extensions,
        stand_in=ready.model.stand_in,
        computes_here=ready.model.computes_here,
        retry_invalid=retry_invalid,
        pauses=pauses or Pauses(),
    )
    return run_campaign(campaign, watch, depth)


def demonstrate(
    who: str | Demonstrator,
    names: str | Sequence[str],
    *,
    out: str | Path,
    retry_invalid: bool = False,
    watch: Watch | None = None,
    person: Judge | None = None,
    **options: Any,
) -> LoadedRun:
    """A campaign of one who asks no model: "expert", or "human" where a world's dataset holds what
    people did, or a demonstrator of your own, in this process. options: starts, parallel, ray,
    slots. Its episodes are independent of each other. person: who arranges a robot's scene
    in no simulated room; its attempts are judged later.
    """
    worlds.allow(*([names] if isinstance(names, str) else names))
    tasks = tuple(parse_names(names))
    asked: Asked = who if isinstance(who, str) else {who.name: who}
    if isinstance(who, str):
        if who not in WITHOUT_MODEL:
            raise UnknownName("demonstrator", who, WITHOUT_MODEL)
        for world, _ in tasks:
            require_offer(who, world)
    given = {name: OPTIONS[name].checked(f"--{name}", v) for name, v in options.items()}
    name = who if isinstance(who, str) else who.name
    method = method_without_model(name)
    settings = Settings(tasks=tasks, methods=(method,), model=name, out=Path(out), **given)
    specs = specs_of(settings)
    refuse_sharing(settings, specs)
    if any(spec.exclusive for spec in specs.values()):
        # Whose truth the expert reads, the scripted operator arranges and judges.
        has_room = load(HAS_ROOM)
        by_hand = person is not None and not all(has_room(spec.world) for spec in specs.values())
        settings = replace(settings, operator="person" if by_hand else "scripted")
    else:  # nobody stands by: where a person judges, `capex judge` asks
        settings = replace(settings, judge="later")
    refuse_starts(settings, specs)
    people = people_of(settings, specs, person)
    stand_in = demonstrator(asked, method).stand_in
    run = open_without_model(settings, stand_in=stand_in, gl_backend=gl_backend())
    campaign = Campaign(
        run,
        settings,
        specs,
        asked,
        stand_in=stand_in,
        computes_here=True,
        judge=people.judge,
        extensions=people.extensions,
        retry_invalid=retry_invalid,
    )
    return run_campaign(campaign, watch)


def _with_own_prompt(settings: Settings, run: Run) -> Settings:
    """A user's prompt is kept with the run, and read from there."""
    if settings.prompt is None:
        return settings
    kept = run.path / PROMPT
    if not kept.exists():
        write_bytes(kept, settings.prompt.read_bytes())
    return replace(settings, prompt=kept)
