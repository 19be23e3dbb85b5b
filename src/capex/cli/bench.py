"""`capex bench`: the speed of the harness, as ratios within one run so that the machine's load
cancels out.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from capex import worlds
from capex.cli.tables import FittedTable
from capex.worlds import ArmCommand, Command, Start
from capex.worlds.kitchen import control
from capex.worlds.kitchen.env import KitchenEnv
from capex.worlds.kitchen.robot import ARM

ROUNDS = 120
PAIRS = 200
BLOCK = 4  # control steps timed together: short enough that physics alone has not drifted elsewhere


@dataclass(frozen=True)
class BenchRow:
    """One measurement with the limit we promise, if there is one."""

    what: str
    value: float
    unit: str
    limit: str = ""
    holds: bool | None = None


def run() -> list[BenchRow]:
    """All measurements. robosuite comes last: it fills the process with its own memory."""
    rows: list[BenchRow] = []
    for task in worlds.tasks("kitchen"):
        step_ms, ratio = _step_ratio(task)
        bound = 2.0 if task == "PickPlaceCounterToStove" else 2.5
        rows.append(BenchRow(f"control step of {task}", step_ms, "ms"))
        rows.append(
            BenchRow(
                "  over its 25 bare mj_step calls", ratio, "x", f"at most {bound:g}", ratio <= bound
            )
        )
    return rows + _rendering_and_reset() + _robosuite_row()


def _median_ms(action: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def _step_ratio(task: str) -> tuple[float, float]:
    """Median control step in milliseconds, and its ratio to bare physics from the same states,
    alternating.
    """
    env = worlds.make(f"kitchen:{task}")
    assert isinstance(env, KitchenEnv)
    env.reset(Start(task, 0))
    model, data = env.truth.model, env.truth.data
    swing = [
        Command({ARM: ArmCommand((0.02 * np.cos(k / 8), 0.02 * np.sin(k / 8), 0.0), gripper=-1.0)})
        for k in range(ROUNDS)
    ]
    controlled, bare = [], []
    for first in range(0, ROUNDS, BLOCK):
        state = env.save_state()
        began = time.perf_counter()
        mujoco.mj_step(model, data, control.SUBSTEPS * BLOCK)
        bare.append((time.perf_counter() - began) / BLOCK)
        env.load_state(state)
        began = time.perf_counter()
        for command in swing[first : first + BLOCK]:
            env.step(command)
        controlled.append((time.perf_counter() - began) / BLOCK)
    env.close()
    return 1000 * statistics.median(controlled), statistics.median(controlled) / statistics.median(
        bare
    )


def _robosuite_row() -> list[BenchRow]:
    """robosuite's step over ours, taking turns so that both meet the same load of the machine."""
    if importlib.util.find_spec("robosuite") is None:
        return []
    import robosuite

    quiet = {
        "has_renderer": False,
        "has_offscreen_renderer": False,
        "use_camera_obs": False,
        "ignore_done": True,
    }
    theirs: Any = robosuite.make("Lift", robots="PandaOmron", **quiet)
    theirs.reset()
    action = np.zeros(theirs.action_dim)
    ours = worlds.make("kitchen:PickPlaceCounterToStove")
    ours.reset(Start("PickPlaceCounterToStove", 0))
    hold = Command({ARM: ArmCommand((0.0, 0.0, 0.0), gripper=-1.0)})
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(PAIRS):  # one step each in turn: the machine's speed changes within seconds
        turns: tuple[tuple[list[float], Any, Any], ...] = (
            (times[0], theirs, action),
            (times[1], ours, hold),
        )
        for spent, env, command in turns:
            began = time.perf_counter()
            env.step(command)
            spent.append(time.perf_counter() - began)
    theirs.close()
    ours.close()
    ratio = statistics.median(times[0][5:]) / statistics.median(times[1][5:])
    return [
        BenchRow(
            "robosuite's env.step (Lift, PandaOmron) over ours",
            ratio,
            "x",
            "at least 5",
            ratio >= 5,
        )
    ]


def _rendering_and_reset() -> list[BenchRow]:
    task = "PickPlaceCounterToStove"
    env = worlds.make(f"kitchen:{task}")
    start = Start(task, 0)
    env.reset(start)
    env.observe()
    images = _median_ms(env.observe, 10)
    depth = _median_ms(lambda: env.depth("left"), 10)
    cached = _median_ms(lambda: env.reset(start), 5)
    indices = iter(range(1, 100))
    fresh = _median_ms(lambda: env.reset(Start(task, next(indices))), 5)
    memory = _resident_mb()
    env.close()
    rows = [
        BenchRow("three 512x512 RGB images", images, "ms", "at most 80", images <= 80),
        BenchRow("one 512x512 depth image", depth, "ms", "at most 25", depth <= 25),
        BenchRow("reset to a cached start", cached, "ms", "at most 500", cached <= 500),
        BenchRow("reset to a new start", fresh, "ms"),
    ]
    if memory is not None:
        rows.append(
            BenchRow("memory of a process with one env", memory, "MB", "below 400", memory < 400)
        )
    return rows


def _resident_mb() -> float | None:
    """Resident memory of this process, where the system tells."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None


def print_rows(rows: list[BenchRow], console: Console) -> None:
    """The table of docs/kitchen.md."""
    table = Table(title="capex bench")
    for column in ("what", "measured", "promised", ""):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for row in rows:
        verdict = (
            ""
            if row.holds is None
            else ("[green]holds[/]" if row.holds else "[red]does not hold[/]")
        )
        table.add_row(row.what, f"{row.value:.2f} {row.unit}", row.limit, verdict)
    console.print(FittedTable(table))
