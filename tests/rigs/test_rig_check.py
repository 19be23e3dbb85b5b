"""`capex check` on a rig: what can be seen before it moves, and what it keeps of the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from capex import worlds
from capex.cli.look import Check
from capex.errors import ErrorCode
from capex.rigs.parse import read_rig
from capex.rigs.preflight import DRY_RULES, check_dry, force_is_quiet
from capex.worlds.contract import MOTIONS, check
from capex.worlds.contract.trial import NotClaimedError
from refusals import refuses

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def room():
    env = worlds.make("rig:room:LiftBlock")
    yield env
    env.close()


def test_a_dry_look_moves_nothing(room):
    before = room.open().link.read().arms["arm"].T_base_tip
    report = check_dry(room)
    report.raise_if_failed()
    said = {f.rule: f.detail for f in report.findings}
    assert {f.status for f in report.findings} == {"ok"}
    assert "home inside the box by arm" in said["file"]
    assert "force_latch_n: 30" in said["guard"]
    assert "camera front" in said["locks"]
    assert "the room's arm keeps its last goal" in said["arms"]
    assert "front 640x360 at" in said["cameras"]
    after = room.open().link.read().arms["arm"].T_base_tip
    assert abs(after.position_m - before.position_m).max() < 2e-3


def test_what_moves_is_announced_and_frames_are_recorded(room):
    announced = []
    rules = ["spec", "starts", "reset", "success", "limits", "save", "base", "frames"]
    report = check(room, rules=rules, announce=lambda *told: announced.append(told))
    report.raise_if_failed()
    assert announced == [(rule, MOTIONS[rule]) for rule in ("spec", "limits", "frames")]
    said = {f.rule: (f.status, f.detail) for f in report.findings}
    assert said["frames"] == ("ok", "10 ticks leave 11 pictures of each camera: front, wrist")
    assert said["reset"][0] == said["base"][0] == "not claimed"


def test_where_nothing_moved_the_free_air_is_not_known(room, monkeypatch):
    monkeypatch.setattr(room, "_largest_n", {})
    with pytest.raises(NotClaimedError, match="no rule has moved an arm, so no force in free air"):
        force_is_quiet(room)


def test_a_hand_that_nobody_names_is_said_to_be_assumed(tmp_path):
    text, file = (DOCS / "rig.example.toml").read_text(), tmp_path / "lab.toml"
    assert read_rig(DOCS / "rig.example.toml").hands_assumed == ()  # it names its shape
    file.write_text(text.replace('shape = "franka"', "#"))
    name = f"rig:{file}:{next(iter(read_rig(file).tasks))}"
    worlds.allow(name)
    told = DRY_RULES["guard"](worlds.make(name))
    assert "the hand of arm is assumed to be a Franka Hand; hands.arm.shape or its parts" in told
    for known in ("franka-deoxys.toml", "franka-franky.toml", "yam.toml"):
        assert read_rig(DOCS / known).hands_assumed == ()


def test_flags_of_rigs_are_for_rigs():
    with refuses(ErrorCode.NOT_APPLICABLE, "--dry is for a rig, and kitchen:CloseFridge is none"):
        Check("kitchen:CloseFridge", dry=True).run()
