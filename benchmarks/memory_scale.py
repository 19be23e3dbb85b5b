"""What memory costs as a chain grows: adding an attempt, a snapshot, the next context, up to 10,000
attempts and 100,000 labels.

Synthetic attempts of three decisions and fifteen waypoints, ten of them labelled; half of them
succeed. `python benchmarks/memory_scale.py`
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from capex import worlds
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import preset
from capex.method.prompts import SIZE_MAX, system_prompt
from capex.method.record import EpisodeRecord, LocatedPoint, Turn, WaypointRecord, from_json
from capex.plan import ArmTarget, Gripper, Waypoint

ATTEMPTS = 10_000
LOOKS = (1, 10, 100, 1000, 10_000)
GRIPPERS: tuple[Gripper, ...] = ("keep", "keep", "keep", "open", "close", "release")
LIMIT_S = 0.5
WEIGHTS = [-1.234] * 8


def waypoint(draw: random.Random, ran: bool) -> WaypointRecord:
    """One waypoint, reached two times out of three."""
    x, y, z = (draw.uniform(-0.6, 0.9) for _ in range(3))
    label = (1 if draw.random() < 0.67 else 0) if ran else None
    status, report = {
        1: ("reached", "reached"),
        0: ("stalled", "stalled 1.6 cm from target"),
        None: ("not executed", "not executed"),
    }[label]
    return WaypointRecord(
        waypoint=Waypoint(
            {"arm": ArmTarget((x, y, z), "keep", draw.choice(GRIPPERS))}, confidence=0.9
        ),
        status=status,
        report=report,
        label=label,  # type: ignore[arg-type]
        steps=12,
        features=(1.0, *(draw.random() for _ in range(7))),
        clamped_m={"arm": (x, y, z)},
        tips={"arm": {"position_m": [x, y, z], "quaternion_xyzw": [1.0, 0.0, 0.0, 0.0]}},
    )


def attempt(draw: random.Random, start: int) -> EpisodeRecord:
    """Three decisions of five waypoints; ten of the fifteen run and are labelled."""
    turns = []
    for k, ran in enumerate((4, 3, 3)):
        located = (
            LocatedPoint(
                "left",
                100,
                200,
                (draw.uniform(0.2, 0.9), draw.uniform(-0.4, 0.4), draw.uniform(0, 0.6)),
            ),
        )
        turns.append(
            Turn(
                k + 1,
                40 * k,
                2,
                tuple(waypoint(draw, i < ran) for i in range(5)),
                5,
                located,
                (0.1 * k, 0.0, 0.0),
            )
        )
    return EpisodeRecord(
        world="kitchen",
        task="CloseFridge",
        arm="capex",
        start=start,
        seed=0,
        model="script:none",
        success=draw.random() < 0.5,
        steps=draw.randrange(100, 600),
        requests=6,
        cost_usd=None,
        instruction="close the fridge",
        horizon=600,
        turns=tuple(turns),
        scene="layout 1",
        end="success",
    )


def seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """The fastest of a few runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    env = worlds.make("kitchen:CloseFridge")
    spec, settings, draw = env.spec, preset("capex"), random.Random(0)
    env.close()
    memory = Memory()
    table = Table(title="memory as a chain grows")
    for name in (
        "attempts",
        "labels",
        "an add since the last row",
        "snapshot",
        "context",
        "prompt, characters",
    ):
        table.add_column(name, justify="right")
    spent, added, slowest = 0.0, 0, 0.0
    for start in range(ATTEMPTS):
        record = attempt(draw, start)
        began = time.perf_counter()
        memory.add(record)
        spent += time.perf_counter() - began
        added += 1
        if start + 1 in LOOKS:

            def context() -> str:
                found = build(memory, settings, spec, ATTEMPTS, "layout 1", weights=WEIGHTS)
                return system_prompt(
                    spec,
                    settings,
                    labels=found.labels,
                    weights=WEIGHTS,
                    references=found.references_text,
                    skeleton=found.skeleton_text,
                )

            taken = seconds(context)
            slowest = max(slowest, taken)
            table.add_row(
                f"{memory.attempts}",
                f"{memory.labels}",
                f"{1e3 * spent / added:.2f} ms",
                f"{1e3 * seconds(memory.snapshot):.2f} ms",
                f"{1e3 * taken:.1f} ms",
                f"{len(context())} of {SIZE_MAX}",
            )
            spent, added = 0.0, 0
    console = Console()
    console.print(table)
    written = json.dumps(record.as_json())
    console.print(
        f"reading one record.json of {len(written)} characters back:"
        f" {1e3 * seconds(lambda: from_json(json.loads(written))):.2f} ms"
    )
    console.print(
        f"slowest context {slowest:.4f} s; the limit is {LIMIT_S} s:"
        f" {'kept' if slowest < LIMIT_S else 'BROKEN'}"
    )


if __name__ == "__main__":
    main()
