"""Fills a system prompt of one's own, the paper's as printed for example, and prints it as the
model would get it.

    python scripts/fill_prompt.py FILE [--task WORLD:TASK] [--run RUN]

For the presets capex and base: before the first episode, and for capex, with --run, also after the
episodes that its chain holds. Each text stands under a line with its size. A harness line of the
prompt (the JSON object after "Harness settings:") must still be JSON once filled.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from capex import worlds
from capex.campaign.chain import ChainPlan
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import MethodSettings, preset
from capex.method.prompts import SIZE_MAX, system_prompt
from capex.run.store import find_run
from capex.worlds import Env, Start

HARNESS = "Harness settings:\n"
NEXT_START = 10**6  # one that no run has seen, so that every success may be a reference


def fill(env: Env, preset: MethodSettings, memory: Memory, file: Path, after: str) -> None:
    """Print the prompt that an episode with this memory begins with."""
    spec = env.spec
    trust = memory.calibrator(preset, spec.name)
    context = build(
        memory, preset, spec, NEXT_START, env.scene, weights=trust.weights, template=file
    )
    text = system_prompt(
        spec,
        preset,
        labels=context.labels,
        weights=trust.weights,
        references=context.references_text,
        skeleton=context.skeleton_text,
        template=file,
    )
    if HARNESS in text:
        json.loads(text.partition(HARNESS)[2].partition("\n")[0])
    print(
        f"==== {preset.name}, {after}: {len(text)} characters (at most {SIZE_MAX}),"
        f" {len(context.pictures)} reference pictures"
    )
    print(text)


def main() -> None:
    """Fill the file for both presets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--task", default="kitchen:CloseFridge")
    parser.add_argument("--run", type=Path)
    given = parser.parse_args()
    env = worlds.make(given.task)
    env.reset(Start(env.spec.task, 0))
    for name in ("capex", "base"):
        fill(env, preset(name), Memory(), given.file, "before the first episode")
    if given.run is not None:
        chain = find_run(given.run).chain(env.spec.world, env.spec.task, "capex")
        plan = ChainPlan(chain, [])
        done = len(plan.loaded.episodes)
        fill(env, preset("capex"), plan.memory, given.file, f"after {done} episodes")


if __name__ == "__main__":
    main()
