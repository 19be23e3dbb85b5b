"""Requests of people to a running attempt, read before each of its decisions: it waits, its model
gets a message, a person drives for a while.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from capex.campaign.core import HOLD_S, Lease
from capex.campaign.extensions import Attempt, CampaignExtension
from capex.method.context import Drive, Intervention
from capex.method.executor import Tick
from capex.method.record import EpisodeRecord, Message
from capex.operators import inbox
from capex.operators.takeover import Takeover, TeleopConnection, recorded_takeover
from capex.operators.teleop_channel import TeleopChannel
from capex.operators.teleoperation import TeleopCommand
from capex.run import control
from capex.worlds import Command, Env

TAKEOVERS = "takeovers"  # in the extensions of a record: the moves of a person, by turn
DRIVING = "driving"  # the phase of an attempt that a person drives
IDLE_S = 1.0  # after a second without a key others may have the core
GONE_S = 60.0  # how long a simulated attempt waits for a person after its driver's page vanished


def takeovers_of(record: EpisodeRecord) -> list[Mapping[str, Any]]:
    """The turns in which people drove an episode."""
    rows = record.extensions.get(TAKEOVERS, ())
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


@dataclass
class Sharing:
    """A page's controls in a simulated world: while nobody drives, others may have the core."""

    channel: TeleopChannel
    lease: Lease
    _received_s: float = field(default_factory=time.monotonic)

    def take(self, wait_s: float) -> TeleopCommand | None:
        """The next move."""
        if not self.channel.waiting(wait_s):
            if time.monotonic() - self._received_s < IDLE_S:
                return None
            self.lease.hold(lambda: not self.channel.waiting(HOLD_S), DRIVING)
            self.lease.phase(DRIVING)
        self._received_s = time.monotonic()
        return self.channel.take(0.0)

    def show(self, env: Env, tick: int) -> None:
        """The present state."""
        self.channel.show(env, tick)


class OperatorRequests(CampaignExtension):
    """Operator inputs for one attempt."""

    def __init__(self, attempt: Attempt):
        self._attempt, self._lease = attempt, attempt.lease
        self._delivered: list[Message] = []
        self._driven: list[dict[str, Any]] = []
        self._gone = ""  # the driver whose page vanished
        self._gone_until_s = math.inf
        # Still to be driven again, where the attempt continues one that was cut off.
        self._before = inbox.recorded_drives(*attempt.place)

    def before_decision(self, number: int) -> Intervention | None:
        drive = self._drive(number)
        if drive is not None:
            return Intervention(drive)
        message = self._message(number)
        return Intervention(message=message) if message else None

    def record_fields(self, record: EpisodeRecord) -> EpisodeRecord:
        return _with_requests(record, self._delivered, self._driven)

    def committed(self) -> None:
        """The record holds the messages and the moves."""
        if self._delivered or self._driven:
            control.forget_attempt(*self._attempt.place)

    def _message(self, decision: int) -> str:
        """The messages for this decision, as one text."""
        place = self._attempt.place
        messages, before = inbox.list_messages(*place), inbox.delivered_at(*place)
        delivered = before[: len(messages)]
        new = [decision] * (len(messages) - len(delivered))
        if new and decision > max(delivered, default=0):
            delivered += new
            inbox.mark_delivered(*place, delivered)
        now = [m for m, d in zip(messages, delivered, strict=False) if d == decision]
        self._delivered += [Message(decision, m.text, m.by) for m in now]
        return " ".join(m.text for m in now)

    def _drive(self, decision: int) -> Drive | None:
        """Wait while a pause is requested; then a person's turn before this decision, if there is
        one: as before the attempt was cut off, or as requested now.
        """
        if self._before and self._before[0]["decision"] <= decision:
            return self._turn(recorded_takeover(self._before.pop(0)))
        while True:
            self._wait_while_paused()
            if (asked := inbox.pop_takeover_request(*self._attempt.place)) is not None:
                try:
                    connection = TeleopConnection(asked)
                except OSError:  # they are gone, or on another machine
                    continue
                self._gone = ""
                turn = Takeover(decision, asked, connection.channel, self._attempt.end_now)
                return self._turn(turn, connection)
            if not self._paused():  # a withdrawn request ends no pause
                return None

    def _turn(self, takeover: Takeover, connection: TeleopConnection | None = None) -> Drive:
        def drive(
            env: Env, grips: dict[str, float], steps_left: int, carry_out: Callable[[Command], Tick]
        ) -> int:
            began, queued_s = time.monotonic(), self._lease.queued_s
            if connection is not None:
                self._lease.phase(DRIVING)
                if not env.spec.real_time:
                    takeover.controls = Sharing(connection.channel, self._lease)
                step = env.spec.horizon - steps_left
                self._attempt.announce("taken", by=takeover.request.by, step=step)
            try:
                steps = takeover(env, grips, steps_left, carry_out)
            finally:
                if connection is not None:
                    connection.close()
            if steps:
                self._driven.append(takeover.row)
            if connection is not None:
                # A person's time is not the attempt's.
                self._lease.queued_s = queued_s + time.monotonic() - began
                self._handed_back(takeover, env.spec.real_time)
            return steps

        return drive

    def _handed_back(self, takeover: Takeover, real_time: bool) -> None:
        """If the driver vanished, the attempt waits: a simulated one for a while, a robot until a
        person takes it over again, pauses and resumes the run, or ends the attempt.
        """
        self._lease.phase("simulating")
        if takeover.row["steps"]:
            inbox.record_drive(*self._attempt.place, takeover.row)
        by = takeover.request.by
        self._attempt.announce("returned", by=by, steps=takeover.row["steps"])
        if takeover.ended == "leave":
            self._gone = by
            self._gone_until_s = math.inf if real_time else time.monotonic() + GONE_S

    def _wait_while_paused(self) -> None:
        if self._paused():
            left_s = self._gone_until_s - time.monotonic()
            until = time.time() + left_s if self._gone and math.isfinite(left_s) else None
            self._attempt.announce("paused", gone=self._gone, until=until)
            self._lease.hold(self._paused, look=self._lease.may_wait)

    def _paused(self) -> bool:
        attempt = self._attempt
        asked = control.requested(attempt.run_dir, "pause") is not None
        if self._gone and (asked or attempt.end_now() or time.monotonic() > self._gone_until_s):
            self._gone = ""  # from now on another request decides
        return (asked or bool(self._gone)) and not inbox.takeover_requested(*attempt.place)


@dataclass(frozen=True)
class RepeatRequests:
    """Makes the extension that repeats the messages and turns of a recorded episode."""

    record: EpisodeRecord

    def __call__(self, attempt: Attempt) -> CampaignExtension:
        return RepeatedRequests(self.record)


class RepeatedRequests(CampaignExtension):
    """Messages and turns of people as a record has them."""

    def __init__(self, record: EpisodeRecord):
        self._messages = record.messages
        self._before = takeovers_of(record)
        self._delivered: list[Message] = []
        self._driven: list[dict[str, Any]] = []

    def before_decision(self, number: int) -> Intervention | None:
        if self._before and self._before[0]["decision"] <= number:
            return Intervention(self._turn(recorded_takeover(self._before.pop(0))))
        now = [m for m in self._messages if m.decision == number]
        self._delivered += now
        return Intervention(message=" ".join(m.text for m in now)) if now else None

    def record_fields(self, record: EpisodeRecord) -> EpisodeRecord:
        return _with_requests(record, self._delivered, self._driven)

    def _turn(self, takeover: Takeover) -> Drive:
        def drive(
            env: Env, grips: dict[str, float], steps_left: int, carry_out: Callable[[Command], Tick]
        ) -> int:
            if steps := takeover(env, grips, steps_left, carry_out):
                self._driven.append(takeover.row)
            return steps

        return drive


def _with_requests(
    record: EpisodeRecord, messages: list[Message], driven: list[dict[str, Any]]
) -> EpisodeRecord:
    extensions = {**record.extensions, TAKEOVERS: driven} if driven else record.extensions
    return replace(record, messages=tuple(messages), extensions=extensions)
