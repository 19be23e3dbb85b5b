"""The rule about depth: metric, along the optical axis, and seen where the tip is."""

from __future__ import annotations

import numpy as np

from capex.errors import Unsupported
from capex.pose import Array
from capex.worlds import CameraSpec, DepthImage
from capex.worlds.contract import views
from capex.worlds.contract.trial import NotClaimedError, WorldTrial, cm, refuses, require
from capex.worlds.contract.views import LONGER_PX, TIP_DEPTH_M, view_of


def depth_is_metric(t: WorldTrial) -> str:
    """Depth is metres along the optical axis, agrees with the camera model, and finds the tip."""
    if not t.spec.depth:
        require(
            refuses(Unsupported, t.env.depth, t.spec.cameras[0].name),
            "depth() works but the spec says depth=False; it must raise Unsupported",
        )
        raise NotClaimedError("the world has no depth; depth() raises Unsupported")
    tracks: dict[str, views.Track] = {}
    best: dict[str, float] = {}  # by camera, over arms: one of two arms may be hidden
    t.begin()
    cameras = views.cameras_with_depth(t, t.spec.cameras)
    require(
        bool(cameras), "the spec says depth=True, but depth() raises Unsupported for each camera"
    )
    for arm in t.spec.arms:
        t.begin()
        mine = views.cameras_of(arm, cameras)
        for camera in mine:
            _require_metric(t, camera)
        tracks[arm.name], worst = [], dict[str, float]()
        for _ in views.hand_places(t, arm):
            tracks[arm.name].append(views.look_for_hand(t, arm.name, mine, views.distances))
            for camera in (c for c in mine if tracks[arm.name][-1][c.name].expected):
                seen = t.env.depth(camera.name, view_of(camera))
                error = _tip_error(seen, t.tip(arm.name).position_m)
                worst[camera.name] = max(worst.get(camera.name, 0.0), error)
        best |= {name: min(error, best.get(name, error)) for name, error in worst.items()}
    for name, error in best.items():
        off = f"{cm(error)} off; at most {cm(TIP_DEPTH_M)}"
        require(error <= TIP_DEPTH_M, f"{name}: depth near the projected tip is {off}")
    views.require_seen(cameras, tracks)
    summary = f"depth is metric in {len(cameras)} of {len(t.spec.cameras)} camera(s)"
    if len(cameras) == len(t.spec.cameras):
        summary = f"depth is metric in {len(cameras)} camera(s)"
    if not best:
        return summary
    seen_in = ", ".join(sorted(best))
    return f"{summary}; the tip is found within {cm(max(best.values()))} in {seen_in}"


def _require_metric(t: WorldTrial, of: CameraSpec) -> None:
    name, (width, height) = of.name, view_of(of)
    image, model = t.env.depth(name, (width, height)), t.env.camera_model(name, (width, height))
    depth_m, camera, shape = image.depth_m, image.camera, (height, width)
    given = f"{name}: depth is {depth_m.dtype} {depth_m.shape}"
    right = depth_m.dtype == np.float32 and depth_m.shape == shape
    require(right, f"{given}; it must be float32 {shape}")
    nothing = f"{name}: depth contains NaN; where nothing is seen it must be infinite"
    require(not np.isnan(depth_m).any(), nothing)
    smallest = f"{name}: the smallest depth is {depth_m.min()}; it must be positive"
    require(bool((depth_m > 0).all()), smallest)
    require(bool(np.isfinite(depth_m).any()), f"{name}: depth is infinite everywhere")
    same = np.allclose(camera.intrinsics, model.intrinsics)
    same &= np.allclose(camera.T_base_camera.position_m, model.T_base_camera.position_m)
    require(same, f"{name}: the camera of depth() differs from camera_model() at the same size")
    pixel = (0.3 * width, 0.7 * height, 1.5)
    u, v, z = model.project(model.unproject(*pixel))
    other = f"({u:.2f}, {v:.2f}) at {z:.3f} m"
    back = np.allclose((u, v, z), pixel, atol=1e-6)
    require(back, f"{name}: unprojecting and projecting a pixel gives another one, {other}")


def _tip_error(image: DepthImage, tip_m: Array) -> float:
    """The tip's depth against the likest depth near its pixel: fingers or palm may stand before
    the very point.
    """
    u, v, depth_m = image.camera.project(tip_m)
    reach = int(0.05 * LONGER_PX)
    rows, columns = (slice(max(0, int(x) - reach), int(x) + reach + 1) for x in (v, u))
    return float(np.abs(image.depth_m[rows, columns].astype(np.float64) - depth_m).min())
