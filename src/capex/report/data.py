"""Run directories as rows.

Records are read chain by chain and reduced at once, so that ten thousand of them fit. What cannot
be read is left out and said so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capex.errors import CapexError
from capex.report.branches import leave_out_copies, lineage, number_of
from capex.report.rows import RunData, RunInfo, cost_row
from capex.run import Damaged, LoadedChain, load_chain, parts
from capex.run.files import TEMPORARY
from capex.run.manifest import Manifest
from capex.run.spend import Account, ChainStart, Spend
from capex.run.store import SPEND, Chain, Run, find_run
from capex.run.summary import forgotten, invalid_attempts, of_episode, summarize, unrecorded
from capex.worlds import split_name

DRIVEN = "a person drove the robot"
SPOKEN_TO = "the operator spoke to the model"


def load(paths: Sequence[Path], *, unaided: bool = False) -> RunData:
    """Read runs. A folder that is no run is refused; a damaged record inside one becomes a sentence
    in `problems`. What a person drove is nobody's success or failure and counts like an invalid
    attempt; with `unaided`, so does what the operator spoke to.
    """
    unique = {path.resolve(): path for path in reversed(paths)}
    names = _names(list(unique))
    data = RunData(unaided=unaided)
    for path in reversed(unique):
        run = find_run(path)
        info = _info(run, names[path], unique[path], data.problems)
        data.runs.append(info)
        _read(run, info, len(data.runs) - 1, data)
    leave_out_copies(data)
    return data


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """A short name for each run: the folder's, with its parent's where two are alike."""
    twice = {p.name for p in paths if sum(q.name == p.name for q in paths) > 1}
    return {p: f"{p.parent.name}/{p.name}" if p.name in twice else p.name for p in paths}


def _info(run: Run, name: str, given: Path, problems: list[str]) -> RunInfo:
    try:
        manifest = run.manifest
    except CapexError as error:
        problems.append(
            f"Run {name}: {error}. Its settings are not known, so it is kept apart from all others."
        )
        return RunInfo(name, run.path, given, None, Manifest())
    return RunInfo(name, run.path, given, manifest.settings, manifest)


def _read(run: Run, info: RunInfo, number: int, data: RunData) -> None:
    held: dict[tuple[str, str], dict[str, set[int]]] = {}
    asked: dict[tuple[str, str], set[int]] = {}
    successes: dict[tuple[str, str, str], int] = {}
    chains = run.chains()
    slots = _slots(run, info, data.problems)
    lacking = 0  # starts of which spend.jsonl has less than the records
    ancestors = lineage(info)
    before, out_before = len(data.episodes), len(data.invalid)
    for chain in chains:
        loaded = load_chain(chain)
        first, out = len(data.episodes), len(data.invalid)
        damaged = list(loaded.damaged)
        origins = [ancestor.origin for ancestor in ancestors]
        own, *inherited = parts(loaded, origins)
        lacking += len(forgotten(loaded, slots, origins)) if slots is not None else 0
        damaged += _add(own, number, slots or {}, data)
        for part, ancestor in zip(inherited, ancestors, strict=True):
            damaged += _add(part, number_of(ancestor, info, data), {}, data)
        for damage in damaged:
            place = damage.path.relative_to(run.path)
            data.problems.append(
                f"Run {info.name}: {place} was left out:"
                f" {damage.reason.replace(str(damage.path) + '/', '')}."
            )
        starts = {e.number for e in data.episodes[first:]} | {a.index for a in loaded.invalid}
        starts |= {row.start for row in data.invalid[out:]}
        held.setdefault((loaded.world, loaded.task), {})[loaded.arm] = starts
        try:
            asked.setdefault((loaded.world, loaded.task), set()).update(chain.asked())
        except CapexError as error:
            data.problems.append(f"Run {info.name}: {error}.")
        successes[loaded.world, loaded.task, loaded.arm] = loaded.successes
        if cut := _being_written(chain):
            what = f"{chain.path.name} has {cut} unfinished {'attempt' if cut == 1 else 'attempts'}"
            data.problems.append(f"Run {info.name}: {what}, running now or cut off.")
    if lacking:
        where = "1 start" if lacking == 1 else f"{lacking} starts"
        data.problems.append(
            f"Run {info.name}: spend.jsonl has lost lines: the records of {where} hold requests"
            " that it lacks. Costs are those of the records; capex repair enters them again."
        )
    for why in (DRIVEN, SPOKEN_TO):
        if steered := sum(row.error == why for row in data.invalid[out_before:]):
            attempts = "1 attempt was" if steered == 1 else f"{steered} attempts were"
            data.problems.append(
                f"Run {info.name}: {attempts} left out because {why}; what they took counts as that"
                " of invalid attempts."
            )
    if spoken := sum(e.messages > 0 for e in data.episodes[before:]):
        attempts = "1 attempt" if spoken == 1 else f"{spoken} attempts"
        data.problems.append(
            f"Run {info.name}: in {attempts} the operator spoke to the model, which was told what"
            " others were not; --unaided leaves them out."
        )
    data.problems += _unfinished(info, held, asked, successes)
    if len(data.episodes) == before:
        what = "holds no chain yet" if not chains else "holds no readable episode"
        data.problems.append(f"Run {info.name} {what}: there is nothing to report from it.")


def _being_written(chain: Chain) -> int:
    return (
        len(list(chain.episodes_path.glob(f"{TEMPORARY}*"))) if chain.episodes_path.is_dir() else 0
    )


def _slots(run: Run, info: RunInfo, problems: list[str]) -> Mapping[ChainStart, Account] | None:
    """What each start took by spend.jsonl; None where that cannot be read."""
    try:
        slots = Spend(run.path / SPEND).slots()
    except CapexError as error:
        problems.append(f"Run {info.name}: {error}. What left no record is therefore not counted.")
        return None
    if above := [account for account in slots.values() if account.overruns]:
        requests, usd = sum(a.overruns for a in above), sum(a.overrun_usd for a in above)
        problems.append(
            f"Run {info.name}: {requests} requests cost ${usd:.4f} more than their worst case; the"
            " price row or the token counts of the server are wrong."
        )
    return slots


def _add(
    chain: LoadedChain, run: int, slots: Mapping[ChainStart, Account], data: RunData
) -> list[Damaged]:
    """Take a chain's rows in; returns what could not be read."""
    damaged = []
    for found in chain.episodes:
        try:
            row = summarize(found, run)
            spoken = data.unaided and row.messages > 0
            steered = DRIVEN if row.human_steps else SPOKEN_TO if spoken else ""
            if steered:
                cost = cost_row(found.index, of_episode(found), chain, run, data.runs[run])
                data.invalid.append(replace(cost, error=steered))
            else:
                data.episodes.append(row)
        except (TypeError, ValueError, AttributeError) as error:
            damaged.append(Damaged(found.path, f"it garbles a field ({error})"))
    info = data.runs[run]
    data.invalid += [
        cost_row(a.index, taken, chain, run, info, a) for a, taken in invalid_attempts(chain)
    ]
    data.lost += [
        cost_row(start, taken, chain, run, info)
        for start, taken in sorted(unrecorded(chain, slots).items())
    ]
    return damaged


def _unfinished(
    info: RunInfo,
    held: Mapping[tuple[str, str], Mapping[str, set[int]]],
    asked: Mapping[tuple[str, str], set[int]],
    successes: Mapping[tuple[str, str, str], int],
) -> list[str]:
    """Which starts are missing: of those the run was asked for where it says so, and else of those
    that another arm has tried.
    """
    plan = info.manifest.plan
    settings, planned, wanted = info.recorded, set(plan.starts), plan.until_successes
    lacking: list[str] = []
    listed = [split_name(t) for t in settings.tasks] if planned else []
    tasks = list(dict.fromkeys([*(t for t in listed if t[1]), *held]))
    for world, task in tasks:
        by_arm = held.get((world, task), {})
        arms = list(dict.fromkeys([*(settings.arms if planned else ()), *by_arm]))
        expected = planned or set().union(asked.get((world, task), set()), *by_arm.values())
        for arm in arms:
            if wanted is not None and successes.get((world, task, arm), 0) >= wanted:
                continue
            missing = expected - by_arm.get(arm, set())
            if missing:
                lacking.append(f"{arm} at {task}: {len(missing)} of {len(expected)} starts")
    if not lacking:
        return []
    shown = "; ".join(lacking[:6]) + (f"; and {len(lacking) - 6} more" if len(lacking) > 6 else "")
    return [f"Run {info.name} is not finished. Missing: {shown}."]
