"""What memory an episode was shown, made again from the records before it."""

from __future__ import annotations

from dataclasses import replace

from capex.campaign.chain import learn
from capex.errors import CapexError, ErrorCode
from capex.method.memory import Memory
from capex.method.presets import MethodSettings
from capex.run import LoadedChain, LoadedEpisode
from capex.run.verdicts import effective_success


def recall(
    chain: LoadedChain, episode: LoadedEpisode, method: MethodSettings, round_size: int
) -> Memory:
    """The memory that an episode of a chain was shown; a sentence where it cannot be made again."""
    memory = Memory()
    if method.memory != "chain":
        return memory.snapshot()
    began = episode.position // round_size * round_size  # its round
    if lost := forgotten(chain, method, began):
        raise CapexError(
            f"the memory that {episode.path} was shown cannot be made again: {lost} is damaged",
            code=ErrorCode.DAMAGED_FILE,
        )
    if episode.verdicts_seen:
        seen = as_seen_then(chain, episode)
        if seen is None:
            raise CapexError(
                f"the memory that {episode.path} was shown cannot be made again: an attempt in it"
                " was run again since",
                code=ErrorCode.STATE_MISMATCH,
            )
        return seen.snapshot()
    for earlier in chain.episodes:
        if earlier.position < began:
            learn(memory, earlier.record, earlier.path)
    return memory.snapshot()


def as_seen_then(chain: LoadedChain, episode: LoadedEpisode) -> Memory | None:
    """Where a person judges: memory from the verdicts as they were when the episode began. None
    where one of the attempts was judged invalid since and run again.
    """
    memory, held = Memory(), {str(e.index): e for e in chain.episodes}
    for start, seen in episode.verdicts_seen.items():
        attempt = held.get(start)
        given = () if attempt is None else attempt.verdicts
        then = next((v for v in given if seen is not None and v.at == seen["at"]), None)
        if attempt is None or (seen is not None and then is None):
            return None
        success = effective_success(attempt.record.success, then)
        learn(memory, replace(attempt.record, success=success), attempt.path)
    return memory


def forgotten(chain: LoadedChain, method: MethodSettings, position: int) -> str:
    """The damaged episode that stood before a place, as far as one can tell, if memory would have
    to know it.
    """
    lost = [d.path.name for d in chain.damaged if d.start is not None]
    if not lost or method.memory != "chain":
        return ""
    recorded = {e.position for e in chain.episodes} | {a.note.position for a in chain.invalid}
    return f"episode {lost[0]}" if any(p not in recorded for p in range(position)) else ""
