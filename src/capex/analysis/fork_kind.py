"""Runs of forks, as the core sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capex.run.kinds import Manifest, RunKind
from capex.run.store import TABLE

COMMAND = "fork"


def _origin(manifest: Manifest) -> Mapping[str, Any]:
    origin = manifest.get(COMMAND)
    return origin if isinstance(origin, Mapping) else {}


def _forked_run(manifest: Manifest) -> str:
    return str(_origin(manifest).get("run", "another run"))


def _sentence(manifest: Manifest) -> str:
    count = len(_origin(manifest).get("states", ()))
    states = "1 state" if count == 1 else f"{count} states"
    return f"forks of {states} of {_forked_run(manifest)}"


FORKS = RunKind(
    label="forks",
    fields={COMMAND: TABLE, f"{COMMAND}.states": TABLE},
    sentence=_sentence,
    identity=lambda manifest: {"forks of": _forked_run(manifest)},
    no_replay="holds forks, whose beginnings lie in another run",
)
