"""Loss and speed over training: a CSV that resumes with its run, and a picture of it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from capex.run.files import write_bytes

CURVE = "curve.csv"


class Curve:
    """Rows of step, losses, steps per second; rows after the step `first` are dropped."""

    def __init__(self, path: Path, parts: Sequence[str], first: int):
        self._path, self._columns = path, ("step", *parts, "steps_per_s")
        kept = [row for row in read(path) if row["step"] <= first] if path.is_file() else []
        lines = [",".join(self._columns) + "\n", *map(self._line, kept)]
        write_bytes(path, "".join(lines).encode())

    def add(self, step: int, losses: Mapping[str, float], steps_per_s: float) -> None:
        """One row; a kill between rows loses at most the one being written."""
        row = {"step": float(step), **losses, "steps_per_s": steps_per_s}
        with open(self._path, "a", encoding="ascii") as out:
            out.write(self._line(row))

    def _line(self, row: Mapping[str, float]) -> str:
        cells = ((row[c], int(row[c])) for c in self._columns)
        return ",".join(f"{v:.6g}" if v != whole else str(whole) for v, whole in cells) + "\n"

    def draw(self, out: Path, title: str) -> Path:
        """The picture: losses on a logarithmic axis, speed below."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        rows = read(self._path)
        figure = Figure(figsize=(7, 5), layout="constrained")
        FigureCanvasAgg(figure)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        steps, mark = [r["step"] for r in rows], "o" if len(rows) < 3 else ""
        for part in self._columns[1:-1]:
            above.plot(steps, [r[part] for r in rows], marker=mark, label=part)
        above.set(yscale="log", ylabel="mean of the last steps, at most 100", title=title)
        above.legend(frameon=False)
        below.plot(steps, [r["steps_per_s"] for r in rows], marker=mark, color="0.4")
        below.set(xlabel="step", ylabel="steps/s", ylim=(0, None))
        figure.savefig(out, dpi=110)
        return out


def read(path: Path) -> list[dict[str, float]]:
    """The rows of a curve; an unfinished last line is left out."""
    with open(path, encoding="ascii", newline="") as source:
        rows = list(csv.DictReader(source))
    whole = []
    for row in rows:
        try:
            whole.append({k: float(v) for k, v in row.items()})
        except (TypeError, ValueError):
            continue
    return whole
