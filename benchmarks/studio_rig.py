"""What the studio shows of a rig on the real clock, and how fast one stops that a person drives.

`python benchmarks/studio_rig.py`          (needs the extra `studio` and Chromium)

The rig is `rig:room-live` with small pictures, since its camera draws them here on a processor. Its
pictures are counted in the page while the arm moves; then a key is held and released in the drive
room, from the release to the last tick, and an arm that was driven likewise is watched until it
keeps still. Wall times: on a busy machine they say more about the machine. What was measured is
printed as one table at the end; it takes about two minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np

from browser import Browser
from capex import worlds
from capex.campaign.api import demonstrate
from capex.operators.screens import Screens
from capex.operators.teleoperation import Move, TeleopCommand, Teleoperator
from capex.rigs.env import RigFileEnv
from capex.run.live import LIVE_FOLDER
from capex.studio.serve import studio_server
from capex.worlds import Env, Start
from studio_pages import small_rig

FPS = 20  # of the room's cameras
STILL_M_S = 0.01  # a tip that is slower keeps still; driven, it makes some 10 cm a second
RELEASES, ROUNDS = 5, 100
PAGE = """(() => {
  window.times = { up: 0, ticked: 0 };
  addEventListener('keyup', () => { times.up = performance.now(); }, true);
  const ticked = new MutationObserver(() => { times.ticked = performance.now(); });
  ticked.observe(document.querySelector('main'), { attributeFilter: ['data-tick'] });
})()"""


def shown(browser: Browser, url: str, out: Path, rig: str) -> list[float]:
    """Pictures a second in the page, of each second in which the arm moved."""
    words = ["collect", f"{rig}:BlockOnPlate", "--model", "pilot", "--starts", "0:1"]
    command = [sys.executable, "-m", "capex", *words, "--out", str(out)]
    campaign = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    rates = []
    try:
        while not (out / "manifest.json").exists():
            time.sleep(0.1)
        browser.open(f"{url}#/live/{out.name}")
        before: tuple[float, int, int] | None = None
        while campaign.poll() is None:
            step, frames = browser.ask(
                "[+(document.querySelector('.at')?.textContent ?? 0),"
                " +(document.querySelector('.view')?.dataset.frames ?? 0)]"
            )
            now = time.monotonic()
            if before is not None and step - before[1] >= 10 and frames > before[2]:
                rates.append((frames - before[2]) / (now - before[0]))
            before = now, step, frames
            time.sleep(1.0)
    finally:
        campaign.kill()
        campaign.wait()
    return rates


def released(browser: Browser, url: str, rig: str) -> list[float]:
    """Milliseconds from the release of a key in the page to the last tick that it led to."""
    task = f"{rig}:BlockOnPlate".replace(":", "%3A").replace("/", "%2F")
    browser.open(f"{url}#/drive/{task}/0/driven")
    browser.wait("Boolean(document.querySelector('.form [name=by]'))")
    browser.ask("document.querySelector('.form [name=by]').focus()")
    browser.type("nobody")
    browser.click("[name=begin]")
    browser.wait("document.querySelector('.stage canvas')?.dataset.tick === '0'", 120)
    browser.ask(PAGE)
    took = []
    for k in range(RELEASES):
        key = "ws"[k % 2]
        browser._call("Input.dispatchKeyEvent", type="keyDown", key=key)
        time.sleep(1.0)
        browser._call("Input.dispatchKeyEvent", type="keyUp", key=key)
        time.sleep(1.0)
        took.append(browser.ask("Math.max(0, times.ticked - times.up)"))
    browser.key("Escape")
    browser.wait("document.querySelector('h1').innerText.includes('Nothing was kept')")
    return took


class Hand:
    """Controls that drive for a second and then watch the arm for one, a few times."""

    def __init__(self) -> None:
        self.env: Env | None = None
        self.stopped_ms: list[float] = []
        self._ticks = self._let_go_after = 0
        self._let_go = 0.0

    def show(self, env: Env, tick: int) -> None:
        self.env, self._ticks = env, tick

    def take(self, wait_s: float) -> TeleopCommand:
        if self._ticks and self._ticks % 20 == 0 and self._let_go_after != self._ticks:
            self._let_go_after, self._let_go = self._ticks, time.monotonic()
            return "still"
        if self._let_go:
            self.stopped_ms.append(self._watch(self._let_go))
            self._let_go = 0.0
        if len(self.stopped_ms) >= RELEASES:
            return "leave"
        way = 0.6 if (self._ticks // 20) % 2 == 0 else -0.6
        return Move("arm", step=(way, 0.0, 0.0))

    def _watch(self, began: float) -> float:
        """Milliseconds from letting go to the last motion of the tip within a second."""
        moved = was = time.monotonic()
        last = self._tip()
        while was < began + 1.0:
            time.sleep(0.02)
            now, tip = time.monotonic(), self._tip()
            if np.linalg.norm(tip - last) > STILL_M_S * (now - was):
                moved = now
            was, last = now, tip
        return 1000 * (moved - began)

    def _tip(self) -> Any:
        """Measured now."""
        assert isinstance(self.env, RigFileEnv)
        return np.array(self.env.open().link.read().arms["arm"].T_base_tip.position_m)


def round_ms(folder: Path, rig: str) -> float:
    """Processor milliseconds of the collector for one picture of each camera, written out."""
    env = worlds.make(f"{rig}:BlockOnPlate")
    try:
        env.reset(Start(env.spec.task, 0))
        (folder / LIVE_FOLDER).mkdir(parents=True)
        screens, began = Screens(env, folder), time.thread_time()
        for _ in range(ROUNDS):
            screens._write()
        return 1000 * (time.thread_time() - began) / ROUNDS
    finally:
        env.close()


def spread(values: list[float]) -> str:
    return f"median {median(values):.0f}, {min(values):.0f} to {max(values):.0f}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def measure(root: Path) -> dict[str, str]:
    """What was measured, by what."""
    rows = {}
    rig = small_rig(root, fps=FPS)
    server = studio_server((root / "runs",), drives=(rig,))
    threading.Thread(target=server.run, daemon=True).start()
    browser = Browser()
    try:
        say("pictures in the page while the arm moves ..")
        rates = shown(browser, server.address.url, root / "runs" / "room", rig)
        rows[
            f"pictures a second in the live room while the arm moves, of {FPS} that the cameras"
            " take and 15 asked for"
        ] = f"{spread(rates)}, over {len(rates)} seconds"
        say("a key is held and released ..")
        ticks = released(browser, server.address.url, rig)
        rows["from a key's release in the page to the last tick (0: none came after)"] = (
            f"{spread(ticks)} ms"
        )
    finally:
        browser.close()
        server.stop()
    say("what a picture costs ..")
    took_ms = round_ms(root / "attempt", "rig:room-live")
    rows["processor time of the collector for one 640x360 picture of each of 2 cameras"] = (
        f"{took_ms:.1f} ms, {15 * took_ms / 10:.1f} % of a core at 15 a second"
    )
    say("an arm is let go ..")
    hand = Hand()
    demonstrate(Teleoperator(hand, "nobody"), f"{rig}:BlockOnPlate", out=root / "hand", starts=[0])
    rows["from letting go until the tip is slower than 1 cm/s"] = f"{spread(hand.stopped_ms)} ms"
    return rows


def main() -> None:
    began = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="capex-") as folder:
        (Path(folder) / "runs").mkdir()
        rows = measure(Path(folder))
    rows["load average of this machine, before and after"] = (
        f"{began:.1f}, {os.getloadavg()[0]:.1f}"
    )
    print("| `rig:room-live`, 320x180 | measured |", "|---|---|", sep="\n")
    for what, measured in rows.items():
        print(f"| {what} | {measured} |")


if __name__ == "__main__":
    main()
