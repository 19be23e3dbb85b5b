"""How raw numbers become network inputs and back: y = x * scale + offset for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode
from capex.worlds.proprioception import quaternions

Floats = npt.NDArray[np.float32]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation of RGB in 0..1
# A number that hardly varies is not blown up: neither its noise nor the network's error.
DEVIATION_MIN = 0.01
RANGE_MIN = 1e-4


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
        return {"scale": self.scale.tolist(), "offset": self.offset.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Affine:
        """From policy.json."""
        return cls(*(np.asarray(data[k], dtype=np.float32) for k in ("scale", "offset")))


# Images of 0..255 to -1..1, as RoboCasa365 does.
SIGNED = Affine(np.full(3, 2 / 255, dtype=np.float32), np.full(3, -1.0, dtype=np.float32))


@dataclass(frozen=True)
class Quaternion:
    """Where in the state one begins, and the side that it is turned to."""

    at: int
    side: tuple[float, ...]


@dataclass(frozen=True)
class Normalizer:
    """What a policy does to images (per colour, values 0..255), state and action. Quaternions are
    turned to one side first: q and -q are the same rotation, and a network should see one of them.
    """

    image: Affine
    state: Affine
    action: Affine
    quaternions: tuple[Quaternion, ...] = ()
    statistics: Mapping[str, Any] | None = None

    def state_in(self, state: Floats) -> Floats:
        """Raw state (.., S) to network input."""
        return self.state.apply(self.one_sided(state))

    def one_sided(self, state: Floats) -> Floats:
        """The state with each quaternion on its side."""
        if not self.quaternions:
            return state
        flipped = np.array(state, dtype=np.float32)
        for q in self.quaternions:
            here = slice(q.at, q.at + 4)
            side = flipped[..., here] @ np.asarray(q.side, dtype=np.float32)
            flipped[..., here] *= np.where(side < 0, -1.0, 1.0)[..., None].astype(np.float32)
        return flipped

    def as_json(self) -> dict[str, Any]:
        """For policy.json."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["quaternions"] = [asdict(q) for q in self.quaternions]
        return {k: v.as_json() if isinstance(v, Affine) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Normalizer:
        """From policy.json; earlier ones have one quaternion, or none at -1."""
        image, state, action = (Affine.from_json(data[k]) for k in ("image", "state", "action"))
        rows = data.get("quaternions")
        if rows is None:
            rows = [{"at": data["quaternion_at"], "side": data["quaternion_side"]}]
        turned = tuple(
            Quaternion(int(q["at"]), tuple(float(v) for v in q["side"]))
            for q in rows
            if int(q["at"]) >= 0
        )
        return cls(image, state, action, turned, data.get("statistics"))


def fit(
    kind: Literal["act", "diffusion"], states: Floats, actions: Floats, state_names: Sequence[str]
) -> Normalizer:
    """The normaliser of a policy from all training frames.

    ACT: mean and deviation for state and action, ImageNet's for images. Diffusion: images to -1..1,
    state to -1..1 by its range with quaternions as they are, actions as they are (they lie in -1..1
    already), as RoboCasa365 does.
    """
    sides = tuple(Quaternion(at, _side(states[:, at : at + 4])) for at in quaternions(state_names))
    same_state, same_action = _same(states.shape[1]), _same(actions.shape[1])
    turned = Normalizer(SIGNED, same_state, same_action, sides).one_sided(states)
    statistics = {"state": _statistics(turned, state_names), "action": _statistics(actions, None)}
    if kind == "act":
        mean, deviation = (np.asarray(v, dtype=np.float32) for v in IMAGENET)
        scale, offset = 1 / (255 * deviation), -mean / deviation
        image = Affine(scale.astype(np.float32), offset.astype(np.float32))
        return Normalizer(image, _standard(turned), _standard(actions), sides, statistics)
    state = _range(turned)
    for q in sides:
        state.scale[q.at : q.at + 4], state.offset[q.at : q.at + 4] = 1.0, 0.0
    if np.abs(actions).max() > 1 + 1e-6:
        raise CapexError(
            f"actions reach {np.abs(actions).max():.3g}; Diffusion Policy takes native actions"
            " between -1 and 1",
            code=ErrorCode.MISMATCH,
        )
    return Normalizer(SIGNED, state, same_action, sides, statistics)


def _side(q: Floats) -> tuple[float, ...]:
    """The direction along which most of the quaternions (n, 4) lie, either way."""
    wide = q.astype(np.float64)
    axis = np.linalg.eigh(wide.T @ wide)[1][:, -1]
    return tuple(float(v) for v in axis * np.sign(axis[np.argmax(np.abs(axis))]))


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
    offset = np.where(wide, -1 - low * scale, -low)
    return Affine(scale.astype(np.float32), offset.astype(np.float32))


def _statistics(x: Floats, names: Sequence[str] | None) -> dict[str, Any]:
    mean, std = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    rows = {"mean": mean, "std": std, "min": x.min(axis=0), "max": x.max(axis=0)}
    rounded = {k: [round(float(v), 6) for v in row] for k, row in rows.items()}
    return {**rounded, **({"names": list(names)} if names else {})}
