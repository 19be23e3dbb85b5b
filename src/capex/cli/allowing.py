"""The two flags that let a command over somebody's runs use worlds of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import UseAppendAction, arg

from capex import trust


@dataclass(frozen=True)
class Allowed:
    """What may be loaded besides the built-in worlds."""

    allow_module: Annotated[
        tuple[str, ...], UseAppendAction, arg(metavar="NAME", help_behavior_hint="")
    ] = ()
    """Let this module be imported where a run names it as its world; give it again for another
    (default: built-in worlds only)."""
    rig: Annotated[
        tuple[Path, ...], UseAppendAction, arg(metavar="FILE", help_behavior_hint="")
    ] = ()
    """Let this rig file be used where a run names it; give it again for another (default: none)."""


def permit(command: Any) -> None:
    """Permit what a command was given with these flags."""
    allowed = getattr(command, "allowed", None)
    if isinstance(allowed, Allowed):
        trust.allow(allowed.allow_module, allowed.rig)
