"""The last screen of `capex demo`: the result, what was made, how to call capex, what to type."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape

from capex.cli.console import console
from capex.run import LoadedRun

LOOKS = {
    "report": "in a browser: who succeeded where, and what it took",
    "film": "the three cameras of one demonstration",
    "dataset": "a LeRobot v3.0 dataset; its card says how to load it",
    "run": "the campaign: every record, image and exchange",
}
OWN = "kitchen:OpenDrawer"
MODEL = "openai:gpt-6-astra"


def farewell(run: LoadedRun, made: Mapping[str, Path]) -> None:
    """Print the screen; `made` names the report, the film and the dataset that exist."""
    console.rule("[bold]Result[/]", align="left")
    console.print(f"[bold]{escape(result(run))}[/]", highlight=False)
    for line in by_task(run):
        console.print(f"  {line}", markup=False, highlight=False)
    console.print("Few starts: docs/results.md has twenty of each task.", highlight=False)
    _say("Look at")
    looks = {name: str(path) for name, path in {**made, "run": run.path}.items()}
    width = max(map(len, looks.values()))
    for name, path in looks.items():
        beside = f"{path:{width}}  {LOOKS[name]}"
        _say("", *([beside] if len(beside) < 79 else [path, f"    {LOOKS[name]}"]))
    if calls := ways_to_call(Path(sys.prefix), Path.cwd(), shutil.which("capex")):
        _say("To call capex", *calls)
    _say("Next, with the pilot", f"capex collect {OWN} --model pilot --starts 0:5 --out runs/first")
    _say(
        "Next, with a model (the pilot's numbers say nothing about any)",
        "export OPENAI_API_KEY=...",
        f"capex doctor --model {MODEL}",
        f"capex collect {OWN} --model {MODEL} --starts 0:5 \\",
        "    --campaign-usd 20 --out runs/second --dry-run",
        "a server of your own needs no key: --model chat:NAME@http://localhost:8000/v1",
    )


def _say(head: str, *lines: str) -> None:
    if head:
        console.print(f"\n[bold]{head}[/]")
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def result(run: LoadedRun) -> str:
    """What the run showed, in one sentence."""
    tried: dict[str, list[tuple[str, int, bool]]] = {}
    for chain in run.chains:
        rows = [(chain.task, e.index, e.success is True) for e in chain.episodes]
        tried.setdefault(chain.arm, []).extend(rows)
    counts = [(sum(row[2] for row in rows), len(rows), arm) for arm, rows in tried.items()]
    words = " and in ".join(f"{solved} of {of} attempts with {arm}" for solved, of, arm in counts)
    starts = [{row[:2] for row in rows} for rows in tried.values()]
    same = ", from the same starts" if all(s == starts[0] for s in starts) else ""
    return f"The pilot, a stand-in for a model, succeeded in {words}{same}."


def by_task(run: LoadedRun) -> list[str]:
    """The successes of each arm at each task, in columns."""
    tasks = list(dict.fromkeys(chain.task for chain in run.chains))
    width = max(map(len, tasks), default=0)
    return [
        f"{task:{width}}  "
        + "  ".join(
            f"{c.arm} {c.successes}/{len(c.episodes)}" for c in run.chains if c.task == task
        )
        for task in tasks
    ]


def ways_to_call(prefix: Path, here: Path, found: str | None) -> list[str]:
    """How the `capex` of the environment at `prefix` is called from the folder `here`; none are
    needed where the path leads to it (`found`).
    """
    if found is not None and Path(found).parent.resolve() == (prefix / "bin").resolve():
        return []
    short = prefix.relative_to(here) if prefix.is_relative_to(here) else prefix
    if not (prefix / "bin" / "activate").exists():
        return [f"{sys.executable} -m capex"]
    ways = {f". {short}/bin/activate": "puts it on the path of this shell"}
    if (here / "pyproject.toml").exists():
        ways["pipx install -e ."] = "puts it on the path of every shell"
        ways["uv run --no-sync capex"] = "instead of capex, in this folder"
    width = max(map(len, ways))
    return [f"{command:{width}}  {what}" for command, what in ways.items()]
