"""What being watched costs a campaign: the live events that it writes, and a studio with a page
that follows it.

`python benchmarks/studio_cost.py [EPISODES]`          (needs the extra `studio` and Chromium)

First the events themselves, in processor seconds of the attempt's own thread; then the processor
seconds of a whole campaign, alone and watched by a page, in turns, on equal starts: other work on
the machine matters little to both. Then how old an event is when a page has it, and how long the
studio takes to answer; those are wall times. One table is printed at the end; with four episodes
it takes about two minutes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import runs
from browser import Browser
from capex.campaign.live import LiveLog
from capex.studio.serve import studio_server

TASK = "kitchen:OpenDrawer"
MANY = 10_000
EVENTS = {"deciding": "a decision's pictures", "committed": "a plan", "passed": "a report"}
LIVE_PAGE = """(() => {
  window.ages = [];
  const seen = new EventSource('api/live/events?run=watched');
  seen.addEventListener('live', (e) => {
    const told = JSON.parse(e.data);
    const age = () => window.ages.push([told.event, Date.now() / 1000 - told.unix_time]);
    if (told.event !== 'moving') requestAnimationFrame(age);
  });
})()"""


def collect(out: Path, episodes: int) -> float:
    """Processor seconds of a campaign in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["collect", TASK, "--model", "pilot", "--starts", f"0:{episodes}", "--out", str(out)]
    command = [sys.executable, "-m", "capex", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def subscriber(out: Path) -> tuple[float, float, int]:
    """Processor seconds of an attempt, those of its live log, and the bytes that it wrote."""
    import capex

    spent, written = [0.0], [0]
    plain = LiveLog.__call__

    def timed(self: LiveLog, event: object) -> None:
        began = time.thread_time()
        plain(self, event)  # type: ignore[arg-type]
        spent[0] += time.thread_time() - began
        written[0] = max(written[0], (self._folder / "events.jsonl").stat().st_size)

    LiveLog.__call__ = timed  # type: ignore[method-assign]
    began = time.process_time()
    capex.collect(TASK, model="pilot", starts="0", out=out)
    LiveLog.__call__ = plain  # type: ignore[method-assign]
    return time.process_time() - began, spent[0], written[0]


def answer_s(url: str) -> float:
    """Wall seconds of one answer, the better of five."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with urllib.request.urlopen(url) as answer:
            answer.read()
        took.append(time.perf_counter() - began)
    return min(took)


def many(path: Path) -> None:
    """A run of ten thousand attempts, as far as an overview reads them."""
    chain = runs.new_run(path, ["base"], runs.TASKS[:1], [0]).chain(
        "kitchen", runs.TASKS[0], "base"
    )
    for start in range(MANY):
        folder = chain.episode(start)
        folder.mkdir(parents=True)
        made = runs.record(runs.TASKS[0], "base", start, success=start % 3 > 0)
        (folder / "record.json").write_text(json.dumps(made.as_json()))
        (folder / "timing.json").write_text('{"episode_s": 30.0, "unix_time": 1794700000.0}')


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def watch_campaigns(root: Path, url: str, browser: Browser, episodes: int) -> dict[str, str]:
    """Campaigns alone and watched, in turns, and how old events are in the page."""
    alone, watched, ages = [], [], []
    for k in range(2):
        say(f"a campaign alone, then one watched, {k + 1} of 2 ..")
        alone.append(collect(root / f"alone{k}", episodes))
        out = root / "watched" if k == 0 else root / f"watched{k}"
        page = threading.Thread(target=lambda out=out: watched.append(collect(out, episodes)))
        page.start()
        while not (out / "manifest.json").exists():
            time.sleep(0.05)
        browser.open(f"{url}#/live/{out.name}")
        if k == 0:
            browser.ask(LIVE_PAGE)
        while page.is_alive():
            browser.ask("1")
            time.sleep(0.2)
        page.join()
        ages += browser.ask("window.ages ?? []") if k == 0 else []
    least = min(alone), min(watched)
    rows = {
        f"a campaign of {episodes} attempts, alone and watched by a page": (
            f"{least[0]:.2f} and {least[1]:.2f} processor seconds ({least[1] / least[0] - 1:+.1%})"
        )
    }
    for kind, what in EVENTS.items():
        found = sorted(age for name, age in ages if name == kind)
        if found:
            median_ms, most_ms = 1000 * found[len(found) // 2], 1000 * found[-1]
            age = f"median {median_ms:.0f} ms, at most {most_ms:.0f} ms, {len(found)} events"
            rows[f"{what} in the page, since it happened"] = age
    return rows


def answers(root: Path, url: str) -> dict[str, str]:
    """How long the studio takes to answer."""
    rows = {
        "first page, list of runs, on loopback": f"{1000 * answer_s(url):.0f} ms,"
        f" {1000 * answer_s(url + 'api/campaigns'):.0f} ms"
    }
    say("a run of ten thousand attempts ..")
    many(root / "big")
    began, busy = time.perf_counter(), time.process_time()
    with urllib.request.urlopen(url + "api/campaigns/run?run=big") as answer:
        held = len(json.load(answer)["chains"][0]["attempts"]["index"])
    opened, computed = time.perf_counter() - began, time.process_time() - busy
    rows[f"a run of {held:,} attempts that was not read yet"] = (
        f"{opened:.1f} s, {computed:.1f} of the processor"
    )
    return rows


def main(episodes: int) -> None:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="capex-") as folder:
        root = Path(folder)
        say("live events of one attempt ..")
        whole, live, size = subscriber(root / "one")
        rows = {
            "live events that an attempt writes": f"{live:.3f} of {whole:.2f} processor seconds"
            f" ({live / whole:.1%}), {size / 1024:.0f} kB"
        }
        server = studio_server((root,))
        threading.Thread(target=server.run, daemon=True).start()
        browser = Browser()
        try:
            rows |= watch_campaigns(root, server.address.url, browser, episodes)
            rows |= answers(root, server.address.url)
        finally:
            browser.close()
            server.stop()
    rows["load average of this machine, before and after"] = f"{load:.1f}, {os.getloadavg()[0]:.1f}"
    print(f"| `{TASK}`, pilot (a stand-in) | measured |", "|---|---|", sep="\n")
    for what, measured in rows.items():
        print(f"| {what} | {measured} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
