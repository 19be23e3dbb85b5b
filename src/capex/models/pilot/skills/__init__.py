"""Skills by family: an instruction's verb and nouns decide which one runs. A skill asks for points and ends in an intent."""

from __future__ import annotations

from capex.models.pilot.ground import Asking, Intent
from capex.models.pilot.scene import Scene, line, raised
from capex.models.pilot.skills.cover import COVER, cover
from capex.models.pilot.skills.open_door import OPEN, open_door
from capex.models.pilot.skills.operate import FAUCET, KETTLE, MIXER, lift_head, press_lever, swing_handle
from capex.models.pilot.skills.pick_place import LIFT, PICK, PUT, pick_place
from capex.models.pilot.skills.press import PRESS, press
from capex.models.pilot.skills.shelve import SHELVE, shelve
from capex.models.pilot.skills.slide import DRAW, draw_out
from capex.models.pilot.skills.swing import CLOSE, close_door
from capex.models.pilot.skills.turn import KNOB, turn_off


def choose(scene: Scene) -> Asking:
    """The skill for an instruction."""
    if COVER.search(scene.page.instruction):
        return cover(scene)
    if SHELVE.search(scene.page.instruction):
        return shelve(scene)
    if any(pattern.search(scene.page.instruction) for pattern in (PICK, LIFT, PUT)):
        return pick_place(scene)
    if PRESS.search(scene.page.instruction):
        return press(scene)
    if CLOSE.search(scene.page.instruction):
        return close_door(scene)
    if KETTLE.search(scene.page.instruction):
        return press_lever(scene)
    if FAUCET.search(scene.page.instruction):
        return swing_handle(scene)
    if DRAW.search(scene.page.instruction):
        return draw_out(scene)
    if OPEN.search(scene.page.instruction):
        return open_door(scene)
    if MIXER.search(scene.page.instruction):
        return lift_head(scene)
    if KNOB.search(scene.page.instruction):
        return turn_off(scene)
    return _lost(scene)


def _lost(scene: Scene) -> Asking:
    """An instruction that no skill understands: say so, and lift the hand."""
    yield []
    return Intent("I do not understand the instruction; lifting the hand to look.", tuple(line(scene.tip, raised(scene.tip, 0.05))))
