"""What a run names is loaded only where the user named it, in every process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capex import models, trust, worlds
from capex.analysis.fork import fork
from capex.campaign.api import collect
from capex.dataset import certify_run
from capex.errors import ErrorCode
from capex.rigs.parse import PACKAGED, find_rig
from capex.run.jobs import run_jobs
from capex.trust import NotAllowed
from refusals import refuses

ROOT = Path(__file__).resolve().parent.parent
MINE = "canary_world"
SOURCE = """
import os, pathlib
pathlib.Path(os.environ["CANARY"]).touch()
from capex.worlds import TaskInfo
TASKS = {"Touch": TaskInfo("Touch", "Reach", 9, "Touch.", "touched")}
def make(*a, **k): raise SystemExit("made")
"""


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A module on the path that leaves a mark when it is imported."""
    package = tmp_path / MINE
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "world.py").write_text(SOURCE)
    monkeypatch.setenv("CANARY", str(tmp_path / "imported"))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "imported"
    for name in (MINE, f"{MINE}.world"):
        sys.modules.pop(name, None)


def names(world: str) -> list[str]:
    return list(worlds.tasks(world))


def test_a_module_is_imported_only_once_it_was_named(canary):
    world = f"{MINE}.world"
    for look in (worlds.tasks, worlds.make, worlds.expert):
        with pytest.raises(NotAllowed, match=rf"not loaded; .* --allow-module {world}$") as refused:
            look(world if look is not worlds.make else f"{world}:Touch")
    assert refused.value.flag == f"--allow-module {world}"
    for name in (f"{world}:x", "os.path:x"):
        with pytest.raises(NotAllowed):
            models.make(name)
    assert not canary.exists()
    worlds.allow(f"{world}:Touch")
    assert names(world) == ["Touch"]
    assert canary.exists()


def test_a_rig_file_is_opened_only_once_it_was_named(tmp_path, monkeypatch):
    path = Path(shutil.copytree(PACKAGED, tmp_path / "files")) / "room.toml"
    with pytest.raises(NotAllowed, match=rf"can start programs.* --rig {path}$"):
        worlds.tasks(f"rig:{path}")
    assert names("rig:room")
    trust.allow(files=[tmp_path / "x" / ".." / "files" / "room.toml"])
    assert names(f"rig:{path}") == names("rig:room")
    monkeypatch.chdir(tmp_path)
    Path("room").write_text("python = 'bin/python3'")
    assert find_rig("room") == PACKAGED / "room.toml"


def test_workers_may_load_what_their_parent_may_and_no_more(canary):
    world = f"{MINE}.world"
    refused = dict(run_jobs(names, [world, "kitchen"], 2, fresh=True))
    assert f"--allow-module {world}" in str(refused[0])
    assert not canary.exists()
    worlds.allow(world)
    assert dict(run_jobs(names, [world], 1, fresh=True))[0] == ["Touch"]


def test_a_worker_looks_for_no_module_in_the_current_folder(tmp_path, monkeypatch):
    """multiprocessing starts its processes with -c, whose first folder is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY", str(tmp_path / "imported"))
    mark = "import os, pathlib; pathlib.Path(os.environ['CANARY']).touch()"
    for name in ("multiprocessing", "selectors", "struct"):
        Path(f"{name}.py").write_text(mark)
    assert dict(run_jobs(names, ["kitchen"], 1, fresh=True))[0][0]
    assert not (tmp_path / "imported").exists()
    assert "PYTHONSAFEPATH" not in os.environ


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    """A run in the world of examples/my_world.py, by its user."""
    out = tmp_path_factory.mktemp("own") / "run"
    before, path = trust.held(), list(sys.path)
    sys.path.insert(0, str(ROOT))
    model = "examples.my_model:gazer"
    run = collect("examples.my_world:Touch", model=model, starts="0", out=out)
    assert run.episodes[0].success
    trust.hold(before)
    sys.path[:] = path
    return out


def test_a_world_of_the_users_own_is_certified_where_it_is_allowed(own_run, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    (refused,) = certify_run(own_run)
    assert "--allow-module examples.my_world" in refused.certificate.reason
    assert not (refused.episode / "certificate.json").exists()
    worlds.allow("examples.my_world")
    (certified,) = certify_run(own_run)
    assert certified.certificate.certified


def test_the_flags_permit_it_for_one_command(own_run, tmp_path):
    def capex_(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "capex", *words],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "300"},
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    assert "--allow-module examples.my_world" in capex_("certify", str(own_run), "--again")
    said = capex_("certify", str(own_run), "--again", "--allow-module", "examples.my_world")
    assert "not certified" not in said
    report = ["report", str(own_run), "--out", str(tmp_path / "report")]
    assert "--allow-module" in capex_("fork", str(own_run), f"{chain(own_run)}/0@1", "--out", "x")
    capex_(*report, "--allow-module", "examples.my_world")
    assert "a tip is within 2 cm" in (tmp_path / "report" / "tables" / "tasks.csv").read_text()


def chain(run: Path) -> str:
    (found,) = (run / "chains").iterdir()
    return found.name


@pytest.mark.parametrize("model", ["chat:x@http://127.0.0.1:9/v1", "script:/etc/x", "a.b:c"])
def test_a_fork_uses_no_server_file_or_module_that_the_run_names(model_demos, tmp_path, model):
    run = tmp_path / "run"
    shutil.copytree(model_demos, run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["settings"] |= {"model": model, "sampling": {}, "arms": {"capex": {"name": "capex"}}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with refuses(ErrorCode.NOT_PERMITTED, r"names a server, a file or a module; .*--model"):
        fork(run, f"{chain(run)}/0@1", out=tmp_path / "forks")
