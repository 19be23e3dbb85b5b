"""The dataset card: README.md, which says what it holds, on which robot and with which cameras it
was made, at what cost, who judged it, and its gaps.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex.dataset.certify import read_certificate
from capex.dataset.frames import Pipeline, exported_state, open_take
from capex.dataset.selection import Selection, left_out_csv, summary
from capex.run.files import write_bytes
from capex.run.manifest import versions
from capex.run.summary import Summary
from capex.worlds import Spec
from capex.worlds.cache import OF_THIS_PROCESS

EXPERT = (
    "the privileged expert, which reads the simulator's truth: a stand-in for a human demonstrator"
)
WORDS = {
    "lerobot": "`subtask_index` and `meta/language.parquet` say it in words.",
    "lerobot-v2.1": "The columns `annotation.capex.*` say it in words, which are in"
    " `meta/tasks.jsonl`.",
    "lerobot-v3.1": "The column `language_persistent` says it in words.",
    "hdf5": "`capex/language` says it in words.",
}
MARKUP = str.maketrans({c: f"\\{c}" for c in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


LOADING = """```python
from lerobot.datasets.lerobot_dataset import LeRobotDataset

dataset = LeRobotDataset("capex/this", root="the folder that holds this page")
frame = dataset[0]  # pictures, state, action, task
```"""


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
    from capex.dataset.film import write_strip  # brings PyAV

    by_task: dict[str, list[Summary]] = defaultdict(list)
    for attempt in selection.attempts:
        by_task[f"{attempt.summary.world}:{attempt.summary.task}"].append(attempt.summary)
    pictures = []
    for name, attempts in by_task.items():
        middle = sorted(attempts, key=lambda a: (a.steps, a.start))[len(attempts) // 2]
        path = write_strip(middle.path, folder / "pictures" / f"{_file_name(name)}.png")
        pictures.append(f"![{_cell(middle.instruction)}](pictures/{path.name})")
    write_bytes(folder / "left_out.csv", left_out_csv(selection.left_out).encode())
    head = [_front(facts), _head(selection, facts), "\n\n".join(pictures)]
    text = "\n\n".join(head + _sections(by_task, selection, facts))
    write_bytes(folder / "README.md", (text + "\n").encode())


def _front(facts: Facts) -> str:
    """What the Hugging Face hub reads."""
    lines = ["---", f"license: {facts.licence or 'other'}", "task_categories:", "- robotics"]
    lines += ["tags:", "- robotics", "- capex"]
    if facts.format != "hdf5":
        lines += ["- LeRobot", "configs:", "- config_name: default"]
        lines += ["  data_files: data/*/*.parquet"]
    return "\n".join([*lines, "---"])


def _head(selection: Selection, facts: Facts) -> str:
    number, frames = len(selection.attempts), sum(a.summary.steps for a in selection.attempts)
    kind = "failed attempts" if facts.failures else "demonstrations"
    rate = f"{facts.spec.control_hz:g} per second"
    text = f"# {facts.title}\n\n{number} {kind}, {frames:,} frames at {rate}"
    judges = Counter(a.judge for a in selection.attempts if a.judge)
    text += "".join(f", {count} of them judged by {_cell(by)}" for by, count in judges.items())
    certified = sum(a.certified for a in selection.attempts)
    if not facts.failures and (certified or not judges):
        text += (
            f", {certified} of them certified: executed again from their start by their recorded"
            " actions, they reached success again"
        )
    same = "the same starts, the same number, the same pictures"
    return f"{text}. Paired with `{facts.partner}`: {same}." if facts.partner else f"{text}."


def _sections(by_task: dict[str, list[Summary]], selection: Selection, facts: Facts) -> list[str]:
    rows = []
    for name, attempts in by_task.items():
        starts = ", ".join([str(a.start) for a in attempts[:20]])
        starts += " ..." if len(attempts) > 20 else ""
        instruction, length = (
            _cell(attempts[0].instruction),
            statistics.median(a.steps for a in attempts),
        )
        rows.append((name, instruction, str(len(attempts)), f"{length:g}", starts))
    sections = [_table(("task", "first instruction", "number", "median frames", "starts"), rows)]
    attempts = [a.summary for a in selection.attempts]
    sources, cost = _sources(attempts), _cost(attempts)
    sections.append(f"## How it was collected\n\n{sources}\n\n{cost}")
    sections.append(f"## Who judged\n\n{_judges(selection, facts)}")
    sections.append(f"## Robot\n\n{_robot(facts.spec)}")
    calibrated = open_take(selection.attempts[0].summary.path).cameras_json(facts.pipeline)
    OF_THIS_PROCESS.close()
    sections.append(f"## Cameras\n\n{_cameras(calibrated, facts.pipeline)}")
    origin = "recorded while the robot moved"
    if not facts.spec.records_frames:
        origin = "rendered from the saved states"
    names = facts.spec.state_names
    state = [names[k] for k in exported_state(names)]
    kept_as = "PNG" if facts.format != "hdf5" else "uint8 arrays"
    if facts.pipeline.video:
        kept_as = f"h264 video (crf {facts.pipeline.crf})"
    sections.append(
        f"## What a frame holds\n\nPictures of the cameras {_sized(facts.pipeline)}, {origin}, as"
        f" {kept_as}. State: {', '.join(state)}"
        " (metres, quaternion xyzw, radians; the base frame rides with the robot). Action, native"
        f" to the world: {', '.join(facts.spec.action_names)}.\n\nThe annotations `capex.*` say"
        " what the demonstrator meant by a frame: decision, waypoint, phase, stated and calibrated"
        f" confidence, reach label. {WORDS[facts.format]} The texts come from the record of the"
        f" attempt; no model was asked for them.{_depth(facts)}"
    )
    reasons = [(_cell(reason), str(count)) for _, reason, count in summary(selection.left_out)]
    table = _table(("reason", "attempts"), reasons) + "\n\nOne line each in `left_out.csv`."
    sections.append(f"## What was left out\n\n{table if reasons else 'Nothing.'}")
    licence = facts.licence or "None was chosen; `--license` names one."
    sections.append(f"## Licence\n\n{licence}")
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    made = f"```\n{facts.command}\n```\n\n{packages}." if facts.command else f"{packages}."
    if facts.format.startswith("lerobot"):
        sections.append(f"## How to load it\n\n{LOADING}")
    return [*sections, f"## Made with\n\n{made}"]


def _sources(attempts: Sequence[Summary]) -> str:
    counts = Counter((a.arm, a.model, a.stand_in) for a in attempts)
    lines = []
    for (method, model, stand_in), count in counts.most_common():
        who = f"{model}, a stand-in for a real model" if stand_in else model
        by = _cell(EXPERT if model == "expert" else who)
        lines.append(f"- {count} by {by}" + ("" if method == model else f", arm `{_cell(method)}`"))
    return "\n".join(lines)


def _cost(attempts: Sequence[Summary]) -> str:
    known = [a.cost_usd for a in attempts if a.cost_usd is not None]
    if not known:
        return "Cost: no model was paid, or its price is unknown."
    rest = len(attempts) - len(known)
    unknown = f"; unknown for {rest} more" if rest else ""
    return (
        f"Cost: ${sum(known):.2f} of model calls for {len(known)} attempts,"
        f" ${sum(known) / len(known):.2f} each{unknown}."
    )


def _judges(selection: Selection, facts: Facts) -> str:
    """Who said that an attempt succeeded, and what its certificate rests on."""
    by_world = facts.spec.success == "world"
    who = "The world's own check of the goal" if by_world else "The operator at the robot"
    lines = [f"{who} said whether an attempt succeeded; no model judged."]
    rules: Counter[str] = Counter()
    for attempt in selection.attempts:
        certificate = read_certificate(attempt.summary.path) if attempt.certified else None
        if certificate is not None:
            rules[certificate.rule] += 1
    lines += [
        f"- {count} certified by re-execution: the recorded actions once more from the start, in a"
        f" process of their own; asked for: {_cell(rule)}"
        for rule, count in rules.most_common()
    ]
    judges = Counter(a.judge for a in selection.attempts if a.judge)
    lines += [f"- {count} judged by {_cell(by)}, not certified" for by, count in judges.items()]
    if rest := len(selection.attempts) - rules.total() - judges.total():
        lines.append(f"- {rest} without a certificate")
    return "\n".join([lines[0], "", *lines[1:]])


def _robot(spec: Spec) -> str:
    """Arms, base and rate, as the world claims them."""
    arms = [
        f"- arm `{_cell(arm.name)}`: the gripper opens {100 * arm.max_opening_m:g} cm; one command"
        f" moves the tip at most {100 * arm.max_step_m:g} cm and {arm.max_step_rad:g} rad"
        for arm in spec.arms
    ]
    base = "- it stands still"
    if spec.base is not None:
        speed, turn = spec.base.max_speed_m_s, spec.base.max_yaw_rate_rad_s
        base = f"- mobile base: at most {speed:g} m/s and {turn:g} rad/s"
    real = "a real robot" if spec.real_time else "simulated"
    head = f"World `{_cell(spec.world)}`, {real}, {spec.control_hz:g} commands per second."
    return "\n".join([head, "", *arms, base])


def _cameras(calibrated: dict[str, Any], pipeline: Pipeline) -> str:
    """Intrinsics and pose of each camera at the first start of the dataset."""
    rows = []
    for name in pipeline.cameras:
        if name not in calibrated:
            rows.append((name, "", "not calibrated", "", "", ""))
            continue
        camera = calibrated[name]
        (fx, _, cx), (_, fy, cy), _ = camera["intrinsics"]
        rows.append(
            (
                name,
                camera["kind"],
                ", ".join(f"{v:.1f}" for v in (fx, fy, cx, cy)),
                camera["frame"],
                ", ".join(f"{round(v, 3) + 0.0:.3f}" for v in camera["position_m"]),
                ", ".join(f"{v:.3f}" for v in camera["quaternion_xyzw"]),
            )
        )
    head = ("camera", "kind", "fx, fy, cx, cy (pixels)", "frame", "position (m)", "xyzw")
    sizes = dict.fromkeys(f"{width}x{height}" for width, height in pipeline.sizes.values())
    return (
        f"At {' and '.join(sizes)}, at the first start; every episode has its own in full precision"
        f" in the provenance (`cameras`).\n\n{_table(head, rows)}"
    )


def _sized(pipeline: Pipeline) -> str:
    """The cameras with their sizes."""
    names: dict[tuple[int, int], list[str]] = {}
    for name, size in pipeline.sizes.items():
        names.setdefault(size, []).append(name)
    sized = [(", ".join(cameras), *size) for size, cameras in names.items()]
    return "; ".join(f"{cameras} at {width}x{height}" for cameras, width, height in sized)


def _depth(facts: Facts) -> str:
    if not facts.pipeline.depth:
        return ""
    if facts.format == "hdf5":
        return " Depth is in metres along the optical axis."
    kept_as = {True: "lossless 12-bit HEVC video", False: "16-bit TIFF"}[facts.pipeline.video]
    where = f"as features, {kept_as}" if facts.format == "lerobot-v3.1" else "in `depth/`, PNG"
    return f" Depth is in millimetres along the optical axis, {where}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _file_name(task: str) -> str:
    """WORLD:TASK as the name of a file: a record of anybody's may hold a path."""
    return re.sub(r"[^\w,=+-]+", "-", task)[:100]


def _cell(text: str) -> str:
    """Text of models and scenes is data: it must not become markup."""
    return " ".join(text.split()).translate(MARKUP)
