"""The file of a study, read and checked before anything runs.

tasks = ["kitchen:CloseFridge"] starts = "1000:1050"                      # of the rollouts, the
same for every policy seeds = [0, 1, 2] budgets = [20000, 50000, 100000]          # training steps
[sources]                                 # {task} becomes the task's name; paths from the file's
folder collected = "datasets/{task}-collected" expert = "datasets/{task}-expert" [policies.act]
# any name; `policy` says which kind, the rest are settings policy = "act" lr = 1e-4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex.campaign.names import parse_names, parse_starts
from capex.campaign.settings import read_config
from capex.errors import CapexError, UnknownName
from capex.students.settings import Settings, make_settings, require_name


@dataclass(frozen=True)
class StudyPlan:
    """What a TOML file asks for."""

    tasks: tuple[str, ...]
    starts: tuple[int, ...]
    seeds: tuple[int, ...]
    budgets: tuple[int, ...]
    sources: Mapping[str, str]
    policies: Mapping[str, Settings]
    folder: Path
    max_demonstrations: int = 50
    horizon: int = 0
    save_every: int = 5000
    uncertified: bool = False
    untrained: bool = False
    together: bool = False
    parallel: int = 0
    device: str = "auto"
    backbone: Path | None = None

    def dataset(self, source: str, task: str) -> Path:
        """Where a source's demonstrations of a task are."""
        return self.folder / self.sources[source].replace("{task}", task.partition(":")[2])


def load_study(path: Path) -> StudyPlan:
    """Read and check a study; every name is checked before anything runs."""
    held = read_config(path)
    _require_kinds(path, held)
    policies = {}
    for name in (*held["policies"], *held["sources"]):
        require_name(f"{path}: a policy's or source's name", name)
    for name, table in held["policies"].items():
        kind = table.get("policy", name)
        policies[name] = make_settings(kind, {k: v for k, v in table.items() if k != "policy"})
    plain = (
        "max_demonstrations",
        "horizon",
        "save_every",
        "uncertified",
        "untrained",
        "together",
        "parallel",
        "device",
    )
    return StudyPlan(
        tasks=tuple(f"{w}:{t}" for w, t in parse_names(held["tasks"])),
        starts=tuple(parse_starts(held.get("starts", "1000:1050"))),
        seeds=tuple(dict.fromkeys(held.get("seeds", (0, 1, 2)))),
        budgets=tuple(sorted(set(held.get("budgets", (20_000,))))),
        sources=held["sources"],
        policies=policies,
        folder=path.parent,
        backbone=None if "backbone" not in held else path.parent / held["backbone"],
        **{k: held[k] for k in plain if k in held},
    )


def _require_kinds(path: Path, held: Mapping[str, Any]) -> None:
    """Refuse what is unknown, missing or of another kind."""
    for key in held:
        if key not in KINDS:
            raise UnknownName("key", key, KINDS, where=f" of the study {path}")
    for key in ("tasks", "sources", "policies"):
        if not held.get(key):
            raise CapexError(f"{path} names no {key}; it must be {KINDS[key][1]}")
    for key, value in held.items():
        fits, right = KINDS[key]
        if not fits(value):
            raise CapexError(f"{path}: {key} is {value!r}; it must be {right}")


def _whole(at_least: int) -> Callable[[Any], bool]:
    return lambda v: type(v) is int and v >= at_least


def _several(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: type(v) is list and bool(v) and all(map(fits, v))


def _named(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: type(v) is dict and bool(v) and all(map(fits, v.values()))


def _text(value: Any) -> bool:
    return type(value) is str


def _flag(value: Any) -> bool:
    return type(value) is bool


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {  # what each key of the file must be
    "tasks": (_several(_text), "a list of WORLD:TASK"),
    "starts": (_text, 'a text such as "1000:1050"'),
    "seeds": (_several(_whole(0)), "a list of whole numbers"),
    "budgets": (_several(_whole(1)), "a list of whole numbers above 0"),
    "sources": (_named(_text), "a table: name -> folder of a dataset"),
    "policies": (_named(lambda v: type(v) is dict), "tables of settings, [policies.NAME]"),
    "max_demonstrations": (_whole(1), "a whole number above 0"),
    "horizon": (_whole(0), "a whole number, 0 for the task's own"),
    "save_every": (_whole(1), "a whole number above 0"),
    "uncertified": (_flag, "true or false"),
    "untrained": (_flag, "true or false"),
    "together": (_flag, "true or false"),
    "parallel": (_whole(0), "a whole number, 0 for one process per core"),
    "device": (_text, "a text such as auto, cpu, cuda"),
    "backbone": (_text, "the path of a weights file"),
}
