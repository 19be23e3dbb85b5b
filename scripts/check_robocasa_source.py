"""Checks, by syntax tree, that RoboCasa's and robosuite's sources have what our adapter uses of
them, and that it takes what we pass.

    python scripts/check_robocasa_source.py ROBOCASA_CHECKOUT [ROBOSUITE_CHECKOUT]

Nothing is imported or run. Our own files are read the same way: every attribute and call on one of
their objects (USES says which name is which of their classes) is looked up in that class and its
bases, and a call's arguments are matched with the signature. Then come the facts that our tables
repeat: tasks, horizons, cameras, the order of an action's numbers, versions, names of downloads.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from capex.worlds.robocasa.needs import ASSETS, PINS, ROBOSUITE_MARKS, VERSION
from capex.worlds.robocasa.order import ENVIRONMENT
from capex.worlds.robocasa.restored import CAMERAS, OURS
from capex.worlds.robocasa.tasks import TASKS

SRC = Path(__file__).resolve().parents[1] / "src" / "capex" / "worlds"
KITCHEN, ARM, TORSO = "Kitchen", "OperationalSpaceController", "JointPositionController"
BASE, GRIPPER, COMPOSITE = (
    "LegacyMobileBaseJointVelocityController",
    "SimpleGripController",
    "HybridMobileBase",
)
ENV = {
    "env": KITCHEN,
    "self._env": KITCHEN,
    "env.sim": "MjSim",
    "self._env.sim": "MjSim",
    "env.robots[0]": "WheeledRobot",
}
# our file, class or function in it -> {expression in our source: their class}
USES: dict[tuple[str, str], dict[str, str]] = {
    ("robocasa/restored.py", "restore"): {
        **ENV,
        "controller": ARM,
        "env.robots[0].composite_controller": COMPOSITE,
    },
    ("robocasa/restored.py", "reload"): {
        **ENV,
        "controller": ARM,
        "env.robots[0].composite_controller": COMPOSITE,
    },
    ("robocasa/restored.py", "keep_places"): {**ENV, "fixture": "Fixture"},
    ("robocasa/restored.py", "RecordedStarts"): ENV,
    ("robocasa/fresh.py", "KitchenStarts"): ENV,
    ("robosuite/env.py", "SuiteEnv"): {
        **ENV,
        "arm": ARM,
        "self._gripper": "PandaGripper",
        "env.robots[0].composite_controller": COMPOSITE,
    },
    ("robosuite/stepping.py", "Fast"): {
        **ENV,
        "robot": "WheeledRobot",
        "controller": ARM,
        "self._composite": COMPOSITE,
    },
    ("robosuite/stepping.py", "Original"): ENV,
    ("robosuite/stepping.py", "_Arm"): {"controller": ARM, "self.controller": ARM},
    ("robosuite/stepping.py", "_Torso"): {"controller": TORSO, "self.controller": TORSO},
    ("robosuite/stepping.py", "_Constant"): {"controller": GRIPPER, "self._controller": BASE},
    ("robosuite/robots.py", "Robot"): {
        **ENV,
        "controller": ARM,
        "env.robots[0].composite_controller": COMPOSITE,
    },
    ("robosuite/robots.py", "BaseDrive"): {"controller": BASE, "self._controller": BASE},
    ("robosuite/latches.py", "Latches"): ENV,
}
FUNCTIONS = {  # functions we call -> (file, positional arguments, keywords)
    "make": ("robosuite/environments/base.py", 1, ("seed",)),
    "load_composite_controller_config": (
        "robosuite/controllers/composite/composite_controller_factory.py",
        0,
        ("robot",),
    ),
    "opspace_matrices": ("robosuite/utils/control_utils.py", 4, ()),
    "nullspace_torques": ("robosuite/utils/control_utils.py", 5, ()),
    "orientation_error": ("robosuite/utils/control_utils.py", 2, ()),
}
# What RoboCasa's converter reads of an HDF5 file.
CONVERTER = ("env_args", "model_file", "ep_meta", "states", "actions", "lang")
MUJOCO_OWN = ("_model", "_data")  # robosuite's wrappers around MuJoCo's objects


@dataclass
class Source:
    """Classes and files of the checkouts."""

    roots: list[Path]
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in (
            p
            for root in self.roots
            for package in ("robosuite", "robocasa")
            for p in sorted((root / package).rglob("*.py"))
        ):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)

    def text(self, place: str) -> str:
        """A file of either checkout; empty where there is none."""
        return next(
            (p.read_text(encoding="utf-8") for root in self.roots if (p := root / place).is_file()),
            "",
        )

    def lineage(self, name: str) -> Iterator[ast.ClassDef]:
        """A class and its bases, by name."""
        if name in self.classes:
            yield self.classes[name]
            for base in self.classes[name].bases:
                yield from self.lineage(ast.unparse(base).split(".")[-1])

    def method(self, name: str, attribute: str) -> ast.FunctionDef | None:
        """A method of a class or its bases."""
        members = (m for c in self.lineage(name) for m in c.body if isinstance(m, ast.FunctionDef))
        return next((m for m in members if m.name == attribute), None)

    def has(self, name: str, attribute: str) -> bool:
        """Whether objects of a class have an attribute: a method, a class variable, or one that a
        method assigns.
        """
        if self.method(name, attribute) is not None:
            return True
        assigned = (
            name for c in self.lineage(name) for node in ast.walk(c) for name in _assigned(node)
        )
        return attribute in MUJOCO_OWN or any(
            name in (attribute, f"self.{attribute}") for name in assigned
        )


def _assigned(node: ast.AST) -> Iterator[str]:
    """What a statement assigns to."""
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign | ast.AugAssign)
        else []
    )
    for target in targets:
        yield from (
            ast.unparse(part)
            for part in (target.elts if isinstance(target, ast.Tuple) else [target])
        )


def accepts(
    function: ast.FunctionDef, positional: int, keywords: tuple[str, ...], *, bound: bool
) -> bool:
    """Whether a function takes so many positional arguments and these keywords, and needs no
    others.
    """
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1 if bound else 0 :]
    required = names[: len(names) - len(arguments.defaults)] if arguments.defaults else names
    fits = positional <= len(names) or arguments.vararg is not None
    known = arguments.kwarg is not None or set(keywords) <= {
        *names[positional:],
        *(a.arg for a in arguments.kwonlyargs),
    }
    return fits and known and set(required[positional:]) <= set(keywords)


def uses(
    file: str, scope: str, receivers: dict[str, str]
) -> Iterator[tuple[str, str, ast.Call | None]]:
    """Attributes that our code reads of their objects: class, attribute, and the call where it is
    one.
    """
    tree = ast.parse((SRC / file).read_text(encoding="utf-8"))
    body = next(
        n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == scope
    )
    calls = {id(n.func): n for n in ast.walk(body) if isinstance(n, ast.Call)}
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute) and (owner := receivers.get(ast.unparse(node.value))):
            yield owner, node.attr, calls.get(id(node))


def check_uses(source: Source) -> Iterator[tuple[str, bool]]:
    """Every attribute and call that our code makes on their objects."""
    seen = set()
    for (file, scope), receivers in USES.items():
        for owner, attribute, call in uses(file, scope, receivers):
            positional, keywords = (
                (len(call.args), tuple(k.arg for k in call.keywords if k.arg)) if call else (0, ())
            )
            line = f"{owner}.{attribute}" + (
                f"({positional} arguments{''.join(f', {k}=' for k in keywords)})" if call else ""
            )
            if line in seen:
                continue
            seen.add(line)
            method = source.method(owner, attribute)
            starred = call is not None and any(isinstance(a, ast.Starred) for a in call.args)
            fits = (
                starred
                or method is None
                or call is None
                or accepts(method, positional, keywords, bound=True)
            )
            yield line, source.has(owner, attribute) and fits


def check_functions(source: Source) -> Iterator[tuple[str, bool]]:
    """Plain functions."""
    for name, (file, positional, keywords) in FUNCTIONS.items():
        tree = ast.parse(source.text(file) or "pass")
        found = next(
            (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name), None
        )
        yield (
            f"{file}: {name}",
            found is not None and accepts(found, positional, keywords, bound=False),
        )
    init = source.method(KITCHEN, "__init__")
    yield (
        f"Kitchen.__init__ takes {', '.join(OURS)}",
        init is not None and set(OURS) <= {a.arg for a in init.args.args},
    )


def check_tasks(source: Source) -> Iterator[tuple[str, bool]]:
    """The 18 tasks: a class that descends from Kitchen, a success check, our horizon, a target
    dataset.
    """
    registry = ast.parse(source.text("robocasa/utils/dataset_registry.py") or "pass")
    assigned = {
        ast.unparse(n.targets[0]): n.value for n in registry.body if isinstance(n, ast.Assign)
    }
    table = assigned.get("ATOMIC_TASK_DATASETS")
    rows = (
        {k.arg: ast.unparse(k.value) for k in table.keywords} if isinstance(table, ast.Call) else {}
    )
    for task, info in TASKS.items():
        lineage = [c.name for c in source.lineage(task)]
        row = rows.get(task, "")
        fine = KITCHEN in lineage and source.method(task, "_check_success") is not None
        yield (
            f"{task}: horizon {info.horizon}",
            fine and f"horizon={info.horizon}" in row and f"v1.0/target/atomic/{task}/" in row,
        )


def check_facts(source: Source) -> Iterator[tuple[str, bool]]:
    """What our tables repeat."""
    init = source.text("robocasa/__init__.py")
    yield f"robocasa is {VERSION}", f'__version__ = "{VERSION}"' in init
    for package, version in PINS.items():
        yield f"robocasa asserts {package} {version}", f'"{version}"' in init
    for file, mark in ROBOSUITE_MARKS.items():
        yield f"robosuite has {mark}", mark in source.text(f"robosuite/{file}")
    cameras = source.text("robocasa/utils/camera_utils.py")
    for name in CAMERAS.values():
        yield f"camera {name}", f"{name}=dict(" in cameras
    layout = source.text("robocasa/utils/lerobot_utils.py")
    for name, (start, end) in ENVIRONMENT.items():
        yield f"action {name} at {start}:{end}", f'"{name}": ({start}, {end})' in layout
    stored = source.text("robocasa/models/assets/groot_dataset_assets/PandaOmron_modality.json")
    yield (
        "modality.json names the same parts",
        bool(stored) and set(json.loads(stored)["action"]) == set(ENVIRONMENT),
    )
    converter = source.text(
        "robocasa/scripts/dataset_scripts/convert_hdf5_lerobot.py"
    ) + source.text("robocasa/utils/robomimic/robomimic_dataset_utils.py")
    for name in CONVERTER:
        yield f"the converter reads {name}", f'"{name}"' in converter
    downloads = source.text("robocasa/scripts/download_kitchen_assets.py")
    for kind in ASSETS:
        yield f"download {kind}", f'"{kind}": dict(' in downloads
    yield (
        "download_datasets takes --tasks --split --source",
        all(
            f'"--{name}"' in source.text("robocasa/scripts/download_datasets.py")
            for name in ("tasks", "split", "source")
        ),
    )
    yield (
        "the common base of fixtures is Fixture",
        source.method("Fixture", "update_state") is not None,
    )


CHECKS: dict[str, Callable[[Source], Iterator[tuple[str, bool]]]] = {
    "what our code uses": check_uses,
    "functions": check_functions,
    "tasks": check_tasks,
    "facts": check_facts,
}


def commit(root: Path) -> str:
    """The checkout's commit, where it is one."""
    told = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "no git checkout"


def main(roots: list[Path]) -> int:
    """Print what was found; the number of things that are missing."""
    for root in roots:
        if not any((root / package).is_dir() for package in ("robocasa", "robosuite")):
            print(
                f"{root} holds neither a folder robocasa nor a folder robosuite; give the top"
                " folder of a source checkout"
            )
            return 2
        print(f"{root.name}: {commit(root)}")
    source, missing = Source(roots), 0
    for title, check in CHECKS.items():
        found = list(check(source))
        bad = [line for line, fine in found if not fine]
        missing += len(bad)
        print(f"{title}: {len(found) - len(bad)} of {len(found)}")
        for line in bad:
            print(f"  missing or different: {line}")
    return 1 if missing else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main([Path(p).resolve() for p in sys.argv[1:]]))
