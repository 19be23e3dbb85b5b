"""A campaign in the simulated room: its stand-in arranges, judges and clears a fault; the rig file is part of the run."""

from __future__ import annotations

import shutil
from pathlib import Path

from capex import rigs
from capex.errors import ErrorCode
from capex.operators.arrangements import ARRANGEMENTS, read_match
from capex.operators.scripted import NAME
from lab.campaigns import collect
from refusals import refuses

FILES = Path(rigs.__file__).parent / "files"
FAULTS = 'faults = [{ kind = "e-stop", at_tick = 3 }]'


def test_a_stand_in_arranges_judges_and_clears_an_e_stop(shm):
    shutil.copytree(FILES / "room", shm / "room")
    rig = shm / "desk.toml"
    rig.write_text((FILES / "room.toml").read_text().replace("\nfps = 20", f"\n{FAULTS}\nfps = 20"))
    wanted = {"names": f"rig:{rig}:LiftBlock", "arm": "capex", "starts": "0", "decisions": 1}
    run, _ = collect(shm / "run", **wanted)
    (episode,) = run.episodes
    (verdict,) = episode.verdicts
    assert (verdict.verdict, verdict.by) == ("failure", NAME)
    match = read_match(episode.path)
    assert (match.by, match.stand_in) == (NAME, True)
    (invalid,) = run.invalid
    assert "user stop" in invalid.error
    assert (invalid.path / "frames" / "cameras.json").is_file()
    (scene,) = (run.path / ARRANGEMENTS).iterdir()
    assert [p.name for p in (scene / "0000").glob("*.png")] == ["front.png"]
    assert (run.path / "rig.toml").read_bytes() == rig.read_bytes()
    assert run.manifest.settings["operator"] == "scripted"
    (contents,) = run.manifest.recorded.world_files.values()
    assert list(contents["tasks"]) == ["LiftBlock"]
    assert {"desk.toml", "guard.toml"} <= contents.keys()
    (texts,) = run.manifest.world_files.values()
    assert texts.files["desk.toml"] == rig.read_text()
    guard = shm / "room" / "guard.toml"
    guard.write_text(guard.read_text().replace("max_step_m = 0.02", "max_step_m = 0.03"))
    changed = r"the rig file, rig:.*desk\.toml\.guard\.toml\.max_step_m: 0\.02 before, 0\.03 now"
    with refuses(ErrorCode.OTHER_SETTINGS, changed):
        collect(shm / "run", **wanted)
