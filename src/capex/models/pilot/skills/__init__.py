"""Skills by family: an instruction's verb and nouns decide which one runs. A skill asks for points and ends in an intent."""

from __future__ import annotations

from capex.models.pilot.ground import Asking, Intent
from capex.models.pilot.scene import Scene, line, raised
from capex.models.pilot.skills.drive import DRIVE, drive
from capex.models.pilot.skills.open_door import OPEN, open_door
from capex.models.pilot.skills.pick_place import PICK, pick_place
from capex.models.pilot.skills.press import PRESS, press
from capex.models.pilot.skills.slide import SLIDE, slide
from capex.models.pilot.skills.swing import CLOSE, close_door


def choose(scene: Scene) -> Asking:
    """The skill for an instruction."""
    if PICK.search(scene.page.instruction):
        return pick_place(scene)
    if PRESS.search(scene.page.instruction):
        return press(scene)
    if CLOSE.search(scene.page.instruction):
        return close_door(scene)
    if SLIDE.search(scene.page.instruction):
        return slide(scene)
    if OPEN.search(scene.page.instruction):
        return open_door(scene)
    if DRIVE.search(scene.page.instruction):
        return drive(scene)
    return _lost(scene)


def _lost(scene: Scene) -> Asking:
    """An instruction that no skill understands: say so, and lift the hand."""
    yield []
    return Intent("I do not understand the instruction; lifting the hand to look.", tuple(line(scene.tip, raised(scene.tip, 0.05))))
