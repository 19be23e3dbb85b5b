"""What RoboCasa needs on this machine, found without importing it, and the line that mends it.

RoboCasa is not on a package index, refuses other versions of MuJoCo and numpy than its own, and
needs parts of robosuite that only its source has: the index's robosuite carries the same version
number without them.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from capex.worlds import Need
from capex.worlds.robocasa.dataset import DOWNLOAD
from capex.worlds.robocasa.tasks import TASKS

VERSION = "1.0.1"
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


def examine_needs() -> list[Need]:
    """Everything that RoboCasa's world needs, in the order in which to mend it."""
    return [*_packages(), *_assets(), *_datasets()]


def package_folder(name: str) -> Path | None:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def datasets_base() -> Path:
    """Where RoboCasa keeps its datasets: as its private macros say, or beside its package."""
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
