"""Verdicts of a person on an attempt that the world cannot judge: `verdicts.jsonl` beside
record.json, a line for each, appended and never rewritten; "undo" takes the last standing one back.

record.json keeps `success` null. `read_verdict` gives the one that stands, and `effective_success`
the success that everything else counts. A second judge's lines go into `opinions.jsonl`: each judge
has one that stands, and they count nowhere but in the agreement of judges (`run.agreement`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.run.files import flush_folder
from capex.untrusted import lines, loads, no_links

VERDICTS = "verdicts.jsonl"
OPINIONS = "opinions.jsonl"
Word = Literal["success", "failure", "invalid", "undo"]
# Short reasons of a failure that can be counted; free words come beside them.
REASONS = (
    "missed grasp",
    "dropped",
    "wrong object",
    "wrong place",
    "not finished",
    "moved something else",
    "unsafe",
    "other",
)
BROKEN = "broken: "  # a reason that names one of the task's own rules


@dataclass(frozen=True)
class Verdict:
    """One line of verdicts.jsonl."""

    verdict: Word
    by: str  # the name that the judge gave
    at: str  # UTC, ISO 8601
    reason: str = ""  # one of REASONS, BROKEN and a rule of the task, or empty
    words: str = ""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, str):
                raise CapexError(f"the {name} of a verdict is {value!r}; a text is right")
        if self.verdict not in get_args(Word):
            valid = ", ".join(get_args(Word))
            raise CapexError(
                f"a verdict is '{self.verdict}'; valid: {valid}", code=ErrorCode.UNKNOWN_NAME
            )
        if not self.by.strip():
            raise CapexError("a verdict needs a name: say who judges", code=ErrorCode.PERSON_NEEDED)
        broken = self.reason.startswith(BROKEN) and self.reason.removeprefix(BROKEN).strip()
        if self.reason and self.reason not in REASONS and not broken:
            valid = f"{', '.join(REASONS)}, {BROKEN}RULE"
            raise CapexError(
                f"a verdict's reason is '{self.reason}'; valid: {valid}, or none",
                code=ErrorCode.UNKNOWN_NAME,
            )


def append_verdict(episode_dir: Path, verdict: Verdict, *, second: bool = False) -> None:
    """Add a verdict, or a second judge's opinion, and return when it is on disk."""
    held = read_verdict(episode_dir)
    if second:
        held = read_opinions(episode_dir).get(verdict.by)
    if verdict.verdict == "undo" and held is None:
        raise CapexError(f"{episode_dir} has no verdict to take back", code=ErrorCode.WRONG_ORDER)
    file = OPINIONS if second else VERDICTS
    path = episode_dir / file
    text = json.dumps(asdict(verdict), ensure_ascii=False) + "\n"
    with open(path, "ab+", opener=no_links) as out:
        # A line that a kill tore is ended, so that it spoils no other.
        if out.tell() and not _ends_whole(path):
            out.write(b"\n")
        out.write(text.encode())
        out.flush()
        os.fsync(out.fileno())
    flush_folder(episode_dir)
    held_now = read_verdicts(episode_dir, file)
    if not held_now or held_now[-1] != verdict:
        raise CapexError(
            f"the verdict could not be read back from {path}; give it again",
            code=ErrorCode.CANNOT_WRITE,
        )


def read_verdicts(episode_dir: Path, file: str = VERDICTS) -> list[Verdict]:
    """Every verdict in order; a torn line is none of them."""
    path = episode_dir / file
    try:
        rows = list(lines(path))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise DamagedFile(path, f"it cannot be read ({error})") from None
    verdicts = []
    for line in rows:
        try:
            raw: Any = loads(line)
        except ValueError:
            continue
        try:
            verdicts.append(Verdict(**raw))
        except (TypeError, AttributeError, CapexError) as error:
            raise DamagedFile(path, f"a line is no verdict ({error})") from None
    return verdicts


def standing(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict that holds: each undo takes back the one that stood before it."""
    stack: list[Verdict] = []
    for verdict in verdicts:
        if verdict.verdict != "undo":
            stack.append(verdict)
        elif stack:
            stack.pop()
    return stack[-1] if stack else None


def read_verdict(episode_dir: Path) -> Verdict | None:
    """The verdict that holds for an episode; None while it is unjudged."""
    return standing(read_verdicts(episode_dir))


def read_opinions(episode_dir: Path) -> dict[str, Verdict]:
    """By second judge, the opinion that holds."""
    opinions = read_verdicts(episode_dir, OPINIONS)
    by_judge = {v.by: standing(o for o in opinions if o.by == v.by) for v in opinions}
    return {by: verdict for by, verdict in by_judge.items() if verdict is not None}


def effective_success(recorded: bool | None, verdict: Verdict | None) -> bool | None:
    """The success that counts: the world's where it judged, else the verdict's; None while
    unjudged or where the attempt was judged invalid.
    """
    if recorded is not None:
        return recorded
    words = {"success": True, "failure": False}
    return words.get(verdict.verdict) if verdict is not None else None


def _ends_whole(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
