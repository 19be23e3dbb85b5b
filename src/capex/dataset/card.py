"""The dataset card: a README in the dataset's folder that says what it holds, how it was made, what
it cost and what is missing.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capex.dataset.film import write_strip
from capex.dataset.frames import Pipeline
from capex.dataset.selection import Candidate, Selection, left_out_csv, summary
from capex.run.files import write_bytes
from capex.run.machine import versions
from capex.worlds import Spec

STAND_INS = {
    "expert": (
        "the privileged expert, which reads the simulator's truth: a stand-in for a human"
        " demonstrator"
    )
}


@dataclass(frozen=True)
class Facts:
    """What a card says besides the attempts themselves."""

    title: str
    format: str
    pipeline: Pipeline
    spec: Spec  # of the robot
    licence: str
    command: str
    partner: str = ""  # the dataset over the same starts
    failures: bool = False


def write_card(folder: Path, selection: Selection, facts: Facts) -> None:
    """README.md, its pictures and left_out.csv."""
    by_task: dict[str, list[Candidate]] = defaultdict(list)
    for attempt in selection.attempts:
        by_task[f"{attempt.world}:{attempt.task}"].append(attempt)
    pictures = []
    for name, attempts in by_task.items():
        middle = sorted(attempts, key=lambda a: (a.steps, a.start))[len(attempts) // 2]
        path = write_strip(middle.episode, folder / "pictures" / f"{name.replace(':', '-')}.png")
        pictures.append(f"![{_cell(middle.instruction)}](pictures/{path.name})")
    write_bytes(folder / "left_out.csv", left_out_csv(selection.left_out).encode())
    text = "\n\n".join(
        [
            _front(facts),
            _head(selection, facts),
            "\n\n".join(pictures),
            *_sections(by_task, selection, facts),
        ]
    )
    write_bytes(folder / "README.md", (text + "\n").encode())


def _front(facts: Facts) -> str:
    """What the Hugging Face hub reads."""
    lines = [
        "---",
        f"license: {facts.licence or 'other'}",
        "task_categories:",
        "- robotics",
        "tags:",
        "- robotics",
        "- capex",
    ]
    if facts.format == "lerobot":
        lines += [
            "- LeRobot",
            "configs:",
            "- config_name: default",
            "  data_files: data/*/*.parquet",
        ]
    return "\n".join([*lines, "---"])


def _head(selection: Selection, facts: Facts) -> str:
    frames = sum(a.steps for a in selection.attempts)
    kind = "failed attempts" if facts.failures else "demonstrations"
    text = (
        f"# {facts.title}\n\n{len(selection.attempts)} {kind}, {frames:,} frames at 20 per second"
    )
    if not facts.failures:
        certified = sum(a.certified for a in selection.attempts)
        text += (
            f", {certified} of them certified: executed again from their start by their recorded"
            " actions, they reached success again"
        )
    text += "."
    return text + (
        f" Paired with `{facts.partner}`: the same starts, the same number, the same pictures."
        if facts.partner
        else ""
    )


def _sections(by_task: dict[str, list[Candidate]], selection: Selection, facts: Facts) -> list[str]:
    rows = []
    for name, attempts in by_task.items():
        starts = ", ".join(str(a.start) for a in attempts[:20]) + (
            " ..." if len(attempts) > 20 else ""
        )
        length = statistics.median(a.steps for a in attempts)
        rows.append(
            (name, _cell(attempts[0].instruction), str(len(attempts)), f"{length:g}", starts)
        )
    sections = [_table(("task", "first instruction", "number", "median frames", "starts"), rows)]
    sections.append(
        f"## How it was collected\n\n{_sources(selection.attempts)}\n\n{_cost(selection.attempts)}"
    )
    width, height = facts.pipeline.size
    cameras = ", ".join(facts.pipeline.cameras)
    kept_as = "PNG" if facts.format == "lerobot" else "uint8 arrays"
    if facts.pipeline.video:
        kept_as = f"h264 video (crf {facts.pipeline.crf})"
    sections.append(
        f"## What a frame holds\n\nPictures of the cameras {cameras} at {width}x{height}, rendered"
        f" from the saved states, as {kept_as}. State: {', '.join(facts.spec.state_names)}"
        " (metres, quaternion xyzw, radians; the base frame rides with the robot). Action, native"
        f" to the world: {', '.join(facts.spec.action_names)}.\n\nThe annotations `capex.*` say"
        " what the demonstrator meant by a frame: decision, waypoint, phase, stated and calibrated"
        " confidence, reach label."
    )
    reasons = [(_cell(reason), str(count)) for _, reason, count in summary(selection.left_out)]
    left = (
        _table(("reason", "attempts"), reasons) + "\n\nOne line each in `left_out.csv`."
        if reasons
        else "Nothing."
    )
    sections.append(f"## What was left out\n\n{left}")
    licence = facts.licence or "None was chosen; `--license` names one."
    sections.append(f"## Licence\n\n{licence}")
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    made = f"```\n{facts.command}\n```\n\n{packages}." if facts.command else f"{packages}."
    return [*sections, f"## Made with\n\n{made}"]


def _sources(attempts: Sequence[Candidate]) -> str:
    counts = Counter((a.arm, a.model, a.stand_in) for a in attempts)
    lines = []
    for (arm, model, stand_in), count in counts.most_common():
        who = STAND_INS.get(model) or (
            f"{model}, a stand-in for a real model" if stand_in else model
        )
        lines.append(
            f"- {count} by {_cell(who)}" + ("" if arm == model else f", arm `{_cell(arm)}`")
        )
    return "\n".join(lines)


def _cost(attempts: Sequence[Candidate]) -> str:
    known = [a.cost_usd for a in attempts if a.cost_usd is not None]
    if not known:
        return "Cost: no model was paid, or its price is unknown."
    unknown = (
        f"; unknown for {len(attempts) - len(known)} more" if len(known) < len(attempts) else ""
    )
    return (
        f"Cost: ${sum(known):.2f} of model calls for {len(known)} attempts,"
        f" ${sum(known) / len(known):.2f} each{unknown}."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _cell(text: str) -> str:
    """Text of models and scenes is data: it must not become markup."""
    flat = " ".join(text.split())
    return "".join(
        f"\\{c}" if c in "\\`*_[]|" else {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(c, c)
        for c in flat
    )
