"""A way for the robot's base around what stands on a RoboCasa kitchen's floor: cheapest on a grid.

The base drives with a fixed heading and turns on the spot, so that the way has two parts, one in
each heading, which meet where there is room to turn.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from capex.plan import BaseMotion
from capex.pose import Array
from capex.worlds.robocasa.handling import drive
from capex.worlds.robocasa.privileged import Kitchen

CELL_M = 0.05
HALF_M: Array = np.array([0.35, 0.25])  # of the mobile base, along its heading and across
BEHIND_M = 0.20  # its middle is so far behind the point that RoboCasa calls its place
# Nearer to something, a way costs more, through it, very much more; a turn on the spot drifts.
CLEAR_M, TURN_CLEAR_M = 0.12, 0.30
ABOVE_FLOOR_M, BELOW_M = 0.03, 1.0  # obstacles are what is between, over the floor
TURN_STEP_RAD = 0.2
AHEAD_RAD = 0.1  # a heading so near to another is the same
Cell = tuple[int, int]


def next_drive(k: Kitchen, goal_world: Array, yaw_world: float) -> BaseMotion:
    """The next leg towards a place in the world where the mobile base should stand and look along
    a heading.
    """
    x, y, yaw = k.base
    floor = Floor(
        k.footprints(ABOVE_FLOOR_M, BELOW_M), np.array([[x, y], np.asarray(goal_world)[:2]])
    )
    (dx, dy), turn = floor.leg(yaw, yaw_world)
    forward = dx * math.cos(yaw) + dy * math.sin(yaw)
    return drive(forward, dy * math.cos(yaw) - dx * math.sin(yaw), turn)


class Floor:
    """A grid over the floor around the two ends of a way."""

    def __init__(self, obstacles: list[tuple[Array, Array]], ends: Array):
        self._ends, self._low = ends, ends.min(axis=0) - 2.0
        last = ends.max(axis=0) + 2.0
        self._obstacles = _outermost(obstacles, self._low, last)
        shape = np.ceil((last - self._low) / CELL_M).astype(int)
        self._axes = [self._low[n] + CELL_M * np.arange(shape[n]) for n in (0, 1)]

    def leg(self, yaw: float, goal_yaw: float) -> tuple[Array, float]:
        """How to move from the first end, and then to turn, to get on towards the other."""
        here, goal = self._ends
        turn = math.remainder(goal_yaw - yaw, 2 * math.pi)
        if abs(turn) < AHEAD_RAD:
            return self._straight(self._costs(yaw), self._cell(goal), goal), turn
        place = self._turning_place(yaw, turn)
        if place == self._cell(here):
            return np.zeros(2), turn
        return self._straight(self._costs(yaw), place, self._point(place)), 0.0

    def _turning_place(self, yaw: float, turn: float) -> Cell:
        """Where turning makes the whole way cheapest."""
        come, _ = _spread(self._costs(yaw), self._cell(self._ends[0]))
        go, _ = _spread(self._costs(yaw + turn), self._cell(self._ends[1]))
        count = math.ceil(abs(turn) / TURN_STEP_RAD)
        swept = [self._costs(yaw + turn * n / count, TURN_CLEAR_M) for n in range(count + 1)]
        total = come + go + 10.0 * np.max(swept, axis=0)
        a, b = np.unravel_index(int(np.argmin(total)), total.shape)
        return int(a), int(b)

    def _costs(self, yaw: float, clear_m: float = CLEAR_M) -> Array:
        """What a cell costs where the base stands in it with a heading: by the gap between the two
        boxes along the axes of either (separating axes).
        """
        along = np.array([math.cos(yaw), math.sin(yaw)])
        across = np.array([-along[1], along[0]])
        xs, ys = self._axes
        nearest = np.full((len(xs), len(ys)), np.inf)
        half = HALF_M[0] * np.abs(along) + HALF_M[1] * np.abs(across)
        for low, high in self._obstacles:
            middle, size = (low + high) / 2 + BEHIND_M * along, (high - low) / 2
            dx, dy = np.abs(xs - middle[0]) - size[0] - half[0], np.abs(ys - middle[1])
            gap = np.maximum(dx[:, None], (dy - size[1] - half[1])[None, :])
            for way, own in ((along, HALF_M[0]), (across, HALF_M[1])):
                apart = (way[0] * (xs - middle[0]))[:, None] + (way[1] * (ys - middle[1]))[None, :]
                gap = np.maximum(gap, np.abs(apart) - own - float(np.abs(way) @ size))
            nearest = np.minimum(nearest, gap)
        near = np.clip(clear_m - nearest, 0.0, clear_m) / clear_m
        return np.asarray(1.0 + 4.0 * near + np.where(nearest > 0.0, 0.0, 60.0))

    def _straight(self, cost: Array, end: Cell, exact: Array) -> Array:
        """The farthest move along the cheapest way that costs no more when made straight."""
        here = self._ends[0]
        spent, came = _spread(cost, self._cell(here))
        cells = [end]
        while cells[-1] in came:
            cells.append(came[cells[-1]])
        for cell in cells[:-1]:
            count = 2 * max(abs(cell[n] - cells[-1][n]) for n in (0, 1)) + 1
            crossed = np.round(np.linspace(cells[-1], cell, count)).astype(int)
            length = math.dist(cells[-1], cell)
            if length * float(np.mean(cost[tuple(crossed.T)])) <= 1.05 * spent[cell] + 1.0:
                there = exact if cell == end else self._point(cell)
                return np.asarray(there - here)
        return np.asarray(exact - here)

    def _cell(self, point: Array) -> Cell:
        a, b = np.round((point - self._low) / CELL_M).astype(int).tolist()
        return a, b

    def _point(self, cell: Cell) -> Array:
        return np.asarray(self._low + CELL_M * np.array(cell))


def _outermost(
    obstacles: list[tuple[Array, Array]], low: Array, high: Array
) -> list[tuple[Array, Array]]:
    """The obstacles of a region that are not within another: most parts of a cabinet are."""
    kept: list[tuple[Array, Array]] = []
    for one in sorted(obstacles, key=lambda o: -float(np.prod(o[1] - o[0]))):
        outside = bool(np.any(one[1] < low) or np.any(one[0] > high))
        if not outside and not any(np.all(o[0] <= one[0]) and np.all(o[1] >= one[1]) for o in kept):
            kept.append(one)
    return kept


def _spread(cost: Array, start: Cell) -> tuple[Array, dict[Cell, Cell]]:
    """The least sum of costs from a start to every cell, over eight neighbours (Dijkstra), and from
    where each cell is entered.
    """
    best, came = np.full(cost.shape, np.inf), dict[Cell, Cell]()
    best[start] = 0.0
    queue = [(0.0, start)]
    steps = [(a, b, math.hypot(a, b)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    while queue:
        spent, cell = heapq.heappop(queue)
        if spent > best[cell]:
            continue
        for da, db, length in steps:
            other = (cell[0] + da, cell[1] + db)
            if not (0 <= other[0] < cost.shape[0] and 0 <= other[1] < cost.shape[1]):
                continue
            total = spent + length * float(cost[other])
            if total < best[other]:
                best[other], came[other] = total, cell
                heapq.heappush(queue, (total, other))
    return best, came
