"""Skills by family: an instruction's verb and nouns decide which one runs. A skill asks for points
and ends in an intent.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from capex.pilot.grounding import Asking, Intent
from capex.pilot.scene import Scene, line
from capex.pilot.skills import (
    both_arms,
    cover,
    drive,
    open_door,
    operate,
    pick_place,
    press,
    shelve,
    slide,
    swing,
    tabletop,
    turn,
)
from capex.plan import raised

Skill = Callable[[Scene, re.Match[str]], Asking]
SKILLS: tuple[tuple[re.Pattern[str], Skill], ...] = (  # the first that fits
    (cover.COVER, cover.cover),
    (shelve.SHELVE, shelve.shelve),
    (pick_place.PICK, pick_place.pick_place),
    (pick_place.PUT, pick_place.pick_place),
    (pick_place.LIFT, pick_place.pick_place),
    (press.PRESS, press.press),
    (swing.CLOSE, swing.close_door),
    (operate.KETTLE, operate.press_lever),
    (operate.FAUCET, operate.swing_handle),
    (operate.MIXER, operate.lift_head),
    (turn.KNOB, turn.turn_off),
    (slide.SLIDE, slide.slide),
    (open_door.OPEN, open_door.open_door),
    (drive.DRIVE, drive.drive),
)
ON_A_RIG: tuple[tuple[re.Pattern[str], Skill], ...] = (  # where a person judges
    (both_arms.HALVES, both_arms.halves),
    (both_arms.HAND_OVER, both_arms.hand_over),
    (tabletop.PUT, tabletop.tabletop),
    (tabletop.LIFT, tabletop.tabletop),
)


def choose(scene: Scene) -> Asking:
    """The skill for an instruction, given the words that it was recognised by."""
    for pattern, skill in (*ON_A_RIG, *SKILLS) if scene.brief.done else SKILLS:
        if words := pattern.search(scene.page.instruction):
            return skill(scene, words)
    return _lost(scene)


def _lost(scene: Scene) -> Asking:
    """An instruction that no skill understands: say so, and lift the hand."""
    yield []
    why = "I do not understand the instruction; lifting the hand to look."
    return Intent(why, line(scene.tip, raised(scene.tip, 0.05)))
