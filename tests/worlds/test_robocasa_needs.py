"""What the doctor says of RoboCasa's code, assets and datasets, and what the check of its sources reads."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("robosuite")

import robosuite

from capex import worlds
from capex.errors import ErrorCode
from capex.worlds import Need
from capex.worlds.robocasa.needs import verdict
from refusals import refuses

ROOT = Path(__file__).parents[2]


def doctor(path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT / "src")])}
    code = "from capex.worlds.robocasa.needs import examine_needs\nfor n in examine_needs(): print(n.what, n.there, n.found, n.fix, sep='|')"
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_doctor_says_what_is_missing_and_what_brings_it(tmp_path: Path) -> None:
    bare = dict(line.split("|", 1) for line in doctor(tmp_path).splitlines())
    assert bare["robosuite from source"].startswith("False|")
    assert "lacks load_model_on_init" in bare["robosuite from source"]
    assert "git clone https://github.com/robocasa/robocasa" in bare["robocasa 1.0.1"]
    assert bare["human datasets"].startswith("False|0 of 18 tasks")
    assert "--tasks CoffeeSetupMug" in bare["human datasets"]
    files = {
        "robosuite/environments/base.py": "load_model_on_init = True",
        "robosuite/controllers/parts/controller_factory.py": "'JOINT_VELOCITY_LEGACY'",
        "robosuite/__init__.py": "",
        "robocasa/__init__.py": '__version__ = "1.0.1"',
        "robocasa/macros_private.py": f"DATASET_BASE_PATH = {str(tmp_path / 'data')!r}",
        "data/v1.0/target/atomic/CloseFridge/20250816/lerobot/extras/dataset_meta.json": "{}",
        "robocasa/models/assets/scenes/kitchen_styles/test/style007.yaml": "sink: Sink004\nhood: Hood2\n",
        **{
            f"robocasa/models/assets/fixtures/fixture_registry/{kind}.yaml": f"{name}:\n  xml: {xml}\n"
            for kind, name, xml in (
                ("sink", "Sink004", "fixtures/sinks/Sink004"),
                ("hood", "Hood2", "fixtures/hoods/Hood2"),
            )
        },
        "robocasa/models/assets/fixtures/hoods/Hood2/model.xml": "",
        **{
            f"robocasa/models/assets/{folder}/a": ""
            for folder in (
                "textures",
                "generative_textures",
                "fixtures/microwaves",
                "objects/lightwheel",
            )
        },
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assets = tmp_path / "robocasa" / "models" / "assets"
    mended = dict(line.split("|", 1) for line in doctor(tmp_path).splitlines())
    assert mended["robosuite from source"].startswith("True|")
    assert mended["robocasa 1.0.1"].startswith("True|")
    assert mended["assets (about 10 GB)"].endswith("download_kitchen_assets --type objs_objaverse")
    assert mended["human datasets"].startswith("False|1 of 18 tasks")
    assert mended["models of layout 7, style 7"].startswith("False|1 of 2 models missing, first")
    assert "nothing: RoboCasa does not start" in mended["what will run"]
    for name in ("fixtures/sinks/Sink004/model.xml", "objects/objaverse/a"):
        (assets / name).parent.mkdir(parents=True, exist_ok=True)
        (assets / name).write_text("")
    complete = dict(line.split("|", 1) for line in doctor(tmp_path).splitlines())
    assert complete["models of layout 7, style 7"].startswith("True|2 models")
    (assets / "placeholders.json").write_text('{"placeholders": ["a"]}')
    tried = dict(line.split("|", 1) for line in doctor(tmp_path).splitlines())
    assert tried["real assets"].startswith("False|1 files are placeholders")


@pytest.mark.parametrize(
    ("assets", "datasets", "sentence"),
    [
        (
            [Need("assets", False, "missing: tex, objs_lw")],
            True,
            "no kitchen: assets, missing: tex",
        ),
        ([Need("assets", False, "missing: objs_lw")], True, "things are not from objs_lw"),
        ([Need("assets", True, ""), Need("real assets", False, "")], True, "everything opens, for"),
        ([Need("assets", True, "")], False, "fresh starts of every task"),
        ([Need("assets", True, "")], True, "everything: recorded and fresh"),
    ],
)
def test_the_doctor_says_what_will_run(assets: list[Need], datasets: bool, sentence: str) -> None:
    said = verdict(
        [Need("robocasa", True, "")], assets, [Need("human datasets", datasets, "3 of 18")]
    )
    assert sentence in said.found
    assert said.there == said.found.startswith("everything: ")


def test_the_doctors_lines_can_be_copied() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "capex.cli", "doctor", "--world", "robocasa"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert (
        "git clone https://github.com/robocasa/robocasa && pip install --no-deps -e robocasa"
        in told.stdout.splitlines()
    )


def test_a_world_that_is_not_installed_says_so() -> None:
    with refuses(
        ErrorCode.MISSING_PACKAGE, r"needs the package 'robocasa'.*capex doctor --world robocasa"
    ):
        worlds.make("robocasa:CloseFridge")


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_robocasa_source", ROOT / "scripts" / "check_robocasa_source.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_source_check_finds_what_robosuite_has_and_what_it_lacks(
    checker: ModuleType, tmp_path: Path
) -> None:
    """On the installed robosuite: all that is used of its controllers is there, and only what its source adds is missing."""
    installed = Path(robosuite.__file__).parents[1]
    source = checker.Source([installed])
    found = dict(checker.check_uses(source))
    theirs = {
        line: fine
        for line, fine in found.items()
        if not line.startswith(("Kitchen.", "Fixture.", "LegacyMobileBase"))
    }
    assert len(theirs) > 25
    assert all(theirs.values()), [line for line, fine in theirs.items() if not fine]
    assert not found["LegacyMobileBaseJointVelocityController.set_goal(1 arguments)"]
    controller = tmp_path / "robosuite" / "osc.py"
    controller.parent.mkdir()
    text = (installed / "robosuite" / "controllers" / "parts" / "arm" / "osc.py").read_text()
    controller.write_text(
        text.replace(
            "def update_origin(self, origin_pos, origin_ori)", "def update_origin(self, origin)"
        )
    )
    changed = dict(checker.check_uses(checker.Source([tmp_path])))
    assert not changed["OperationalSpaceController.update_origin(2 arguments)"]
    assert checker.main([tmp_path / "robosuite"]) == 2


def test_the_source_check_reads_signatures(checker: ModuleType) -> None:
    function = ast.parse("def f(self, a, b=1, *, c=2): ...").body[0]
    fits = [
        ((1, ()), True),
        ((2, ()), True),
        ((0, ("a",)), True),
        ((1, ("c",)), True),
        ((0, ()), False),
        ((3, ()), False),
        ((1, ("d",)), False),
    ]
    for (positional, keywords), expected in fits:
        assert checker.accepts(function, positional, keywords, bound=True) is expected
