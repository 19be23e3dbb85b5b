"""Small runs for tests: the expert's, and one driven by a scripted model with confidences, labels, deferred waypoints and a failure."""

from __future__ import annotations

import json
from pathlib import Path

from capex import worlds
from capex.campaign.alone import run_chain
from capex.campaign.expert import run_expert
from capex.method.presets import preset
from capex.models.scripted import Scripted
from capex.run.store import open_run

TASK = "TurnOnMicrowave"
REPLIES = json.loads((Path(__file__).parent / "golden" / "microwave_replies.json").read_text())
HOP = [("act", {"reasoning": "a hop", "delta_cm": [0, 0, 2], "confidence": 0.9})]


def expert_run(path: Path, starts: list[int]) -> Path:
    """The expert presses the microwave's button."""
    assert all(result.success for result in run_expert(f"kitchen:{TASK}", starts, path))
    return path


def model_run(path: Path) -> Path:
    """A scripted model: start 0 succeeds, start 1 fails after two hops."""
    chain = open_run(path, {"arm": "capex", "model": "script"}).chain("kitchen", TASK, "capex")
    env = worlds.make(f"kitchen:{TASK}")
    list(run_chain(env, Scripted(REPLIES), preset("capex"), chain, [0]))
    list(run_chain(env, Scripted([HOP] * 2), preset("capex", decisions=2), chain, [1]))
    env.close()
    return path
