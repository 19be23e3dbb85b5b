"""The expert's motions in a RoboCasa kitchen: stand before something, push a part along its joint,
pull one by its handle, take a thing and set it down. All in the robot's base frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from capex.plan import BaseMotion, Orientation, Steps, at, ceiling, down, line, path, raised
from capex.pose import Array, euler_to_matrix, matrix_to_euler, rotation_matrix
from capex.worlds.robocasa.privileged import Box, Kitchen, Part

UP: Array = np.array([0.0, 0.0, 1.0])
FINGERS_HALF_M: Array = np.array([0.011, 0.019, 0.0125])  # of the closed fingers, in the tip frame
GAP_M, PRESS_M = 0.022, 0.02  # before the fingers touch; behind the surface, to make a force
TOUCHING_M = 0.03  # nearer than this to where they touch, the fingers go on pushing
LINE_UP_TRIES = 4  # then the arm tries from where the robot stands
LEG_M, TURN_RAD = 0.58, 1.5  # of one drive: just under the limits of a base motion
# How far ahead a handle is taken, and the nearest to which the arm draws it: a low hand that points
# ahead meets the end of its wrist's range sooner.
TAKEN_M, NEAREST_M = 0.60, 0.36
TAKEN_LOW_M, NEAREST_LOW_M = 0.70, 0.56
HOVER_M, LIFT_M = 0.10, 0.14  # over a grasp before it, and after it
# So near to a grasp, where something is in the way, the fingers close as they are.
NEARLY_M, HANDLE_NEARLY_M = 0.022, 0.03
TALL_M, BELOW_TOP_M = 0.035, 0.018  # a taller half is taken so far below its top
REACH_M, COMFORT_M = 0.66, 0.52  # what is farther is come near to, until it is so far ahead
SHOULDER_M = 0.333  # of the Panda, above its mount
SLANT_RAD = 0.6  # of a hand that takes from the front and above
# By height, how near to the mount the tip of a hand that points level gets.
NEAREST_LEVEL_M = ((0.30, 0.60), (0.50, 0.38))
LOW_M = 0.18  # a hand comes down to a lower place from above
# By height, by how much the fingertips are lowered: a low hand cannot point level.
LOWERED_RAD = ((0.10, 0.30, 0.60), (0.8, 0.6, 0.0))


@dataclass(frozen=True)
class Grip:
    """Where and how a handle is taken, and the direction from which the hand comes to it."""

    place: Array
    orientation: Orientation
    way: Array


def facing_matrix(into: Array, closing: Array | None = None) -> Array:
    """A hand that points along a horizontal direction; its fingers close across, or as given."""
    y = np.cross(into, UP) if closing is None else closing
    return np.stack([np.cross(y, into), y, into], axis=1)


def facing(
    into: Array, closing: Array | None = None, lowered: float = 0.0
) -> tuple[float, float, float]:
    """The Euler angles of such a hand, its fingertips lowered by an angle."""
    across = np.asarray(np.cross(UP, into), dtype=np.float64)
    return matrix_to_euler(rotation_matrix(lowered * across) @ facing_matrix(into, closing))


def lowered_at(point: Array) -> float:
    """By how much the fingertips of a forward hand are lowered at a place."""
    return float(np.interp(point[2], *LOWERED_RAD))


def approach(tip: Array, before: Array, into: Array) -> list[Array]:
    """Across to a place before something, and onto it: no nearer to the robot than a hand that
    points forward comes at that height, and down to a low place last.
    """
    nearest = float(np.interp(before[2], *NEAREST_LEVEL_M))
    near = min(float(before @ into), max(float(tip @ into), nearest))
    first, beside = (p + (near - float(p @ into)) * into for p in (tip, before))
    if before[2] > LOW_M:
        return [first, beside, before]
    above = np.array([before[0], before[1], max(float(tip[2]), 0.45)])
    return [np.array([first[0], first[1], above[2]]), above, before]


def over(tip: Array, above: Array, clear_m: float = -1.0) -> list[Array]:
    """Up, then across to a place above something; level and at least so high, where asked."""
    height = max(float(tip[2]), min(max(float(above[2]), clear_m), ceiling(tip)))
    up = np.array([tip[0], tip[1], height])
    if clear_m < 0:
        return [up, above]
    level = max(float(above[2]), min(height, ceiling(above)))
    return [up, np.array([above[0], above[1], level]), above]


def drive(forward_m: float, left_m: float, turn_rad: float) -> BaseMotion:
    """One leg of a drive, shortened to what one base motion may be."""
    shrink = min(1.0, LEG_M / max(math.hypot(forward_m, left_m), 1e-9))
    turn = max(-TURN_RAD, min(TURN_RAD, turn_rad))
    return BaseMotion(float(shrink * forward_m), float(shrink * left_m), float(turn))


def line_up(
    point: Array, into: Array, ahead_m: float, decision: int, aside_m: float = 0.12
) -> list[BaseMotion]:
    """A drive that brings a point ahead of the robot, which then faces along a direction; nothing
    when it stands well enough or has tried often enough.
    """
    left = np.cross(UP, into)
    forward, across = float(point @ into) - ahead_m, float(point @ left)
    across = math.copysign(max(0.0, abs(across) - aside_m), across)
    turn = math.atan2(into[1], into[0])
    near = -0.06 <= forward <= 0.05 and abs(across) < 0.03 and abs(turn) < 0.12
    if near or decision >= LINE_UP_TRIES:
        return []
    x, y, _ = forward * into + across * left
    return [drive(float(x), float(y), turn)]


def touching(k: Kitchen, part: Part, point: Array, goal: float, orientation: Orientation) -> bool:
    """Whether the fingers already are where they push a point of a part."""
    way = part.way(point, goal)
    return float(np.linalg.norm(k.tip - (point - _extent(orientation, way) * way))) < TOUCHING_M


def push(
    k: Kitchen,
    part: Part,
    point: Array,
    goal: float,
    orientation: Orientation,
    *,
    gap_m: float = GAP_M,
    press_m: float = PRESS_M,
) -> Steps:
    """Push a point on a part's surface until the part is opened as far as the goal, with closed
    fingers that keep their orientation.
    """
    way = part.way(point, goal)
    pushed = []
    for opening in part.openings(point, goal):
        there = part.turned(np.eye(3), opening) @ way
        pushed.append(part.at(point, opening) - (_extent(orientation, there) - press_m) * there)
    if touching(k, part, point, goal, orientation):
        return path(k.tip, pushed, orientation)
    begin = point - (_extent(orientation, way) + gap_m) * way
    pointing = _matrix(orientation)[:, 2]
    level = pointing * (1, 1, 0) if abs(pointing[2]) < 0.7 else pointing
    before = begin - 0.12 * level / float(np.linalg.norm(level))
    onto = over(k.tip, before) if abs(pointing[2]) >= 0.7 else approach(k.tip, before, level)
    first = line(k.tip, onto[0], orientation, "close" if k.fingers_open else "keep")
    return [*first, *path(onto[0], [*onto[1:], begin, *pushed], orientation)]


def _matrix(orientation: Orientation) -> Array:
    assert not isinstance(orientation, str)
    return euler_to_matrix(orientation)


def _extent(orientation: Orientation, way: Array) -> float:
    """How far the closed fingers extend from the tip along a direction."""
    return float(np.abs(_matrix(orientation).T @ way) @ FINGERS_HALF_M)


def handle_of(k: Kitchen, part: Part, into: Array) -> Grip:
    """A part's handle: what stands out farthest in front of it, taken across its longer side."""
    face = part.turned(np.eye(3), 0.0).T @ into  # the way into it, as the part is turned now
    bar = min(k.boxes(part.body), key=lambda box: float(box.centre @ face) - box.reach(face))
    upright = bar.reach(UP) > float(np.max(bar.half_m)) * 0.7
    # Of the two ways to turn the hand for a level bar, this one is nearer to how it hangs.
    hand = facing(into, None if upright else -UP, lowered_at(bar.centre))
    return Grip(bar.centre, hand, _matrix(hand)[:, 2])


def pull(k: Kitchen, part: Part, grip: Grip, into: Array, goal: float, decision: int) -> Steps:
    """Take a handle and draw the part open with the arm; where the arm ends, with the base."""
    low = grip.place[2] < LOW_M
    if k.holds(part.body):
        stops = [part.at(grip.place, o) for o in part.openings(grip.place, goal)]
        nearest = NEAREST_LOW_M if low else NEAREST_M
        near = [p for p in stops if float(p @ into) >= nearest]
        if near and float((k.tip - near[-1]) @ into) > 0.02:
            return path(k.tip, near, grip.orientation)
        # A door is followed a little at a time: the base has less room than the arm.
        x, y, _ = part.at(grip.place, min(goal, part.opening + 0.5)) - grip.place
        return [drive(float(x), float(y), 0.0)]
    if drive_there := line_up(grip.place, into, TAKEN_LOW_M if low else TAKEN_M, decision):
        return drive_there
    if k.fingers_open and float(np.linalg.norm(k.tip - grip.place)) < HANDLE_NEARLY_M:
        a_little = part.at(grip.place, min(goal, part.opening + 0.05)) - grip.place
        return [at(k.tip, "keep", "close"), at(k.tip + a_little)]
    # Below a worktop that stands out over it, a handle is come to from farther before it.
    before = grip.place - 0.09 * grip.way - (0.06 * into if low else 0.0)
    from_above = grip.way[2] < -0.9
    onto = over(k.tip, before) if from_above else approach(k.tip, before, into)
    way = [at(onto[0], grip.orientation, "open"), *path(onto[0], onto[1:], grip.orientation)]
    first = part.at(grip.place, min(goal, part.opening + 0.08))
    take = line(before, grip.place, grip.orientation, "close")
    return [*way, *take, at(first, grip.orientation)]


def pick_place(
    k: Kitchen,
    body: str,
    place: Array,
    decision: int,
    *,
    grip: Box | None = None,
    over_m: float = -1.0,
    into: Array | None = None,
) -> Steps:
    """Take a thing across its thinner side and set its underside on a place: from above, or, with
    `into`, from the front and above.
    """
    low, high = k.extent(body)
    thing = (low + high) / 2
    if k.holds(body):
        return _come_near(place) or _carry(k.tip, thing, float(low[2]), place, over_m)
    if float(np.hypot(*(thing - place)[:2])) < 0.06 and low[2] < place[2] + 0.05:
        return _retreat(k.tip)
    if decision < LINE_UP_TRIES and (far := _come_near(thing)):
        return far
    if into is not None:
        return _take_slanting(k, np.array([thing[0], thing[1], high[2]]), into)
    box = grip or max(k.boxes(body), key=lambda b: float(np.prod(b.half_m)))
    clear_m = over_m + 0.06 if grip is not None else -1.0
    return _take_from_above(k, box, 0.3 * (decision // 4), clear_m)


def thinner_side(box: Box) -> Array:
    """The horizontal axis along which a box is thinner: the fingers close along it."""
    sides = [n for n in range(3) if abs(float(box.pose.rotation[2, n])) <= 0.6]
    thinner = min(sides, key=lambda n: float(box.half_m[n]))
    return np.asarray(box.pose.rotation[:, thinner])


def _take_from_above(k: Kitchen, box: Box, turn: float, clear_m: float) -> Steps:
    """Open above a box, come down on it, close and lift."""
    axis = thinner_side(box)
    orientation = down(math.atan2(axis[1], axis[0]) - math.pi / 2 + turn)
    half = box.reach(UP)
    # The fingers end 1.25 cm below the tip, and must not stand on what the thing lies on.
    rise = half - BELOW_TOP_M if half > TALL_M else max(-0.002, 0.0185 - half)
    take = box.centre + rise * UP
    if k.fingers_open and float(np.linalg.norm(k.tip - take)) < NEARLY_M:
        return [at(k.tip, "keep", "close"), *line(k.tip, raised(k.tip, LIFT_M))]
    hover = raised(take, HOVER_M)
    onto = over(k.tip, hover, clear_m)
    way = [at(onto[0], orientation, "open"), *path(onto[0], onto[1:], orientation)]
    return [*way, *line(hover, take, orientation, "close"), *line(take, raised(take, LIFT_M))]


def _take_slanting(k: Kitchen, top: Array, into: Array) -> Steps:
    """Take what stands upright by its top, the hand pointing into the front and down."""
    hand = facing(into, lowered=SLANT_RAD)
    pointing = _matrix(hand)[:, 2]
    take = top - 0.02 * UP - 0.015 * into
    onto = approach(k.tip, take - 0.12 * pointing, into)
    way = [at(onto[0], hand, "open"), *path(onto[0], onto[1:], hand)]
    lift = take + 0.10 * UP - 0.05 * into
    return [*way, *line(onto[-1], take, hand, "close"), *line(take, lift, hand)]


def _come_near(point: Array) -> list[BaseMotion]:
    """A drive that brings a far place, or one too near or too far aside, into reach."""
    far = math.hypot(point[0], point[1])
    forward = float(point[0]) - COMFORT_M if far > REACH_M or point[0] < 0.30 else 0.0
    across = math.copysign(max(0.0, abs(float(point[1])) - 0.25), float(point[1]))
    if abs(forward) < 0.03 and abs(across) < 0.03:
        return []
    return [drive(min(forward, 0.12), across, 0.0)]


def _carry(tip: Array, thing: Array, bottom: float, place: Array, over_m: float) -> Steps:
    """Bring what is held over a place, lower it, let go and retreat."""
    hang = tip - np.array([thing[0], thing[1], bottom])
    target = place + hang + np.array([0.0, 0.0, 0.012])
    high = max(over_m, float(place[2])) + hang[2] + 0.05
    height = max(float(tip[2]), min(high, ceiling(target)))
    up, above = np.array([tip[0], tip[1], height]), np.array([target[0], target[1], height])
    above[2] = min(height, max(ceiling(above), target[2]))
    return [*path(tip, [up, above]), *line(above, target, "keep", "release"), *_retreat(target)]


def _retreat(tip: Array) -> Steps:
    """Up, then back towards the robot: over 25 cm away from what was let go."""
    up = raised(tip, 0.14)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.6, 0.0])
    back[2] = max(up[2], min(up[2] + 0.14, ceiling(back)))
    return path(tip, [up, back])


def shelve(k: Kitchen, body: str, place: Array, into: Array, decision: int) -> Steps:
    """Take a standing thing from the front and set it down on a place, the hand pointing ahead."""
    low, high = k.extent(body)
    bottom = np.array([*((low + high) / 2)[:2], low[2]])
    hand = facing(into, lowered=SLANT_RAD)
    if k.holds(body):
        return _set_down(k, place + (k.tip - bottom), into, hand)
    if float(np.hypot(*(bottom - place)[:2])) < 0.05 and abs(bottom[2] - place[2]) < 0.08:
        return line(k.tip, k.tip - 0.12 * into, hand)
    if drive_there := line_up(bottom, into, 0.52, decision):
        return drive_there
    tall = float(high[2] - low[2])
    take = bottom + min(max(0.6 * tall, 0.05), 0.10) * UP
    onto = approach(k.tip, take - 0.11 * _matrix(hand)[:, 2], into)
    way = [at(onto[0], hand, "open"), *path(onto[0], onto[1:], hand)]
    return [*way, *line(onto[-1], take, hand, "close"), *line(take, take + 0.06 * UP, hand)]


def _set_down(k: Kitchen, target: Array, into: Array, hand: Orientation) -> Steps:
    """Bring what is held before its place, by the base if the arm is short; in, down, away."""
    tip = k.tip
    height = max(float(tip[2]), float(target[2]) + 0.035)
    across = target - tip - into * float((target - tip) @ into)
    across[2] = 0.0
    if float(np.linalg.norm(across)) > 0.03 or tip[2] < target[2] + 0.02:
        up = np.array([tip[0], tip[1], height])
        return path(tip, [up, up + across], hand)
    far = float(target @ into)
    # A shelf is reached less far in than a counter: the arm's length is spent on the height.
    most = min(0.74, math.sqrt(max(0.76**2 - (height - SHOULDER_M) ** 2, 0.1)))
    if far > most:
        x, y, _ = min(0.5, far - most + 0.04) * into
        return [drive(float(x), float(y), 0.0)]
    above = np.array([target[0], target[1], height])
    low = target + 0.008 * UP
    onto = path(tip, [above], hand) if float(np.linalg.norm(above - tip)) > 0.03 else []
    return [*onto, *line(above, low, hand, "release"), *line(low, low - 0.30 * into, hand)]
