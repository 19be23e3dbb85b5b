"""A real browser for tests: Chromium without a window, driven over the two pipes of its DevTools protocol. No package needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
MISSING = "no Chromium was found; install the package chromium, or set CHROMIUM to the program: sudo apt-get install chromium"
ANSWER_S = 60


def find() -> str:
    """The browser's program."""
    named = os.environ.get("CHROMIUM")
    found = (
        named
        or next((p for p in map(shutil.which, NAMES) if p), None)
        or (MAC if Path(MAC).exists() else None)
    )
    if found is None:
        raise RuntimeError(MISSING)
    return found


class Browser:
    """One page at a time. What the page logs, throws or asks the network for is kept."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="capex-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
        ]
        flags += [
            "--disable-component-update",
            "--disable-sync",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile}",
            "about:blank",
        ]
        # Chromium reads commands from descriptor 3 and writes answers to 4, whatever numbers our pipes have.
        launch = "import os, sys; os.dup2(int(sys.argv[1]), 13); os.dup2(int(sys.argv[2]), 14); os.dup2(13, 3); os.dup2(14, 4); os.execv(sys.argv[3], sys.argv[3:])"
        self._process = subprocess.Popen(
            [sys.executable, "-c", launch, str(to_browser), str(from_browser), find(), *flags],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._session = b"", 0, ""
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(
        self,
        path: Path | str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        phone: bool = False,
    ) -> None:
        """Load a file, or an address, in a window of that size."""
        self.resize(width, height, phone=phone)
        self.colours("dark" if dark else "light")
        self.messages, self.requests, self._loaded = [], [], False
        url = path if isinstance(path, str) else path.resolve().as_uri()
        answer = self._call("Page.navigate", url=url)
        self._loaded |= "loaderId" not in answer  # another place of the same page
        while not self._loaded:
            self._take(self._read())

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """The size of the window; a phone has more pixels to the point."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def colours(self, scheme: str) -> None:
        """Prefer light or dark."""
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(
                f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description', answer)}"
            )
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element, as a person would."""
        self.press(selector)()

    def press(self, selector: str) -> Callable[[], None]:
        """Press the mouse in the middle of an element; what it returns lets go."""
        x, y = self._middle(selector)
        self._mouse("mousePressed", x, y)
        return lambda: self._mouse("mouseReleased", x, y)

    def _mouse(self, kind: str, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _middle(self, selector: str) -> list[float]:
        """The middle of an element once it rests there, with nothing over it: nobody clicks before."""
        found = f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; e.scrollIntoView({{block: 'center', behavior: 'instant'}}); const r = e.getBoundingClientRect(); const at = [r.x + r.width / 2, r.y + r.height / 2]; return e.contains(document.elementFromPoint(...at)) ? at : null; }})()"
        until, before = time.monotonic() + ANSWER_S, None
        while (now := self.ask(found)) is None or now != before:
            if time.monotonic() > until:
                raise AssertionError(f"{selector} is not there, is covered or moves: {now}")
            before = now
            time.sleep(0.03)
        return list(now)

    def wait(self, expression: str, seconds: float = ANSWER_S) -> Any:
        """The value of an expression once it is true; it is asked again and again."""
        until = time.monotonic() + seconds
        while not (value := self.ask(expression)):
            if time.monotonic() > until:
                text = self.ask("document.body.innerText")
                raise AssertionError(f"{expression} was not true within {seconds} s: {text[:2000]}")
            time.sleep(0.05)
        return value

    def key(self, key: str) -> None:
        """Press and release a key, as a person would."""
        for kind in ("keyDown", "keyUp"):
            typed = "\r" if key == "Enter" else key if len(key) == 1 else ""
            text = {"text": typed} if typed and kind == "keyDown" else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """A PNG of the window, or of the whole page."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def pdf(self, path: Path) -> Path:
        """The page as it prints."""
        answer = self._call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def close(self) -> None:
        """End the browser that this object started."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        kind, parameters = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif kind == "Runtime.consoleAPICalled":
            self.messages.append(
                " ".join(str(a.get("value", a.get("description"))) for a in parameters["args"])
            )
        elif kind == "Runtime.exceptionThrown":
            self.messages.append(str(parameters["exceptionDetails"]))
        elif kind == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif kind == "Page.javascriptDialogOpening":
            self.messages.append(f"dialog: {parameters['message']}")
            os.write(
                self._out,
                json.dumps(
                    {
                        "id": 0,
                        "method": "Page.handleJavaScriptDialog",
                        "params": {"accept": True},
                        "sessionId": self._session,
                    }
                ).encode()
                + b"\0",
            )

    def _read(self) -> dict[str, Any]:
        import select

        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], ANSWER_S)[0]:
                raise AssertionError(f"the browser gave no answer in {ANSWER_S} s")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise AssertionError("the browser ended")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
