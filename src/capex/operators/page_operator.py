"""A person beside a rig who says in the studio that a scene is ready, and judges there later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from capex.campaign.judging import Question
from capex.errors import RigFault
from capex.operators import Standby, never_ends
from capex.operators.arrangements import Arrangement, Match
from capex.operators.arranging import exterior_images, match_view, scene_name
from capex.operators.inbox import pop_ready
from capex.run.verdicts import Verdict
from capex.worlds import Env, Start

REFRESH_S = 0.25  # between two live pictures


@dataclass(frozen=True)
class PageOperator:
    """Waits for what the studio's page writes (`run.requests`)."""

    name: str
    stand_in: bool = False

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> Match:
        """Show the live scene beside the stored one until somebody says that it is ready."""
        scene = scene_name(start, standby)
        pop_ready(standby.run_dir, scene)  # what was said before counts for nothing
        view = match_view(start, arrangement, standby)
        try:
            while True:
                standby.check()
                view.show(exterior_images(env))
                if (ready := pop_ready(standby.run_dir, scene)) is not None:
                    return Match(ready.by, self.stand_in, None, notes=ready.notes)
                time.sleep(REFRESH_S)
        finally:
            view.close()

    attend = staticmethod(never_ends)

    def recover(self, fault: RigFault, check: Callable[[], None]) -> bool:
        """A rig that stopped is looked at by its side, not from a page."""
        return False

    def judge(self, question: Question) -> Verdict | None:
        """Later, in the studio or by `capex judge`."""
        return None
