"""The file of a study, read and checked before anything runs.

tasks = ["kitchen:CloseFridge"]
starts = "1000:1050"              # of the rollouts, the same for every policy
seeds = [0, 1, 2]
budgets = [20000, 50000, 100000]  # training steps
[sources]                         # {task} becomes the task's name; paths from the file's folder
collected = "datasets/{task}-collected"
expert = "datasets/{task}-expert"
first-20 = { path = "datasets/{task}-collected", first = 20 }  # in place of max_demonstrations
[policies.act]                    # any name; `policy` says which kind, the rest are settings
lr = 1e-4
[policies.scratch]
policy = "diffusion"
[policies.tuned]
policy = "diffusion"
init = "runs/pretrained"          # what it begins from; instructions = its embeddings

On a rig also operator, judge and order, as `capex collect` has them, and arrangements: a run or a
folder of pictures that the rollouts' starts are taken from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from capex import worlds
from capex.campaign.names import parse_names, parse_starts
from capex.campaign.settings import Order, read_config
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.setting import Setting, declared
from capex.students.settings import ActSettings, Settings, make_settings, require_name
from capex.worlds import split_name

Several = Field(min_length=1)
AtLeast0 = Annotated[int, Field(strict=True, ge=0)]
AtLeast1 = Annotated[int, Field(strict=True, ge=1)]
Table = dict[str, Any]
ABOVE_0 = Setting(1, right="a whole number above 0")
TRUTH = Setting(right="true or false")


def _full_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{world}:{task}" for world, task in parse_names(names))


def _once(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(values))


def _rising(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))


Tasks = Annotated[tuple[str, ...], Several, AfterValidator(_full_names)]


@dataclass(frozen=True)
class StudySource:
    """A dataset, and how many of its demonstrations of a task are trained on at most."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    path: Annotated[str, Field(min_length=1)]
    first: AtLeast1 | None = None  # None: the study's max_demonstrations


def _a_path(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


Source = Annotated[StudySource, BeforeValidator(_a_path)]
Sources = Annotated[Mapping[str, Source], Several]
Seeds = Annotated[tuple[AtLeast0, ...], Several, AfterValidator(_once)]
Budgets = Annotated[tuple[AtLeast1, ...], Several, AfterValidator(_rising)]
Starts = Annotated[str, AfterValidator(lambda text: tuple(parse_starts(text)))]


@dataclass(frozen=True)
class StudyPolicy:
    """A policy of a study: its settings, and the files it begins from."""

    settings: Settings
    init: str = ""  # a policy or a checkpoint; {task} becomes the task's name, as in the others
    instructions: str = ""  # embeddings of instructions
    backbone: str = ""  # ResNet-18 weights
    trust_pickle: bool = False

    @property
    def tuned(self) -> bool:
        """Whether it begins from a trained policy."""
        return bool(self.init)


FILES = ("init", "instructions", "backbone")


@dataclass(frozen=True)
class StudyPlan:
    """What a TOML file asks for."""

    folder: Path
    tasks: Annotated[Tasks, Setting(right="a list of WORLD:TASK")]
    sources: Annotated[
        Sources,
        Setting(right='a table: name -> folder of a dataset, or {path = "FOLDER", first = N}'),
    ]
    policies: Annotated[
        Mapping[str, StudyPolicy],
        Setting(kind=dict[str, Table], right="tables of settings, [policies.NAME]"),
    ]
    starts: Annotated[tuple[int, ...], Setting(kind=Starts, right='a text such as "1000:1050"')] = (
        tuple(range(1000, 1050))
    )
    seeds: Annotated[Seeds, Setting(right="a list of whole numbers")] = (0, 1, 2)
    budgets: Annotated[Budgets, Setting(right="a list of whole numbers above 0")] = (20_000,)
    max_demonstrations: Annotated[int, ABOVE_0] = 50
    horizon: Annotated[int, Setting(0, right="a whole number, 0 for the task's own")] = 0
    save_every: Annotated[int, ABOVE_0] = 5000
    uncertified: Annotated[bool, TRUTH] = False
    untrained: Annotated[bool, TRUTH] = False
    matched: Annotated[bool, TRUTH] = (
        True  # sources by start, so that only the demonstrator differs
    )
    together: Annotated[
        bool | AtLeast0, Setting(right="true, false, or how many trainings run side by side")
    ] = False
    parallel: Annotated[int, Setting(0, right="a whole number, 0 for one process per core")] = 0
    device: Annotated[str, Setting(right="a text such as auto, cpu, cuda")] = "auto"
    backbone: Annotated[str, Setting(right="the path of a weights file")] = ""
    operator: Annotated[Literal["person", "scripted"] | None, Setting()] = None
    judge: Annotated[Literal["now", "later"], Setting()] = "now"
    order: Annotated[Order, Setting()] = "interleave"
    arrangements: Annotated[str, Setting(right="the path of a run or a folder of pictures")] = ""

    def beside(self, task: str) -> dict[str, Any]:
        """How rollouts on a rig are attended, as `attended.roll_out` takes it."""
        options: dict[str, Any] = {
            "operator": self.operator,
            "judge": self.judge,
            "order": self.order,
        }
        if self.arrangements:
            options["arrangements"] = self._within(self.arrangements, task)
        return options

    def dataset(self, source: str, task: str) -> Path:
        """Where a source's demonstrations of a task are."""
        return self._within(self.sources[source].path, task)

    def most(self, source: str) -> int:
        """How many of its demonstrations of a task are trained on at most."""
        return self.sources[source].first or self.max_demonstrations

    def beginnings(self, policy: str, task: str) -> dict[str, Any]:
        """What a policy's trainings at a task begin from, as `TrainingJob` takes it."""
        given = self.policies[policy]
        return {
            name: self._within(path, task) if (path := getattr(given, name)) else None
            for name in FILES
        }

    def _within(self, path: str, task: str) -> Path:
        return self.folder / path.replace("{task}", split_name(task)[1])


def load_study(path: Path) -> StudyPlan:
    """Read and check a study; every name is checked before anything runs."""
    file = read_config(path)
    tasks = file.get("tasks")
    worlds.allow(*(str(task) for task in (tasks if isinstance(tasks, list) else [tasks])))
    return make_study(file, path)


def make_study(file: Mapping[str, Any], path: Path) -> StudyPlan:
    """A study from the contents of its file, wherever they are from; `path` is what sentences name
    and what relative paths are beside.
    """
    known = declared(StudyPlan)
    for key in file:
        if key not in known:
            raise UnknownName("key", key, known, where=f" of the study {path}")
    for field in fields(StudyPlan):
        if field.name in known and field.default is MISSING and not file.get(field.name):
            must = known[field.name].right
            raise CapexError(
                f"{path} names no {field.name}; it must be {must}", code=ErrorCode.MISSING_SETTING
            )
    values = {key: known[key].checked(f"{path}: {key}", value) for key, value in file.items()}
    for name in (*values["policies"], *values["sources"]):
        require_name(f"{path}: a policy's or source's name", name)
    values["policies"] = {
        name: _policy(name, table, str(path), values.get("backbone", ""))
        for name, table in values["policies"].items()
    }
    return StudyPlan(folder=path.parent, **values)


def _policy(name: str, table: Table, path: str, backbone: str) -> StudyPolicy:
    """Of a table [policies.NAME]; ACT takes the study's backbone where it names none."""
    settings = dict(table)
    kind, spelled = settings.pop("policy", name), f"{path}: policies.{name}."
    files = {key: settings.pop(key) for key in FILES if key in settings}
    trust = settings.pop("trust_pickle", False)
    for key, value in (*files.items(), *([("policy", kind)] if kind != name else [])):
        if not isinstance(value, str) or not value:
            raise CapexError(
                f"{spelled}{key} is {value!r}; it must be a text", code=ErrorCode.BAD_SETTING
            )
    if not isinstance(trust, bool):
        raise CapexError(
            f"{spelled}trust_pickle is {trust!r}; it must be true or false",
            code=ErrorCode.BAD_SETTING,
        )
    made = make_settings(kind, settings, spelled=spelled)
    if isinstance(made, ActSettings) and backbone and "init" not in files:
        files.setdefault("backbone", backbone)
    return StudyPolicy(made, trust_pickle=trust, **files)
