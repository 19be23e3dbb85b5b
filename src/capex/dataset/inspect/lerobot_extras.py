"""What our LeRobot folders hold beside LeRobot's own files: depth, waypoints, language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capex.dataset.features import SUBTASK
from capex.dataset.inspect import lerobot
from capex.dataset.inspect.lerobot_tables import read_table, reading
from capex.dataset.inspect.model import Claims, Entry, Findings
from capex.dataset.inspect.pictures import decode_cells
from capex.errors import DamagedFile

SUBTASKS = "meta/subtasks.parquet"
MEANT = ("meta/waypoints.parquet", "meta/language.parquet")  # rows over spans of frames


def check_extras(root: Path, claims: Claims, entries: Sequence[Entry], findings: Findings) -> None:
    """Depth has a picture for each frame and camera that decodes; waypoints and language speak of
    frames that are there.
    """
    deep = sorted((root / "depth").rglob("*.parquet"))
    if deep:
        _check_depth(root, deep, claims.totals.get("frames"), findings)
    if claims.ours and SUBTASK in claims.features:
        _check_subtasks(root, findings)
    if claims.ours:
        for file in MEANT:
            _check_meant(root, file, entries, findings)


def _check_depth(root: Path, paths: list[Path], frames: int | None, findings: Findings) -> None:
    indices: list[int] = []
    for path in paths:
        file = path.relative_to(root).as_posix()
        try:
            with reading(path):
                table = read_table(path)
                indices += table["index"].to_pylist()
        except DamagedFile as damage:
            findings.add("files", f"{file} cannot be read: {damage.reason}")
            continue
        for name in (n for n in table.column_names if n.startswith("depth.")):
            shots = decode_cells(table[name].to_pylist(), root)
            for index, shot in zip(table["index"].to_pylist(), shots, strict=True):
                if shot.wrong:
                    findings.add("pictures", f"{file}, {name}, index {index}: {shot.wrong}")
    if indices != list(range(len(indices))) or len(indices) != frames:
        said = f"depth/ holds {len(indices)} rows that should be the {frames} frames in order"
        findings.add("counts", said)


def _check_subtasks(root: Path, findings: Findings) -> None:
    """The texts of `subtask_index` are there, numbered from 0."""
    try:
        numbers = [row.get(SUBTASK) for row in lerobot.read_rows(root / SUBTASKS)]
    except DamagedFile as damage:
        findings.add("files", f"{SUBTASKS} cannot be read: {damage.reason}")
        return
    if sorted(numbers, key=str) != sorted(range(len(numbers)), key=str):
        findings.add("order", f"{SUBTASKS}: its rows are not numbered from 0 by {SUBTASK}")


def _check_meant(root: Path, file: str, entries: Sequence[Entry], findings: Findings) -> None:
    lengths = {entry.index: entry.length for entry in entries}
    try:
        rows = lerobot.read_rows(root / file)
    except DamagedFile as damage:
        findings.add("files", f"{file} cannot be read: {damage.reason}")
        return
    for number, row in enumerate(rows):
        episode, end = row.get("episode_index"), row.get("to_frame")
        if episode not in lengths or (end is not None and end > lengths[episode]):
            said = f"row {number} speaks of episode {episode}, frame {end}, which is not there"
            findings.add("order", f"{file}: {said}")
