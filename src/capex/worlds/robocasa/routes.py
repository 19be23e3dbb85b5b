"""A way for the robot's base around what stands on a RoboCasa kitchen's floor: the shortest on a
grid, kept clear of everything by the base's own half width.
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
CLEAR_M = 0.42  # from the middle of the base to what it must not touch
ABOVE_FLOOR_M, BELOW_M = 0.03, 1.0  # obstacles are what is between, over the floor
Cell = tuple[int, int]
Point = tuple[float, float]


def next_drive(k: Kitchen, goal_world: Array, yaw_world: float) -> BaseMotion:
    """The next leg towards a place in the world where the mobile base should stand and look along
    a heading. It turns only at the end.
    """
    x, y, yaw = k.base
    goal = (float(goal_world[0]), float(goal_world[1]))
    leg = _leg(k, (x, y), goal)
    dx, dy = leg[0] - x, leg[1] - y
    forward, left = (
        dx * math.cos(yaw) + dy * math.sin(yaw),
        dy * math.cos(yaw) - dx * math.sin(yaw),
    )
    last = math.hypot(goal[0] - x, goal[1] - y) < 0.15
    turn = math.remainder(yaw_world - yaw, 2 * math.pi) if last else 0.0
    return drive(forward, left, turn)


def _leg(k: Kitchen, here: Point, goal: Point) -> Point:
    """The farthest place on the cheapest way that a straight drive reaches at no higher cost."""
    walls = k.footprints(ABOVE_FLOOR_M, BELOW_M)
    ends = np.array([here, goal])
    low, high = ends.min(axis=0) - 2.0, ends.max(axis=0) + 2.0
    shape = tuple(np.ceil((high - low) / CELL_M).astype(int))
    nearest = np.full(shape, np.inf)
    xs, ys = (low[n] + CELL_M * np.arange(shape[n]) for n in (0, 1))
    for box_low, box_high in walls:
        dx = np.maximum(np.maximum(box_low[0] - xs, xs - box_high[0]), 0.0)[:, None]
        dy = np.maximum(np.maximum(box_low[1] - ys, ys - box_high[1]), 0.0)[None, :]
        nearest = np.minimum(nearest, np.hypot(dx, dy))
    # Near the ends the robot stands closer to a counter than it should drive: no wall, but a price.
    cost = 1.0 + 40.0 * np.clip(CLEAR_M - nearest, 0.0, None) / CLEAR_M
    cells = np.array(_cheapest(cost, _cell(here, low), _cell(goal, low)))
    for last in range(len(cells) - 1, 0, -1):
        way = cells[: last + 1]
        straight = np.round(np.linspace(way[0], way[-1], 2 * last + 1)).astype(int)
        if cost[tuple(straight.T)].max() <= cost[tuple(way.T)].max() + 0.5:
            x, y = low + CELL_M * cells[last]
            return goal if last == len(cells) - 1 else (float(x), float(y))
    return goal


def _cell(point: Point, low: Array) -> Cell:
    a, b = np.round((np.array(point) - low) / CELL_M).astype(int).tolist()
    return a, b


def _cheapest(cost: Array, start: Cell, end: Cell) -> list[Cell]:
    """Cells from start to end with the least sum of costs (Dijkstra over eight neighbours)."""
    best, came = {start: 0.0}, dict[Cell, Cell]()
    queue = [(0.0, start)]
    while queue:
        spent, cell = heapq.heappop(queue)
        if cell == end:
            break
        if spent > best[cell]:
            continue
        for da in (-1, 0, 1):
            for db in (-1, 0, 1):
                other = (cell[0] + da, cell[1] + db)
                if other == cell or not (
                    0 <= other[0] < cost.shape[0] and 0 <= other[1] < cost.shape[1]
                ):
                    continue
                total = spent + math.hypot(da, db) * float(cost[other])
                if total < best.get(other, math.inf):
                    best[other], came[other] = total, cell
                    heapq.heappush(queue, (total, other))
    cells = [end]
    while cells[-1] in came:
        cells.append(came[cells[-1]])
    return cells[::-1]
