"""Shared environments, and a closing table that says where the time of a run went."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

import pytest

from capex import worlds

AREAS = {  # area of the time budget -> test files
    "kitchen and executor": (
        "test_check",
        "test_executor",
        "test_expert",
        "test_film",
        "test_grasp",
        "test_gym",
        "test_kitchen",
        "test_panda",
        "test_tasks",
    ),
    "models and method": (
        "test_calibrator",
        "test_commit",
        "test_demonstrator",
        "test_ledger",
        "test_memory",
        "test_models",
        "test_observation",
        "test_perception",
        "test_prompts",
        "test_reading",
        "test_stats",
    ),
    "package": ("test_cli", "test_examples", "test_imports", "test_plan", "test_pose", "test_store"),
    "robosuite": ("test_robosuite",),
}
_began = time.perf_counter()


@pytest.fixture(scope="session")
def fridge():
    env = worlds.make("kitchen:CloseFridge")
    yield env
    env.close()


@pytest.fixture(scope="session")
def stove():
    env = worlds.make("kitchen:PickPlaceCounterToStove")
    yield env
    env.close()


def pytest_terminal_summary(terminalreporter):
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                stem = Path(report.nodeid.partition("::")[0]).stem
                area = next((a for a, files in AREAS.items() if stem.startswith(files)), "other")
                spent[area] += report.duration
    terminalreporter.section("where the time went")
    setup = Path(os.environ.get("VENV", ".venv")) / ".setup-seconds"
    if setup.is_file():
        terminalreporter.write_line(f"{'set-up':24s} {float(setup.read_text()):7.1f} s")
    for area, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{area:24s} {seconds:7.1f} s")
    terminalreporter.write_line(f"{'whole test run':24s} {time.perf_counter() - _began:7.1f} s")
