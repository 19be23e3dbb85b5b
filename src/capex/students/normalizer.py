"""How raw numbers become network inputs and back: y = x * scale + offset per number, with the
statistics it came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError

Floats = npt.NDArray[np.float32]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation of RGB in 0..1
DEVIATION_MIN = (
    0.01  # a number that hardly varies is not blown up: neither its noise nor the network's error
)
RANGE_MIN = 1e-4
QUATERNION = ("qx", "qy", "qz", "qw")


@dataclass(frozen=True)
class Affine:
    """scale and offset of one feature, by number."""

    scale: Floats
    offset: Floats

    def apply(self, x: Floats) -> Floats:
        """Raw to normalised."""
        return np.asarray(x * self.scale + self.offset, dtype=np.float32)

    def invert(self, y: Floats) -> Floats:
        """Normalised to raw."""
        return np.asarray((y - self.offset) / self.scale, dtype=np.float32)

    def as_json(self) -> dict[str, list[float]]:
        """For policy.json."""
        return {"scale": [float(v) for v in self.scale], "offset": [float(v) for v in self.offset]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Affine:
        """From policy.json."""
        return cls(
            np.asarray(data["scale"], dtype=np.float32),
            np.asarray(data["offset"], dtype=np.float32),
        )


@dataclass(frozen=True)
class Normalizer:
    """What a policy does to images (per colour, values 0..255), state and action. Quaternions are
    turned to one side first: q and -q are the same rotation, and a network should see one of them.
    """

    image: Affine
    state: Affine
    action: Affine
    quaternion_at: int = -1  # where in the state a quaternion begins; -1: nowhere
    quaternion_side: tuple[float, ...] = ()
    statistics: Mapping[str, Any] | None = None

    def state_in(self, state: Floats) -> Floats:
        """Raw state (.., S) to network input."""
        return self.state.apply(self.one_sided(state))

    def one_sided(self, state: Floats) -> Floats:
        """The state with its quaternion on the side of `quaternion_side`."""
        if self.quaternion_at < 0:
            return state
        here = slice(self.quaternion_at, self.quaternion_at + 4)
        flipped = np.array(state, dtype=np.float32)
        side = flipped[..., here] @ np.asarray(self.quaternion_side, dtype=np.float32)
        flipped[..., here] *= np.where(side < 0, -1.0, 1.0)[..., None].astype(np.float32)
        return flipped

    def as_json(self) -> dict[str, Any]:
        """For policy.json."""
        return {
            "image": self.image.as_json(),
            "state": self.state.as_json(),
            "action": self.action.as_json(),
            "quaternion_at": self.quaternion_at,
            "quaternion_side": list(self.quaternion_side),
            "statistics": self.statistics,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Normalizer:
        """From policy.json."""
        return cls(
            Affine.from_json(data["image"]),
            Affine.from_json(data["state"]),
            Affine.from_json(data["action"]),
            int(data["quaternion_at"]),
            tuple(float(v) for v in data["quaternion_side"]),
            data.get("statistics"),
        )


def fit(
    kind: Literal["act", "diffusion"], states: Floats, actions: Floats, state_names: Sequence[str]
) -> Normalizer:
    """The normaliser of a policy from all training frames.

    ACT: mean and deviation for state and action, ImageNet's for images. Diffusion: images to -1..1,
    state to -1..1 by its range with quaternions as they are, actions as they are (they lie in -1..1
    already), as RoboCasa365 does.
    """
    at = _quaternion(state_names)
    side: tuple[float, ...] = ()
    if at >= 0:
        q = states[:, at : at + 4].astype(np.float64)
        # The direction along which most of them lie, either way.
        axis = np.linalg.eigh(q.T @ q)[1][:, -1]
        side = tuple(float(v) for v in axis * np.sign(axis[np.argmax(np.abs(axis))]))
    turned = Normalizer(
        _same(3), _same(states.shape[1]), _same(actions.shape[1]), at, side
    ).one_sided(states)
    statistics = {"state": _statistics(turned, state_names), "action": _statistics(actions, None)}
    if kind == "act":
        mean, deviation = (np.asarray(v, dtype=np.float32) for v in IMAGENET)
        image = Affine(
            (1 / (255 * deviation)).astype(np.float32), (-mean / deviation).astype(np.float32)
        )
        return Normalizer(image, _standard(turned), _standard(actions), at, side, statistics)
    state = _range(turned)
    if at >= 0:
        state.scale[at : at + 4], state.offset[at : at + 4] = 1.0, 0.0
    image = Affine(np.full(3, 2 / 255, dtype=np.float32), np.full(3, -1.0, dtype=np.float32))
    if np.abs(actions).max() > 1 + 1e-6:
        raise CapexError(
            f"actions reach {np.abs(actions).max():.3g}; Diffusion Policy takes native actions"
            " between -1 and 1"
        )
    return Normalizer(image, state, _same(actions.shape[1]), at, side, statistics)


def _quaternion(names: Sequence[str]) -> int:
    for at in range(len(names) - 3):
        if all(
            name.endswith(end) for name, end in zip(names[at : at + 4], QUATERNION, strict=True)
        ):
            return at
    return -1


def _same(size: int) -> Affine:
    return Affine(np.ones(size, dtype=np.float32), np.zeros(size, dtype=np.float32))


def _standard(x: Floats) -> Affine:
    mean = x.mean(axis=0, dtype=np.float64)
    deviation = np.maximum(x.std(axis=0, dtype=np.float64), DEVIATION_MIN)
    return Affine((1 / deviation).astype(np.float32), (-mean / deviation).astype(np.float32))


def _range(x: Floats) -> Affine:
    low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
    wide = high - low > RANGE_MIN
    scale = np.where(wide, 2 / np.where(wide, high - low, 1.0), 1.0)
    return Affine(
        scale.astype(np.float32), np.where(wide, -1 - low * scale, -low).astype(np.float32)
    )


def _statistics(x: Floats, names: Sequence[str] | None) -> dict[str, Any]:
    rows = {
        "mean": x.mean(axis=0, dtype=np.float64),
        "std": x.std(axis=0, dtype=np.float64),
        "min": x.min(axis=0),
        "max": x.max(axis=0),
    }
    return {
        **{k: [round(float(v), 6) for v in row] for k, row in rows.items()},
        **({"names": list(names)} if names else {}),
    }
