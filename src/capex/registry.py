"""Tables of "module:attribute" strings: the core finds an extension by name when it needs it, and
imports none.
"""

from __future__ import annotations

import importlib
from typing import Any

# Robots described by a file, PREFIX:FILE. By prefix: (world name) -> the world, and a module with
# the files that records depend on (`campaign.world_files`).
ROBOT_WORLDS = {"rig:": "capex.rigs:rig_world"}
ROBOT_FILES = {"rig:": "capex.rigs.campaign_files"}
# Those that may be named without the prefix.
ROBOT_NAMES = {"franka-twin": "rig:franka-twin", "yam-twin": "rig:yam-twin"}

# Whether a robot's room is simulated; the people beside the robots of a campaign.
HAS_ROOM = "capex.rigs.campaign_rules:has_room"  # (world) -> whether its room is simulated
CAMPAIGN_PEOPLE = "capex.rigs.campaign_rules:people_of"  # (settings, specs, ..) -> People

# Labels of earlier runs as a prior: (Settings) -> Settings.
WITH_PRIORS = "capex.analysis.priors:with_priors"

# People's requests to an attempt, loaded with the first one: (Attempt) -> CampaignExtension.
ATTEMPT_REQUESTS = "capex.operators.requests:OperatorRequests"

# Repeats the requests of a recorded attempt: (EpisodeRecord) -> ExtensionFactory.
REPEAT_REQUESTS = "capex.operators.requests:RepeatRequests"

# Extensions of every attempt by a robot, in order: (Attempt) -> CampaignExtension.
ROBOT_EXTENSIONS = ("capex.rigs.attempt:RobotAttempt", "capex.operators.screens:Screens")

# Folders of extensions in a run, which a branch of it keeps.
RUN_FOLDERS = ("arrangements",)

# Kinds of runs of extensions, by the command in their manifests: a RunKind.
RUN_KINDS = {"fork": "capex.analysis.fork_kind:FORKS"}

# Filters of exports beyond those of `dataset.selection.Filters`, by name: an ExportFilter.
EXPORT_FILTERS = {
    "forks": "capex.analysis.fork_kind:EXPORT_FILTER",
    "helped": "capex.operators.export_filter:HELPED",
}

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
    """The object that "module:attribute" names, or the module without an attribute."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
