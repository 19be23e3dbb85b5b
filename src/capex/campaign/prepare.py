"""Before the first episode: settings resolved, the model made, the impossible refused, the cost
asked about. Nothing is written and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex import models, worlds
from capex.campaign import ceiling as ce
from capex.campaign.allocation import refuse_allocation
from capex.campaign.attempt import AttemptSettings
from capex.campaign.names import start_text
from capex.campaign.settings import NOWHERE, Settings, read_config, resolve
from capex.errors import CapexError, ErrorCode
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import PRESETS, MethodSettings
from capex.models import Model, ModelError, with_defaults
from capex.models.prices import Price, load_prices
from capex.registry import WITH_PRIORS, load
from capex.run.manifest import MANIFEST
from capex.run.spend import Spend
from capex.run.store import SPEND, Run, find_run
from capex.worlds import Spec


def specs_of(settings: Settings) -> dict[tuple[str, str], Spec]:
    """What each task's world claims."""
    specs = {}
    for world, task in settings.tasks:
        env = worlds.make(f"{world}:{task}")
        specs[world, task] = env.spec
        env.close()
    return specs


def attempt_settings(settings: Settings, price: Price | None) -> AttemptSettings:
    """The settings that all attempts of the campaign need."""
    return AttemptSettings(
        price=price,
        typed_usd="episode_usd" in settings.typed,
        campaign_usd=settings.campaign_usd,
        limits=settings.limits,
        sampling=settings.sampling,
        template=settings.prompt,
        hints=settings.hints_text,
        seed=settings.seed,
        images=settings.image_format,
        keep_all_images=settings.keep_images == "all",
        rate=settings.rate,
    )


def refuse_sharing(settings: Settings, specs: Mapping[tuple[str, str], Spec]) -> None:
    """Refuse settings that one robot cannot serve."""
    names = [spec.name for spec in specs.values() if spec.exclusive]
    if not names:
        return
    if len(names) < len(specs):
        other = next(spec.name for spec in specs.values() if not spec.exclusive)
        raise CapexError(
            f"{names[0]} is one robot and {other} is not; collect them with commands of their own",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    if len({world for world, _ in specs}) > 1:
        listed = ", ".join(sorted({world for world, _ in specs}))
        raise CapexError(
            f"a campaign drives one robot, and these are several: {listed}",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    given = {
        "--parallel": settings.parallel,
        "--slots": settings.slots or 1,
        "--round-size": settings.round_size,
    }
    for flag, value in given.items():
        if value > 1:
            raise CapexError(
                f"{flag} {value}: {names[0]} is one robot, so one attempt runs at a time; leave"
                f" {flag} out",
                code=ErrorCode.NOT_APPLICABLE,
            )
    if settings.ray is not None:
        raise CapexError(
            f"--ray {settings.ray}: {names[0]} is one robot beside this machine; leave --ray out",
            code=ErrorCode.NOT_APPLICABLE,
        )
    if settings.model.startswith("cassette:"):
        raise CapexError(
            f"--model {settings.model}: recorded answers are never said to a robot again, and"
            f" {names[0]} is one; name the model itself",
            code=ErrorCode.NOT_APPLICABLE,
        )


def refuse_the_impossible(
    settings: Settings, specs: Mapping[tuple[str, str], Spec], model: Model, price: Price | None
) -> None:
    """One sentence about the first thing that cannot be had."""
    for method in settings.methods:
        attempt_settings(settings, price).budgets(model.name, method)
    for (world, task), spec in specs.items():
        for method in settings.methods:
            if method.base_motion and "base_motion" in settings.typed and spec.base is None:
                raise CapexError(
                    f"--base-motion on: the robot of {world}:{task} stands on a fixed base; leave"
                    " it out or collect elsewhere",
                    code=ErrorCode.UNSUPPORTED,
                )
            if any((settings.prompt, settings.hints, spec.hints, spec.technique)):  # fields, size
                template, hints, as_json = settings.prompt, settings.hints_text, model.tools_in_text
                told: dict[str, Any] = {"template": template, "hints": hints, "json_form": as_json}
                build(Memory(), method, spec, 0, "", **told)
            if method.locate and "locate" in settings.typed and not spec.depth:
                raise CapexError(
                    f"--locate on: {world}:{task} has no depth, so arm {method.name} cannot locate"
                    " pixels; leave it out",
                    code=ErrorCode.UNSUPPORTED,
                )
        later = spec.success == "operator" and settings.judge == "later"
        if later and settings.until_successes is not None:
            raise CapexError(
                f"--until-successes: a person judges {world}:{task} later, so successes cannot be"
                " counted; leave --judge later out, or name --starts",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
    refuse_sharing(settings, specs)
    refuse_starts(settings, specs)
    refuse_allocation(settings, specs)
    if settings.max_starts is not None and settings.until_successes is None:
        raise CapexError(
            f"--max-starts {settings.max_starts} bounds --until-successes, which was not given;"
            " name --starts instead",
            code=ErrorCode.MISSING_SETTING,
        )


def refuse_starts(settings: Settings, specs: Mapping[tuple[str, str], Spec]) -> None:
    """One sentence about the first start that a world does not have."""
    for (world, task), spec in specs.items():
        for index in sorted(settings.starts, reverse=True):
            if not spec.has_start(index):
                none = f"--starts: there is no start {start_text(index)} of {world}:{task}"
                raise CapexError(
                    f"{none}; valid: {spec.valid_starts}", code=ErrorCode.UNKNOWN_START
                )


@dataclass(frozen=True)
class Prepared:
    """A campaign that has passed every check; nothing was written and nothing sent."""

    settings: Settings
    model: Model
    price: Price | None
    specs: Mapping[tuple[str, str], Spec]


def prepare(
    names: str | Sequence[str] = (),
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    model: str | Model | None = None,
    dry: bool = False,
    presets: Mapping[str, MethodSettings] = PRESETS,
    named_by_user: bool = False,
    **options: Any,
) -> Prepared:
    """Resolve settings and refuse the impossible. `dry`: nothing will be sent or written, so
    neither a key nor `out` is needed. `named_by_user`: the user typed the names of worlds and
    model, or wrote them into the config, so that modules and files among them may be loaded.
    """
    file = read_config(Path(config)) if isinstance(config, str | Path) else config
    named = model if isinstance(model, str) or model is None else model.name
    if named_by_user:
        _permit(names, file or {}, model)
    said = {**options, "model": named}
    settings = _as_begun(resolve(names, said, file, dry=dry, presets=presets))
    if settings.prior is not None or any(m.transfer for m in settings.methods):
        settings = load(WITH_PRIORS)(settings)
    if isinstance(model, str) or model is None:
        asked = _make(settings, dry)
    else:  # it brings its own chat settings
        asked = with_defaults(model)
        if "context_tokens" in settings.typed:
            raise CapexError(
                "--context-tokens is for a model given by name; give it to the model object itself",
                code=ErrorCode.NOT_APPLICABLE,
            )
        if settings.parallel > 1 or settings.ray is not None:
            raise CapexError(
                "a model object stays in its process; give the model by name to run in several",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
        settings = replace(settings, chat=asked.chat_settings)
    price = _held_price(settings) or load_prices(settings.prices).find(asked.price_name)
    specs = specs_of(settings)
    refuse_the_impossible(settings, specs, asked, price)
    return Prepared(settings, asked, price, specs)


def _permit(names: str | Sequence[str], file: Mapping[str, Any], model: str | Model | None) -> None:
    listed = names or file.get("tasks") or ()
    worlds.allow(*([listed] if isinstance(listed, str) else map(str, listed)))
    if isinstance(asked := model or file.get("model"), str):
        models.allow(asked)


def _make(settings: Settings, dry: bool) -> Model:
    """The named model; one that only lacks its key will do where nothing is sent."""
    kind, _, recorded = settings.model.partition(":")
    if kind == "cassette" and (Path(recorded) / MANIFEST).is_file():
        find_run(Path(recorded))  # of this format
    try:
        return models.make(settings.model, settings.chat)
    except ModelError as error:
        if not dry or error.kind != "authentication":
            raise
        return ce.Keyless(settings.model)


def _as_begun(settings: Settings) -> Settings:
    """The settings as the run that is continued, if there is one, takes them."""
    begun = (settings.out / "manifest.json").is_file()
    return settings.as_begun(find_run(settings.out).manifest) if begun else settings


def _held_price(settings: Settings) -> Price | None:
    """The price row that a run began with: it holds to the end, unless the user brings another."""
    if "prices" in settings.typed or not (settings.out / "manifest.json").is_file():
        return None
    return find_run(settings.out).manifest.price


def ask_before_spending(ready: Prepared, confirm: Callable[[str], bool] | None) -> None:
    """Refuse a campaign that may cost more than $25 unless somebody says yes. A stand-in bills
    nobody.
    """
    if ready.model.stand_in:
        return
    cost = ce.ask_first(ready.settings, ready.price, *still_to_run(ready.settings))
    if cost and (confirm is None or not confirm(cost)):
        advice = (
            "set a budget with --campaign-usd, or agree with --yes (in Python: campaign_usd=.. or"
            " yes=True)"
        )
        if ready.price is None:
            advice = "give its price with --prices, or agree with --yes (in Python: yes=True)"
            raise CapexError(f"{cost}; nothing was sent: {advice}", code=ErrorCode.NO_PRICE)
        raise CapexError(
            f"this campaign costs {cost}; nothing was sent: {advice}", code=ErrorCode.NO_PRICE
        )


def still_to_run(settings: Settings) -> tuple[int | None, Decimal, list[Decimal]]:
    """How many episodes the run lacks, as far as its folders tell (None where successes decide),
    what it has spent, and what of that on each of those episodes.
    """
    done, spent, begun = 0, Decimal(0), list[Decimal]()
    if (settings.out / "manifest.json").is_file():
        starts, run = set(settings.starts), Run(settings.out)
        spend = Spend(settings.out / SPEND)
        spent, slots = spend.total(), spend.slots()
        for chain in (run.chain(w, t, m.name) for w, t in settings.tasks for m in settings.methods):
            finished = starts & set(chain.finished())
            done += len(finished)
            accounts = slots.of_chain(chain.path.name)
            begun += (a.total_usd for i, a in accounts.items() if i in starts - finished)
    count = len(settings.tasks) * len(settings.methods) * len(settings.starts)
    return None if settings.until_successes is not None else count - done, spent, begun


def refuse_small_budgets(ready: Prepared) -> None:
    """Budgets that somebody set must cover at least one request, if one is to be made."""
    settings, limit = ready.settings, ready.settings.campaign_usd
    if ready.price is None or (limit is None and "episode_usd" not in settings.typed):
        return
    if _moves(ready.specs) or still_to_run(settings)[0] == 0:
        return
    world, task = settings.tasks[0]
    attempts = attempt_settings(settings, ready.price)
    first_usd = {
        method.name: ce.sample(settings, attempts, ready.model, method, world, task).first_usd
        or Decimal(0)
        for method in settings.methods
    }
    spent = Spend(settings.out / SPEND).total() if (settings.out / SPEND).is_file() else Decimal(0)
    least = min(first_usd.values())
    if limit is not None and spent + least > limit:
        already = f" and ${spent:.2f} are spent or held" if spent else ""
        raise CapexError(
            f"--campaign-usd: the campaign's budget of ${limit:.2f}"
            f"{', set by an earlier command,' if settings.keeps_budget else ''} covers no request:"
            f" the next may cost ${least:.2f}{already}; raise it",
            code=ErrorCode.BUDGET_TOO_SMALL,
        )
    for method in settings.methods:
        first, most = first_usd[method.name], method.episode_usd
        typed = "episode_usd" in settings.typed
        if typed and most is not None and first > Decimal(str(most)):
            raise CapexError(
                f"--episode-usd: a budget of ${most:.2f} per episode covers no request of arm"
                f" {method.name}: its first may cost ${first:.2f}; raise it",
                code=ErrorCode.BUDGET_TOO_SMALL,
            )


def _moves(specs: Mapping[tuple[str, str], Spec]) -> bool:
    """Whether looking at a first request would move a robot, so that nobody looks."""
    return any(spec.exclusive for spec in specs.values())


@dataclass(frozen=True)
class DryRun:
    """What `--dry-run` says."""

    settings: Settings
    episodes: int | None
    samples: tuple[ce.Sample, ...]
    ceiling: ce.Ceiling
    disk: tuple[float, float] | None  # bytes: about, at most
    free_bytes: float


def dry_run(ready: Prepared) -> DryRun:
    """The plan, the requests' size in tokens, the ceiling and the disk it takes; nothing is sent
    and nothing written.
    """
    settings = ready.settings
    attempts = attempt_settings(settings, ready.price)
    worlds_seen = dict(reversed(settings.tasks))  # the prompt depends on the world, not on the task
    samples = [
        ce.sample(settings, attempts, ready.model, method, w, t)
        for w, t in worlds_seen.items()
        if not _moves(ready.specs)
        for method in settings.methods
    ]
    episodes, spent, begun = still_to_run(settings)
    horizon = max(spec.horizon for spec in ready.specs.values())
    free = ce.free_bytes(Path() if settings.out == NOWHERE else settings.out)
    disk = (
        None
        if episodes is None or not samples
        else ce.disk_bytes(settings, samples, episodes, horizon)
    )
    most = ce.ceiling(settings, ready.price, episodes, spent, begun)
    return DryRun(settings, episodes, tuple(samples), most, disk, free)
