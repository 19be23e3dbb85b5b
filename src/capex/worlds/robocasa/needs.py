"""What RoboCasa needs on this machine, found without importing it, and the line that mends it.

RoboCasa is not on a package index, refuses other versions of MuJoCo and numpy than its own, and
needs parts of robosuite that only its source has: the index's robosuite carries the same version
number without them.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from capex.worlds import Need
from capex.worlds.robocasa.dataset import DOWNLOAD, LAYOUT, STYLE
from capex.worlds.robocasa.tasks import TASKS

VERSION = "1.0.1"
DATASETS_VARIABLE = "CAPEX_ROBOCASA_DATASETS"
PINS = {"mujoco": "3.3.1", "numpy": "2.2.5"}  # asserted by robocasa/__init__.py
CLONE, EDITABLE = "git clone https://github.com", "pip install --no-deps -e"
ROBOSUITE_LINE = f"{CLONE}/ARISE-Initiative/robosuite && {EDITABLE} robosuite"
ROBOCASA_LINE = f"{CLONE}/robocasa/robocasa && {EDITABLE} robocasa"
ASSETS_LINE = "python -m robocasa.scripts.download_kitchen_assets --type"
DATASETS_LINE = f"{DOWNLOAD} --split target --source human --tasks"
INSTALL = f"{ROBOSUITE_LINE} && {ROBOCASA_LINE}; then: capex doctor --world robocasa"
# What only robosuite's source has, and the file that shows it.
ROBOSUITE_MARKS = {
    "environments/base.py": "load_model_on_init",
    "controllers/parts/controller_factory.py": "JOINT_VELOCITY_LEGACY",
}
IMPORTED = {  # by `import robocasa`, beside robosuite's own: module -> distribution
    "cv2": "opencv-python-headless",
    "gymnasium": "gymnasium",
    "h5py": "h5py",
    "imageio": "imageio",
    "lxml": "lxml",
    "numba": "numba",
    "scipy": "scipy",
    "termcolor": "termcolor",
    "tqdm": "tqdm",
    "yaml": "pyyaml",
}
ASSETS = {  # RoboCasa's name for a download -> a folder that it brings
    "tex": "textures",
    "tex_generative": "generative_textures",
    "fixtures_lw": "fixtures/microwaves",
    "objs_objaverse": "objects/objaverse",
    "objs_lw": "objects/lightwheel",
}
PLACEHOLDERS = "placeholders.json"  # what scripts/robocasa_placeholders.py leaves beside assets


def examine_needs() -> list[Need]:
    """Everything that RoboCasa's world needs, in the order in which to mend it."""
    packages, assets, datasets = list(_packages()), list(_assets()), list(_datasets())
    return [*packages, *assets, *datasets, verdict(packages, assets, datasets)]


def package_folder(name: str) -> Path | None:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def datasets_base() -> Path:
    """Where RoboCasa's datasets are: as the environment says, as its private macros say, or beside
    its package.
    """
    if named := os.environ.get(DATASETS_VARIABLE):
        return Path(named)
    folder = package_folder("robocasa")
    if folder is None:
        return Path("datasets")
    told = _assigned(folder / "macros_private.py", "DATASET_BASE_PATH")
    return Path(told).expanduser() if told else folder.parent / "datasets"


def _packages() -> Iterator[Need]:
    suite = package_folder("robosuite")
    if suite is None:
        yield Need("robosuite from source", False, "not installed", ROBOSUITE_LINE)
    else:
        marks = ROBOSUITE_MARKS.items()
        lacking = " and ".join(mark for file, mark in marks if mark not in _text(suite / file))
        found = f"{suite} lacks {lacking}: an index's wheel" if lacking else str(suite)
        yield Need("robosuite from source", not lacking, found, ROBOSUITE_LINE if lacking else "")
    casa = package_folder("robocasa")
    version = _assigned(casa / "__init__.py", "__version__") if casa is not None else ""
    found = f"{version or 'unknown version'} in {casa}" if casa is not None else "not installed"
    fix = "" if version == VERSION else ROBOCASA_LINE
    yield Need(f"robocasa {VERSION}", version == VERSION, found, fix)
    for package, pin in PINS.items():
        version, fix = installed(package), f"pip install {package}=={pin}"
        yield Need(f"{package} {pin}", version == pin, version or "not installed", fix)
    missing = [name for module, name in IMPORTED.items() if not importlib.util.find_spec(module)]
    found = f"missing: {', '.join(missing)}" if missing else ""
    yield Need("what robocasa imports", not missing, found, f"pip install {' '.join(missing)}")


def _assets() -> Iterator[Need]:
    casa = package_folder("robocasa")
    root = casa / "models" / "assets" if casa is not None else None
    missing = [
        k for k, folder in ASSETS.items() if root is None or not any(root.glob(f"{folder}/*"))
    ]
    found = f"missing: {', '.join(missing)}" if missing else str(root)
    yield Need("assets (about 10 GB)", not missing, found, f"{ASSETS_LINE} {' '.join(missing)}")
    if root is None:
        return
    wanted, lacking = _kitchen_models(root)
    some = f"{len(lacking)} of {len(wanted)} models missing, first {lacking[0]}" if lacking else ""
    fix = f"{ASSETS_LINE} fixtures_lw objs_lw"
    what = f"models of layout {LAYOUT}, style {STYLE}"
    yield Need(what, bool(wanted) and not lacking, some or f"{len(wanted)} models", fix)
    written = _text(root / PLACEHOLDERS)
    if written:
        count = len(json.loads(written)["placeholders"])
        found = f"{count} files are placeholders: names and joints are right, looks are not"
        clear = "python scripts/robocasa_placeholders.py ROBOCASA_CHECKOUT --remove"
        yield Need("real assets", False, found, clear)


def _kitchen_models(root: Path) -> tuple[list[str], list[str]]:
    """The fixture models that the paper's style names, and those of them that are not there."""
    style = next(iter((root / "scenes" / "kitchen_styles").rglob(f"style{STYLE:03d}.yaml")), None)
    if style is None:
        return [], []
    rows = re.findall(r"^(\w+): *([A-Z]\w+)", _text(style), re.MULTILINE)
    wanted = []
    for kind, name in rows:
        entries = _text(root / "fixtures" / "fixture_registry" / f"{kind}.yaml")
        wanted += re.findall(rf"^{name}:\s*\n\s+xml: *(\S+)", entries, re.MULTILINE)
    return wanted, [xml for xml in wanted if not (root / xml / "model.xml").is_file()]


def verdict(packages: list[Need], assets: list[Need], datasets: list[Need]) -> Need:
    """What will run as things are, in one sentence."""
    lacking = [need.what for need in packages if not need.there]
    if lacking:
        return Need("what will run", False, f"nothing: RoboCasa does not start ({lacking[0]})")
    absent = [need for need in assets if not need.there]
    if absent and assets[0].there and absent[-1].what == "real assets" and len(absent) == 1:
        runs = "everything opens, for trying the software: pictures and physics are stand-ins"
        return Need("what will run", False, runs)
    if absent:
        only = assets[0].found.removeprefix("missing: ")
        if only in ("objs_objaverse", "objs_lw") and all(n.there for n in assets[1:]):
            half = f"kitchens, and the starts whose things are not from {only}"
            return Need("what will run", False, half)
        return Need("what will run", False, f"no kitchen: {absent[0].what}, {absent[0].found}")
    if not all(need.there for need in datasets):
        told = f"fresh starts of every task (--starts fresh:0:50); recorded: {datasets[0].found}"
        return Need("what will run", False, told)
    return Need("what will run", True, "everything: recorded and fresh starts of all tasks")


def _datasets() -> Iterator[Need]:
    base = datasets_base()
    root, meta = base / "v1.0" / "target" / "atomic", "*/lerobot/extras/dataset_meta.json"
    missing = [task for task in TASKS if not any((root / task).glob(meta))]
    found = f"{len(TASKS) - len(missing)} of {len(TASKS)} tasks below {base}"
    yield Need("human datasets", not missing, found, f"{DATASETS_LINE} {' '.join(missing)}")


def _assigned(path: Path, name: str) -> str:
    """A text that a module assigns to a name at its top; empty where there is none."""
    try:
        tree = ast.parse(_text(path))
    except SyntaxError:
        return ""
    for node in tree.body:
        if isinstance(node, ast.Assign) and name in [getattr(t, "id", "") for t in node.targets]:
            value = getattr(node.value, "value", "")
            return value if isinstance(value, str) else ""
    return ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def installed(package: str) -> str:
    """The installed version of a package; empty where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
