"""The report of a campaign: tables, figures and one self-contained page.

rows, data, forks     run directories as plain rows
sources     which rows may be counted together
compare, experience, calibration, costs, students     the numbers
show, tables, figures, plots, strips, cards, drawing     how they are shown
sections    what is said, and in which order
page        the HTML
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from capex.errors import CapexError, printable
from capex.report.cards import SHOWN, choose_twins, film, sample
from capex.report.data import load
from capex.report.drawing import twins_figure
from capex.report.figures import files
from capex.report.page import render
from capex.report.sections import build, episodes_table
from capex.report.sources import group
from capex.run.files import write_bytes, write_json
from capex.run.machine import versions

PAGE, INDEX = "report.html", "report.json"


def write(runs: Sequence[Path], out: Path, *, strips: int = SHOWN) -> Path:
    """Make the report of runs in a folder and return its page; at most `strips` film strips.

    Files of an earlier report in the folder that this one no longer has are removed; anything else
    there is left alone.
    """
    if not runs:
        collected = "give the folders that --out named when they were collected"
        raise CapexError(f"no run was named; {collected}")
    if strips < 0:
        raise CapexError(f"--strips is {strips}; it must be at least 0")
    if out.exists() and not out.is_dir():
        raise CapexError(f"{out} is a file; choose a folder for --out")
    if (out / "manifest.json").exists():
        raise CapexError(f"{out} is a run directory; choose another folder for --out")
    data = load(runs)
    sources, pooling = group(data)
    sections = build(data, sources)
    chosen = choose_twins(sources) if strips else []
    cards, pairs = film(sample(sources, strips), chosen)
    drawn = [twins_figure(k, *both) for k, both in enumerate(zip(chosen, pairs, strict=True), 1)]

    contents: dict[str, bytes] = {}
    tables = [t for s in sections for t in s.tables]
    for table in [*tables, *([episodes_table(data, sources)] if data.episodes else [])]:
        contents[f"tables/{table.name}.csv"] = printable(table.csv()).encode()
        if table.shown != "file":
            contents[f"tables/{table.name}.tex"] = printable(table.latex()).encode()
    for figure in [*(f for s in sections for f in s.figures), *(f for f in drawn if f.panels)]:
        contents |= {f"figures/{name}": content for name, content in files(figure).items()}
    notices = [*data.problems, *data.origins, *pooling]
    twins = list(zip(pairs, drawn, strict=True))
    page = render(data, sources, sections, cards, twins, notices, out)
    contents[PAGE] = printable(page).encode("utf-8", "replace")
    facts = {
        "runs": [str(r.given) for r in data.runs if r.inherited is None],
        "sources": [s.label for s in sources],
        "summary": sections[0].text if sections else [],
        "notices": notices,
    }
    _store(out, contents, facts)
    return out / PAGE


def _store(out: Path, contents: dict[str, bytes], facts: dict[str, list[str]]) -> None:
    """Every file whole, the page and the index last."""
    before = _listed(out / INDEX)
    for name, content in contents.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(out / name, content)
    made_by = versions().get("capex", "unknown")
    write_json(out / INDEX, {**facts, "capex": made_by, "files": sorted(contents)})
    for name in before - set(contents):
        (out / name).unlink(missing_ok=True)


def _listed(index: Path) -> set[str]:
    """Files of an earlier report: only names that a report could have written."""
    try:
        listed = json.loads(index.read_text(encoding="utf-8")).get("files", [])
    except (FileNotFoundError, ValueError, AttributeError):
        return set()
    ours = {n for n in listed if isinstance(n, str) and ".." not in Path(n).parts}
    return {n for n in ours if n.partition("/")[0] in ("tables", "figures")}
