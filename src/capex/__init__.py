"""CAPEX turns a frozen vision-language model into a robot demonstrator.

    import capex

    run = capex.collect("kitchen:CloseFridge", arm="capex,base", model="pilot", starts="0:20", out="runs/first")
    run = capex.load_run("runs/first")

Importing the package loads nothing else; each name below is fetched when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capex.campaign.api import collect
    from capex.run import load_run

__all__ = ["collect", "load_run"]

_HOMES = {"collect": "capex.campaign.api", "load_run": "capex.run"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'capex' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
