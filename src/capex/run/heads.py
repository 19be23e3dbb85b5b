"""Episodes without their decisions, for overviews of thousands: only the beginning of a record is
read, which holds all other fields.
"""

from __future__ import annotations

from pathlib import Path

from capex import codec
from capex.method.record import from_json
from capex.run.reading import LoadedEpisode, load_episode
from capex.run.verdicts import read_verdicts
from capex.run.writing import Timing
from capex.untrusted import loads, opened, read_json, require_plain

HEAD_BYTES = 8 * 2**10  # of a record.json: everything before its decisions, and more
TURNS = b'"turns": ['  # cannot stand within a text, whose quotes are escaped


def load_head(chain: str, folder: Path, index: int) -> LoadedEpisode:
    """An episode as `run.load_episode` gives it, but for its decisions. Whatever does not look as
    expected is read whole, and DamagedFile says what is wrong with it.
    """
    try:
        episode = _quickly(chain, folder, index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        episode = None
    return load_episode(folder) if episode is None else episode


def _quickly(chain: str, folder: Path, index: int) -> LoadedEpisode | None:
    require_plain(folder)
    with opened(folder / "record.json") as file:
        beginning, found, _ = file.read(HEAD_BYTES).partition(TURNS)
    if not found:
        return None
    raw = loads(beginning.rstrip().removesuffix(b",") + b"}")
    record = from_json({**raw, "turns": []})
    if record.resumed is not None or record.start != index:
        return None
    timing = codec.from_json(read_json(folder / "timing.json"), Timing)
    verdicts = () if record.success is not None else tuple(read_verdicts(folder))
    return LoadedEpisode(chain, folder, record, timing, verdicts)
