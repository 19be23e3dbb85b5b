"""Heavy third-party packages are imported in one place each, and dependencies point one way."""

from __future__ import annotations

import ast
from pathlib import Path

import capex
from conftest import AREAS

ROOT = Path(capex.__file__).parent
HOMES = {  # package -> the only places that may import it
    "mujoco": ("worlds/kitchen/", "worlds/render.py", "worlds/robosuite/", "worlds/robocasa/", "bench.py"),
    "robosuite": ("worlds/robosuite/", "bench.py"),
    "numba": ("worlds/robosuite/kernel.py",),
    "OpenGL": ("worlds/render.py",),
    "av": ("film.py", "export/video.py"),
    "jinja2": ("report/page.py",),
    "markupsafe": ("report/",),
    "matplotlib": ("worlds/kitchen/reach.py", "report/", "students/curves.py"),
    "scipy": ("stats.py", "models/pilot/"),
    "pyarrow": ("export/features.py", "export/lerobot.py", "export/rolling.py", "worlds/robocasa/human.py", "students/lerobot_reader.py"),
    "torch": ("students/",),
    "safetensors": ("students/",),
    "transformers": ("students/clip.py",),
    "triton": ("students/decoder.py", "students/kernels.py"),
    "h5py": ("export/hdf5.py",),
    "ray": ("campaign/engines/", "students/study.py"),
    "statsmodels": ("stats.py",),
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
    "run.py": ("errors", "memory", "models", "store"),
    "accounts.py": ("ledger", "models", "run"),
    "recorder.py": ("executor", "pose", "worlds"),
    "gym.py": ("errors", "worlds"),
    "models/__init__.py": ("errors",),
    "prices.py": ("errors", "models"),
    "ledger.py": ("errors", "models", "prices"),
    "arms.py": ("errors", "plan"),
    "tools.py": ("arms", "models", "plan", "worlds"),
    "reading.py": ("errors", "models", "plan", "pose", "tools"),
    "observation.py": ("executor", "models", "pictures", "plan", "pose", "worlds"),
    "perception.py": ("errors", "pose", "worlds"),
    "prompts/__init__.py": ("arms", "calibrator", "errors", "executor", "plan", "tools", "worlds"),
    "memory/record.py": ("executor", "plan", "pose"),
    "calibrator.py": ("executor", "plan", "pose"),
    "commit.py": (),
    "stats.py": ("pose",),
    "report/data.py": ("accounts", "errors", "ledger", "memory", "models", "pose", "run", "store", "worlds"),
    "report/sources.py": ("arms", "report"),
    "report/compare.py": ("report", "stats"),
    "report/experience.py": ("report", "stats"),
    "report/calibration.py": ("pose", "report", "stats"),
    "report/students.py": ("report", "stats"),
    "report/costs.py": ("errors", "ledger", "models", "prices", "report", "store"),
    "pictures.py": (),
    "campaign/names.py": ("errors", "worlds"),
    "campaign/settings.py": ("arms", "campaign", "demonstrator", "errors", "models", "pictures"),
    "campaign/chain.py": ("errors", "memory", "pictures", "run", "store"),
    "campaign/core.py": ("models",),
    "campaign/events.py": (),
    "campaign/board.py": ("accounts", "campaign", "ledger", "run", "stats"),
    "campaign/driver.py": ("arms", "campaign", "errors", "store"),
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


def test_the_reports_numbers_know_nothing_of_its_pictures():
    drawing = {"tables", "figures", "plots", "strips", "cards", "drawing", "sections", "page"}
    for name in ("data", "sources", "compare", "experience", "calibration", "costs", "students"):
        used = {m.split(".")[2] for m in _imports(ROOT / "report" / f"{name}.py") if m.startswith("capex.report.")}
        assert not used & drawing, f"report/{name}.py imports {sorted(used & drawing)}"


def test_every_test_file_counts_in_one_area_of_the_time_table():
    files = [p.stem for p in Path(__file__).parent.glob("test_*.py")]
    for file in files:
        areas = [area for area, beginnings in AREAS.items() if file.startswith(beginnings)]
        assert len(areas) == 1, f"{file} is in {areas or 'no area'} of conftest.AREAS; it must be in one"
    unused = [beginning for beginnings in AREAS.values() for beginning in beginnings if not any(f.startswith(beginning) for f in files)]
    assert not unused, f"conftest.AREAS names {unused}, which no test file begins with"


def test_there_is_no_utils_module():
    assert not list(ROOT.rglob("utils*"))
