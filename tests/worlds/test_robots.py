"""Robots in a room: known by the prefix of their worlds, one attempt at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capex import worlds
from capex.errors import ErrorCode
from capex.worlds.robots import refuse_repeating
from refusals import refuses
from toy import Toy, ToyEnv


@pytest.mark.parametrize(
    ("name", "world", "task", "prefix"),
    [
        ("rig:desk.toml:Touch", "rig:desk.toml", "Touch", "rig:"),
        ("rig:C:/desk.toml", "rig:C", "/desk.toml", "rig:"),
        ("rig:desk.toml", "rig:desk.toml", "", "rig:"),
        ("yam-twin:Touch", "rig:yam-twin", "Touch", "rig:"),
        ("yam-twin", "rig:yam-twin", "", "rig:"),
        ("kitchen:CloseFridge", "kitchen", "CloseFridge", ""),
        ("kitchen", "kitchen", "", ""),
    ],
)
def test_a_robot_is_named_by_its_file(name, world, task, prefix):
    assert worlds.split_name(name) == (world, task)
    assert worlds.robot_prefix(world) == prefix


def test_a_world_in_real_time_is_one_robot():
    spec = ToyEnv(Toy()).spec
    assert not spec.exclusive
    assert replace(spec, real_time=True).exclusive
    assert replace(spec, exclusive=True).exclusive


def test_no_robot_repeats_recorded_motions():
    refuse_repeating("kitchen", "capex replay")
    with refuses(ErrorCode.UNSUPPORTED, "rig:desk is a rig: capex replay would repeat"):
        refuse_repeating("rig:desk", "capex replay")
