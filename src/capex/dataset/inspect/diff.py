"""`capex dataset diff`: where two datasets differ, structure first, then data.

Episodes are matched by what they hold, then, where both say where they come from, by start and
method, and otherwise by their number; so one episode missing in the middle is one difference.
Memory holds the numbers of both datasets and a digest of every picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from capex.dataset.inspect.frames import POSITIONS, Seen, look
from capex.dataset.inspect.model import Claims, Dataset, DatasetFeature, Entry, Findings
from capex.dataset.inspect.opening import open_dataset
from capex.untrusted import damage

Tell = Callable[[str, int, int], None]  # dataset, frames done, frames in all
SHOWN = 10  # rows of one kind in the table
STATISTICS = ("min", "max", "mean", "std")


@dataclass(frozen=True)
class Difference:
    """One thing in which two datasets differ."""

    what: str  # "format", "features", "episodes", "statistics", "frames" ..
    where: str
    first: str
    second: str


@dataclass(frozen=True)
class DatasetDiff:
    """Everything in which two datasets differ; `rich.print` shows it as a table."""

    first: str
    second: str
    same_episodes: int  # matched, and equal in every number and picture that both have
    shared: int  # features that both have
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """Whether they hold the same."""
        return not self.differences

    def table(self, shown: int | None = SHOWN) -> Table:
        """One row per difference; at most so many of one kind."""
        table = Table(title=Text(f"{self.first} and {self.second}"))
        for column in ("differs", "where", self.first, self.second):
            table.add_column(Text(column), overflow="fold")
        counts: dict[str, int] = defaultdict(int)
        for row in self.differences:
            counts[row.what] += 1
            if shown is None or counts[row.what] <= shown:
                table.add_row(*(Text(t) for t in (row.what, row.where, row.first, row.second)))
        for what, count in counts.items():
            if shown is not None and count > shown:
                table.add_row(what, f"and {count - shown} more; --all shows them", "", "")
        return table

    def __rich__(self) -> Table | Text:
        if self.same:
            return Text(f"{self.first} and {self.second} do not differ: {self.sentence}")
        return self.table()

    @property
    def sentence(self) -> str:
        """How much is the same."""
        if not self.shared:
            return "no feature has the same name in both; episodes were matched by their starts"
        count = self.same_episodes
        held = "1 episode is" if count == 1 else f"{count} episodes are"
        return f"{held} equal in every number and picture that both have"


@dataclass(frozen=True)
class _Side:
    """A dataset, looked at."""

    claims: Claims
    entries: Mapping[int, Entry]
    seen: Mapping[int, Seen]
    damage: tuple[str, ...]

    def label(self, index: int) -> str:
        """An episode, and where it comes from if it says so."""
        entry = self.entries.get(index)
        if entry is None:
            return f"episode {index}"
        if (key := _origin(entry)) is None:
            return entry.name
        world, task, start, seed, arm, _ = key
        more = f", seed {seed}" if seed else ""
        return f"{entry.name}, start {start}{more} of {world}:{task}, arm {arm}"


def diff_datasets(first: Path, second: Path, *, tell: Tell | None = None) -> DatasetDiff:
    """Compare two datasets of any format that `check_dataset` reads. Damage is a difference, too.
    `tell` reports progress.
    """
    a, b = _read(first, tell), _read(second, tell)
    differences = [Difference("damage", sentence, "damaged", "") for sentence in a.damage]
    differences += [Difference("damage", sentence, "", "damaged") for sentence in b.damage]
    with damage(first):
        same, shared = _compare(a, b, differences)
    return DatasetDiff(str(first), str(second), same, shared, tuple(differences))


def _compare(a: _Side, b: _Side, differences: list[Difference]) -> tuple[int, int]:
    """Add what differs; how many episodes are the same, and how many features both have."""
    differences += _structure(a, b)
    pairs, only_a, only_b = _match(a, b)
    differences += [Difference("episodes", a.label(k), "there", "not there") for k in only_a]
    differences += [Difference("episodes", b.label(k), "not there", "there") for k in only_b]
    differences += _statistics(a.claims, b.claims)
    same, shared = 0, set(a.claims.features) & set(b.claims.features) - set(POSITIONS)
    for left, right in pairs:
        rows = _frames(a, b, left, right)
        differences += rows
        same += not rows and bool(shared)
    return same, len(shared)


def _read(path: Path, tell: Tell | None) -> _Side:
    findings = Findings()
    with damage(path):
        return _side(path, open_dataset(path, findings), findings, tell)


def _side(path: Path, dataset: Dataset, findings: Findings, tell: Tell | None) -> _Side:
    entries = {entry.index: entry for entry in dataset.entries}
    total, done, seen = sum(entry.length for entry in dataset.entries), 0, {}
    for frames in dataset.frames():
        entry = entries.get(frames.index)
        seen[frames.index] = look(frames, entry, dataset.claims.features, findings)
        done += frames.length
        if tell is not None:
            tell(str(path), done, max(total, done))
    dataset.finish()
    rows = [row for rule in ("files", "pictures") for row in findings.rows.get(rule, ())]
    damage = tuple(sentence for severity, sentence in rows if severity == "failed")
    return _Side(dataset.claims, entries, seen, damage)


def _structure(a: _Side, b: _Side) -> list[Difference]:
    told = [
        {
            "format": side.claims.format,
            "frames per second": "none" if side.claims.fps is None else f"{side.claims.fps:g}",
            "number of episodes": str(len(side.entries)),
            "number of frames": str(sum(s.length for s in side.seen.values())),
        }
        for side in (a, b)
    ]
    rows = [
        Difference(what, "", text, told[1][what])
        for what, text in told[0].items()
        if text != told[1][what]
    ]
    mine, theirs = set(a.claims.task_texts), set(b.claims.task_texts)
    rows += [Difference("tasks", _short(t), "there", "not there") for t in sorted(mine - theirs)]
    rows += [Difference("tasks", _short(t), "not there", "there") for t in sorted(theirs - mine)]
    for name in dict.fromkeys([*a.claims.features, *b.claims.features]):
        left, right = a.claims.features.get(name), b.claims.features.get(name)
        if left != right:
            rows.append(Difference("features", name, *_told(left, right)))
    return rows


def _short(text: str) -> str:
    """A line of an instruction that may be a whole plan."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def _told(left: DatasetFeature | None, right: DatasetFeature | None) -> tuple[str, str]:
    if left and right and (left.dtype, left.shape) == (right.dtype, right.shape):
        return _names(left), _names(right)
    return _declared(left), _declared(right)


def _declared(feature: DatasetFeature | None) -> str:
    return "not there" if feature is None else f"{feature.dtype} {list(feature.shape)}"


def _names(feature: DatasetFeature) -> str:
    return ", ".join(feature.names) or "no names"


def _origin(entry: Entry) -> tuple[Any, ...] | None:
    """World, task, start, seed, arm and model; None where the dataset does not say."""
    fields = ("world", "task", "start", "seed", "arm", "model")
    if entry.provenance.get("world") is None:
        return None
    return tuple(entry.provenance.get(name) for name in fields)


def _match(a: _Side, b: _Side) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pairs of episodes, and those that only one of both has."""
    left, right, pairs = dict(a.seen), dict(b.seen), []
    keys: tuple[Callable[[_Side, Seen], Any], ...] = (
        lambda side, seen: seen.motion,
        lambda side, seen: (
            _origin(side.entries[seen.index]) if seen.index in side.entries else None
        ),
        lambda side, seen: None if side.claims.ours else seen.index,
    )
    for key in keys:
        waiting: dict[Any, list[int]] = defaultdict(list)
        for index, seen in right.items():
            if (value := key(b, seen)) is not None:
                waiting[value].append(index)
        for index, seen in list(left.items()):
            if (value := key(a, seen)) is not None and waiting[value]:
                other = waiting[value].pop(0)
                pairs.append((index, other))
                del left[index], right[other]
    return sorted(pairs), sorted(left), sorted(right)


def _statistics(a: Claims, b: Claims) -> list[Difference]:
    """A row for each feature with other statistics: the number that differs most."""
    rows = []
    for name in (n for n in a.stats if n in b.stats and n not in POSITIONS):
        worst: tuple[float, str, str, str] | None = None
        for kind in STATISTICS:
            try:
                left, right = (
                    np.asarray(side.stats[name][kind], dtype=np.float64).ravel() for side in (a, b)
                )
            except (KeyError, TypeError, ValueError):
                continue
            if left.shape != right.shape:
                worst = (np.inf, kind, f"{len(left)} numbers", f"{len(right)} numbers")
            elif not np.array_equal(left, right, equal_nan=True):
                off = np.nan_to_num(np.abs(left - right), nan=np.inf)
                k = int(np.argmax(off))
                feature = a.features.get(name)
                names = feature.names if feature is not None and feature.kind == "number" else ()
                of = f"{kind} of {names[k]}" if k < len(names) else f"{kind}, number {k}"
                if worst is None or off[k] > worst[0]:
                    worst = (float(off[k]), of, f"{left[k]:.6g}", f"{right[k]:.6g}")
        if worst is not None:
            rows.append(Difference("statistics", f"{name}: {worst[1]}", *worst[2:]))
    return rows


def _frames(a: _Side, b: _Side, left: int, right: int) -> list[Difference]:
    """How two episodes differ in the numbers and pictures that both datasets have."""
    one, other, rows = a.seen[left], b.seen[right], []
    where = a.label(left)
    if left != right:
        where += f"; there {b.label(right).partition(',')[0]}"
    if one.length != other.length:
        lengths = (f"{one.length} frames", f"{other.length} frames")
        return [Difference("episode lengths", where, *lengths)]
    for name in (n for n in one.numbers if n in other.numbers and n not in POSITIONS):
        mine, theirs = one.numbers[name], other.numbers[name]
        if mine.shape != theirs.shape:
            continue  # told of the features
        equal = (mine == theirs) | ((mine != mine) & (theirs != theirs))
        if len(frames := np.flatnonzero(~equal.all(axis=1))):
            k = int(frames[0])
            number = int(np.flatnonzero(~equal[k])[0])
            place = f"{where}, {name}, {_count(frames, one.length)}, first frame {k}"
            values = (f"{mine[k, number]:.9g}", f"{theirs[k, number]:.9g}")
            rows.append(Difference("numbers", place, *values))
    for key in (n for n in one.pictures if n in other.pictures):
        if a.claims.features[key].size != b.claims.features[key].size:
            continue
        pairs = zip(one.pictures[key], other.pictures[key], strict=False)
        differing = [k for k, (mine, theirs) in enumerate(pairs) if mine != theirs]
        if differing:
            k = differing[0]
            place = f"{where}, {key}, {_count(differing, one.length)}, first frame {k}"
            rows.append(Difference("pictures", place, one.pictures[key][k], other.pictures[key][k]))
    return rows


def _count(frames: Any, length: int) -> str:
    return f"{len(frames)} of {length} frames"
