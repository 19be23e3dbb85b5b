"""`apprentice:SKILL,SEED`: a stand-in demonstrator that needs experience. The pilot's eyes and
skills with beliefs that nobody tuned: drawn once per task and seed, corrected only by what the
request tells it.

It is no foundation model: it says what the harness does with such a demonstrator.

    apprentice:0.3,1                     skill from 0 to 1 (1 is the pilot), and a seed
    apprentice:0.3,1,usual=0.9,touch=0   other stated confidences, as with the pilot
    apprentice:0.3,1,haste=30            plans in haste, from afar too deep (in cm)
"""

from __future__ import annotations

from capex import pilot
from capex.errors import CapexError
from capex.pilot import Pilot


def make(rest: str) -> Pilot:
    """From apprentice:SKILL, apprentice:SKILL,SEED or apprentice:SKILL,SEED,key=value.."""
    skill, _, more = rest.partition(",")
    try:
        value = float(skill)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise CapexError(
            f"'apprentice:{rest}' has the skill '{skill}'; write a number from 0 to 1, then a seed:"
            " apprentice:0.3,1"
        )
    return pilot.make(more, f"apprentice:{rest}", value)
