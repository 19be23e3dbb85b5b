"""The page: one HTML file with everything inside.

Autoescape is on; only drawings that escape their own text are inserted as they are. A content
security policy allows no network and no script but ours, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from capex.dataset.projection import fate
from capex.method.observation import command_text, position_text
from capex.report.cards import Card
from capex.report.compare import task_of
from capex.report.drawing import data_uri, overlay, track
from capex.report.figures import VARIABLES, Figure, inline
from capex.report.poster import Poster
from capex.report.rows import RunData, RunInfo
from capex.report.sections import Section
from capex.report.show import counted, number, spread
from capex.report.sources import Source
from capex.report.strips import robot_base
from capex.report.tables import stand_in_sentence
from capex.run.manifest import versions

LEGEND = (  # svg class, what is drawn, what it means
    ("plan", '<circle class="done" cx="6" cy="6" r="4.2"/>', "waypoint run"),
    ("plan", '<path class="cross" d="M2 2l8 8m0 -8l-8 8"/>', "where the plan stopped"),
    ("plan", '<circle class="deferred" cx="6" cy="6" r="4.2"/>', "deferred: low confidence"),
    ("plan", '<circle class="skipped" cx="6" cy="6" r="4.2"/>', "not executed"),
    ("track", '<rect class="done" x="4" y="3" width="4" height="9"/>', "calibrated confidence"),
    ("track", '<circle cx="6" cy="6" r="3"/>', "stated confidence"),
    ("track", '<line class="tau" x1="0" x2="12" y1="6" y2="6"/>', "threshold"),
)


def render(
    data: RunData,
    sources: Sequence[Source],
    poster: Poster,
    sections: Sequence[Section],
    cards: Sequence[Card],
    twins: Sequence[tuple[tuple[Card, Card], Figure]],
    notices: Sequence[str],
    out: Path,
) -> str:
    """The whole page."""
    script = _resource("page.js")
    contents = [(s.anchor, s.title) for s in sections]
    contents += [("twins", "Two sources, one start")] if twins else []
    contents += [("episodes", "Episodes")] if cards else []
    contents += [("provenance", "Where the numbers come from")] if sections else []
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_resource("page.html")).render(
        title=f"CAPEX report: {poster.title}",
        poster=poster,
        names=", ".join(r.name for r in data.runs),
        meta=_meta(data, sources),
        stand_in=stand_in_sentence(sources),
        notices=notices,
        contents=contents,
        sections=sections,
        twins=twins,
        cards=cards,
        outcomes=sorted({c.outcome for c in cards}),
        tasks=list(dict.fromkeys(c.episode.task for c in cards)),
        sources=sources,
        sample_sentence=_sample_sentence(len(cards), len(data.episodes)),
        runs=[(run, *_facts(run, data)) for run in data.runs],
        episode_count=f"{len(data.episodes):,}",
        version=versions().get("capex", "unknown"),
        style=Markup(_resource("shared.css") + _resource("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        inline=lambda panel, salt: Markup(inline(panel, salt)),
        variable=lambda colour: VARIABLES[colour],
        legend=[(kind, Markup(shape), meaning) for kind, shape, meaning in LEGEND],
        place=data.place,
        link=lambda path: quote(Path(os.path.relpath(path, out.resolve())).as_posix()),
        data_uri=data_uri,
        overlay=overlay,
        track=track,
        fate=fate,
        robot_base=robot_base,
        number=number,
        command_text=command_text,
        position_text=position_text,
    )


def _resource(name: str) -> str:
    return (resources.files("capex.report") / name).read_text(encoding="utf-8")


def _meta(data: RunData, sources: Sequence[Source]) -> str:
    tasks = {task_of(e) for e in data.episodes}
    parts = [f"{len(data.episodes):,} episodes", counted(len(tasks), "task")]
    parts.append(counted(len(sources), "source"))
    if times := [e.unix_time for e in data.episodes if e.unix_time]:
        first, last = (datetime.fromtimestamp(t, UTC) for t in (min(times), max(times)))
        parts.append(f"collected {spread(f'{first:%Y-%m-%d}', f'{last:%Y-%m-%d}')}")
    return " · ".join(parts)


def _sample_sentence(shown: int, total: int) -> str:
    if shown == total:
        return f"All {total:,} episodes."
    part = f"A sample: {shown} of {total:,} episodes"
    return f"{part}, spread evenly over sources, tasks and outcomes."


def _facts(run: RunInfo, data: RunData) -> tuple[str, str]:
    """A run in short, and its whole manifest."""
    held = sum(data.runs[e.run] is run for e in data.episodes)
    known: dict[str, str] = dict(run.manifest.versions)
    built = ", ".join(f"{k} {known[k]}" for k in ("capex", "mujoco", "numpy") if k in known)
    manifest = json.dumps(run.manifest.as_json(), indent=1, ensure_ascii=False)
    return f"{held:,} episodes" + (f"; {built}" if built else ""), manifest
