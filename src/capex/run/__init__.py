"""The run directory: the only truth. What writes it, reads it and counts it lives here."""

from capex.run.manifest import Manifest, Origin
from capex.run.reading import (
    Damaged,
    Depth,
    InvalidAttempt,
    LoadedChain,
    LoadedEpisode,
    LoadedRun,
    briefly,
    load_chain,
    load_episode,
    load_run,
    parts,
    read_invalid,
    read_judged,
    read_record,
    readable,
)

__all__ = [
    "Damaged",
    "Depth",
    "InvalidAttempt",
    "LoadedChain",
    "LoadedEpisode",
    "LoadedRun",
    "Manifest",
    "Origin",
    "briefly",
    "load_chain",
    "load_episode",
    "load_run",
    "parts",
    "read_invalid",
    "read_judged",
    "read_record",
    "readable",
]
