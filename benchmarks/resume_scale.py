"""What it costs to continue a campaign that has recorded 100,000 episodes: seconds until it is
under way, and the driver's memory.

`python benchmarks/resume_scale.py [EPISODES [CHAINS]] [--folder DIR]`

A real campaign of one episode a chain is run in a tiny world (`rehearsal`) and then multiplied: the
records of the other starts differ in their start alone, and spend.jsonl holds the 37 requests of
each, as the paper's successes took. The command is then given again, with one more start, and stops
at the first request. Seconds are processor time, since other work shares the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from thousand_chains import HERE, REQUESTS, tasks, usage

DECISIONS = 8  # of an episode: what a record is long by
INDEX, POSITION = '"start": 0,', '"position": 0,'  # in the record of start 0
TOKENS = '{"fresh": 1500, "cached": 9000, "cache_write": 500, "output": 600, "reasoning": 300}'
MOST_S, MOST_MB = 600.0, 2000.0  # for 100,000 episodes


def campaign(out: Path, chains: int, starts: int) -> None:
    """A campaign of the tiny world in this process; what it took when it began, and in all."""
    import capex
    from capex.campaign import events as ev
    from capex.run import Depth

    began: dict[str, float] = {}

    def watch(event: object, board: object) -> None:
        if isinstance(event, ev.CampaignBegan):
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            began.update(cpu_s=time.process_time(), wall_s=time.monotonic() - asked)
            began.update(usage(), peak_mb=peak_mb)
        if isinstance(event, ev.EpisodeBegan) and starts > 1:
            print(json.dumps(began), flush=True)
            os._exit(0)

    asked = time.monotonic()
    capex.collect(
        tasks(chains),
        model="rehearsal.paced:0,",
        starts=range(starts),
        out=out,
        slots=min(chains, 16),
        watch=watch,
        depth=Depth.HEADS,
    )


def child(*given: object) -> str:
    env = os.environ | {"REHEARSAL_REQUESTS": str(DECISIONS), "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), env.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, "child", *map(str, given)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def multiply(run: Path, each: int) -> int:
    """Give every chain so many episodes in all, and spend.jsonl what they would have cost; the
    number of episodes.
    """
    chains = sorted((run / "chains").iterdir())
    with open(run / "spend.jsonl", "w", encoding="ascii") as spend:
        for chain in chains:
            first = chain / "episodes" / "0000"
            record = (first / "record.json").read_text()
            assert record.count(INDEX) == record.count(POSITION) == 1
            for start in range(each):
                folder = first.parent / f"{start:04d}"
                if start:
                    folder.mkdir()
                    text = record.replace(INDEX, f'"start": {start},')
                    text = text.replace(POSITION, f'"position": {start},')
                    (folder / "record.json").write_text(text)
                    for name in ("timing.json", "steps.npz"):
                        os.link(first / name, folder / name)
                spend.writelines(_lines(chain.name, start, str(k)) for k in range(REQUESTS))
    return each * len(chains)


def _lines(chain: str, start: int, request: str) -> str:
    ticket = f"{chain}-{start}-{request}"
    return (
        f'{{"line":"reserve","ticket":"{ticket}","usd":"0.6372","chain":"{chain}","episode":{start}}}\n'
        f'{{"line":"settle","ticket":"{ticket}","usd":"0.0253","tokens":{TOKENS},"reply":true}}\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("episodes", nargs="?", type=int, default=100_000)
    parser.add_argument("chains", nargs="?", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the run lies; by default in memory")
    given = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=given.folder or memory, prefix="capex-resume-") as folder:
        run = Path(folder) / "run"
        child(run, given.chains, 1)
        empty = json.loads(child(run, given.chains, 2))
        episodes = multiply(run, max(2, given.episodes // given.chains))
        spend_mb = (run / "spend.jsonl").stat().st_size / 1e6
        numbers = json.loads(child(run, given.chains, episodes // given.chains + 1))
    table = Table(title=f"continuing {episodes:,} episodes of {given.chains} chains")
    for column in ("what", "measured", "promised"):
        table.add_column(column, justify="left" if column == "what" else "right")
    share = episodes / 100_000
    most_s, most_mb = MOST_S * share + 20, empty["peak_mb"] + MOST_MB * share + 50
    table.add_row("processor seconds", f"{numbers['cpu_s']:.1f}", f"below {most_s:.0f}")
    table.add_row("of them without episodes", f"{empty['cpu_s']:.1f}", "")
    table.add_row("driver's memory, MB, most", f"{numbers['peak_mb']:.0f}", f"below {most_mb:.0f}")
    table.add_row("then, under way", f"{numbers['memory_mb']:.0f}", "")
    table.add_row("without episodes", f"{empty['memory_mb']:.0f}", "")
    table.add_row("seconds on the wall", f"{numbers['wall_s']:.1f}", "")
    table.add_row("spend.jsonl, MB", f"{spend_mb:.0f}", "")
    Console().print(table)
    return 0 if numbers["cpu_s"] < most_s and numbers["peak_mb"] < most_mb else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        campaign(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main())
