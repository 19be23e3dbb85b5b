"""The rules of `check` about what cameras see: image shapes, the fingers where the tip projects.

The fingers are found by what moves when a gripper opens and closes: the median of the pixels that
changed. It must lie near the projected tip, and follow it when the tip rises and goes aside; so an
image that is flipped, mirrored or late is refused. A wrist camera carries its fingers along; where
there is depth, its view before a motion is also predicted from the view after it, and no flipped
reading may predict better.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capex.errors import UnknownName, Unsupported
from capex.pose import Array
from capex.worlds import ArmCommand, ArmSpec, CameraModel, CameraSpec, DepthImage, Image
from capex.worlds.contract.trial import NotClaimedError, WorldTrial, refuses, require

LONGER_PX = 256  # longer side of a view
OTHER_SIZE = (96, 64)
CHANGED = 24.0  # grey levels by which a pixel must change to count as moved
CHANGED_M = 0.02  # and metres
FEWEST_PIXELS = 8
STILL_M = 0.003
# Of the view's longer side; the fingers fill much of a wrist camera's image.
NEAR = {"exterior": 0.12, "wrist": 0.25}
# Base axis and metres: the tip rises, then goes left (or back, where the workspace ends).
MOVES = ((2, 0.07), (1, 0.07))
TIP_DEPTH_M = 0.06
# How an image may be read wrongly: the signs of the steps along its rows and columns.
FLIPS = {"as given": (1, 1), "upside down": (-1, 1), "mirrored": (1, -1), "half turned": (-1, -1)}
# What a view may say of its image, as the prompt passes it on.
LEFT_SIDE = re.compile(r"left (?:side )?of (?:its|the) image is ([+-])([xy])\b")
FLIPPED = "is the image flipped, mirrored or late?"

Point = tuple[float, float]
View = tuple[Image, DepthImage]


@dataclass(frozen=True)
class Look:
    """Where one camera should see a tip, and where it saw pixels move; None where it did not."""

    expected: Point | None
    found: Point | None  # near the expected point
    anywhere: Point | None


Track = list[dict[str, Look]]  # by camera, at one place of the hand after the other


def view_of(camera: CameraSpec) -> tuple[int, int]:
    """Width and height of a camera's views: its own shape."""
    width, height = (max(1, round(LONGER_PX * side / max(camera.size))) for side in camera.size)
    return width, height


def images_have_the_asked_shape(t: WorldTrial) -> str:
    """Every camera gives uint8 images at its own and another size; an unknown one is refused."""
    t.begin()
    names = [c.name for c in t.spec.cameras]
    images = t.env.observe()
    listed = f"observe() gave {sorted(images)}; the spec lists {sorted(names)}"
    require(sorted(images) == sorted(names), listed)
    for camera in t.spec.cameras:
        _require_image(camera.name, images[camera.name], camera.size)
        one = t.env.observe([camera.name], OTHER_SIZE)
        require(list(one) == [camera.name], f"observe(['{camera.name}']) gave {list(one)}")
        _require_image(camera.name, one[camera.name], OTHER_SIZE)
    before = {name: image.copy() for name, image in images.items()}
    t.grip(t.spec.arms[0].name, 1.0)
    t.env.observe()
    changed = [name for name in names if not np.array_equal(before[name], images[name])]
    earlier = f"observing again changed the earlier images of {', '.join(changed)}"
    require(not changed, f"{earlier}; each call must give new arrays")
    refused = refuses(UnknownName, t.env.observe, ["no such camera"])
    require(refused, "observe accepted an unknown camera; it must raise UnknownName")
    return f"{len(names)} camera(s) give new images of the asked size; an unknown one is refused"


def _require_image(name: str, image: Image, size: tuple[int, int]) -> None:
    shape = (size[1], size[0], 3)
    given = f"{name} gave {image.dtype} {image.shape} for width {size[0]}, height {size[1]}"
    require(image.dtype == np.uint8 and image.shape == shape, f"{given}; it must be uint8 {shape}")
    darkest, brightest = int(image.min()), int(image.max())
    require(brightest > darkest, f"{name} gave an image of one colour, {darkest}")


def tip_lands_on_the_fingers(t: WorldTrial) -> str:
    """In every calibrated camera the fingers are seen where the tip projects, and move with it."""
    t.begin()
    all_cameras = t.spec.cameras
    cameras = [c for c in all_cameras if not refuses(Unsupported, t.env.camera_model, c.name)]
    if not cameras:
        raise NotClaimedError("no camera is calibrated; camera_model() raises Unsupported for each")
    for camera in cameras:
        t.begin()
        _require_upright_model(t, camera)
    tracks: dict[str, Track] = {}
    for arm in t.spec.arms:
        mine = cameras_of(arm, cameras)
        t.begin()
        before = _wrist_views(t, mine)
        tracks[arm.name] = [look_for_hand(t, arm.name, mine, _colours) for _ in hand_places(t, arm)]
        _turn_hand(t, arm)
        after = _wrist_views(t, mine)
        for name in before:
            _require_no_better_flip(name, before[name], after[name])
    require_seen(cameras, tracks)
    others = [c.name for c in all_cameras if c not in cameras]
    note = f"; not calibrated: {', '.join(others)}" if others else ""
    return f"the fingers move where the tip projects in {', '.join(c.name for c in cameras)}{note}"


def cameras_of(arm: ArmSpec, cameras: Sequence[CameraSpec]) -> list[CameraSpec]:
    """The cameras that may see an arm's hand: those outside, and its own."""
    return [c for c in cameras if c.kind == "exterior" or c.arm == arm.name]


def cameras_with_depth(t: WorldTrial, cameras: Sequence[CameraSpec]) -> list[CameraSpec]:
    """Those whose depth() works; a robot may have it in some of its cameras only."""
    if not t.spec.depth:
        return []
    return [c for c in cameras if not refuses(Unsupported, t.env.depth, c.name)]


def _require_upright_model(t: WorldTrial, camera: CameraSpec) -> None:
    """Focal lengths grow with the image, the rotation is proper; for a camera outside, up is up,
    and it looks as its view says.
    """
    width, height = view_of(camera)
    model, doubled = (t.env.camera_model(camera.name, (s * width, s * height)) for s in (1, 2))
    K, R, name = model.intrinsics, model.T_base_camera.rotation, camera.name
    fx, fy, cx, cy = (float(k) for k in (K[0, 0], K[1, 1], K[0, 2], K[1, 2]))
    lengths = f"{name}: focal lengths are {fx:.1f} and {fy:.1f}; both must be positive"
    require(fx > 0 and fy > 0, lengths)
    centred = 0 < cx < width and 0 < cy < height
    require(centred, f"{name}: the principal point ({cx:.1f}, {cy:.1f}) lies outside the image")
    grows = np.allclose(doubled.intrinsics[:2], 2 * K[:2], rtol=1e-3)
    require(grows, f"{name}: the intrinsics do not grow with the image size")
    proper = bool(np.allclose(R.T @ R, np.eye(3), atol=1e-6) and np.linalg.det(R) > 0)
    rotation = f"{name}: T_base_camera.rotation is not a rotation (orthonormal, determinant +1)"
    require(proper, rotation)
    if camera.kind == "exterior":
        down = np.round(R[:, 1], 2).tolist()
        axis = f"{name}: the image's down axis is {down} in the base frame"
        require(R[2, 1] < 0.2, f"{axis}; world up must be image up")
        _require_true_view(camera, model)


def _require_true_view(camera: CameraSpec, model: CameraModel) -> None:
    """What the prompt will say of the left side of a camera's image is what its model says."""
    said = LEFT_SIDE.search(camera.view)
    if camera.view and said is None:
        return
    sign, letter = said.groups() if said else ("+", "y")
    left = -model.T_base_camera.rotation[:, 0]
    towards = float(left["xy".index(letter)]) * (1 if sign == "+" else -1)
    told = f"view says that the left side of its image is {sign}{letter}"
    if not camera.view:
        told = "view is empty, which says that it looks along +x and that +y goes left"
    seen = f"by its camera_model() it {looking(model)}"
    require(towards > 0.0, f"{camera.name}: its {told}; {seen}")


def looking(model: CameraModel) -> str:
    """Where a camera looks and how its image lies, as words for `CameraSpec.view`."""
    R = model.T_base_camera.rotation
    ahead, left = (_main_axis(v) for v in (R[:, 2], -R[:, 0]))
    towards = "down" if ahead == "-z" else "up" if ahead == "+z" else f"roughly along {ahead}"
    return f"looks {towards}, so the left side of its image is {left}"


def _main_axis(direction: Array) -> str:
    axis = int(np.argmax(np.abs(direction)))
    return f"{'+' if direction[axis] > 0 else '-'}{'xyz'[axis]}"


def hand_places(t: WorldTrial, arm: ArmSpec) -> Iterator[None]:
    """Take the tip to where it is, then along each move, towards the middle of the workspace."""
    yield
    for axis, distance_m in MOVES:
        t.move(arm, t.room(arm.name, axis) * distance_m * np.eye(3)[axis])
        yield


def _colours(t: WorldTrial, camera: CameraSpec) -> Array:
    return t.env.observe([camera.name], view_of(camera))[camera.name] / CHANGED


def distances(t: WorldTrial, camera: CameraSpec) -> Array:
    """A camera's depth in units of a change that counts."""
    depth_m = t.env.depth(camera.name, view_of(camera)).depth_m
    return np.minimum(depth_m, 10.0)[..., None] / CHANGED_M


def look_for_hand(
    t: WorldTrial,
    arm: str,
    cameras: list[CameraSpec],
    see: Callable[[WorldTrial, CameraSpec], Array],
) -> dict[str, Look]:
    """Close, open, close the gripper: the fingers are where `see` changes by more than 1 and back.

    What changes and does not come back, such as a door that swings, is not theirs; where the hand
    was pushed meanwhile, nothing is found. The gripper stays closed.
    """
    views, tips = [], []
    for gripper in (1.0, -1.0, 1.0):
        t.grip(arm, gripper)
        views.append({c.name: see(t, c) for c in cameras})
        tips.append(t.tip(arm).position_m)
    still = max(float(np.linalg.norm(tip - tips[0])) for tip in tips) < STILL_M
    looks = {}
    for camera in cameras:
        closed, opened, again = (view[camera.name] for view in views)
        went, stayed = (np.abs(other - closed).max(axis=2) for other in (opened, again))
        v, u = np.nonzero((went > 1.0) & (stayed < 0.5) & still)
        moved = np.stack([u, v], axis=1) + 0.5
        view = view_of(camera)
        expected = _inside(t.env.camera_model(camera.name, view), view, tips[-1])
        reach = NEAR[camera.kind] * LONGER_PX if expected else -1.0
        near = np.linalg.norm(moved - np.array(expected or (0.0, 0.0)), axis=1) <= reach
        looks[camera.name] = Look(expected, _middle(moved[near]), _middle(moved))
    return looks


def _inside(model: CameraModel, view: tuple[int, int], point_m: Array) -> Point | None:
    u, v, depth = model.project(point_m)
    return (u, v) if depth > 0 and 0 <= u < view[0] and 0 <= v < view[1] else None


def _middle(pixels: npt.NDArray[np.floating]) -> Point | None:
    """Median of pixels (n,2), to which shadows and reflections add little; None for a few."""
    if len(pixels) < FEWEST_PIXELS:
        return None
    u, v = np.median(pixels, axis=0)
    return float(u), float(v)


def require_seen(cameras: Sequence[CameraSpec], tracks: dict[str, Track]) -> None:
    """Fingers that are found follow the tip, and every camera that can finds those of an arm."""
    for camera in cameras:
        misses = []
        for arm, looks in tracks.items():
            if camera.kind == "exterior" or camera.arm == arm:
                track = [look[camera.name] for look in looks]
                _require_following(camera, arm, track)
                misses.append(_miss(camera, arm, track))
        require("" in misses, f"{camera.name}: {misses[0]}")


def _miss(camera: CameraSpec, arm: str, track: list[Look]) -> str:
    """Empty where the fingers were found (from outside: twice in a row, so that they were seen to
    follow), or what was instead.
    """
    enough = 2 if camera.kind == "exterior" else 1
    runs = zip(*(track[i:] for i in range(enough)), strict=False)
    if any(all(look.found for look in run) for run in runs):
        return ""
    lost = [look for look in track if look.expected and not look.found]
    astray = next((look for look in lost if look.anywhere), None)
    if astray and astray.expected and astray.anywhere:
        width, height = view_of(camera)
        near = f"near {_px(astray.expected)} of {width}x{height}, where its tip projects"
        where = f"{near}, but at {_px(astray.anywhere)}"
        return f"the fingers of {arm} did not move {where}; {FLIPPED}"
    if camera.kind == "wrist":
        return ""  # the hand, or what it holds, may hide the fingers from its own camera
    return (
        f"the fingers of {arm} were not seen to move"
        if lost
        else f"the tip of {arm} is out of view"
    )


def _require_following(camera: CameraSpec, arm: str, track: list[Look]) -> None:
    for a, b in itertools.pairwise(track):
        if not (a.expected and b.expected and a.found and b.found):
            continue
        expected, found = np.subtract(b.expected, a.expected), np.subtract(b.found, a.found)
        size = float(np.linalg.norm(expected))
        # The camera rides along, or looks along this motion.
        if camera.kind == "wrist" or size < 6.0:
            continue
        agree = float(found @ expected) / (size * max(float(np.linalg.norm(found)), 1e-9))
        ratio = float(np.linalg.norm(found)) / size
        tip = f"its projected tip went by {_px(expected)} (right, down)"
        moved = f"{camera.name}: the fingers of {arm} went by {_px(found)} where {tip}"
        require(agree > 0.8 and 0.5 < ratio < 2.0, f"{moved}; {FLIPPED}")


def _turn_hand(t: WorldTrial, arm: ArmSpec) -> None:
    step = ArmCommand(step_m=(0.0, 0.0, 0.0), step_rad=(0.0, 0.0, min(arm.max_step_rad, 0.05)))
    t.run([t.command(arm.name, step)] * 6)
    t.hold(0.25)


def _wrist_views(t: WorldTrial, cameras: list[CameraSpec]) -> dict[str, View]:
    wrist = [c for c in cameras_with_depth(t, cameras) if c.kind == "wrist"]
    return {
        c.name: (t.env.observe([c.name], view_of(c))[c.name], t.env.depth(c.name, view_of(c)))
        for c in wrist
    }


def _require_no_better_flip(name: str, before: View, after: View) -> None:
    """Predict the view before from the view after by its depth; reading colours or depth flipped
    must not explain more pixels.
    """
    explained = {}
    for reading in itertools.product(FLIPS, FLIPS):
        colour, depth = (FLIPS[word] for word in reading)
        views = (_flipped(view, colour, depth) for view in (before, after))
        explained[reading] = _explained(*views)
    given = explained["as given", "as given"]
    best = max(explained, key=lambda reading: explained[reading])
    shares = f"{100 * explained[best]:.0f}% of its pixels, not {100 * given:.0f}%"
    how = f"the image is read {best[0]} and the depth {best[1]}"
    # Little is explained while the scene itself moves.
    fine = explained[best] < 0.25 or given >= 0.9 * explained[best] - 0.01
    require(fine, f"{name}: the motion of the hand explains {shares}, when {how}")


def _flipped(view: View, colour: tuple[int, int], depth: tuple[int, int]) -> View:
    image, seen = view
    flipped = DepthImage(seen.depth_m[:: depth[0], :: depth[1]], seen.camera)
    return image[:: colour[0], :: colour[1]], flipped


def _explained(before: View, after: View) -> float:
    """Share of a grid of pixels after a motion whose points were seen before it as predicted."""
    (old_image, old), (new_image, new) = before, after
    height, width = new.depth_m.shape
    v, u = (g.ravel() for g in np.mgrid[2:height:4, 2:width:4])
    z = new.depth_m[v, u].astype(np.float64)
    rays = np.linalg.inv(new.camera.intrinsics) @ np.stack([u + 0.5, v + 0.5, np.ones(len(z))])
    points = new.camera.T_base_camera.apply(rays * np.where(np.isfinite(z), z, -1.0))
    x, y, predicted_m = old.camera.intrinsics @ old.camera.T_base_camera.inverse().apply(points)
    ahead = np.maximum(predicted_m, 1e-6)
    column, row = np.floor(x / ahead), np.floor(y / ahead)
    inside = np.isfinite(z) & (predicted_m > 0)
    inside &= (column >= 0) & (column < width) & (row >= 0) & (row < height)
    i, j = row[inside].astype(int), column[inside].astype(int)
    old_colours = old_image[i, j].astype(np.float64)
    colour_off = np.abs(old_colours - new_image[v[inside], u[inside]]).max(axis=1)
    depth_off = np.abs(old.depth_m[i, j] - predicted_m[inside])
    return float(np.count_nonzero((colour_off < CHANGED) & (depth_off < CHANGED_M))) / len(z)


def _px(point: Point | npt.NDArray[np.floating]) -> str:
    return f"({point[0]:.0f}, {point[1]:.0f}) px"
