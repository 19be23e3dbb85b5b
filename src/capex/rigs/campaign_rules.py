"""People beside the robots of a campaign: the operator, and the source of arrangements."""

from __future__ import annotations

from collections.abc import Mapping

from capex.campaign.judging import People
from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode
from capex.operators import Operator
from capex.operators.arranging import ArrangedBy
from capex.operators.scenes import Scenes, open_scenes
from capex.operators.scripted import ScriptedOperator
from capex.rigs import RIG
from capex.rigs.campaign_files import rig_of
from capex.worlds import Spec

Specs = Mapping[tuple[str, str], Spec]


def people_of(settings: Settings, specs: Specs, person: Operator | None) -> People:
    """The people of a campaign; a start without an arrangement is refused."""
    operator, named = choose_operator(settings, specs, person)
    scenes = scenes_of(settings, specs)
    arranged = () if operator is None else (ArrangedBy(operator, scenes),)
    return People(operator, named, arranged)


def choose_operator(
    settings: Settings, specs: Specs, given: Operator | None
) -> tuple[Operator | None, str]:
    """Who stands beside the robot, and as the manifest says it; empty where nobody is needed."""
    needed = [spec for spec in specs.values() if spec.success == "operator"]
    robots = [spec for spec in needed if spec.exclusive]
    if not needed:
        if settings.operator is not None:
            raise CapexError(
                f"--operator {settings.operator}: the worlds of this campaign reset and judge"
                " themselves; leave it out",
                code=ErrorCode.NOT_APPLICABLE,
            )
        return None, ""
    if not robots and settings.operator is None:
        # Nobody is asked later, so that such attempts may run in other processes.
        return (given if settings.judge == "now" else None), ""
    wanted = settings.operator or _default_operator(robots[0].world)
    if wanted == "scripted":
        for spec in needed:
            if not has_room(spec.world):
                raise CapexError(
                    f"--operator scripted: {spec.name} is no simulated room, so a person arranges"
                    " and judges; leave it out",
                    code=ErrorCode.NOT_APPLICABLE,
                )
        return ScriptedOperator(), wanted
    if given is None:
        raise CapexError(
            f"a person arranges the starts of {needed[0].name}, and there is nobody to ask; run"
            " `capex collect` at a terminal, or in Python give an operator",
            code=ErrorCode.PERSON_NEEDED,
        )
    return given, wanted


def scenes_of(settings: Settings, specs: Specs) -> dict[str, Scenes]:
    """Where the arrangements of each task come from; a start that is not there is refused."""
    source = settings.arrangements
    if source is None:
        return {}
    by_name: dict[str, Scenes] = {}
    for spec in specs.values():
        if spec.success != "operator":
            raise CapexError(
                f"--arrangements {source}: {spec.name} resets itself; leave it out",
                code=ErrorCode.NOT_APPLICABLE,
            )
        scenes = open_scenes(source, spec.task)
        missing = sorted(set(settings.starts) - set(scenes.starts()))
        if missing:
            has = sorted(scenes.starts())
            raise CapexError(
                f"--arrangements {source}: it has no start {missing[0]} of {spec.name}; it has"
                f" {len(has)}, from {has[0]} to {has[-1]}",
                code=ErrorCode.UNKNOWN_START,
            )
        by_name[spec.name] = scenes
    return by_name


def _default_operator(world: str) -> str:
    return rig_of(world).operator if world.startswith(RIG) else "person"


def has_room(world: str) -> bool:
    """Whether a rig is a simulated room."""
    return world.startswith(RIG) and bool(rig_of(world).room)
