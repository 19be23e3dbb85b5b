"""The scene before an attempt, arranged by a person at the terminal: a picture file shows how far
it is from the stored one, and a key says that it is ready.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console

from capex.cli.console import console
from capex.cli.keys import Keys
from capex.errors import OperatorLeft
from capex.operators import Standby
from capex.operators.arrangements import Arrangement
from capex.operators.arranging import exterior_images, match_view, scene_name
from capex.operators.inbox import SceneReady, pop_ready
from capex.operators.matching import MatchView
from capex.worlds import Env, Start

REFRESH_S = 0.3  # between two live pictures


@dataclass(frozen=True)
class TerminalArranger:
    """Asks a person to arrange. `paused` stops a display that is being redrawn meanwhile."""

    keys: Keys = field(default_factory=Keys)
    out: Console = console
    paused: Callable[[], AbstractContextManager[object]] = nullcontext

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> SceneReady:
        """Show the live scene over the stored one until Enter, or until somebody says in the studio
        that it is ready; returns the person's notes.
        """
        name = scene_name(start, standby)
        pop_ready(standby.run_dir, name)  # what was said before counts for nothing
        with self.paused():
            view = match_view(start, arrangement, standby)
            explain = partial(self._explain, name, arrangement, view)
            explain()
            try:
                return self._until_ready(env, standby, view, name, explain)
            finally:
                view.close()

    def _until_ready(
        self, env: Env, standby: Standby, view: MatchView, name: str, explain: Callable[[], None]
    ) -> SceneReady:
        notes = ""
        while True:
            standby.check()
            difference = view.show(exterior_images(env))
            if (said := pop_ready(standby.run_dir, name)) is not None:
                self._say(f"{said.by} says in the studio that the scene is ready")
                return said
            key = self.keys.key_within("\nnrq", REFRESH_S)
            if key == "\n":
                if difference is not None:
                    score, changed = difference
                    self._say(f"difference {score:.3f}, {100 * changed:.0f} % of the pixels")
                return SceneReady("", notes)
            if key in ("q", ""):
                raise OperatorLeft
            if key == "n":
                self._say("notes on this scene > ", end="")
                notes = self.keys.line()
            elif key == "r":
                view.open_anew()
                explain()

    def recover(self, reason: str, check: Callable[[], None]) -> bool:
        """Tell what stopped the rig and wait until a person says that it is fine again."""
        with self.paused():
            self._say(f"the rig stopped: {reason}")
            self._say("the arms hold. Enter: the rig is fine again; q: stop > ", end="")
            while True:
                check()
                key = self.keys.key_within("\nq", REFRESH_S)
                if key is not None:
                    self._say("")
                    return key == "\n"

    def _explain(self, name: str, arrangement: Arrangement | None, view: MatchView) -> None:
        if arrangement is None:
            self._say(f"{name}: arrange the scene as you like; later attempts will match it")
        else:
            notes = f" ({arrangement.notes})" if arrangement.notes else ""
            self._say(f"{name}: match the scene of {arrangement.source}{notes}")
        self._say(f"look at {view.page}")
        self._say("Enter: ready, the robot moves next; n: note; r: open the view anew; q: stop")

    def _say(self, words: str, end: str = "\n") -> None:
        self.out.print(words, end=end, markup=False, highlight=False, soft_wrap=True)
