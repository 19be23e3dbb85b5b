"""Heavy third-party packages are imported in one place each, and dependencies point one way."""

from __future__ import annotations

import ast
from pathlib import Path

import capex

ROOT = Path(capex.__file__).parent
HOMES = {  # package -> the only places that may import it
    "mujoco": ("worlds/kitchen/", "worlds/render.py", "worlds/robosuite.py", "bench.py"),
    "robosuite": ("worlds/robosuite.py", "bench.py"),
    "OpenGL": ("worlds/render.py",),
    "av": ("film.py",),
    "matplotlib": ("worlds/kitchen/reach.py",),
    "tyro": ("cli",),
    "gymnasium": ("gym.py",),
    "openai": ("models/",),
    "anthropic": ("models/anthropic.py",),
    "httpx2": ("models/wire.py",),
}
# module -> capex modules it may import at most
LAYERS = {
    "errors.py": (),
    "pose.py": (),
    "plan.py": ("errors", "pose"),
    "worlds/__init__.py": ("errors", "plan", "pose", "worlds"),
    "executor.py": ("errors", "plan", "pose", "worlds"),
    "store.py": ("errors", "pose"),
    "recorder.py": ("executor", "pose", "worlds"),
    "gym.py": ("errors", "worlds"),
    "models/__init__.py": ("errors",),
    "prices.py": ("errors", "models"),
    "ledger.py": ("errors", "models", "prices"),
    "arms.py": ("errors", "plan"),
    "tools.py": ("arms", "models", "plan", "worlds"),
    "reading.py": ("errors", "models", "plan", "pose", "tools"),
    "observation.py": ("executor", "models", "plan", "pose", "worlds"),
    "perception.py": ("errors", "pose", "worlds"),
    "prompts/__init__.py": ("arms", "errors", "executor", "plan", "tools", "worlds"),
    "memory/record.py": ("executor", "plan", "pose"),
    "calibrator.py": ("executor", "plan", "pose"),
    "commit.py": (),
    "stats.py": ("pose",),
    "demonstrator.py": (
        "arms",
        "calibrator",
        "commit",
        "executor",
        "ledger",
        "memory",
        "models",
        "observation",
        "perception",
        "plan",
        "pose",
        "prompts",
        "reading",
        "recorder",
        "tools",
        "worlds",
    ),
    "collect.py": (
        "arms",
        "demonstrator",
        "errors",
        "executor",
        "ledger",
        "memory",
        "models",
        "plan",
        "prices",
        "recorder",
        "store",
        "worlds",
    ),
}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "capex" else {node.module}
    return found


def test_heavy_packages_are_imported_in_one_place():
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT).as_posix()
        for module in _imports(path):
            homes = HOMES.get(module.partition(".")[0])
            assert homes is None or place.startswith(homes), f"{place} imports {module}; only {homes} may"


def test_dependencies_point_one_way():
    for place, allowed in LAYERS.items():
        used = {m.split(".")[1] for m in _imports(ROOT / place) if m.startswith("capex.")}
        assert used <= set(allowed), f"{place} imports {sorted(used - set(allowed))}"


def test_there_is_no_utils_module():
    assert not list(ROOT.rglob("utils*"))
