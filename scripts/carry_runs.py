"""Take runs to another machine without their states, and execute them there again.

    python scripts/carry_runs.py pack runs/pilot runs/expert --out demonstrations.tar.xz
    python scripts/carry_runs.py unpack demonstrations.tar.xz --out runs --parallel 16

What is packed of each certified episode: its record, certificate, times, actions, and a digest of
its states: about 10 kB, of 150 kB and more with states and pictures. Unpacking executes the actions
from the start again and writes the states that come of it. Where they equal the recorded ones to
the last bit the certificate holds; other episodes lose it, and `capex certify` judges them anew.
For a GPU that can be reached by a narrow way only: pictures are then drawn from the states
(`capex export --format pack`).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from capex import worlds
from capex.errors import CapexError
from capex.method.executor import Tick
from capex.method.state import Recorder
from capex.run.files import read_json, whole_folder, write_bytes, write_json
from capex.run.jobs import run_jobs
from capex.run.reading import load_episode
from capex.run.steps import STEPS, archive, read_steps
from capex.run.store import find_run
from capex.worlds import Start

CERTIFICATE = "certificate.json"
KEPT = ("record.json", "timing.json", CERTIFICATE)
ACTED = "acted.npz"  # of each episode: what it did, and the digest of where that led
LED_TO = ("states", "proprio")


def pack(runs: list[Path], out: Path) -> int:
    """Write an archive; returns the number of episodes."""
    if twice := {run.name for run in runs if [r.name for r in runs].count(run.name) > 1}:
        raise CapexError(f"several runs are called {', '.join(sorted(twice))}; rename one of them")
    if out.exists():
        raise CapexError(f"{out} exists already; choose another --out or remove it")
    count, whole = 0, io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz") as archived:
        for run in runs:
            archived.add(find_run(run).path / "manifest.json", f"{run.name}/manifest.json")
            for episode_dir in _certified(run):
                inside = f"{run.name}/{episode_dir.relative_to(run)}"
                for name in KEPT:
                    archived.add(episode_dir / name, f"{inside}/{name}")
                steps = read_steps(episode_dir)
                arrays = {k: v for k, v in steps.items() if k not in LED_TO}
                content = archive(arrays | {"digest": np.array(digest(steps))})
                entry = tarfile.TarInfo(f"{inside}/{ACTED}")
                entry.size = len(content)
                archived.addfile(entry, io.BytesIO(content))
                count += 1
    write_bytes(out, whole.getvalue())
    return count


def _certified(run: Path) -> Iterator[Path]:
    for chain in find_run(run).chains():
        for episode_dir in sorted(chain.episodes_path.glob("[0-9]*")):
            path = episode_dir / CERTIFICATE
            if path.is_file() and read_json(path).get("certified") is True:
                yield episode_dir


def digest(steps: Mapping[str, Any]) -> str:
    """Of everything that executing the actions led to."""
    found = hashlib.sha256()
    for name in LED_TO:
        found.update(np.ascontiguousarray(steps[name], dtype=np.float64).tobytes())
    return found.hexdigest()


def execute(episode_dir: Path) -> bool:
    """Execute an episode's actions from its start and write its states; whether they equal the
    recorded ones.
    """
    path = episode_dir / ACTED
    with np.load(path, allow_pickle=False) as saved:
        acted = {name: saved[name] for name in saved.files}
    record = load_episode(episode_dir).record
    env = worlds.make(f"{record.world}:{record.task}")
    try:
        env.reset(Start(record.task, record.start, record.seed))
        recorder, begins = Recorder(env), set(acted["plan_starts"].tolist())
        for step, action in enumerate(acted["actions"]):
            if step in begins:
                recorder.begin_plan()
            env.apply(action)
            tick = Tick(action, env.robot_state(), False, int(acted["waypoint"][step]))
            recorder(tick)
        steps, success = recorder.steps, env.success()
    finally:
        env.close()
    content = archive(steps)
    (episode_dir / STEPS).write_bytes(content)
    path.unlink()
    same = success is True and digest(steps) == str(acted["digest"])
    certificate = episode_dir / CERTIFICATE
    if same:  # of the same arrays, packed anew
        told = read_json(certificate)
        told["digests"] = told["digests"] | {STEPS: hashlib.sha256(content).hexdigest()}
        write_json(certificate, told)
    else:
        certificate.unlink()
    return same


def unpack(packed: Path, out: Path, parallel: int) -> dict[str, tuple[int, int]]:
    """Write the runs of an archive into a folder, each whole or not at all; by chain, how many
    episodes came as recorded, of how many.
    """
    counts: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(packed) as archived:
        archived.extractall(scratch, filter="data")
        for run in sorted(Path(scratch).iterdir()):
            with whole_folder(out / run.name) as folder:
                shutil.copytree(run, folder, dirs_exist_ok=True)
                jobs = sorted(path.parent for path in folder.rglob(ACTED))
                for index, same in run_jobs(execute, jobs, parallel):
                    if isinstance(same, CapexError):
                        raise same
                    chain = f"{run.name}/{jobs[index].parent.parent.name}"
                    done, tried = counts.get(chain, (0, 0))
                    counts[chain] = done + same, tried + 1
    return counts


def main() -> int:
    """Pack or unpack, and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing, unpacking = commands.add_parser("pack"), commands.add_parser("unpack")
    packing.add_argument("runs", nargs="+", type=Path)
    unpacking.add_argument("packed", type=Path)
    for command in (packing, unpacking):
        command.add_argument("--out", type=Path, required=True)
    unpacking.add_argument("--parallel", type=int, default=1)
    given = parser.parse_args()
    try:
        if given.command == "pack":
            count = pack([run.resolve() for run in given.runs], given.out)
            size = given.out.stat().st_size / 1e6
            print(f"{given.out}: {count} certified episodes, {size:.1f} MB")
            return 0
        counts = unpack(given.packed, given.out, given.parallel)
    except (CapexError, OSError, tarfile.TarError) as error:
        print(f"carry_runs: {error}", file=sys.stderr)
        return 1
    table = Table("chain", "episodes", "as recorded, to the bit")
    for chain, (done, tried) in counts.items():
        table.add_row(chain, str(tried), str(done))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
