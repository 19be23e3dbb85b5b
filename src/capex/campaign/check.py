"""Refusals before the first episode: what a campaign asks for must be possible in its worlds, with
its model and its budgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capex import worlds
from capex.campaign.allocation import refuse_allocation
from capex.campaign.attempt import AttemptSettings
from capex.campaign.names import start_text
from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.models import Model
from capex.models.prices import Price
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
