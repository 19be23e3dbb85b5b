"""The rig's process: `python -m capex.rigs.rigprocess FD`, started by `client.open_link`.

It has a session of its own, so that neither Ctrl-C nor a closed terminal reaches it, and ends only
when it is asked to: by `close`, by SIGTERM, or `alone_hold_s` after the collector died, which it
sees by the end of its pipe. Until then it keeps the locks, and from the first request that moves or
settles the arms it holds them, with whatever heartbeat they want.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any

from capex.errors import CapexError, ErrorCode, RigFault
from capex.processes import set_niceness
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.controller import Keeper
from capex.rigs.drivers import DRIVERS, ArmFacts, RealClock, RigClock, load_driver
from capex.rigs.link import TICKING_NICENESS
from capex.rigs.locks import RigLock, lock_key
from capex.rigs.rigfile import RigFile
from capex.rigs.stops import StopSocket

LEAVING_S = 5.0  # what closing the drivers may take
GLANCE_S = 0.5  # how often a process in lock-step looks whether it was told to end
OPERATOR = "the operator"  # who stops by the collector: the person at its terminal
VERBS = ("read", "brake", "settle", "home", "tare")


class _Ends(Exception):
    """The collector is gone, or SIGTERM came."""


class _Server:
    def __init__(self, pipe: Connection, rig: RigFile):
        self._pipe, self._rig = pipe, rig
        self._told_to_end = self._closes = False
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_term)
        if rig.clock == "real":
            set_niceness(TICKING_NICENESS)
        self._locks = lock_arms(rig)
        self._clock = make_clock(rig)
        units: dict[str, ArmUnit] = {}
        try:
            for entry in rig.arms:
                driver = load_driver(entry.driver, DRIVERS)(dict(entry.options), entry.name)
                units[entry.name] = ArmUnit(entry, driver, rig.guard)
            self._keeper = keeper = Keeper(rig, units, self._clock, self._between)
            self._stops = StopSocket(rig.name, keeper.press, lambda: keeper.pressed)
        except Exception:
            for unit in units.values():
                unit.close()
            raise
        self.facts: dict[str, ArmFacts] = {name: unit.facts for name, unit in units.items()}

    def _on_term(self, _signal: int, _frame: FrameType | None) -> None:
        self._told_to_end = True

    def _between(self) -> None:
        """During a long request only a stop can come, or the end: whoever closes the rig in the
        middle of a motion wants no more of it.
        """
        if self._told_to_end:
            raise _Ends
        stopped = self._stops.serve()
        while self._pipe.poll():
            if (verb := self._receive()[0]) in ("stop", "close"):
                self._stops.stop(OPERATOR)
                self._closes |= verb == "close"
                stopped = True
        if stopped:
            self._stops.require_none()

    def _receive(self) -> tuple[str, Any]:
        try:
            verb, argument = self._pipe.recv()
        except (EOFError, OSError):
            raise _Ends from None
        return str(verb), argument

    def serve(self) -> None:
        """Requests until `close` or the end."""
        try:
            while True:
                self._wait()
                verb, argument = self._receive()
                if verb == "stop":
                    self._stops.stop(OPERATOR)
                    continue
                if verb == "close":
                    break
                self._reply(verb, argument)
                if self._closes:
                    break
        except _Ends:
            self._end_alone()
        with contextlib.suppress(_Ends):  # told to end while it parks
            self._keeper.close()
        self._stops.close()
        if not self._told_to_end:
            with contextlib.suppress(_Ends):  # nobody is left to hear it
                self._say(("done", None))

    def _wait(self) -> None:
        """Until a request comes; in real time there is a beat every tick. A person's stop is
        carried out at once, and before the request.
        """
        lock_step = self._clock.lock_step
        every_s = GLANCE_S if lock_step else self._keeper.period_s
        due_s = time.monotonic() + every_s
        while True:
            ready = wait([self._pipe, *self._stops.sockets], max(0.0, due_s - time.monotonic()))
            self._stops.serve()
            if self._pipe in ready:
                return
            if self._told_to_end:
                raise _Ends
            if time.monotonic() >= due_s:
                if not lock_step:
                    self._keeper.beat()
                due_s = time.monotonic() + every_s

    def _reply(self, verb: str, argument: Any) -> None:
        keeper = self._keeper
        try:
            if verb == "tick":
                answer: tuple[str, Any] = ("done", keeper.tick(argument))
            elif verb == "counts":
                answer = ("done", dict(keeper.counts))
            elif verb == "stops":
                answer = ("done", tuple(self._stops.stops))
            else:
                calls = {n: getattr(keeper, n) for n in VERBS} | {"clear": self._clear}
                answer = ("done", calls[verb]())
        except RigFault as error:
            self._stops.faulted(error)
            answer = ("fault", error)
        except CapexError as error:
            answer = ("refused", (str(error), error.code))
        except _Ends:
            raise
        except Exception as error:  # the arms are held, whatever is wrong in here
            traceback.print_exc()
            keeper.latch(f"the rig's process failed: {type(error).__name__}: {error}")
            answer = (
                "fault",
                RigFault(f"the rig's process failed: {type(error).__name__}: {error}"),
            )
        self._say(answer)

    def _clear(self) -> None:
        """A person says that it is safe to go on."""
        with self._stops.clearing():
            self._keeper.clear()

    def _say(self, answer: tuple[str, Any]) -> None:
        try:
            self._pipe.send(answer)
        except OSError:
            raise _Ends from None

    def _end_alone(self) -> None:
        self._stops.close()  # nothing moves from now on
        hold_s = 0.0 if self._told_to_end else self._rig.guard.alone_hold_s
        for lock in self._locks:
            lock.leaving(hold_s + LEAVING_S)
        began = time.strftime("%H:%M:%S")
        print(f"{began} the collector is gone; holding for {hold_s:g} s, then closing", flush=True)
        self._keeper.hold_alone(hold_s)


def lock_arms(rig: RigFile) -> list[RigLock]:
    """A lock for each arm; arms of one address share theirs."""
    keys = {lock_key(arm.lock, arm.options): arm.name for arm in rig.arms}
    return [RigLock(f"the arm {_at(key, name)}", key, rig.name) for key, name in keys.items()]


def _at(key: str, name: str) -> str:
    return f"'{name}'" if key.startswith("{") else f"at {key}"


def make_clock(rig: RigFile) -> RigClock:
    """The machine's clock, or in lock-step the one that the first arm's driver gives."""
    if rig.clock == "real":
        return RealClock()
    entry = rig.arms[0]
    give = getattr(load_driver(entry.driver, DRIVERS), "clock", None)
    if give is None:
        raise CapexError(
            f"{rig.path}: clock is \"lock-step\", but the driver '{entry.driver}' is of a real"
            ' arm; it must be "real"',
            code=ErrorCode.BAD_SETTING,
        )
    clock: RigClock = give(dict(entry.options))
    return clock


def main() -> None:
    """Serve one rig over an inherited pipe: the rig first, then facts or a sentence back."""
    pipe = Connection(int(sys.argv[1]))
    rig: RigFile = pipe.recv()
    try:
        server = _Server(pipe, rig)
    except CapexError as error:
        is_fault = isinstance(error, RigFault)
        pipe.send(("fault", error) if is_fault else ("refused", (str(error), error.code)))
        return
    except Exception as error:
        traceback.print_exc()
        failed = f"the rig's process failed: {type(error).__name__}: {error}"
        pipe.send(("fault", RigFault(failed)))
        return
    pipe.send(("done", server.facts))
    server.serve()


if __name__ == "__main__":
    main()
