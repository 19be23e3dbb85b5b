"""The report of a campaign: tables, figures and one self-contained page.

rows, data, branches  run directories as plain rows
sources     which rows may be counted together
compare, experience, calibration, costs, students, examples     the numbers
show, tables, figures, plots, strips, cards, drawing, films     how they are shown
poster      the first screen
sections    what is said below it, and in which order
page        the HTML
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from capex.errors import CapexError, DamagedFile, ErrorCode, printable
from capex.report.cards import SHOWN, choose_twins, film, sample
from capex.report.data import load
from capex.report.drawing import twins_figure
from capex.report.figures import files
from capex.report.films import make_films
from capex.report.page import render
from capex.report.plots.poster import poster_figure
from capex.report.poster import Poster, choose_films, sentence, title
from capex.report.sections import build, episodes_table, results
from capex.report.sources import group
from capex.run.files import whole_folder, write_json
from capex.run.manifest import versions
from capex.untrusted import read_json

PAGE, INDEX = "report.html", "report.json"
OWN_FILE = re.compile(r"(tables|figures)/\w[\w.=,+-]{0,200}")  # beside the page
NEW = ".new-report"  # within the folder of an earlier report, until it is complete


def write(runs: Sequence[Path], out: Path, *, strips: int = SHOWN, unaided: bool = False) -> Path:
    """Make the report of runs in a folder and return its page; at most `strips` film strips.
    `unaided` leaves attempts out in which the operator spoke to the model.

    Files of an earlier report in the folder that this one no longer has are removed; anything else
    there is left alone.
    """
    if not runs:
        collected = "give the folders that --out named when they were collected"
        raise CapexError(f"no run was named; {collected}", code=ErrorCode.MISSING_SETTING)
    if strips < 0:
        raise CapexError(f"--strips is {strips}; it must be at least 0", code=ErrorCode.BAD_SETTING)
    if out.exists() and not out.is_dir():
        raise CapexError(
            f"{out} is a file; choose a folder for --out", code=ErrorCode.ALREADY_EXISTS
        )
    if (out / "manifest.json").exists():
        raise CapexError(
            f"{out} is a run directory; choose another folder for --out",
            code=ErrorCode.ALREADY_EXISTS,
        )
    data = load(runs, unaided=unaided)
    sources, pooling = group(data)
    lines, compared = results(sources)
    sections = build(data, sources, lines, compared)
    played = make_films(choose_films(sources, compared) if strips else [])
    poster = Poster(title(sources), sentence(lines, compared), poster_figure(lines), played)
    chosen = choose_twins(sources) if strips else []
    cards, pairs = film(sample(sources, strips), chosen)
    drawn = [twins_figure(k, *both) for k, both in enumerate(zip(chosen, pairs, strict=True), 1)]

    contents: dict[str, bytes] = {}
    tables = [t for s in sections for t in s.tables]
    for table in [*tables, *([episodes_table(data, sources)] if data.episodes else [])]:
        contents[f"tables/{table.name}.csv"] = printable(table.csv()).encode()
        if table.shown != "file":
            contents[f"tables/{table.name}.tex"] = printable(table.latex()).encode()
    leading = [poster.figure] if poster.figure is not None else []
    figures = [*leading, *(f for s in sections for f in s.figures), *(f for f in drawn if f.panels)]
    for figure in figures:
        contents |= {f"figures/{name}": content for name, content in files(figure).items()}
    notices = [*data.problems, *data.origins, *pooling]
    twins = list(zip(pairs, drawn, strict=True))
    page = render(data, sources, poster, sections, cards, twins, notices, out)
    contents[PAGE] = printable(page).encode("utf-8", "replace")
    facts = {
        "title": poster.title,
        "result": poster.sentence,
        "runs": [str(r.given) for r in data.runs if r.inherited is None],
        "sources": [s.label for s in sources],
        "summary": sections[0].text if sections else [],
        "notices": notices,
    }
    _store(out, contents, facts)
    return out / PAGE


def _store(out: Path, contents: dict[str, bytes], facts: Mapping[str, Sequence[str]]) -> None:
    """All files or none: written into a temporary folder, which takes its place in one rename, or
    whose files replace those of an earlier report, the page and the index last.
    """
    for name in ("tables", "figures"):
        if (place := out / name).is_symlink():
            raise CapexError(
                f"{place} is a link, and a report is not written through one",
                code=ErrorCode.NOT_PERMITTED,
            )
    before = _listed(out / INDEX)
    new = out / NEW if out.exists() else out
    if new != out:
        shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
    with whole_folder(new) as folder:
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        made_by = versions().get("capex", "unknown")
        write_json(folder / INDEX, {**facts, "capex": made_by, "files": sorted(contents)})
    if new == out:
        return
    for name in (*contents, INDEX):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / name, out / name)
    shutil.rmtree(new)
    for name in before - set(contents):
        (out / name).unlink(missing_ok=True)


def _listed(index: Path) -> set[str]:
    """Files of an earlier report: only names that a report could have written."""
    try:
        listed = read_json(index).get("files", [])
    except (FileNotFoundError, DamagedFile):
        return set()
    names = listed if isinstance(listed, list) else ()
    return {n for n in names if isinstance(n, str) and OWN_FILE.fullmatch(n)}
