"""The manifest of a campaign: created once, extended by more tasks, arms and starts, never changed
in what its records depend on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import codec
from capex.campaign import world_files
from capex.campaign.settings import CAMPAIGN, METHOD, OPTIONS, Settings
from capex.errors import CapexError, ErrorCode
from capex.models.prices import Price
from capex.registry import RUN_FOLDERS
from capex.run.files import TEMPORARY
from capex.run.manifest import Manifest, Origin, SettingChange, fingerprint, write_manifest
from capex.run.store import EPISODES, Run, create_run, find_run, open_run
from capex.run.verdicts import OPINIONS, VERDICTS
from capex.setting import as_flag

OPEN_LISTS = ("tasks", "arms", world_files.KEY)  # a run may get more of these


@dataclass(frozen=True)
class Change:
    """A setting that differs from the run's."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        if self.name in ("prompt", "hints"):
            return f"--{self.name}: another text"
        if ".priors" in self.name:
            return "--prior: other labels than it began with"
        if self.name == "limits.wall_s":
            before, now = (None if s is None else s / 60 for s in (self.before, self.now))
            return f"--episode-minutes: {before} before, {now} now"
        if self.name.startswith(f"{world_files.KEY}."):
            where = self.name.removeprefix(f"{world_files.KEY}.")
            what = world_files.what(where)
            return f"{what}, {where}: {self.before!r} before, {self.now!r} now"
        return f"{self._typed}: {self.before!r} before, {self.now!r} now"

    @property
    def _typed(self) -> str:
        """The flag, where there is one."""
        where, _, name = self.name.rpartition(".")
        if where.startswith("arms."):
            of = f" of arm {where.removeprefix('arms.')}"
            return as_flag(name) + of if name in METHOD.keys() & OPTIONS.keys() else name + of
        if where == "price":
            return f"--prices, {name}"
        return as_flag(name) if name in CAMPAIGN else self.name


def open_campaign(
    path: Path,
    settings: Settings,
    price: Price | None,
    *,
    stand_in: bool = False,
    branch: bool = False,
    gl_backend: str = "",
    operator: str = "",
) -> tuple[Run, Price | None]:
    """Create a campaign's run directory or continue it; returns it with the price row that holds
    for it.

    Changed settings are refused with a list of them, or go into a branch: a run beside it that
    begins with its episodes. `operator`: who stands beside a robot, a person or the stand-in.
    """
    beside = {"operator": operator} if operator else {}
    wanted: dict[str, Any] = json.loads(json.dumps(settings.identity | beside))
    worlds = [world for world, _ in settings.tasks]
    if not (path / "manifest.json").exists():
        if branch:
            raise CapexError(
                f"{path} holds no run that could be branched; leave --branch out",
                code=ErrorCode.NOT_FOUND,
            )
        manifest = Manifest(
            settings=wanted,
            plan=settings.plan,
            price=price,
            stand_in=stand_in,
            world_files=world_files.texts(worlds),
        )
        created = create_run(path, manifest, gl_backend)
        world_files.copy(path, worlds)
        return created, price
    run = find_run(path)
    if run.manifest.recorded.command != "collect":
        raise CapexError(
            f"{path} holds a run of another kind (`capex expert`?); choose another --out",
            code=ErrorCode.WRONG_CONTENT,
        )
    changed = changes(run.manifest, wanted, price if "prices" in settings.typed else None)
    if branch:
        if not changed:
            raise CapexError(
                f"{path} has these very settings, so there is nothing to branch; leave --branch"
                " out to continue it",
                code=ErrorCode.NOT_APPLICABLE,
            )
        run = _branch(run, settings, wanted, price, changed)
    elif changed:
        listed = "; ".join(dict.fromkeys(str(c) for c in changed))
        advice = "repeat its settings, choose another --out, or add --branch to branch it"
        raise CapexError(
            f"{path} holds a run with other settings ({listed}); {advice}",
            code=ErrorCode.OTHER_SETTINGS,
        )
    _extend(run, settings, wanted)
    return run, run.manifest.price


def open_without_model(settings: Settings, *, stand_in: bool, gl_backend: str) -> Run:
    """The run directory of a demonstrator that asks no model; more tasks and starts may be added to
    it, from the same worlds.
    """
    worlds = sorted({world for world, _ in settings.tasks})
    identity: dict[str, Any] = {"command": settings.model, "worlds": worlds}
    if texts := world_files.texts(worlds):  # also with a changed file it is another run
        identity["world files"] = {world: text.sha256 for world, text in texts.items()}
    run = open_run(settings.out, identity, gl_backend)
    world_files.copy(run.path, worlds)
    held = run.manifest
    kept = texts or held.world_files
    _update(run, held, replace(held, world_files=kept, plan=settings.plan, stand_in=stand_in))
    return run


def note_operator(run: Run, name: str, stand_in: bool) -> None:
    """Write down who arranges and judges, so that a stand-in is known as one."""
    manifest = run.manifest
    _update(run, manifest, replace(manifest, operators={**manifest.operators, name: stand_in}))


def _update(run: Run, held: Manifest, now: Manifest) -> None:
    if now != held:
        write_manifest(run.path, now)


def moved_from(run: Run, gl_backend: str) -> str:
    """What is not as it was where the run began, as a sentence; nothing when bits can be expected
    to be the same.
    """
    began, here = (run.manifest.fingerprint, json.loads(json.dumps(fingerprint(gl_backend))))
    names = [name for name in sorted({*began, *here}) if began.get(name) != here.get(name)]
    if not names:
        return ""
    return (
        f"the run began elsewhere ({', '.join(names)} differ): it goes on, but its records are no"
        " longer comparable bit for bit"
    )


def changes(
    manifest: Manifest, wanted: Mapping[str, Any], price: Price | None = None
) -> list[Change]:
    """What differs between a run's settings and the wanted ones, setting by setting; more tasks and
    arms are no change.
    """
    begun = manifest.settings
    changed: list[Change] = []
    for name in sorted({*begun, *wanted} - set(OPEN_LISTS)):
        changed += _differences(name, begun.get(name), wanted.get(name))
    for name, method in sorted(wanted["arms"].items()):
        if name in begun.get("arms", {}):
            changed += _differences(f"arms.{name}", begun["arms"][name], method)
    for world, now in sorted(wanted.get(world_files.KEY, {}).items()):
        if (before := begun.get(world_files.KEY, {}).get(world)) is not None:
            tasks = world_files.TASKS
            both = before.get(tasks, {}).keys() & now[tasks].keys()
            before, now = (r | {tasks: {t: r[tasks][t] for t in both}} for r in (before, now))
            changed += _differences(f"{world_files.KEY}.{world}", before, now)
    if price is not None and manifest.price != price:
        changed += _differences("price", codec.to_json(manifest.price), codec.to_json(price))
    return changed


def _differences(name: str, before: Any, now: Any) -> list[Change]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return [
            c
            for key in sorted({*before, *now})
            for c in _differences(f"{name}.{key}", before.get(key), now.get(key))
        ]
    return [] if before == now else [Change(name, before, now)]


def _extend(run: Run, settings: Settings, wanted: Mapping[str, Any]) -> None:
    """Write down what this command adds."""
    manifest = run.manifest
    held = manifest.settings
    tasks = [*held["tasks"], *(t for t in wanted["tasks"] if t not in held["tasks"])]
    extended = {**held, "tasks": tasks, "arms": {**held["arms"], **wanted["arms"]}}
    texts = manifest.world_files
    if (key := world_files.KEY) in wanted:
        extended[key] = world_files.extended(held.get(key, {}), wanted[key])
        texts = {**world_files.texts(world for world, _ in settings.tasks), **texts}
    now = replace(manifest, settings=extended, plan=settings.plan, world_files=texts)
    _update(run, manifest, now)


def _branch(
    run: Run, settings: Settings, wanted: dict[str, Any], price: Price | None, changed: list[Change]
) -> Run:
    """The branch of a run with these settings: the one that exists, or a new one that begins with
    the run's episodes.
    """
    if any(c.name in ("seed", "command") for c in changed):
        raise CapexError(
            f"{run.path} cannot be branched: another seed or another command has other starts;"
            " choose another --out",
            code=ErrorCode.OTHER_SETTINGS,
        )
    for known in _branch_folders(run):
        branch = find_run(known)
        if [o.run for o in branch.manifest.origins[:1]] == [run.path.name] and not changes(
            branch.manifest, wanted, price
        ):
            return branch
    number = len(_branch_folders(run)) + 1
    branch_dir = run.path.with_name(f"{run.path.name}-branch{number}")
    scratch = branch_dir.with_name(f"{TEMPORARY}{os.getpid()}-{branch_dir.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        episodes: dict[str, tuple[int, ...]] = {}
        invalid: dict[str, tuple[str, ...]] = {}
        for world, task in settings.tasks:
            for method in settings.methods:
                source = run.chain(world, task, method.name)
                target = Run(scratch).chain(world, task, method.name)
                for kind in ("episodes", "invalid"):
                    for folder in (source.path / kind).glob("[0-9]*"):
                        shutil.copytree(
                            folder, target.path / kind / folder.name, copy_function=_link
                        )
                if finished := source.finished():
                    episodes[source.path.name] = tuple(finished)
                if names := [p.name for p in source.invalid()]:
                    invalid[source.path.name] = tuple(names)
        held = run.manifest
        origin = Origin(
            run=run.path.name,
            changed=tuple(SettingChange(c.name, c.before, c.now) for c in changed),
            episodes=episodes,
            invalid=invalid,
            branched_from=held.branched_from,
        )
        branched = replace(
            held,
            settings=wanted,
            plan=settings.plan,
            price=price,
            world_files=world_files.texts(world for world, _ in settings.tasks),
            branched_from=origin,
        )
        scratch.mkdir(parents=True, exist_ok=True)
        world_files.copy(scratch, (world for world, _ in settings.tasks))
        for name in RUN_FOLDERS:
            if (run.path / name).is_dir():
                shutil.copytree(run.path / name, scratch / name, copy_function=_link)
        write_manifest(scratch, branched)
        os.rename(scratch, branch_dir)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return Run(branch_dir)


def _branch_folders(run: Run) -> list[Path]:
    """The runs beside a run that are named as its branches."""
    folders: list[Path] = []
    while (folder := run.path.with_name(f"{run.path.name}-branch{len(folders) + 1}")).exists():
        folders.append(folder)
    return folders


def disown(run: Run, attempt: Path, to: Path | None = None) -> None:
    """Strike an attempt from what a branch began with: whatever is run in its place is the branch's
    own. `to`: an invalid attempt that it became, which stays inherited.
    """
    manifest = run.manifest
    struck = _struck(manifest.branched_from, attempt, to)
    _update(run, manifest, replace(manifest, branched_from=struck))


def _struck(origin: Origin | None, attempt: Path, to: Path | None) -> Origin | None:
    """An origin, and those before it, without an attempt."""
    if origin is None:
        return None
    chain, whole = attempt.parent.parent.name, attempt.parent.name == EPISODES
    episodes, invalid = origin.episodes.get(chain, ()), origin.invalid.get(chain, ())
    if int(attempt.name) in episodes if whole else attempt.name in invalid:
        episodes = tuple(i for i in episodes if not (whole and i == int(attempt.name)))
        invalid = tuple(name for name in invalid if whole or name != attempt.name)
        invalid += () if to is None else (to.name,)
    return replace(
        origin,
        episodes={**origin.episodes, chain: episodes},
        invalid={**origin.invalid, chain: invalid},
        branched_from=_struck(origin.branched_from, attempt, to),
    )


def _link(source: str, target: str) -> str:
    """A second name for a file that is never changed; a copy where the disk has no such thing, and
    of verdicts, to which each run adds its own.
    """
    if Path(source).name not in (VERDICTS, OPINIONS):
        with contextlib.suppress(OSError):
            os.link(source, target)
            return target
    return str(shutil.copy2(source, target))
