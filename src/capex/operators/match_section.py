"""How well starts were matched: a score for each attempt, and the pictures of those that were
missed by most.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from statistics import median

import numpy as np
from PIL import Image as Picture

from capex.errors import DamagedFile
from capex.operators.arrangements import (
    MATCH,
    Arrangement,
    arrangements_of,
    find_arrangement,
    read_image,
)
from capex.operators.match_rows import MatchedStart, matched_starts
from capex.operators.matching import compare
from capex.report import show
from capex.report.sections.section import Section, SectionInput, Still
from capex.report.tables import Column, Row, Table, file_table
from capex.run.store import Chain
from capex.worlds import Image

SHOWN = 6  # attempts with pictures: those that differ most
HEIGHT_PX = 180


def arrangements_section(given: SectionInput) -> list[Section]:
    """Nothing where no person arranges."""
    sources = given.sources
    matches = matched_starts(sources)
    if not matches:
        return []
    section = Section("arrangements", "How well starts were matched")
    section.text.append(
        "A start is a stored arrangement: the first attempt at it makes it, or it is taken from"
        " elsewhere; the others match it. The score is the mean absolute difference between the"
        " stored pictures and those of the attempt, from 0 to 1."
    )
    if stand_ins := sorted({m.match.by for m in matches if m.match.stand_in}):
        section.text.append(f"No person arranged, but: {', '.join(stand_ins)}.")
    section.tables += [_summary(matches), _every(matches)]
    compared = [m for m in matches if m.match.score is not None]
    if not compared:
        section.notes.append("No start was tried twice, so that there is nothing to compare.")
    worst = sorted(compared, key=lambda m: -(m.match.score or 0.0))[:SHOWN]
    section.stills += [still for m in worst if (still := _still(m)) is not None]
    return [section]


def _summary(matches: Sequence[MatchedStart]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Made", "made"),
        Column("Matched", "matched"),
        Column("Median difference", "median_score", show.significant),
        Column("Largest", "largest_score", show.significant),
        Column("Median pixels changed", "median_changed", show.percent),
        Column("Arranged by", "by", align="l"),
    )
    rows = []
    sources = list(dict.fromkeys(m.source for m in matches))
    for source in sources:
        own = [m.match for m in matches if m.source is source]
        scores = [m.score for m in own if m.score is not None]
        changed = [m.changed for m in own if m.changed is not None]
        middle = median(scores) if scores else None
        most = max(scores, default=None)
        by = ", ".join(sorted({m.by for m in own}))
        share = median(changed) if changed else None
        made = len(own) - len(scores)
        rows.append(Row((source.label, made, len(scores), middle, most, share, by)))
    caption = "Starts made and matched by source; differences of the pictures from 0 to 1."
    return Table("arrangements", caption, columns, rows, sources)


def _every(matches: Sequence[MatchedStart]) -> Table:
    names = ("world", "task", "start", "source", "score", "changed", "by", "stand_in")
    rows = []
    for m in matches:
        e, match = m.episode, m.match
        where = (e.world, e.task, e.start, m.source.label)
        rows.append(Row((*where, match.score, match.changed, match.by, match.stand_in)))
    caption = "How the scene of every attempt was arranged; without a score, it made the start."
    return file_table("matches", caption, names, rows, list({m.source for m in matches}))


def _still(matched: MatchedStart) -> Still | None:
    """The stored scene, the attempt's, and the edges of both."""
    episode, match = matched.episode, matched.match
    stored = _stored(matched)
    if stored is None:
        return None
    camera, path = next(iter(stored.images.items()))
    live = episode.path / MATCH / f"{camera}.png"
    try:
        before, after = read_image(path), read_image(live)
    except DamagedFile:
        return None
    difference = compare(before, after)
    panels = [_scaled(image) for image in (before, after, difference.edges)]
    out = io.BytesIO()
    Picture.fromarray(np.concatenate(panels, axis=1)).save(out, "JPEG", quality=80)
    caption = (
        f"{episode.task}, start {episode.start}, {matched.source.label}, camera {camera}: stored,"
        f" as arranged, edges (red stored, green arranged); difference {match.score:.3f}."
    )
    return Still(caption, out.getvalue())


def _stored(matched: MatchedStart) -> Arrangement | None:
    chain = Chain(matched.episode.path.parent.parent)
    try:
        return find_arrangement(arrangements_of(chain), matched.episode.start)
    except DamagedFile:
        return None


def _scaled(image: Image) -> Image:
    height, width = image.shape[:2]
    size = max(1, round(width * HEIGHT_PX / height)), HEIGHT_PX
    return np.asarray(Picture.fromarray(image).resize(size))
