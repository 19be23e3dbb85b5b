"""Runs made up for tests and benchmarks: records that look like a campaign's, without a simulator or a model.

Reaching depends on the features, so that there is something to calibrate; success is more likely once a success is in memory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from capex.method.calibrator import Calibrator
from capex.method.presets import preset
from capex.method.record import (
    EndReason,
    EpisodeRecord,
    LocatedPoint,
    TipPose,
    Turn,
    WaypointRecord,
)
from capex.models import LedgerTotals, Usage
from capex.models.prices import parse_price
from capex.plan import ArmTarget, Waypoint
from capex.report.data import load
from capex.report.sections import SectionInput, results
from capex.report.sources import Source, group
from capex.run.manifest import RunPlan, write_manifest
from capex.run.store import Chain, Run, open_run

TASKS = ["CloseFridge", "PickPlaceCounterToStove"]
ARMS = ["capex", "base", "capex-fresh"]
NO_STEPS = {"states": np.zeros((1, 0)), "actions": np.zeros((0, 12))}
STATUS = {1: ("reached", "reached"), 0: ("stalled", "stalled 1.6 cm from target")}
PRICE = {
    "model": "made-up",
    "fresh": "10",
    "cached": "1",
    "cache_write": "12.5",
    "output": "50",
    "source": "a test",
    "checked": "2026-09-22",
}


def waypoint(
    position_m: tuple[float, float, float],
    stated: float | None,
    calibrated: float | None,
    label: int | None,
    status: str = "",
    report: str = "",
    features: Sequence[float] | None = None,
) -> WaypointRecord:
    """One waypoint; status and report follow the label unless given."""
    told = STATUS[label] if label is not None else ("not executed", "not executed")
    return WaypointRecord(
        waypoint=Waypoint({"arm": ArmTarget(position_m)}, confidence=stated),
        status=status or told[0],
        report=report or told[1],
        label=label,  # type: ignore[arg-type]
        steps=10,
        calibrated=calibrated,
        features=None if features is None else tuple(features),
        clamped_m={"arm": position_m},
        tips={"arm": TipPose(position_m, (1.0, 0.0, 0.0, 0.0))},
    )


def record(
    task: str = "CloseFridge",
    arm: str = "capex",
    start: int = 0,
    *,
    success: bool | None = True,
    turns: Sequence[Turn] = (),
    position: int | None = None,
    model: str = "made-up",
    stand_in: bool = True,
    steps: int = 100,
    requests: int = 3,
    cost_usd: float | None = 0.5,
    weights: Sequence[float] | None = None,
    labels: int = 0,
    tokens: Mapping[str, int] | None = None,
    **more: Any,
) -> EpisodeRecord:
    """A record with sensible values everywhere else."""
    used = dict(
        tokens or {"fresh": 1000, "cached": 500, "cache_write": 100, "output": 300, "reasoning": 80}
    )
    ledger = LedgerTotals(
        requests=requests,
        attempts=requests + 1,
        tokens=Usage(**used),
        cost_usd=cost_usd,
        known_cost_usd=cost_usd,
    )
    fields: dict[str, Any] = {
        "world": "kitchen",
        "seed": 0,
        "instruction": "Close the fridge door.",
        "horizon": 900,
        "end": EndReason.SUCCESS if success else EndReason.HORIZON,
        **more,
    }
    return EpisodeRecord(
        task=task,
        arm=arm,
        start=start,
        model=model,
        success=success,
        steps=steps,
        requests=requests,
        cost_usd=cost_usd,
        turns=tuple(turns),
        stand_in=stand_in,
        decisions=len(turns),
        labels_before=labels,
        weights=None if weights is None else tuple(weights),
        ledger=ledger,
        position=start if position is None else position,
        **fields,
    )


def commit(chain: Chain, made: EpisodeRecord, seconds: float = 30.0, **timing: Any) -> Path:
    """Write an episode where a campaign would; unlike a campaign, without waiting for the disk, since thousands are made."""
    folder = chain.episode(made.start)
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(made.as_json()), encoding="utf-8")
    (folder / "timing.json").write_text(
        json.dumps({"episode_s": seconds, "unix_time": 1794700000.0, **timing}), encoding="utf-8"
    )
    np.savez(folder / "steps.npz", **NO_STEPS)
    return folder


def fill(run: Run, task: str, arm: str, solved: str, **fields: Any) -> Chain:
    """One episode per verdict, starts from 0: 1 solved, 0 not, ? not judged, - not tried."""
    chain = run.chain("kitchen", task, arm)
    for start, success in enumerate(solved):
        if success != "-":
            commit(
                chain,
                record(
                    task, arm, start, success={"1": True, "0": False, "?": None}[success], **fields
                ),
            )
    return chain


def sources_of(*paths: Path) -> list[Source]:
    """The sources that a report of these runs has."""
    return group(load(paths))[0]


def section_input(*paths: Path) -> SectionInput:
    """All that the sections of a report of these runs are made from."""
    data = load(paths)
    sources = group(data)[0]
    return SectionInput(data, sources, *results(sources))


def settings(arms: Sequence[str], tasks: Sequence[str], **changes: Any) -> dict[str, Any]:
    """What a campaign's manifest says of itself."""
    named = {name: asdict(preset(name)) for name in arms}
    return {
        "command": "collect",
        "model": "made-up",
        "seed": 0,
        "round_size": 1,
        "tasks": [f"kitchen:{t}" for t in tasks],
        "arms": named,
        **changes,
    }


def new_run(
    path: Path, arms: Sequence[str], tasks: Sequence[str], starts: Sequence[int], **changes: Any
) -> Run:
    """An empty run that was asked for these starts."""
    run = open_run(path, settings(arms, tasks, **changes))
    plan = RunPlan(starts=tuple(starts))
    write_manifest(path, replace(run.manifest, plan=plan, price=parse_price(PRICE)))
    return run


def campaign(
    path: Path,
    tasks: Sequence[str],
    arms: Sequence[str],
    starts: int,
    *,
    seed: int = 0,
    waypoints: int = 6,
    plans: int = 4,
) -> Run:
    """A whole synthetic campaign, chains with memory included."""
    run = new_run(path, arms, tasks, range(starts))
    for task in tasks:
        for name in arms:
            _chain(
                run.chain("kitchen", task, name),
                task,
                name,
                starts,
                random.Random(f"{task} {name} {seed}"),
                waypoints,
                plans,
            )
    return run


def _chain(
    chain: Chain, task: str, name: str, starts: int, draw: random.Random, waypoints: int, plans: int
) -> None:
    rows: list[tuple[float, ...]] = []
    labels: list[int] = []
    solved_before = False
    weights: tuple[float, ...] | None = None
    for start in range(starts):
        learns = name == "capex"
        if learns and (
            start < 40 or start % 20 == 0
        ):  # refits get slow in long chains, and say no more
            weights = Calibrator.fit(rows, labels).weights
        trust = Calibrator(weights)
        turns = [
            _turn(draw, k, waypoints if name != "base" else 1, name != "base", trust)
            for k in range(plans if name != "base" else 3 * plans)
        ]
        for row in (
            w
            for t in turns
            for w in t.waypoints
            if w.label is not None and w.features is not None and learns
        ):
            rows.append(row.features)  # type: ignore[arg-type]
            labels.append(row.label)  # type: ignore[arg-type]
        chance = {"base": 0.2, "capex": 0.75 if solved_before else 0.45}.get(name, 0.5)
        success = draw.random() < chance
        solved_before |= success
        made = record(
            task,
            name,
            start,
            success=success,
            turns=turns,
            steps=draw.randint(80, 400),
            requests=sum(t.calls for t in turns),
            cost_usd=round(draw.uniform(0.2, 2.0), 4),
            weights=trust.weights,
            labels=len(labels) if learns else 0,
        )
        commit(chain, made, seconds=draw.uniform(20, 200))


def _turn(draw: random.Random, number: int, size: int, confident: bool, trust: Calibrator) -> Turn:
    planned: list[WaypointRecord] = []
    stopped, committed = False, size
    for k in range(1, size + 1):
        position = (draw.uniform(0.2, 0.8), draw.uniform(-0.4, 0.4), draw.uniform(0.1, 0.8))
        stated = round(min(0.99, max(0.5, draw.gauss(0.93, 0.06))), 2) if confident else None
        row = (
            (
                1.0,
                float(np.log(stated / (1 - stated))),
                float(draw.random() < 0.5),
                draw.randint(0, 4) / 4,
                draw.uniform(0.1, 1.0),
                draw.uniform(-1, 1),
                draw.uniform(0, 2),
                min(k, 4) / 4,
            )
            if stated
            else None
        )
        calibrated = trust.predict([row], [stated])[0] if row else None
        if k > 1 and calibrated is not None and calibrated < 0.5:
            committed = min(committed, k - 1)
        if k > committed or stopped:
            planned.append(
                waypoint(
                    position,
                    stated,
                    calibrated,
                    None,
                    *(
                        ("deferred", "not executed (deferred: low confidence)")
                        if k > committed
                        else ()
                    ),
                    features=row,
                )
            )
            continue
        chance = (
            0.75
            if row is None
            else 1 / (1 + np.exp(-(1.6 - 1.4 * row[2] + 1.2 * row[5] - 0.8 * row[7])))
        )
        label = int(draw.random() < chance)
        stopped = label == 0
        planned.append(waypoint(position, stated, calibrated, label, features=row))
    located = (LocatedPoint("left", 250.0, 200.0, (0.5, 0.0, 0.4)),)
    return Turn(
        number + 1,
        30 * number,
        1 + (number == 0),
        tuple(planned),
        committed,
        located,
        (0.0, 0.0, 0.0),
        "Move along the line and look again.",
    )
