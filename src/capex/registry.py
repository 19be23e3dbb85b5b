"""Tables of "module:attribute" strings: the core finds an extension by name when it needs it, and
imports none.
"""

from __future__ import annotations

import importlib
from typing import Any

# Robots described by a file: (world name) -> the world.
RIG_WORLD = "capex.rigs:rig_world"

# Sections of a report in order: (SectionInput) -> list[Section].
REPORT_SECTIONS = (
    "capex.report.sections.summary:summary",
    "capex.report.sections.students:students_section",
    "capex.report.sections.tasks:by_task_section",
    "capex.analysis.fork_section:forks_section",
    "capex.report.sections.verdicts:verdicts_section",
    "capex.report.sections.pairs:pairs_section",
    "capex.operators.match_section:arrangements_section",
    "capex.rigs.report_section:rig_section",
    "capex.report.sections.experience:experience_section",
    "capex.report.sections.calibration:calibration_section",
    "capex.analysis.counterfactual_section:counterfactual_section",
    "capex.report.sections.cost:cost_section",
)


def load(name: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
