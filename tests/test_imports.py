"""Heavy third-party packages are imported in one place each, and dependencies point one way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import capex
from capex import registry
from capex.dataset.selection import ExportFilter
from capex.run.manifest import RunKind

ROOT = Path(capex.__file__).parent
HOMES = {  # package -> the only places that may import it
    "mujoco": (
        "worlds/kitchen/",
        "rigs/twins/",
        "worlds/render.py",
        "worlds/robosuite/",
        "worlds/robocasa/",
        "cli/bench.py",
    ),
    "robosuite": ("worlds/robosuite/", "cli/bench.py"),
    "numba": ("worlds/robosuite/kernel.py",),
    "OpenGL": ("worlds/render.py",),
    "av": ("dataset/film.py", "dataset/video.py", "worlds/video.py"),
    "jinja2": ("report/page.py",),
    "markupsafe": ("report/", "analysis/"),
    "matplotlib": ("worlds/kitchen/reach.py", "report/", "students/curves.py", "analysis/"),
    "scipy": ("run/stats.py", "pilot/"),
    "pyarrow": (
        "dataset/features.py",
        "dataset/inspect/lerobot",
        "dataset/lerobot.py",
        "dataset/lerobot21.py",
        "dataset/words.py",
        "dataset/rolling.py",
        "worlds/robocasa/human.py",
        "students/lerobot_reader.py",
    ),
    "torch": ("students/",),
    "safetensors": ("students/",),
    "transformers": ("students/clip.py",),
    "lerobot": ("students/lerobot_server.py",),
    "triton": ("students/decoder.py", "students/kernels.py"),
    "h5py": ("dataset/hdf5.py", "dataset/inspect/robomimic.py"),
    "ray": ("run/cluster.py",),
    "statsmodels": ("run/stats.py",),
    "tyro": ("cli",),
    "starlette": ("studio/",),
    "uvicorn": ("studio/serve.py",),
    "gymnasium": ("worlds/gym.py",),
    "zmq": ("rigs/drivers/deoxys/", "rigs/twins/deoxys/"),
    "google": ("rigs/drivers/deoxys/", "rigs/twins/deoxys/"),
    "franky": ("rigs/drivers/franky.py",),
    "pyrealsense2": ("rigs/cameras/realsense_device.py",),
    "openai": ("models/",),
    "anthropic": ("models/anthropic.py",),
    "httpx2": ("models/wire.py",),
}
# The core: package -> the core packages that it may import; those of GROUND are below all of them.
CORE = {
    "worlds": (),
    "models": (),
    "method": ("worlds", "models"),
    "run": ("method", "models", "worlds"),
    "campaign": ("run", "method", "models", "worlds"),
    "dataset": ("run", "method", "worlds"),
    "report": ("dataset", "run", "method", "models", "worlds"),
    "students": ("report", "dataset", "campaign", "run", "method", "worlds"),
}
# Extensions: package -> the other extensions that it may import. Each may import the core; the core
# finds them by name (`capex.registry`).
EXTENSIONS = {
    "pilot": (),
    "rigs": ("operators",),
    "operators": ("rigs",),
    "analysis": ("operators",),
    "studio": ("operators", "analysis", "rigs"),
    "cli": ("studio", "operators", "analysis", "rigs", "pilot"),
}
PACKAGES = CORE.keys() | EXTENSIONS.keys()
# The core does not know what extensions are about, but for the modules that handle a robot's faults.
WORDS = (
    r"fork",
    r"take_?-? ?over|taken over|took over|takeover",
    r"\brigs?\b|\brig_|_rigs?\b|(?-i:\bRig[A-Z])",
    r"teleop",
)
UNAWARE = ("worlds", "models", "method", "run", "campaign", "dataset", "report")
AWARE = {
    "campaign/attempt.py",
    "campaign/cleanup.py",
    "campaign/driver.py",
    "campaign/extensions.py",
    "campaign/judging.py",
    "worlds/contract/__init__.py",
    "worlds/robots.py",
}
GROUND = {
    "codec": (),
    "errors": (),
    "loopback": ("errors", "untrusted"),
    "npz": ("errors",),
    "processes": ("errors", "trust"),
    "registry": (),
    "setting": ("errors",),
    "trust": ("errors",),
    "untrusted": ("errors",),
    "pose": (),
    "plan": ("errors", "pose"),
}
METHOD = {  # part of `method` -> the other parts that it may import
    "commit": (),
    "motion": (),
    "executor": ("motion",),
    "presets": (),
    "record": ("executor", "motion"),
    "features": ("motion",),
    "calibrator": ("motion", "features"),
    "tools": ("presets",),
    "reading": ("tools",),
    "observation": ("executor", "motion"),
    "context": ("executor", "memory", "motion", "observation", "record"),
    "restoring": ("executor", "motion", "record"),
}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "capex"
                else {node.module}
            )
    return found


def test_heavy_packages_are_imported_in_one_place():
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT).as_posix()
        for module in _imports(path):
            homes = HOMES.get(module.partition(".")[0])
            assert homes is None or place.startswith(homes), (
                f"{place} imports {module}; only {homes} may"
            )


def _packages(path: Path) -> set[str]:
    """The packages, or modules of the ground, that a file imports from."""
    return {m.split(".")[1] for m in _imports(path) if m.startswith("capex.")}


def test_dependencies_point_one_way():
    allowed = {
        **{name: set(below) for name, below in CORE.items()},
        **{name: {*CORE, *others} for name, others in EXTENSIONS.items()},
    }
    for package, others in allowed.items():
        for path in (ROOT / package).rglob("*.py"):
            wrong = _packages(path) - {package, *others, *GROUND}
            assert not wrong, (
                f"{path.relative_to(ROOT)} imports {sorted(wrong)}; {package} may import {sorted(others)}"
            )
    for module, below in GROUND.items():
        assert _packages(ROOT / f"{module}.py") <= set(below)


def test_the_core_does_not_mention_its_extensions():
    mentioning = {
        path.relative_to(ROOT).as_posix()
        for package in UNAWARE
        for path in (ROOT / package).rglob("*.py")
        if re.search("|".join(WORDS), path.read_text(), re.IGNORECASE)
    }
    assert mentioning == AWARE


def test_every_module_is_in_a_package():
    entry = {"__init__", "__main__"}  # __main__ hands over to the command line
    assert {p.stem for p in ROOT.glob("*.py")} == {*entry, *GROUND}
    assert {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"} == PACKAGES


def test_registered_names_exist():
    for name in (*registry.ROBOT_WORLDS.values(), *registry.REPORT_SECTIONS):
        assert callable(registry.load(name))
    assert registry.ROBOT_FILES.keys() <= registry.ROBOT_WORLDS.keys()
    for name in registry.ROBOT_FILES.values():
        assert {"WHAT", "contents", "texts", "copy"} <= set(dir(registry.load(name)))
    for name in registry.EXPORT_FILTERS.values():
        assert isinstance(registry.load(name), ExportFilter)
    for name in registry.RUN_KINDS.values():
        assert isinstance(registry.load(name), RunKind)


def test_the_parts_of_the_method_know_little_of_each_other():
    for part, allowed in METHOD.items():
        used = {
            m.split(".")[2]
            for m in _imports(ROOT / "method" / f"{part}.py")
            if m.startswith("capex.method.")
        }
        assert used <= set(allowed), f"method/{part}.py imports {sorted(used - set(allowed))}"


def test_the_reports_numbers_know_nothing_of_its_pictures():
    drawing = {"tables", "figures", "plots", "strips", "cards", "drawing", "sections", "page"}
    for name in (
        "rows",
        "data",
        "branches",
        "sources",
        "compare",
        "experience",
        "calibration",
        "costs",
        "students",
    ):
        used = {
            m.split(".")[2]
            for m in _imports(ROOT / "report" / f"{name}.py")
            if m.startswith("capex.report.")
        }
        assert not used & drawing, f"report/{name}.py imports {sorted(used & drawing)}"


def test_tests_mirror_the_packages():
    tests = Path(__file__).parent
    folders = {p.relative_to(tests).parts[0] for p in tests.glob("*/**/test_*.py")}
    assert folders == PACKAGES


def test_there_is_no_utils_module():
    assert not list(ROOT.rglob("utils*"))


EPISODE = """
import sys
from capex.cli import main
sys.argv = ["capex", "collect", "kitchen:TurnOnMicrowave", "--starts", "0:1", "--out", sys.argv[1]]
try:
    main()
except SystemExit as end:
    assert not end.code
print("LOADED", *(name for name in sys.modules if name.partition(".")[0] == "capex"))
"""


def test_a_kitchen_episode_loads_few_modules_and_no_extension_but_the_pilot(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", EPISODE, tmp_path / "run"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("LOADED"))
    loaded = line.split()[1:]
    packages = {name.split(".")[1] for name in loaded if "." in name}
    assert packages & EXTENSIONS.keys() == {"pilot", "cli"}
    assert len(loaded) <= 130
