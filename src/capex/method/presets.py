"""Arms of a campaign: presets of one settings object. Each ablation is a value here, never a branch
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from capex.errors import UnknownName
from capex.plan import PLAN_MAX

TAU = 0.5
SILENT_DECISIONS = 3  # of the presets; the paper has no such limit
DEFAULT_EPISODE_USD = 25.0


@dataclass(frozen=True)
class MethodSettings:
    """How a demonstrator is asked, trusted and reminded."""

    name: str
    prompt: str = "capex"  # which system prompt: a file of capex/prompts
    plan_max: int = PLAN_MAX
    confidence: bool = True  # every waypoint must carry a stated confidence
    calibrated: bool = (
        True  # trust outcomes over statements; False commits on the stated confidences
    )
    tau: float = TAU
    locate: bool = True  # offer locate_pixel
    base_motion: bool = True  # offer to drive, where the robot can
    memory: Literal["chain", "fresh", "none"] = (
        "chain"  # fresh: cleared before each episode; none: never shown
    )
    skeleton: bool = True
    references: int = 2
    done: bool = False  # may declare the task done; always so where a person judges success
    notes: bool = False
    history: int = 6  # acts shown with their reports
    rounds: int = 6  # model rounds a decision
    decisions: int = 80
    # decisions in a row without a valid call that end an episode as a failure; 0: as many as there
    # are
    silent_decisions: int = 0
    episode_usd: float | None = DEFAULT_EPISODE_USD
    image_size: int = 512
    show_dollars: bool = False


PRESETS: dict[str, MethodSettings] = {
    "capex": MethodSettings("capex", silent_decisions=SILENT_DECISIONS),
    "base": MethodSettings(
        "base",
        silent_decisions=SILENT_DECISIONS,
        prompt="base",
        plan_max=1,
        confidence=False,
        calibrated=False,
        locate=False,
        memory="none",
        skeleton=False,
        references=0,
        done=True,
    ),
    "capex-fresh": MethodSettings("capex-fresh", memory="fresh", silent_decisions=SILENT_DECISIONS),
    "capex-stated": MethodSettings(
        "capex-stated", calibrated=False, silent_decisions=SILENT_DECISIONS
    ),
}


def arm(name: str, **overrides: object) -> MethodSettings:
    """A preset by name with overrides."""
    if name not in PRESETS:
        raise UnknownName("arm", name, PRESETS)
    return replace(PRESETS[name], **overrides)  # type: ignore[arg-type]
