"""What a command may ask for: refusals that name the field, for every world alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from capex.errors import BadCommand
from capex.worlds import Command, Spec


def validate_command(spec: Spec, command: Command) -> None:
    """Refuse a command that is not finite, misshapen or too large; the message names the field."""
    limits = {arm.name: arm for arm in spec.arms}
    if set(command.arms) != set(limits):
        given = f"arms: {sorted(command.arms)} given"
        raise BadCommand(f"{given}; this world needs exactly {sorted(limits)}")
    for name, arm in command.arms.items():
        if arm.step_m is not None:
            _require_vector(f"arms['{name}'].step_m", arm.step_m, limits[name].max_step_m)
        _require_vector(f"arms['{name}'].step_rad", arm.step_rad, limits[name].max_step_rad)
        if not -1.0 <= arm.gripper <= 1.0:  # also false for NaN
            given = f"arms['{name}'].gripper is {arm.gripper}"
            raise BadCommand(f"{given}; it must lie between -1 (open) and 1 (close)")
    velocity, base = command.base_velocity, spec.base
    if velocity is not None:
        if base is None:
            raise BadCommand("base_velocity: this robot has no mobile base; leave it None")
        _require_vector("base_velocity[:2]", velocity[:2], base.max_speed_m_s, length=2)
        _require_vector("base_velocity[2:]", velocity[2:], base.max_yaw_rate_rad_s, length=1)


def _require_vector(field_name: str, value: Sequence[float], limit: float, length: int = 3) -> None:
    # what the executor sends, twenty times a second; everything else is looked at closely
    floats = type(value) is tuple and len(value) == length and all(type(v) is float for v in value)
    if floats and math.hypot(*value) <= limit:
        return
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadCommand(f"{field_name} is {value!r}; it must be {length} numbers") from None
    if vector.shape != (length,):
        raise BadCommand(f"{field_name} has shape {vector.shape}; it must have shape ({length},)")
    if not np.all(np.isfinite(vector)):
        raise BadCommand(f"{field_name} is {vector.tolist()}; every number must be finite")
    size = float(np.sqrt((vector * vector).sum()))
    if size > limit * (1 + 1e-9):
        raise BadCommand(f"{field_name} has length {size:.4g}; at most {limit:g} is allowed")
