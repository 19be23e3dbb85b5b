"""Methods of a campaign: presets of one settings object, where each ablation is a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from capex.errors import CapexError, ErrorCode, UnknownName
from capex.plan import PLAN_MAX
from capex.setting import Setting

TAU = 0.5
SILENT_DECISIONS = 3  # of the presets; the paper has no such limit
DEFAULT_EPISODE_USD = 25.0


class PlanSetting(Setting):
    """Means nothing with the base prompt: one waypoint, no confidence, no memory, no grounding."""


def _thresholds(table: Any) -> Any:
    """Thresholds by WORLD:TASK, or a sentence about the first that is none."""
    for task, tau in table.items() if isinstance(table, Mapping) else ():
        if isinstance(tau, bool) or not isinstance(tau, int | float) or not 0 <= tau <= 1:
            raise CapexError(
                f"{task} is {tau!r}; it must be a number between 0 and 1",
                code=ErrorCode.BAD_SETTING,
            )
    return table


BY_TASK = PlanSetting(
    read=_thresholds, kind=dict[str, float], right='a table such as {"kitchen:CloseFridge" = 0.4}'
)


@dataclass(frozen=True)
class MethodSettings:
    """How a demonstrator is asked, trusted and reminded."""

    name: str
    prompt: str = "capex"  # which system prompt: a file of method/prompts
    plan_max: Annotated[int, PlanSetting(1, PLAN_MAX)] = PLAN_MAX
    """Waypoints in a plan at most (default {default})."""
    confidence: Annotated[bool, Setting()] = True  # every waypoint must carry a stated confidence
    # off: commit on the stated confidences
    calibrated: Annotated[bool, PlanSetting()] = True
    """Whether outcomes correct stated confidences (default on)."""
    tau: Annotated[float, PlanSetting(0, 1)] = TAU
    """Commit threshold, 0 to 1: a plan runs up to the first later waypoint whose confidence is
    below it (default {default})."""
    # thresholds of single tasks in place of tau; `capex calibrate` writes them into a config file
    task_tau: Annotated[Mapping[str, float], BY_TASK] = field(default_factory=dict)
    locate: Annotated[bool, PlanSetting()] = True
    """Whether locate_pixel is offered (default: where the world has depth)."""
    base_motion: Annotated[bool, Setting()] = True
    """Whether driving is offered (default: where the robot can)."""
    memory: Annotated[
        Literal["chain", "fresh", "none"], PlanSetting(kind=Literal["chain", "fresh"])
    ] = "chain"
    """chain (default): each episode sees what the ones before it left; fresh: cleared before
    each."""
    skeleton: Annotated[bool, PlanSetting()] = True
    """Whether the reliability summary is shown (default on)."""
    references: Annotated[int, PlanSetting(0, 2)] = 2
    """Own successes shown as references: 0, 1 or 2 (default)."""
    failures: Annotated[int, PlanSetting(0, 8)] = 0
    """Failed attempts of which the prompt says what stopped them (default {default})."""
    transfer: Annotated[bool, PlanSetting()] = False  # the calibrator begins with --prior
    priors: Mapping[str, Any] = field(default_factory=dict)  # what it begins with, by WORLD:TASK
    # may declare the task done; always so where a person judges success
    done: Annotated[bool, Setting()] = False
    notes: Annotated[bool, PlanSetting()] = False
    """Whether the model may leave itself notes (default off)."""
    history: Annotated[int, Setting(1, 100)] = 6
    """Past acts shown with their reports (default {default})."""
    rounds: Annotated[int, Setting(1, 20)] = 6
    """Model rounds a decision may take (default {default})."""
    decisions: Annotated[int, Setting(1, 10_000)] = 80
    """Decisions an episode may take (default {default})."""
    silent_decisions: Annotated[int, Setting(0, 10_000)] = 0
    """Decisions in a row without a valid tool call after which an episode has failed (default 3; 0:
    never, as in the paper)."""
    episode_usd: Annotated[float | None, Setting(0, metavar="USD")] = DEFAULT_EPISODE_USD
    """Dollars an episode may cost (default {default:g} where the model has a price)."""
    image_size: Annotated[int | None, Setting(32, 2048, metavar="PIXELS")] = None
    """Longer side, at most, of the images that the model sees (default: each camera's own size; 512
    in the built-in worlds)."""
    show_dollars: Annotated[bool, Setting()] = False
    """Whether the model is told the dollars left (default off)."""

    def at(self, task: str) -> MethodSettings:
        """The method at WORLD:TASK, with the threshold that it has there."""
        return replace(self, tau=self.task_tau.get(task, self.tau), task_tau={})


_OURS = MethodSettings("capex", silent_decisions=SILENT_DECISIONS)
_BASE = MethodSettings(
    name="base",
    prompt="base",
    plan_max=1,
    confidence=False,
    calibrated=False,
    locate=False,
    memory="none",
    skeleton=False,
    references=0,
    done=True,
    silent_decisions=SILENT_DECISIONS,
)
_FRESH = replace(_OURS, name="capex-fresh", memory="fresh")
_STATED = replace(_OURS, name="capex-stated", calibrated=False)
# Each without one part: what the memory's page holds, and whether a doubtful tail waits.
_WITHOUT = (
    replace(_OURS, name="capex-no-skeleton", skeleton=False),
    replace(_OURS, name="capex-no-references", references=0),
    replace(_OURS, name="capex-no-commitment", tau=0.0),
)
# Past the paper: failures are shown, too; labels of other tasks are the calibrator's prior.
_BEYOND = (
    replace(_OURS, name="capex-failures", failures=4),
    replace(_OURS, name="capex-transfer", transfer=True),
)
PRESETS = {m.name: m for m in (_OURS, _BASE, _FRESH, _STATED, *_WITHOUT, *_BEYOND)}


def preset(name: str, **overrides: object) -> MethodSettings:
    """A method by the name of its preset, with overrides."""
    if name not in PRESETS:
        raise UnknownName("arm", name, PRESETS)
    return replace(PRESETS[name], **overrides)  # type: ignore[arg-type]
