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
CLEAR_M = 0.10  # nearer to something, a way costs more; through it, very much more
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
        self._obstacles, self._ends = obstacles, ends
        self._low = ends.min(axis=0) - 2.0
        shape = np.ceil((ends.max(axis=0) + 2.0 - self._low) / CELL_M).astype(int)
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
        swept = [self._costs(yaw + turn * n / count) for n in range(count + 1)]
        total = come + go + 10.0 * np.max(swept, axis=0)
        a, b = np.unravel_index(int(np.argmin(total)), total.shape)
        return int(a), int(b)

    def _costs(self, yaw: float) -> Array:
        """What a cell costs where the base stands in it with a heading."""
        along = np.array([math.cos(yaw), math.sin(yaw)])
        turned = np.abs(np.array([[along[0], -along[1]], [along[1], along[0]]]))
        middle = -BEHIND_M * along
        half = turned @ HALF_M
        nearest = np.full([len(axis) for axis in self._axes], np.inf)
        for low, high in self._obstacles:
            first, last = low - half - middle, high + half - middle
            x, y = (
                np.maximum(np.maximum(first[n] - axis, axis - last[n]), 0.0)
                for n, axis in enumerate(self._axes)
            )
            nearest = np.minimum(nearest, np.hypot(x[:, None], y[None, :]))
        near = np.clip(CLEAR_M - nearest, 0.0, None) / CLEAR_M
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
