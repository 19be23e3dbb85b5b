"""Kept environments: whose they are, and how many."""

from __future__ import annotations

from capex.worlds.cache import Environments


def test_an_environment_is_used_again_and_the_oldest_is_closed():
    envs = Environments(size=2)
    first, same_name = envs.take("lab.world:low"), envs.take("lab.world:low")
    assert first is not same_name  # two users at once
    envs.give(first)
    envs.give(same_name)
    assert envs.take("lab.world:low") is first
    envs.give(first)
    envs.give(envs.take("lab.world:high"))  # closes the one that has rested longest
    assert envs.take("lab.world:low") is first
    assert envs.take("lab.world:low") is not same_name


def test_one_user_keeps_the_latest():
    envs = Environments()
    low = envs.keep("lab.world:low")
    assert envs.keep("lab.world:low") is low
    assert envs.keep("lab.world:high") is not low
    assert envs.keep("lab.world:low") is not low
