"""What each part of the method brings, by skill: tables from the chains of a study.

    python benchmarks/method_worth_tables.py OUT [STUDY.toml]

Reads OUT/cells, which benchmarks/method_worth.py wrote. Intervals are 95 %. Bootstraps draw starts
within chains, the same for both arms of a pair. Episodes of a chain depend on each other, so the p
of a part swaps its two arms in whole chains: exactly up to 12 chains, else 20,000 random swaps.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from method_worth import STUDY, cells, read_study
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from capex.models.prices import load_prices
from capex.pose import Array
from capex.run import stats

EXACT_CHAINS, RANDOM_SWAPS, RESAMPLES = 12, 20_000, 2000
AUROC_RESAMPLES = 300
EVERY = "all"  # skills together
Row = dict[str, Any]
Key = tuple[Any, ...]  # skill, seed, task, start


@dataclass(frozen=True)
class Arm:
    """The episodes of an arm, at one skill or at all."""

    rows: Mapping[Key, Row]

    def column(self, name: str, keys: Sequence[Key] | None = None) -> Array:
        """One amount of each episode."""
        return np.array([self.rows[k][name] for k in keys or self.rows], dtype=np.float64)

    @cached_property
    def solved(self) -> int:
        """Successes."""
        return sum(bool(r["success"]) for r in self.rows.values())


def load(out: Path, study: Mapping[str, Any]) -> dict[tuple[Any, str], Arm]:
    """Arms by (skill, name), and by (EVERY, name) over all skills."""
    price = load_prices().find(study["price"])
    assert price is not None, study["price"]
    # No request is long enough for another tier, so an episode's tokens can be priced together.
    rates = [float(r) / 1e6 for r in price.rates(0)]
    arms: dict[tuple[Any, str], dict[Key, Row]] = {}
    for cell in cells(study):
        path = out / "cells" / f"{cell.name}.json"
        if not path.exists():
            continue
        for position, row in enumerate(json.loads(path.read_text())["episodes"]):
            counts = [row["tokens"][k] for k in ("fresh", "cached", "cache_write", "output")]
            row |= {"usd": float(np.dot(counts, rates)), "position": position}
            key = (cell.skill, cell.seed, cell.task, row["start"])
            for skill in (cell.skill, EVERY):
                arms.setdefault((skill, cell.arm), {})[key] = row
    return {key: Arm(rows) for key, rows in arms.items()}


@dataclass(frozen=True)
class Pair:
    """capex and another arm on the starts that both have tried."""

    ours: Arm
    other: Arm

    @cached_property
    def keys(self) -> list[Key]:
        """The starts of both, chain by chain."""
        return sorted(self.ours.rows.keys() & self.other.rows.keys())

    @cached_property
    def chains(self) -> list[list[int]]:
        """Places in `keys`, by chain."""
        found: dict[Key, list[int]] = {}
        for place, key in enumerate(self.keys):
            found.setdefault(key[:3], []).append(place)
        return list(found.values())

    @cached_property
    def drawn(self) -> Array:
        """Places in `keys`, drawn anew within chains: (resamples, n)."""
        rng = np.random.default_rng(0)
        parts = [np.array(c)[rng.integers(0, len(c), (RESAMPLES, len(c)))] for c in self.chains]
        return np.concatenate(parts, axis=1)

    def both(self, name: str) -> tuple[Array, Array]:
        """An amount of each start, with capex and with the other arm."""
        return self.ours.column(name, self.keys), self.other.column(name, self.keys)

    def success(self) -> tuple[float, tuple[float, float], int, int]:
        """Difference of success, its interval, and the starts that only one of them solved."""
        a, b = self.both("success")
        gain = a - b
        ends = np.quantile(gain[self.drawn].mean(axis=1), [0.025, 0.975])
        return float(gain.mean()), (ends[0], ends[1]), int((gain > 0).sum()), int((gain < 0).sum())

    def ratio(self, name: str) -> tuple[float, tuple[float, float]] | None:
        """An amount per success relative to the other arm's, with its interval; None where one of
        them has no success.
        """
        (a, b), (won, lost) = self.both(name), self.both("success")
        if not won.sum() or not lost.sum():
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            ours = a[self.drawn].sum(axis=1) / won[self.drawn].sum(axis=1)
            drawn = ours / (b[self.drawn].sum(axis=1) / lost[self.drawn].sum(axis=1))
        ends = np.quantile(drawn[~np.isnan(drawn)], [0.025, 0.975], method="inverted_cdf")
        point = (a.sum() / won.sum()) / (b.sum() / lost.sum())
        return float(point), (float(ends[0]), float(ends[1]))

    def swapped(self, name: str | None = None) -> float:
        """p of the difference of success, or of an amount per success, when the arms are swapped in
        whole chains.
        """
        won = [np.array([v[c].sum() for c in self.chains]) for v in self.both("success")]
        cost = won
        if name is not None:
            cost = [np.array([v[c].sum() for c in self.chains]) for v in self.both(name)]

        def difference(signs: Array) -> Array:
            kept = (signs + 1) / 2
            wins = [kept @ won[0] + (1 - kept) @ won[1], kept @ won[1] + (1 - kept) @ won[0]]
            if name is None:
                return np.asarray(wins[0] - wins[1])
            spent = [kept @ cost[0] + (1 - kept) @ cost[1], kept @ cost[1] + (1 - kept) @ cost[0]]
            # Half a success keeps what has none finite.
            return np.asarray(
                np.log(spent[0] / (wins[0] + 0.5)) - np.log(spent[1] / (wins[1] + 0.5))
            )

        n = len(self.chains)
        observed = abs(difference(np.ones((1, n)))[0])
        if n <= EXACT_CHAINS:
            signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
            return float((np.abs(difference(signs)) >= observed - 1e-9).mean())
        signs = np.random.default_rng(0).choice((-1.0, 1.0), (RANDOM_SWAPS, n))
        as_far = int((np.abs(difference(signs)) >= observed - 1e-9).sum())
        return (as_far + 1) / (RANDOM_SWAPS + 1)

    def where_both_solved(self, name: str) -> tuple[float, float, stats.SignTest]:
        """An amount at equal success: its means over the starts that both solved, and a sign
        test.
        """
        (a, b), (won, lost) = self.both(name), self.both("success")
        told = (won > 0) & (lost > 0)
        test = stats.sign_test(a[told], b[told])
        if not told.any():
            return math.nan, math.nan, test
        return float(a[told].mean()), float(b[told].mean()), test


def arm_table(
    arms: Mapping[tuple[Any, str], Arm], skills: Sequence[Any], names: list[str]
) -> Table:
    """Success and amounts per success of every arm."""
    titles = ("requests", "steps", "dollars")
    table = _table("skill", "arm", "success", "%", *titles, "plans cut", "s an episode")
    for skill in skills:
        for name in names:
            if (arm := arms.get((skill, name))) is None:
                continue
            n, rows = len(arm.rows), list(arm.rows.values())
            low, high = stats.wilson(arm.solved, n)
            share = f"{100 * arm.solved / n:.0f} ({100 * low:.0f}-{100 * high:.0f})"
            plans = sum(r["plans"] for r in rows)
            table.add_row(
                f"{skill}",
                name,
                f"{arm.solved}/{n}",
                share,
                *(_per_success(arm, amount) for amount in ("requests", "steps", "usd")),
                f"{100 * sum(r['truncated'] for r in rows) / plans:.0f} %" if plans else "",
                f"{arm.column('seconds').mean():.1f}",
            )
    return table


def _per_success(arm: Arm, name: str) -> str:
    amounts, solved = list(arm.column(name)), [bool(r["success"]) for r in arm.rows.values()]
    value = stats.per_success(amounts, arm.solved)
    ends = stats.per_success_interval(amounts, solved, [k[:3] for k in arm.rows])
    if value is None or ends is None:
        return ""
    digits = 2 if name == "usd" else 0 if name == "steps" else 1
    return f"{_number(value, digits)} ({_number(ends[0], digits)}-{_number(ends[1], digits)})"


def confidence_table(
    arms: Mapping[tuple[Any, str], Arm], skills: Sequence[Any], names: list[str]
) -> Table:
    """ECE and AUROC over executed waypoints, each predicted before its outcome."""
    kinds = ("stated ECE", "AUROC", "calibrated ECE", "AUROC")
    table = _table("skill", "arm", "waypoints", "reached", "stated", *kinds)
    for skill in skills:
        for name in names:
            arm = arms.get((skill, name))
            rows = [r for r in arm.rows.values() if _told(r)] if arm else []
            if not rows:
                continue
            labels = np.concatenate([_labels(r) for r in rows])
            stated = np.concatenate([_values(r, "stated") for r in rows])
            cut = [f"{len(labels):,}", f"{100 * labels.mean():.0f} %", f"{stated.mean():.2f}"]
            judged = [c for kind in ("stated", "calibrated") for c in _judged(rows, kind)]
            table.add_row(f"{skill}", name, *cut, *judged)
    return table


def _told(row: Row) -> list[int]:
    """Places of the labelled waypoints with a confidence."""
    return [k for k, q in enumerate(row["stated"]) if q is not None]


def _labels(row: Row) -> Array:
    return np.array([row["label"][k] for k in _told(row)], dtype=np.float64)


def _values(row: Row, kind: str) -> Array:
    """Confidences; where nothing was calibrated, the stated ones counted."""
    pairs = zip(row[kind], row["stated"], strict=True)
    return np.array([q if p is None else p for p, q in pairs if q is not None], dtype=np.float64)


def _judged(rows: Sequence[Row], kind: str) -> tuple[str, str]:
    """ECE and AUROC with intervals; episodes are drawn anew."""
    labels, values = [_labels(r) for r in rows], [_values(r, kind) for r in rows]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(AUROC_RESAMPLES):
        chosen = rng.integers(0, len(rows), len(rows))
        y, p = (np.concatenate([column[k] for k in chosen]) for column in (labels, values))
        drawn.append((stats.ece(p, y), stats.auroc(p, y)))
    y, p = np.concatenate(labels), np.concatenate(values)
    error, area = (
        _within(v) for v in zip((stats.ece(p, y), stats.auroc(p, y)), *drawn, strict=True)
    )
    return error, area


def _within(values: Sequence[float]) -> str:
    """The first of some values, and where 95 % of the others lie; empty where there is none."""
    others = [v for v in values[1:] if not math.isnan(v)]
    if math.isnan(values[0]) or not others:
        return ""
    low, high = np.quantile(others, [0.025, 0.975])
    return f"{values[0]:.2f} ({low:.2f}-{high:.2f})"


def part_table(
    arms: Mapping[tuple[Any, str], Arm], skills: Sequence[Any], parts: Mapping[str, str]
) -> Table:
    """What each part brings: paired differences with tests."""
    table = _table(
        *("part", "skill", "success gained, points", "only with / without", "McNemar", "swaps"),
        *("requests, ratio", "p", "steps, ratio", "p", "dollars, ratio", "p"),
    )
    for part, other in parts.items():
        for skill in skills:
            if (pair := pair_of(arms, skill, other)) is None:
                continue
            gain, ends, only, lost = pair.success()
            ratios = [
                cell
                for name in ("requests", "steps", "usd")
                for cell in (_ratio(pair.ratio(name)), _p(pair.swapped(name)))
            ]
            table.add_row(
                part,
                f"{skill}",
                f"{100 * gain:+.0f} ({100 * ends[0]:+.0f} to {100 * ends[1]:+.0f})",
                f"{only} / {lost}",
                _p(stats.mcnemar(only, lost)),
                _p(pair.swapped()),
                *ratios,
            )
    return table


def equal_table(
    arms: Mapping[tuple[Any, str], Arm], skills: Sequence[Any], parts: Mapping[str, str]
) -> Table:
    """Requests and steps at equal success: on the starts that both arms solved."""
    columns = [f"{n} {word}" for n in ("requests", "steps") for word in ("with, without", "fewer")]
    table = _table("part", "skill", "starts", *columns[:2], "p", *columns[2:], "p")
    for part, other in parts.items():
        for skill in skills:
            if (pair := pair_of(arms, skill, other)) is None:
                continue
            both = [pair.where_both_solved(name) for name in ("requests", "steps")]
            if not (n := both[0][2].smaller + both[0][2].larger + both[0][2].equal):
                continue
            told = [
                cell
                for ours, theirs, test in both
                for cell in (
                    f"{ours:.1f}, {theirs:.1f}",
                    f"{test.smaller} of {test.smaller + test.larger}",
                    _p(test.p),
                )
            ]
            table.add_row(part, f"{skill}", f"{n}", *told)
    return table


def chain_table(
    arms: Mapping[tuple[Any, str], Arm], skills: Sequence[Any], names: list[str]
) -> Table:
    """Success in the first and in the second half of the chains: what experience changes."""
    table = _table("arm", *(f"{skill}: first half, second" for skill in skills))
    for name in names:
        halves = []
        for skill in skills:
            rows = list(arms[skill, name].rows.values()) if (skill, name) in arms else []
            middle = (1 + max((r["position"] for r in rows), default=0)) / 2
            early = [bool(r["success"]) for r in rows if r["position"] < middle]
            late = [bool(r["success"]) for r in rows if r["position"] >= middle]
            halves.append(f"{sum(early)}/{len(early)}, {sum(late)}/{len(late)}")
        table.add_row(name, *halves)
    return table


def pair_of(arms: Mapping[tuple[Any, str], Arm], skill: Any, other: str) -> Pair | None:
    """capex and another arm at a skill; None where they share no start."""
    if (skill, "capex") not in arms or (skill, other) not in arms:
        return None
    pair = Pair(arms[skill, "capex"], arms[skill, other])
    return pair if pair.keys else None


def _table(*columns: str) -> Table:
    table = Table(box=MARKDOWN)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _ratio(found: tuple[float, tuple[float, float]] | None) -> str:
    if found is None:
        return "none solved"
    return f"{found[0]:.2f} ({_number(found[1][0], 2)}-{_number(found[1][1], 2)})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "∞"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("study", type=Path, nargs="?", default=STUDY)
    args = parser.parse_args()
    study = read_study(args.study)
    arms = load(args.out, study)
    if not arms:
        parser.exit(
            1, f"{args.out} has no whole chain of {args.study}; run method_worth.py first\n"
        )
    skills, names, parts = [*study["skills"], EVERY], list(study["arms"]), study["parts"]
    console = Console(width=240)
    console.print(f"model {study['model']}, seeds {study['seeds']}, starts {study['starts']}\n")
    told = [n for n in names if n != "base"]
    for title, table in (
        ("Every arm; amounts per success", arm_table(arms, study["skills"], names)),
        (
            "What each part brings (capex against the arm without it)",
            part_table(arms, skills, parts),
        ),
        ("At equal success: starts that both solved", equal_table(arms, skills, parts)),
        ("Over a chain", chain_table(arms, study["skills"], names)),
        ("Confidence over executed waypoints", confidence_table(arms, study["skills"], told)),
    ):
        console.print(f"## {title}\n", table)


if __name__ == "__main__":
    main()
