"""One campaign, run four ways: in one process, one episode at a time; in one process, many at once;
in two processes; on a Ray cluster of two nodes of which one is killed half way. The records must be
the same, byte for byte.

`python benchmarks/same_records.py`          (needs the extra `ray`)
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

import capex

CAMPAIGN: dict[str, Any] = {
    "arm": "capex,base",
    "model": "pilot",
    "starts": "0:4",
    "decisions": 8,
    "image_size": 256,
    "round_size": 2,
}
TASKS = "kitchen:CloseFridge,TurnOnMicrowave"
TIMES = ("timing.json", "exchange_times.jsonl")


def contents(run: Path) -> dict[str, bytes]:
    files = (
        p
        for p in (run / "chains").rglob("*")
        if p.is_file() and p.name not in TIMES and not p.name.startswith(".")
    )
    return {str(p.relative_to(run)): p.read_bytes() for p in files}


def on_a_shrinking_cluster(out: Path) -> str:
    small = {"num_cpus": 1, "object_store_memory": 200_000_000}
    cluster = Cluster(
        initialize_head=True, connect=True, head_node_args={**small, "include_dashboard": False}
    )
    node = cluster.add_node(**small)
    cluster.wait_for_nodes()
    said: list[str] = []

    def watch(event: Any, board: Any) -> None:
        if (
            type(event).__name__ == "EpisodeEnded"
            and board.total.episodes >= 8
            and "killed" not in said
        ):
            said.append("killed")
            cluster.remove_node(node, allow_graceful=False)
        if type(event).__name__ == "AttemptCutOff":
            said.append("lost")

    capex.collect(TASKS, out=out, ray=cluster.address, watch=watch, **CAMPAIGN)
    ray.shutdown()
    cluster.shutdown()
    return (
        f"a node killed after 8 episodes, {said.count('lost')} attempts lost with it and run again"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first: dict[str, bytes] = {}
        ways: dict[str, dict[str, Any]] = {
            "one at a time": {"slots": 1},
            "many at once": {},
            "two processes": {"parallel": 2},
        }
        for name in (*ways, "Ray, two nodes"):
            began, out = time.monotonic(), Path(folder) / name.replace(" ", "-")
            note = ""
            if name in ways:
                capex.collect(TASKS, out=out, **CAMPAIGN, **ways[name])
            else:
                note = on_a_shrinking_cluster(out)
            found = contents(out)
            first = first or found
            assert found == first, name
            print(
                f"{name:16s} {len(found)} files, the same; {time.monotonic() - began:.0f} s "
                f" {note}",
                flush=True,
            )


if __name__ == "__main__":
    main()
