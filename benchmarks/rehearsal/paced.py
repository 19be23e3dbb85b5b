"""`rehearsal.paced:SECONDS,FOLDER`: a stand-in that thinks as long as a model does, and writes down
when it was asked. Without a folder it writes nothing, and every answer takes the same time.

It walks the hand of `rehearsal.tiny` on by one stride. Its waits are log-normal with the given
mean, like those of model servers. Each request leaves a row of numbers in FOLDER, a file a process:
chain, attempt, and when it was asked, sent, ready and done (seconds of the machine's monotonic
clock), with the processor time of its thread when done and that of its process. Between asked and
sent, and between ready and done, ledger and exchange log write.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from capex.models import (
    Answer,
    AttemptObserver,
    Reply,
    Request,
    RequestAttempt,
    Text,
    ToolCall,
    Usage,
    UserMessage,
)
from capex.models.retry import conclude
from rehearsal.tiny import STRIDE_M

SPREAD = 0.5  # of the logarithm of a wait
TIP = re.compile(r"tip \[(-?\d+),(-?\d+),(-?\d+)\]")
ROW = struct.Struct("<iq6d")
TOKENS = Usage(fresh=1500, cached=9000, cache_write=500, output=600, reasoning=300)


class Asked(NamedTuple):
    """One request: when it came, was sent, was answered, and was done with."""

    chain: int
    thread: int  # of its attempt
    asked: float
    sent: float
    ready: float
    done: float
    thread_cpu_s: float
    process_cpu_s: float
    process: str = ""


class Paced:
    """Waits as long as the paper's model, then makes one stride."""

    stand_in = True

    def __init__(self, rest: str):
        seconds, _, folder = rest.partition(",")
        self.name, self.price_name = f"rehearsal.paced:{rest}", "gpt-6-astra"
        self._mean_s, self._folder = float(seconds), folder
        self._file = -1
        self._opening = threading.Lock()

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        asked = time.monotonic()
        if observer is not None:
            observer.before(request, 1)
        sent = time.monotonic()
        if self._mean_s:
            spread = SPREAD if self._folder else 0.0
            time.sleep(self._mean_s * random.lognormvariate(-(spread**2) / 2, spread))
        ready = time.monotonic()
        call = ToolCall("call_1", "act", json.dumps(stride(request)))
        attempt = RequestAttempt("ok", "yes", ready - sent, usage=TOKENS, answer=Answer((call,)))
        if observer is not None:
            observer.after(request, 1, attempt)
        if self._folder:
            now = time.monotonic(), time.thread_time(), time.process_time()
            self._note(request, asked, sent, ready, *now)
        return conclude([attempt])

    def _note(self, request: Request, *times: float) -> None:
        with self._opening:
            if self._file < 0:
                path = Path(self._folder) / f"{os.getpid()}-{id(self)}.times"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        chain = re.search(r"Walk(\d+)", request.cache_key)
        thread = threading.get_native_id()
        os.write(self._file, ROW.pack(int(chain[1]) if chain else -1, thread, *times))


def stride(request: Request) -> dict[str, object]:
    """One stride on from where the last observation says that the tip is."""
    texts = [
        part.text
        for message in request.messages
        if isinstance(message, UserMessage)
        for part in message.parts
        if isinstance(part, Text)
    ]
    tip = next(m for text in reversed(texts) if (m := TIP.search(text)))
    x, y, z = (float(v) for v in tip.groups())
    stride_cm = round(100 * STRIDE_M)
    x = stride_cm * math.floor(x / stride_cm + 0.5)  # rounding does not add up
    target = [x + stride_cm, y, z]
    return {
        "reasoning": "One stride on.",
        "target_cm": target,
        "orientation": "keep",
        "confidence": 0.9,
        "chunk": [],
    }


def read_times(folder: Path) -> Iterator[Asked]:
    """All rows, process by process."""
    for path in sorted(folder.glob("*.times")):
        whole = path.read_bytes()
        whole = whole[: len(whole) - len(whole) % ROW.size]  # a kill may have torn the last
        yield from (Asked(*row, path.stem) for row in ROW.iter_unpack(whole))


def make(rest: str) -> Paced:
    return Paced(rest)
