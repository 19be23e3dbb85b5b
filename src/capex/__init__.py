"""CAPEX turns a frozen vision-language model into a robot demonstrator.

    import capex

    run = capex.collect("kitchen:CloseFridge", arm="capex,base", model="pilot", starts="0:20",
                        out="runs/first")
    run = capex.load_run("runs/first")

Importing the package loads nothing else; each name below is fetched when it is first used.
Inside, lengths are metres and angles radians, in the arm's base frame (x forward, y left, z up).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capex.analysis.fork import fork
    from capex.campaign.api import collect
    from capex.errors import CapexError
    from capex.method.demonstrator import run_episode
    from capex.method.executor import Executor
    from capex.method.memory import Memory
    from capex.method.presets import PRESETS
    from capex.models import Model
    from capex.plan import ArmTarget, BaseMotion, Plan, Waypoint
    from capex.pose import Pose
    from capex.run import load_run
    from capex.worlds import Env, Start

_HOMES = {
    "collect": "campaign.api",
    "fork": "analysis.fork",
    "load_run": "run",
    "run_episode": "method.demonstrator",
    "Executor": "method.executor",
    "Memory": "method.memory",
    "PRESETS": "method.presets",
    "Model": "models",
    "Env": "worlds",
    "Start": "worlds",
    "ArmTarget": "plan",
    "BaseMotion": "plan",
    "Plan": "plan",
    "Waypoint": "plan",
    "Pose": "pose",
    "CapexError": "errors",
}

__all__ = [
    "PRESETS",
    "ArmTarget",
    "BaseMotion",
    "CapexError",
    "Env",
    "Executor",
    "Memory",
    "Model",
    "Plan",
    "Pose",
    "Start",
    "Waypoint",
    "collect",
    "fork",
    "load_run",
    "run_episode",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"capex.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'capex' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
