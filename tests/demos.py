"""Small runs for tests: the expert's, and one driven by a scripted model with confidences, labels, deferred waypoints and a failure."""

from __future__ import annotations

import json
from pathlib import Path

from capex import worlds
from capex.campaign.api import demonstrate
from capex.campaign.attempt import AttemptJob, AttemptOutcome, AttemptSettings, run_attempt
from capex.campaign.chain import ChainPlan
from capex.method.demonstrator import ModelDemonstrator
from capex.method.presets import MethodSettings, preset
from capex.models import Model
from capex.models.scripted import Scripted
from capex.run.store import Chain, open_run
from capex.worlds import Env

TASK = "TurnOnMicrowave"
REPLIES = json.loads((Path(__file__).parent / "golden" / "microwave_replies.json").read_text())
HOP = [("act", {"reasoning": "a hop", "delta_cm": [0, 0, 2], "confidence": 0.9})]


def expert_run(path: Path, starts: list[int]) -> Path:
    """The expert presses the microwave's button."""
    run = demonstrate("expert", f"kitchen:{TASK}", starts=starts, out=path)
    assert all(episode.record.success for episode in run.episodes)
    return path


def attempt(
    env: Env, model: Model, method: MethodSettings, chain: Chain, start: int, subscribers=()
) -> AttemptOutcome:
    """One attempt at the next slot of a chain, with what the chain remembers."""
    plan = ChainPlan(chain, [start], remembers=method.memory == "chain")
    (slot,) = plan.ready()
    job = AttemptJob(chain, env.spec.name, method, slot, plan.memory, AttemptSettings())
    who = ModelDemonstrator(model, method)
    return run_attempt(env, who, job, subscribers=subscribers)


def model_run(path: Path) -> Path:
    """A scripted model: start 0 succeeds, start 1 fails after two hops."""
    chain = open_run(path, {"arm": "capex", "model": "script"}).chain("kitchen", TASK, "capex")
    env = worlds.make(f"kitchen:{TASK}")
    attempt(env, Scripted(REPLIES), preset("capex"), chain, 0)
    attempt(env, Scripted([HOP] * 2), preset("capex", decisions=2), chain, 1)
    env.close()
    return path
