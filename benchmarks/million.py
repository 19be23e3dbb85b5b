"""A million demonstrations: what they cost in dollars, disk, model servers, traffic and machines,
from a run that was made and from the paper's figures.

`python benchmarks/million.py RUN [DEMONSTRATIONS]`

The run tells the bytes: of an episode by part, of a request on the wire. Its pictures are encoded
again as lossless WebP, its exchanges compressed, to measure what either brings. The paper tells
dollars, requests and minutes of a success, failed attempts included. What is kept of an episode
must stay below 1 MB with `--keep-images start --image-format webp`.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from thousand_chains import usage

import capex
from capex import codec
from capex.models import pictures
from capex.models.exchanges import LOG, read_log
from capex.run import Depth

USD, REQUESTS, MINUTES, ATTEMPTS = 1.83, 37, 6.6, 360 / 193  # of a success in the paper
FILE_MB = 1.0  # an episode, as it should be kept
SAMPLE = 40  # pictures that are encoded again
YEAR_DAYS = 365.0


class Bytes(NamedTuple):
    """Of a mean episode, and of a mean request on the wire."""

    parts: dict[str, float]
    start_images: float
    webp: float  # size of a WebP over that of its PNG
    packed: float  # size of compressed exchanges over that of plain ones
    requests: float
    sent: float
    received: float


def measure(path: Path) -> tuple[int, Bytes]:
    """The episodes of a run, and their bytes."""
    run = capex.load_run(path, Depth.HEADS)
    parts: Counter[str] = Counter()
    sent = received = requests = start_images = packed = png = webp = sampled = 0.0
    for episode in run.episodes:
        files = [p for p in episode.path.rglob("*") if p.is_file()]
        sizes = {p.stem: p.stat().st_size for p in files if p.parent.name == pictures.IMAGES}
        parts["images"] += sum(sizes.values())
        start_images += sum(sizes.get(sha, 0) for sha in episode.record.images.values())
        for file in files:
            if file.parent.name != pictures.IMAGES:
                parts[file.name] += file.stat().st_size
            elif sampled < SAMPLE and file.suffix == ".png":
                sampled += 1
                png += file.stat().st_size
                webp += len(pictures.as_format(file.read_bytes(), "webp"))
        packed += len(zlib.compress((episode.path / LOG).read_bytes(), 6))
        mean_image = sum(sizes.values()) / max(1, len(sizes))
        for line in read_log(episode.path / LOG):
            requests += 1
            text = json.dumps(line.request or {})
            shown = text.count('"sha256"')
            sent += len(text) + shown * len(base64.b64encode(b"0" * round(mean_image)))
            # A stand-in sends no body worth counting: its calls are what a model would write.
            received += max(
                len(json.dumps(codec.to_json(value))) for value in (line.body, line.answer)
            )
    count = len(run.episodes)
    parts["spend.jsonl"] = (path / "spend.jsonl").stat().st_size
    mean = {name: size / count for name, size in parts.most_common()}
    return count, Bytes(
        mean,
        start_images / count,
        webp / png if png else 1.0,
        packed / parts[LOG],
        requests / count,
        sent / requests,
        received / requests,
    )


def world_mb(name: str, worlds: int = 4) -> float:
    """Memory of one more world at its start, drawn once."""
    from capex import Start
    from capex.worlds import make

    made, used = [], []
    for _ in range(worlds):
        made.append(env := make(name))
        env.reset(Start(env.spec.task, 0))
        env.observe()
        used.append(usage()["memory_mb"])
    return (used[-1] - used[0]) / (worlds - 1)


def kept(found: Bytes, *, start: bool, webp: bool) -> float:
    """Bytes of an episode under other settings."""
    images = found.start_images if start else found.parts["images"]
    others = sum(size for name, size in found.parts.items() if name != "images")
    return others + images * (found.webp if webp else 1.0)


def plan(found: Bytes, demonstrations: float, each_mb: float) -> list[tuple[str, str, str]]:
    """What so many demonstrations take: what, how much, from what."""
    requests, attempts = REQUESTS * demonstrations, ATTEMPTS * demonstrations
    chain_years = MINUTES * demonstrations / 60 / 24 / YEAR_DAYS
    small = kept(found, start=True, webp=True)
    usual = kept(found, start=False, webp=False)
    return [
        ("dollars", f"${USD * demonstrations:,.0f}", f"${USD} a success"),
        ("requests", f"{requests:,.0f}", f"{REQUESTS} a success"),
        ("years of one chain", f"{chain_years:.1f}", f"{MINUTES} minutes a success"),
        ("days of 1,000 chains", f"{chain_years * YEAR_DAYS / 1000:.1f}", "side by side"),
        ("requests a second then", f"{1000 * REQUESTS / MINUTES / 60:.0f}", ""),
        ("attempts", f"{attempts:,.0f}", "53.6 % succeed"),
        ("disk, every picture as PNG", f"{attempts * usual / 1e12:.1f} TB", _mb(usual)),
        ("disk, start pictures as WebP", f"{attempts * small / 1e12:.1f} TB", _mb(small)),
        (
            "sent to models",
            f"{requests * found.sent / 1e12:.1f} TB",
            f"{found.sent / 1e3:.0f} kB a request",
        ),
        (
            "received",
            f"{requests * found.received / 1e12:.2f} TB",
            f"{found.received / 1e3:.1f} kB a request",
        ),
        (
            "uplink of 1,000 chains",
            f"{8 * found.sent * 1000 * REQUESTS / MINUTES / 60 / 1e6:.0f} Mbit/s",
            "",
        ),
        ("memory of 1,000 worlds", f"{each_mb:.0f} GB", f"{each_mb:.0f} MB each"),
        ("files", f"{attempts * 8:,.0f}", "8 an attempt with start pictures"),
    ]


def _mb(size: float) -> str:
    return f"{size / 1e6:.2f} MB an attempt"


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    demonstrations = float(sys.argv[2]) if len(sys.argv) > 2 else 1e6
    count, found = measure(Path(sys.argv[1]))
    console = Console(width=100)
    table = Table(title=f"an episode of {sys.argv[1]} ({count} episodes)", title_justify="left")
    for column in ("part", "kB"):
        table.add_column(column, justify="left" if column == "part" else "right")
    for name, size in found.parts.items():
        table.add_row(name, f"{size / 1e3:.1f}")
    table.add_row("all", f"{sum(found.parts.values()) / 1e3:.1f}", style="bold")
    table.add_row("with start pictures only", f"{kept(found, start=True, webp=False) / 1e3:.1f}")
    small = kept(found, start=True, webp=True)
    table.add_row(f"and as WebP ({found.webp:.2f} of a PNG)", f"{small / 1e3:.1f}")
    saved = found.parts[LOG] * (1 - found.packed)
    table.add_row(
        f"if exchanges were compressed ({found.packed:.2f})", f"{(small - saved) / 1e3:.1f}"
    )
    console.print(table)
    console.print(f"{found.requests:.1f} requests an episode")
    rows = Table(title=f"{demonstrations:,.0f} demonstrations", title_justify="left")
    for column in ("what", "in all", "from"):
        rows.add_column(column, justify="right" if column == "in all" else "left")
    episode = capex.load_run(sys.argv[1], Depth.HEADS).episodes[0].record
    for row in plan(found, demonstrations, world_mb(f"{episode.world}:{episode.task}")):
        rows.add_row(*row)
    console.print(rows)
    if small >= FILE_MB * 1e6:
        print(f"an episode takes {small / 1e6:.2f} MB; below {FILE_MB:g} MB was promised")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
