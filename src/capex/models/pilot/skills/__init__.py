"""Skills by family: an instruction's verb and nouns decide which one runs. A skill asks for points
and ends in an intent.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from capex.models.pilot.ground import Asking, Intent
from capex.models.pilot.scene import Scene, line
from capex.models.pilot.skills.cover import COVER, cover
from capex.models.pilot.skills.drive import DRIVE, drive
from capex.models.pilot.skills.open_door import OPEN, open_door
from capex.models.pilot.skills.operate import (
    FAUCET,
    KETTLE,
    MIXER,
    lift_head,
    press_lever,
    swing_handle,
)
from capex.models.pilot.skills.pick_place import LIFT, PICK, PUT, pick_place
from capex.models.pilot.skills.press import PRESS, press
from capex.models.pilot.skills.shelve import SHELVE, shelve
from capex.models.pilot.skills.slide import SLIDE, slide
from capex.models.pilot.skills.swing import CLOSE, close_door
from capex.models.pilot.skills.turn import KNOB, turn_off
from capex.plan import raised

SKILLS: tuple[tuple[re.Pattern[str], Callable[[Scene], Asking]], ...] = (  # the first that fits
    (COVER, cover),
    (SHELVE, shelve),
    (PICK, pick_place),
    (LIFT, pick_place),
    (PUT, pick_place),
    (PRESS, press),
    (CLOSE, close_door),
    (KETTLE, press_lever),
    (FAUCET, swing_handle),
    (MIXER, lift_head),
    (KNOB, turn_off),
    (SLIDE, slide),
    (OPEN, open_door),
    (DRIVE, drive),
)


def choose(scene: Scene) -> Asking:
    """The skill for an instruction."""
    return next(
        (skill for pattern, skill in SKILLS if pattern.search(scene.page.instruction)), _lost
    )(scene)


def _lost(scene: Scene) -> Asking:
    """An instruction that no skill understands: say so, and lift the hand."""
    yield []
    return Intent(
        "I do not understand the instruction; lifting the hand to look.",
        tuple(line(scene.tip, raised(scene.tip, 0.05))),
    )
