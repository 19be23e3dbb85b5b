"""The run directory of forks: created once, extended by more states and repetitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import codec
from capex.analysis.fork_kind import COMMAND, ForkedRun, forked_run
from capex.analysis.fork_origin import SavedState, fork_number, parse_state
from capex.campaign.manifest import changes
from capex.campaign.prepare import Prepared
from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode
from capex.models.prices import Price
from capex.run.files import write_bytes
from capex.run.manifest import Manifest, write_manifest
from capex.run.store import Run, create_run, find_run
from capex.untrusted import read_bytes


@dataclass(frozen=True)
class ForkRun:
    """A run of forks, checked against what is there, not written yet."""

    settings: Settings
    ready: Prepared
    numbers: dict[SavedState, int]
    forked: ForkedRun
    held: Run | None

    def create(self, gl_backend: str) -> tuple[Run, Price | None]:
        """Write the manifest, or extend it."""
        price = self.ready.price
        extensions = {COMMAND: codec.to_json(self.forked)}
        plan = replace(self.settings.plan, starts=self._starts())
        if self.held is not None:
            held = self.held.manifest
            arms = {**held.settings["arms"], **_identity(self.settings)["arms"]}
            settings = {**held.settings, "arms": arms}
            extended = replace(held, settings=settings, plan=plan, extensions=extensions)
            write_manifest(self.held.path, extended)
            return self.held, price
        manifest = Manifest(
            settings=_identity(self.settings),
            plan=plan,
            price=price,
            stand_in=self.ready.model.stand_in,
            extensions=extensions,
        )
        return create_run(self.settings.out, manifest, gl_backend), price

    def keep_record(self, state: SavedState, record: Path) -> None:
        """Keep a copy of the record of a forked episode: the report shows what became of it."""
        copy = self.settings.out / state.record_name
        if not copy.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(copy, read_bytes(record))

    def _starts(self) -> tuple[int, ...]:
        before = () if self.held is None else self.held.manifest.plan.starts
        return tuple(sorted({*before, *self.settings.starts}))


def open_forks(
    ready: Prepared, forked: ForkedRun, states: Sequence[tuple[SavedState, str]], times: int
) -> ForkRun:
    """The run of these forks, given with the hashes of their origins' records: a new one, or the
    one that is there with the same settings. Nothing is written.
    """
    out, held = ready.settings.out, None
    listed: dict[str, str] = {}
    if (out / "manifest.json").exists():
        held = find_run(out)
        manifest = held.manifest
        if manifest.recorded.command != COMMAND:
            raise CapexError(
                f"{out} holds a run of another kind; choose another --out",
                code=ErrorCode.WRONG_CONTENT,
            )
        before = forked_run(manifest)
        listed = dict(before.states)
        wrong = [str(c) for c in changes(manifest, _identity(ready.settings))]
        wrong += [
            f"{'the run' if k == 'run' else f'--{k}'}: {getattr(before, k)!r} before, {v!r} now"
            for k, v in vars(forked).items()
            if k != "states" and getattr(before, k) != v
        ]
        wrong += [f"{s}: another record" for s, sha in states if listed.get(str(s), sha) != sha]
        if wrong:
            raise CapexError(
                f"{out} holds forks with other settings ({'; '.join(wrong)}); repeat its settings,"
                " or choose another --out",
                code=ErrorCode.OTHER_SETTINGS,
            )
    listed |= {str(state): sha256 for state, sha256 in states}
    numbers = {parse_state(text): number for number, text in enumerate(listed)}
    starts = tuple(fork_number(numbers[s], r) for s, _ in states for r in range(times))
    # Without memory no fork waits for another.
    size = 1 if forked.remember else len(starts)
    settings = replace(ready.settings, starts=starts, round_size=size, judge="later")
    return ForkRun(settings, ready, numbers, replace(forked, states=listed), held)


def _identity(settings: Settings) -> dict[str, Any]:
    """What the records of forks depend on; of one round, they learn nothing from each other."""
    told = {**settings.identity, "command": COMMAND, "round_size": 1}
    identity: dict[str, Any] = json.loads(json.dumps(told))
    return identity
