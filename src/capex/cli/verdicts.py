"""The question about an attempt at a terminal: what was asked for, what the model claims, six
pictures, and the keys that answer.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase

from rich.console import Console

from capex.campaign.judging import Question, question
from capex.cli.console import console
from capex.cli.keys import Keys
from capex.errors import CapexError, ErrorCode
from capex.run import load_episode, load_run
from capex.run.files import now
from capex.run.summary import summarize
from capex.run.verdicts import BROKEN, REASONS, Verdict, Word, append_verdict, read_verdict

WHO = "CAPEX_OPERATOR"
KEYS = "s success, f failure, i invalid, u undo the last, r its reasoning, ? help, q later"
HELP = """\
s  success: the task is done as asked.
f  failure: it is not; a reason and words of your own may follow.
i  invalid: the attempt says nothing, because the robot faulted or someone walked in. Its start is
   run again.
u  undo: take the last verdict of this run back and give it anew.
r  what the model said at each of its decisions.
q  later: the attempt stays unjudged, and `capex judge RUN` asks again."""
ELSEWHERE = "given elsewhere, as in the studio"
LOOK_S = 0.5  # how often a waiting question looks whether it was answered elsewhere
VERDICTS: dict[str, Word] = {"s": "success", "f": "failure", "i": "invalid"}


def who_judges(given: str | None, keys: Keys, out: Console = console) -> str:
    """The name that stands in verdicts: as given, from the environment, or asked for."""
    name = given or os.environ.get(WHO, "")
    if not name and keys.terminal:
        out.print("Who judges? Your name: ", end="", markup=False, highlight=False)
        name = keys.line()
    if not name.strip():
        raise CapexError(
            f"a verdict needs a name: say who judges with --by NAME, or set {WHO}",
            code=ErrorCode.PERSON_NEEDED,
        )
    return name.strip()


@dataclass
class TerminalJudge:
    """Asks a person. `paused` stops a display that is being redrawn for as long as it takes."""

    given: str | None = None  # the name, where it was typed
    keys: Keys = field(default_factory=Keys)
    out: Console = console
    paused: Callable[[], AbstractContextManager[object]] = nullcontext
    _name: str = ""

    @property
    def name(self) -> str:
        """Who judges; asked for once."""
        self._name = self._name or who_judges(self.given, self.keys, self.out)
        return self._name

    def judge(self, asked: Question) -> Verdict | None:
        """The verdict on an attempt; None: later."""
        with self.paused():
            return self.ask(asked)

    def ask(self, asked: Question, place: str = "") -> Verdict | None:
        """Show an attempt and wait for its verdict."""
        with tempfile.TemporaryDirectory(prefix="capex-judge-") as folder:
            self._show(asked, place, _strip(asked.episode_dir, Path(folder)))
            while True:
                self._say(f"{KEYS} > ", end="")
                key = self._key(asked.episode_dir)
                self._say(key)
                if key in ("", "q", ELSEWHERE):
                    return None
                if key in VERDICTS:
                    reason, words = self._why(key, asked.rules)
                    return Verdict(VERDICTS[key], self.name, now(), reason, words)
                if key == "?":
                    self._say(HELP)
                elif key == "r":
                    self._reasoning(asked.episode_dir)
                elif (again := self._undo(asked.episode_dir.parents[3])) is not None:
                    self.confirm(again.episode_dir, self.ask(again))
                    self._show(asked, place, "")

    def _key(self, episode_dir: Path) -> str:
        """A key, or the word that somebody judged the attempt elsewhere meanwhile."""
        while self.keys.terminal:
            key = self.keys.key_within("sfiur?q", LOOK_S, keep=True)
            if key is not None:
                return key
            if (verdict := read_verdict(episode_dir)) is not None:
                self._say(f"{verdict.verdict} by {verdict.by}, ", end="")
                return ELSEWHERE
        return self.keys.key("sfiur?q")

    def offer_undo(self, run: Path) -> None:
        """Nothing waits: the last verdict may be taken back, as often as there are some."""
        while True:
            self._say("nothing waits for a verdict; u undo the last, q end > ", end="")
            key = self.keys.key("uq")
            self._say(key)
            if key != "u":
                return
            if (again := self._undo(run)) is not None:
                self.confirm(again.episode_dir, self.ask(again))

    def confirm(self, episode_dir: Path, verdict: Verdict | None) -> None:
        """Write a verdict and say so once it is on disk."""
        if verdict is not None:
            append_verdict(episode_dir, verdict)
            self._say(f"{verdict.verdict} by {verdict.by}: written to {episode_dir}")

    def _undo(self, run: Path) -> Question | None:
        """Take the last verdict of a run back; the question about it is asked again."""
        last = last_judged(run)
        if last is None:
            self._say("there is no verdict to take back")
            return None
        append_verdict(last, Verdict("undo", self.name, now()))
        self._say(f"taken back, and asked again: {last}")
        return question(load_episode(last))

    def _why(self, key: str, rules: tuple[str, ...]) -> tuple[str, str]:
        """A reason from the list, or a rule that was broken, and free words; both optional."""
        reason = ""
        if key == "f":
            reasons = {str(n): reason for n, reason in enumerate(REASONS, 1)}
            broken = {k: BROKEN + rule for k, rule in zip(ascii_lowercase, rules, strict=False)}
            for letter, rule in broken.items():
                self._say(f"{letter:>10}: {rule}")
            listed = ", ".join(f"{n} {reason}" for n, reason in reasons.items())
            listed += f"; {'/'.join(broken)} a broken rule" if broken else ""
            self._say(f"why? {listed}; Enter: no reason > ", end="")
            chosen = self.keys.key("\n" + "".join((*reasons, *broken))).strip()
            reason = (reasons | broken).get(chosen, "")
            self._say(reason)
        if key == "s":
            return "", ""
        self._say("in your words; Enter: none > ", end="")
        words = self.keys.line()
        if not self.keys.terminal:
            self._say(words)
        return reason, words

    def _show(self, asked: Question, place: str, strip: str) -> None:
        record = load_episode(asked.episode_dir).record
        claim = "the model says that it is done" if asked.claimed_done else "the model claims none"
        said = next((t.reasoning for t in reversed(record.turns) if t.reasoning), "")
        head = f"{asked.world}:{asked.task} {asked.method} start {asked.start}"
        rows = {
            "attempt": f"{head}{place}, {asked.episode_dir}",
            "task": asked.instruction,
            "success is": asked.criterion,
            "ended": f"{asked.end} after {record.steps} steps; {claim}",
            "last words": " ".join(said.split()),
            "pictures": strip,
        }
        for name, text in rows.items():
            if text:
                self._say(f"{name:>10}: {text}")

    def _reasoning(self, episode_dir: Path) -> None:
        for turn in load_episode(episode_dir).record.turns:
            self._say(f"{turn.decision:>4}: {' '.join(turn.reasoning.split())}")

    def _say(self, text: str, end: str = "\n") -> None:
        self.out.print(text, end=end, markup=False, highlight=False, soft_wrap=True)


def last_judged(run: Path) -> Path | None:
    """The episode whose verdict is the newest of those that stand; one whose start has run again
    is not among them.
    """
    held = load_run(run)
    paths = [e.path for e in held.episodes if e.verdict is not None]
    paths += [a.path for a in held.invalid if a.undoable]
    times = {path: verdict.at for path in paths if (verdict := read_verdict(path)) is not None}
    return max(times, key=lambda path: times[path], default=None)


def _strip(episode_dir: Path, folder: Path) -> str:
    """A file with moments of an attempt, or a sentence why there is none."""
    from capex.report.strips import Filmer, write_frames

    episode = load_episode(episode_dir)
    filmer = Filmer()
    with contextlib.closing(filmer):
        strip = filmer.strip(summarize(episode), episode.record)
    if not strip.frames:
        return strip.note
    return str(write_frames(strip, folder / f"{episode.chain}-{episode_dir.name}.png"))
