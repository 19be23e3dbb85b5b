"""Where an exported episode comes from: start, demonstrator, cost, certificate, state, cameras."""

from __future__ import annotations

import json
from typing import Any

from capex.dataset.frames import Pipeline, Take
from capex.dataset.selection import Candidate
from capex.run.reading import digests

# name -> type, in the order of the columns
FIELDS = {
    "world": "string",
    "task": "string",
    "start": "int64",
    "seed": "int64",
    "arm": "string",
    "model": "string",
    "stand_in": "bool",  # the demonstrator stands in for a model or a human
    "success": "bool",
    "end": "string",  # success, horizon, decisions, cost, time, done
    "decisions": "int64",
    "requests": "int64",
    "cost_usd": "float64",  # null where the price is unknown
    "confidence": "float64",  # mean calibrated one of the labelled waypoints, null without any
    "certified": "bool",
    "uncertified": "string",  # why there is no certificate
    "judge": "string",  # who judged it; empty where the world did
    "episode": "string",  # NAME/chains/CHAIN/episodes/0007, from the folder that holds the run
    "record_sha256": "string",
    "steps_sha256": "string",
    "state_header": "string",  # with start_state: what capex.worlds.State takes
    "start_state": "list",
    "cameras": "string",  # JSON: intrinsics and pose by camera
}


def provenance(attempt: Candidate, take: Take, pipeline: Pipeline) -> dict[str, Any]:
    """Everything in FIELDS."""
    start, sha256 = take.start_state, digests(attempt.summary.path)
    own = {
        "episode": attempt.from_run,
        "record_sha256": sha256["record.json"],
        "steps_sha256": sha256["steps.npz"],
        "state_header": start.header,
        "start_state": start.vector.tolist(),
        "cameras": json.dumps(take.cameras_json(pipeline)),
    }
    own |= {"certified": attempt.certified, "uncertified": attempt.uncertified}
    own["judge"] = attempt.judge
    return {n: own[n] if n in own else getattr(attempt.summary, n) for n in FIELDS}
