"""Skills by family: an instruction's verb and nouns decide which one runs. A skill asks for points
and ends in an intent.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from capex.pilot.grounding import Asking, Intent
from capex.pilot.scene import Scene, line
from capex.plan import raised

SKILLS: tuple[tuple[re.Pattern[str], str], ...] = (  # the first that fits: its module and function
    (re.compile(r"put the (\w+) lid on the blender", re.I), "cover:cover"),
    (
        re.compile(
            r"pick the (.+?)(?: from the \w+)? and place it"
            r" (?:in the (open \w+ cabinet)|under the (spout) of the coffee machine)",
            re.I,
        ),
        "shelve:shelve",
    ),
    (
        re.compile(
            r"pick (?:up )?the (?P<item>.+?)(?: from the (?P<source>.+?))? and (?:place|put) it"
            r" (?:in|on|onto|into|under) the (?P<place>.+?)\.?$",
            re.I,
        ),
        "pick_place:pick_place",
    ),
    (re.compile(r"put the (?P<item>.+?) on the (?P<place>.+?)\.?$", re.I), "pick_place:pick_place"),
    (re.compile(r"(?:pick up|lift) the (?P<item>[^.]+?)\.?$", re.I), "pick_place:pick_place"),
    (re.compile(r"(?:press|push) the (?:(\w+) )?button", re.I), "press:press"),
    (re.compile(r"close the (.*?) ?(?:door|lid)\.?$", re.I), "swing:close_door"),
    (re.compile(r"turn on the (\w+) kettle", re.I), "operate:press_lever"),
    (re.compile(r"(left|right) handle, the one with the (\w+) cap", re.I), "operate:swing_handle"),
    (re.compile(r"head of the (\w+) (?:stand )?mixer", re.I), "operate:lift_head"),
    (
        re.compile(
            r"turn off the .*burner.*knob is the (first|second|third|fourth) from the left", re.I
        ),
        "turn:turn_off",
    ),
    (
        re.compile(r"(open) the (left|right) drawer|slide the (upper) rack .*\b(out|in)\b", re.I),
        "slide:slide",
    ),
    (re.compile(r"open the (left|middle|right) cabinet", re.I), "open_door:open_door"),
    (re.compile(r"drive to the (.+?) and stop", re.I), "drive:drive"),
)
ON_A_RIG: tuple[tuple[re.Pattern[str], str], ...] = (  # where a person judges
    (
        re.compile(
            r"the (?P<item>\w+) on the (?P<half>left|right) half(?: of the (?P<place>\w+))?"
            r" with the (?P<arm>left|right) arm",
            re.I,
        ),
        "both_arms:halves",
    ),
    (
        re.compile(
            r"lift the (?P<item>\w+) by its rim with the (?P<giver>left|right) arm,"
            r" hand it over to the (?P<taker>left|right) arm",
            re.I,
        ),
        "both_arms:hand_over",
    ),
    (
        re.compile(
            r"(?:pick up the (?P<picked>.+?) and )?(?:put|stack) (?:the (?P<item>.+?)|it)"
            r" (?:on top of|onto|on) the (?P<place>.+?)\.?$",
            re.I,
        ),
        "tabletop:tabletop",
    ),
    (
        re.compile(
            r"(?:pick up|lift|grab) the (?P<item>.+?)(?: and (?:hold|lift) it(?: up)?)?\.?$", re.I
        ),
        "tabletop:tabletop",
    ),
)


def choose(scene: Scene) -> Asking:
    """The skill for an instruction, given the words that it was recognised by."""
    for pattern, skill in (*ON_A_RIG, *SKILLS) if scene.brief.done else SKILLS:
        if words := pattern.search(scene.page.instruction):
            asking: Asking = _function(skill)(scene, words)
            return asking
    return _lost(scene)


def _function(skill: str) -> Any:
    """A skill's function; its module is imported when it is first chosen."""
    module, _, name = skill.partition(":")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def _lost(scene: Scene) -> Asking:
    """An instruction that no skill understands: say so, and lift the hand."""
    yield []
    why = "I do not understand the instruction; lifting the hand to look."
    return Intent(why, line(scene.tip, raised(scene.tip, 0.05)))
