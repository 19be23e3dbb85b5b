"""`lab.model:delay=0.1,..`: a model that answers by the hash of the request alone, after a delay if asked."""

from __future__ import annotations

import hashlib
import json
import os
import time

from capex.models import Answer, ModelError, Reply, Request, RequestAttempt, ToolCall, Usage, prices
from capex.models.retry import conclude


def answer(request: Request) -> Answer:
    """One to three waypoints, up or sideways; now and then something that cannot be carried out."""
    number = int(request.hash[:8], 16)
    if number % 11 == 0 and request.tool_choice != "act":
        return Answer((), "I do not know.")
    if (
        number % 7 == 0
        and request.tool_choice != "act"
        and "locate_pixel" in (t.name for t in request.tools)
    ):
        return Answer(
            (
                ToolCall(
                    "call_0",
                    "locate_pixel",
                    json.dumps({"camera": "back_left", "u": number % 32, "v": 20}),
                ),
            )
        )
    sure = '"confidence"' in json.dumps(request.tools[-1].parameters)
    points = [_waypoint(number >> shift, sure) for shift in range(0, 9, 3)]
    act = {"reasoning": f"hash {request.hash[:8]}", **points[0]}
    if sure and number % 3:
        act["chunk"] = points[1 : 1 + number % 3]
    return Answer((ToolCall("call_0", "act", json.dumps(act)),))


def _waypoint(number: int, sure: bool) -> dict:
    step = [[0, 0, 6], [0, 2, 3], [0, -2, 4], [3, 0, 0], [0, 0, -3]][number % 5]
    return {"delta_cm": step} | ({"confidence": 0.5 + number % 50 / 100} if sure else {})


def waypoints(body: dict) -> list[tuple[str, dict]]:
    """The same kind of answer for a server: to the body of a Chat Completions request."""
    number = int(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:8], 16)
    sure = '"confidence"' in json.dumps(body["tools"][-1])
    return [("act", {"reasoning": "by hash", **_waypoint(number, sure)})]


class LabModel:
    stand_in, price_name = True, "lab"

    def __init__(self, rest: str):
        self.name = f"lab.model:{rest}"
        options = dict(part.split("=") for part in rest.split(",") if part)
        self._delay_s = float(options.get("delay", 0))
        self._fails = options.get("fails", "")  # a file: while it exists the model is down
        self._crash = options.get(
            "crash", ""
        )  # a file: the process that finds it removes it and dies

    def complete(self, request: Request, observer=None) -> Reply:
        if observer is not None:
            observer.before(request, 1)
        time.sleep(self._delay_s)
        if self._crash and os.path.exists(self._crash):
            os.unlink(self._crash)
            os._exit(7)
        if self._fails and os.path.exists(self._fails):
            attempt = RequestAttempt(
                "connection", "no", 0.0, kind="connection", error="nobody listens"
            )
            if observer is not None:
                observer.after(request, 1, attempt)
            raise ModelError("connection", "nobody listens", (attempt,))
        said = answer(request)
        written = said.text + "".join(c.arguments for c in said.calls)
        usage = Usage(prices.tokens(request), 0, 0, prices.text(written))
        attempt = RequestAttempt(
            "ok", "yes", self._delay_s, usage, answer=said, body={"said": written}
        )
        if observer is not None:
            observer.after(request, 1, attempt)
        return conclude([attempt])


def make(rest: str) -> LabModel:
    return LabModel(rest)
