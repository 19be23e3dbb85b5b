"""What an attempt tells whoever watches it: events in its temporary folder, as they happen.

A line costs a write without a flush; the pictures are those that the exchange log keeps anyway. The
studio reads them (`run.live`). Positions are in metres in the base frame of the moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from capex.campaign.ledger import Ledger
from capex.errors import CapexError
from capex.method.context import Committed, Deciding, Ended, Event, Passed, Remembered, Replied
from capex.method.executor import Tick
from capex.method.observation import command_text
from capex.models import pictures
from capex.models.redact import scrubbed_line, secrets
from capex.pose import Array
from capex.run.live import EVENTS, LIVE_FOLDER
from capex.worlds import Env, RobotState

MOVING_S = 0.2  # how often a moving arm is told of, wall time
TEXT_MAX = 20_000  # characters of a model's reply that are told


class LiveLog:
    """A subscriber that writes an attempt's events. What cannot be written is left out: nobody but
    watchers misses it.
    """

    def __init__(
        self,
        attempt: Path,
        env: Env,
        facts: Mapping[str, Any],
        ledger: Ledger,
        *,
        keep_pictures: bool,
        clock: Callable[[], float] = time.time,
    ):
        """`keep_pictures`: keep those that the model is shown here, since the attempt does not."""
        self._folder, self._env, self._ledger = attempt / LIVE_FOLDER, env, ledger
        self._keep_pictures, self._clock = keep_pictures, clock
        self._round = self._steps = 0
        self._told_at = 0.0
        self._secrets = secrets()
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
        self.tell("began", **facts)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Tick):
            self._steps += 1
            if (now := self._clock()) - self._told_at >= MOVING_S:
                self._told_at = now
                self.tell("moving", step=self._steps, k=event.waypoint, **_hands(event.state))
        elif isinstance(event, Remembered):
            weights = None if event.weights is None else [float(w) for w in event.weights]
            self.tell("remembered", **{**vars(event), "weights": weights})
        elif isinstance(event, Deciding):
            self._deciding(event)
        elif isinstance(event, Replied):
            self._replied(event)
        elif isinstance(event, Committed):
            self.tell("committed", count=event.count, waypoints=_waypoints(event))
        elif isinstance(event, Passed):
            outcome = event.outcome
            tips = {name: _numbers(tip.position_m) for name, tip in outcome.tips.items()}
            told = {name: getattr(outcome, name) for name in ("status", "report", "label", "steps")}
            self.tell("passed", k=event.place, tips=tips, **told)
        elif isinstance(event, Ended):
            self.tell("ended", end=event.end, success=event.success)

    def _deciding(self, event: Deciding) -> None:
        images = event.observation.images
        hashes = {name: hashlib.sha256(png).hexdigest() for name, png in images.items()}
        if self._keep_pictures:
            with contextlib.suppress(OSError):
                for png in images.values():
                    pictures.keep(self._folder, png)
        self._round = 0
        self.tell(
            "deciding",
            decision=event.number,
            step=event.observation.horizon - event.observation.steps_left,
            images=hashes,
            cameras={name: self._camera(name, png) for name, png in images.items()},
            text=event.observation.text,
            usd=self._usd,
            **_hands(self._env.robot_state()),
        )

    def _replied(self, event: Replied) -> None:
        reply = event.reply
        self._round += 1
        calls = [{"name": c.name, "arguments": str(c.arguments)[:TEXT_MAX]} for c in reply.calls]
        self.tell(
            "replied",
            round=self._round,
            text=reply.text[:TEXT_MAX],
            calls=calls,
            seconds=round(reply.seconds, 2),
            tokens=vars(self._ledger.totals.tokens),
            usd=self._usd,
        )

    @property
    def _usd(self) -> float | None:
        return None if self._ledger.price is None else float(self._ledger.totals.known_usd)

    def _camera(self, name: str, png: bytes) -> dict[str, Any]:
        """Width, height and, where the camera is calibrated, the projection (3, 4) row by row."""
        size = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])  # of a PNG's first chunk
        try:
            projection = _numbers(self._env.camera_model(name, size).matrix.ravel(), 9)
        except CapexError:
            projection = None
        return {"size": size, "projection": projection}

    def tell(self, name: str, **values: Any) -> None:
        """Write an event, of this attempt or of what people asked of it."""
        line = {"event": name, "unix_time": round(self._clock(), 3), **values}
        with contextlib.suppress(OSError), open(self._folder / EVENTS, "ab") as out:
            out.write(scrubbed_line(line, self._secrets))


def _hands(state: RobotState) -> dict[str, Any]:
    arms = state.arms
    return {
        "tips": {name: _numbers(arm.T_base_tip.position_m) for name, arm in arms.items()},
        "openings_m": {name: round(arm.opening_m, 4) for name, arm in arms.items()},
    }


def _waypoints(event: Committed) -> list[dict[str, Any]]:
    """The plan as it will be sent, with what was stated and what calibration made of it."""
    rows = []
    targets = event.targets or ({},) * len(event.plan.waypoints)
    for waypoint, calibrated, sent in zip(
        event.plan.waypoints, event.probabilities, targets, strict=True
    ):
        rows.append(
            {
                "command": command_text(waypoint, several=len(waypoint.targets) > 1),
                "gripper": dict(waypoint.gripper_words),
                "stated": waypoint.confidence,
                "calibrated": None if calibrated is None else float(calibrated),
                "at": {name: _numbers(t.position_m) for name, t in sent.items()},
                # The direction in which the gripper points.
                "points": {name: _numbers(t.rotation[:, 2]) for name, t in sent.items()},
            }
        )
    return rows


def _numbers(values: Array, digits: int = 4) -> list[float]:
    return [round(float(v), digits) for v in values]
