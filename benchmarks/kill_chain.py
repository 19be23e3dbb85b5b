"""Kills a chain of episodes with SIGKILL at random moments, fifty times, and looks at what is left.

`python benchmarks/kill_chain.py [KILLS]`

After every kill each episode folder must be whole and the starts without a gap; in the end the first records must equal those of an
undisturbed chain, byte for byte.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from capex import worlds
from capex.arms import arm
from capex.campaign.alone import run_chain
from capex.memory.record import from_json
from capex.models.scripted import Scripted
from capex.store import Chain, read_json, read_steps

TASK = "TurnOnMicrowave"
HOP = [("act", {"reasoning": "a hop", "delta_cm": [0, 0, 2], "confidence": 0.9})]
SETTINGS = arm("capex", decisions=3)


def run(path: str, starts: int) -> None:
    list(run_chain(worlds.make(f"kitchen:{TASK}"), Scripted([HOP] * 3 * starts), SETTINGS, Chain(Path(path)), range(starts)))


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rng, context = random.Random(1), multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain(Path(folder) / "chain")
        for _ in range(kills):
            process = context.Process(target=run, args=(str(chain.path), 5000))
            process.start()
            time.sleep(0.7 + 1.3 * rng.random())  # from before its first episode to within its third
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            finished = chain.finished()
            assert finished == list(range(len(finished))), finished
            for index in finished:
                record = from_json(read_json(chain.episode(index) / "record.json"))
                assert read_steps(chain.episode(index))["actions"].shape[0] == record.steps
        undisturbed = Chain(Path(folder) / "undisturbed")
        count = min(len(finished), 10)
        run(str(undisturbed.path), count)
        for index in range(count):
            for file in ("record.json", "steps.npz"):
                assert (undisturbed.episode(index) / file).read_bytes() == (chain.episode(index) / file).read_bytes(), (index, file)
        print(
            f"{kills} kills: {len(finished)} whole episodes, no gap, nothing half-written; the first {count} equal an undisturbed chain's"
        )


if __name__ == "__main__":
    main()
