"""Opens a rig: the process that owns its arms, its cameras, and the clock that they run on."""

from __future__ import annotations

from capex.errors import RigFault
from capex.worlds.rigs.registry import OpenRig
from capex.worlds.rigs.rigfile import RigFile


def open_rig(rig: RigFile) -> OpenRig:
    """Connect everything that a rig file names."""
    raise RigFault(f"the rig {rig.name} cannot be opened yet")
