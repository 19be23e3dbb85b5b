"""The rule about depth: metric, along the optical axis, and seen where the tip is."""

from __future__ import annotations

import numpy as np

from capex.errors import Unsupported
from capex.pose import Array
from capex.worlds import CameraModel, DepthImage
from capex.worlds.contract.trial import BrokenRuleError, NotClaimedError, Trial, cm, require
from capex.worlds.contract.views import (
    TIP_DEPTH_M,
    VIEW,
    Look,
    distances,
    hand_places,
    look_for_hand,
    require_seen,
)


def depth_is_metric(t: Trial) -> str:
    """Depth is positive metres along the optical axis, agrees with the camera model, and finds the
    tip where it is.
    """
    if not t.spec.depth:
        try:
            t.env.depth(t.spec.cameras[0].name)
        except Unsupported:
            raise NotClaimedError("the world has no depth; depth() raises Unsupported") from None
        raise BrokenRuleError(
            "depth() works but the spec says depth=False; it must raise Unsupported"
        )
    tracks: dict[str, list[dict[str, Look]]] = {}
    best: dict[str, float] = {}  # by camera, over arms: one of two arms may be hidden
    for arm in t.spec.arms:
        t.begin()
        mine = [c for c in t.spec.cameras if c.kind == "exterior" or c.arm == arm.name]
        for camera in mine:
            _require_metric(
                camera.name, t.env.depth(camera.name, VIEW), t.env.camera_model(camera.name, VIEW)
            )
        tracks[arm.name], worst = [], dict[str, float]()
        for _ in hand_places(t, arm):
            tracks[arm.name].append(look_for_hand(t, arm.name, mine, distances))
            for name in (name for name, look in tracks[arm.name][-1].items() if look.expected):
                error = _tip_error(t.env.depth(name, VIEW), t.tip(arm.name).position_m)
                worst[name] = max(worst.get(name, 0.0), error)
        best |= {name: min(error, best.get(name, error)) for name, error in worst.items()}
    for name, error in best.items():
        require(
            error <= TIP_DEPTH_M,
            f"{name}: depth near the projected tip is {cm(error)} off; at most {cm(TIP_DEPTH_M)}",
        )
    require_seen(list(t.spec.cameras), tracks)
    found = (
        f"; the tip is found within {cm(max(best.values()))} in {', '.join(sorted(best))}"
        if best
        else ""
    )
    return f"depth is metric in {len(t.spec.cameras)} camera(s){found}"


def _require_metric(name: str, image: DepthImage, model: CameraModel) -> None:
    depth_m, shape = image.depth_m, (VIEW[1], VIEW[0])
    given = f"{depth_m.dtype} {depth_m.shape}"
    require(
        depth_m.dtype == np.float32 and depth_m.shape == shape,
        f"{name}: depth is {given}; it must be float32 {shape}",
    )
    require(
        not np.isnan(depth_m).any(),
        f"{name}: depth contains NaN; where nothing is seen it must be infinite",
    )
    require(
        bool((depth_m > 0).all()),
        f"{name}: the smallest depth is {depth_m.min()}; it must be positive",
    )
    require(bool(np.isfinite(depth_m).any()), f"{name}: depth is infinite everywhere")
    same = np.allclose(image.camera.intrinsics, model.intrinsics) and np.allclose(
        image.camera.T_base_camera.position_m, model.T_base_camera.position_m
    )
    require(same, f"{name}: the camera of depth() differs from camera_model() at the same size")
    u, v, z = model.project(model.unproject(0.3 * VIEW[0], 0.7 * VIEW[1], 1.5))
    back = np.allclose((u, v, z), (0.3 * VIEW[0], 0.7 * VIEW[1], 1.5), atol=1e-6)
    require(
        back,
        f"{name}: unprojecting and projecting a pixel gives another one, ({u:.2f}, {v:.2f}) at"
        f" {z:.3f} m",
    )


def _tip_error(image: DepthImage, tip_m: Array) -> float:
    """Difference between the tip's depth and the likest depth near its pixel: fingers or palm may
    stand before the very point.
    """
    u, v, depth_m = image.camera.project(tip_m)
    column, row, reach = int(u), int(v), int(0.05 * VIEW[0])
    patch = image.depth_m[
        max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1
    ].astype(np.float64)
    return float(np.abs(patch - depth_m).min())
