"""The keeper of a rig: ticks of all arms at the rig's rate, guarded, and holding between them.

One tick: the servos propose, the guard rules, the goals are commanded, the clock runs to the tick's
end, the arms are measured. Ticks that follow each other keep the cadence t0 + k / hz; a tick that
is asked for late is shorter by that, or skips whole periods. In lock-step time passes only in here.

Nothing is sent to an arm before the first request that needs it held: an arm that floats until then
stays free for a person's hand while it is only looked at, and is not held at its joints' limits.

What ends a motion is in the reading (`stopped`); the next tick, or `settle`, tries `recover` once
where a robot reports an error. A lost arm, an error that stays and every stop that needs a person
(`ArmStatus.needs_person`), however short, are a RigFault until `clear`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from capex.errors import RigFault
from capex.pose import Array, Pose, angle_between, rotation_vector
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.drivers import ArmStatus, RigClock
from capex.rigs.guard import Guard, TipState
from capex.rigs.lastcheck import apart_m
from capex.rigs.link import PersonStop, RigReading
from capex.rigs.rigfile import RigFile
from capex.rigs.servo import shortened
from capex.rigs.shapes import length
from capex.worlds import ArmCommand, Command

STILL_M, STILL_RAD = 0.0015, 0.01  # noise of a measured pose that keeps still
HOME_M, HOME_RAD = 0.005, 0.05
HOME_UP_M = 0.01
NOT_THERE = "the arms did not "
COME_HOME = "come home"
HOME_BACK_M = 0.01  # so near to where its joints were free an arm may turn
HOME_PATIENCE = 120  # ticks without coming nearer
HOME_STRAIGHT = 30  # and after so many the way is straight: the other one may be out of reach
HOME_OPENS = 40  # ticks at most for the fingers, before the arms move
RECOVERY_TICKS = 3  # until the robot's next states have come
TARE_S = 0.5  # of forces, whose median is their bias
NOT_FREE = "force not tared: its fingers are not free"
NOT_AT_REST = "force not tared: it is not at rest"

_Moment = tuple[Mapping[str, TipState], Mapping[str, float]]  # states, and the robots' times


def _uninterrupted() -> None:
    pass


class Keeper:
    """Owns the arms of one rig. `interrupt` is called in every tick of a long request and raises
    where it must end.
    """

    def __init__(
        self,
        rig: RigFile,
        units: Mapping[str, ArmUnit],
        clock: RigClock,
        interrupt: Callable[[], None] = _uninterrupted,
    ):
        self._rig, self._units, self._clock, self._interrupt = rig, units, clock, interrupt
        self.period_s = 1.0 / rig.control_hz
        self._still_ticks = max(2, math.ceil(rig.settle_s * rig.control_hz))
        self._guard = Guard(
            rig.guard,
            {name: unit.facts for name, unit in units.items()},
            {name: unit.entry.home for name, unit in units.items()},
            self._still_ticks,
        )
        self._deadline_s: float | None = None  # of the next tick, within a motion
        self._commanded_s = clock.now_s()
        self._halted = False  # whether the arms were stopped since a goal was last let through
        self._holds = False
        self._pressed_by: PersonStop | None = None  # whose stop the guard is latched for
        self._recovered: list[str] = []  # notes for the next tick
        self._untared: list[str] = []
        self.counts: Counter[str] = Counter()
        self._measure()

    def tick(self, command: Command) -> RigReading:
        """One control tick."""
        self._require_free()
        self._begin_to_hold()
        late_s = self._keep_cadence()
        notes = [*self._recovered, *self._untared, *self._recover()]
        self._recovered, self._untared = [], []
        wanted: dict[str, Pose | None] = {}
        for name, unit in self._units.items():
            wanted[name], cuts = unit.propose(command.arms.get(name, ArmCommand()))
            notes += [self._noted(name, cut) for cut in cuts]
        foresee = {n: u.foreseen for n, u in self._units.items() if u.foresees}
        ruling = self._guard.rule(self._states(), wanted, foresee)
        self._halted &= bool(ruling.stopped)
        self._halt(ruling.stopped)
        for name, unit in self._units.items():
            if (goal := ruling.goals.get(name)) is not None:
                unit.send(goal)
            elif wanted[name] is None or ruling.stopped:
                unit.hold()
            else:
                unit.held_back()
            sign = command.arms.get(name, ArmCommand()).gripper
            if (not ruling.stopped and unit.grip(sign)) or goal is not None:
                self._commanded_s = self._clock.now_s()
        assert self._deadline_s is not None
        self._clock.sleep_until(self._deadline_s)
        stopped = self._watch() or ruling.stopped
        self._require_free()
        notes += ruling.notes
        self.counts.update(("tick", *notes, *([f"stopped: {stopped}"] if stopped else ())))
        return self._reading(late_s, tuple(dict.fromkeys(notes)), stopped)

    def read(self) -> RigReading:
        """Measure; nothing is commanded."""
        self._measure()
        for name, unit in self._units.items():
            if unit.lost:
                raise RigFault(f"{name}: {unit.lost}")
        return self._reading()

    def beat(self) -> None:
        """Between requests, in real time: hold, and look whether the arms are well. Arms that
        nobody has needed yet are left alone.
        """
        if not self._holds:
            self._measure()
            return
        self._hold_for(0)
        self._watch()

    def brake(self) -> RigReading:
        """Stop every arm where it is, which a goal ahead of it would not; the next tick goes on."""
        self._require_free()
        self._begin_to_hold()
        for unit in self._units.values():
            unit.stop()
        self._deadline_s = None
        return self.read()

    def settle(self) -> RigReading:
        """Hold until the tips keep still, at most `settle_at_most_s`. What a robot reports is tried
        once to be cleared, as in a tick; holding begins anew then.
        """
        self._require_free()
        self._begin_to_hold()
        self._deadline_s = None
        recovered = self._recover()
        states, latest = self._states(), list[_Moment]()
        until_s = self._clock.now_s() + self._rig.settle_at_most_s
        notes: tuple[str, ...] = ("the arms did not settle",)
        while self._clock.now_s() < until_s - 1e-9:
            self._hold_for(1)
            self._require_free()
            if not recovered and (recovered := self._recover()):
                until_s = self._clock.now_s() + self._rig.settle_at_most_s
                latest.clear()
            states = self._states()
            times_s = {name: unit.reading.time_s for name, unit in self._units.items()}
            latest = [*latest[-self._still_ticks :], (states, times_s)]
            if len(latest) > self._still_ticks and _still(latest):
                notes = ()
                break
        for name, unit in self._units.items():
            if unit.garbled:
                self._press(f"{name}: {unit.garbled}")
            if states[name].age_s > self._rig.guard.stale_s:
                self._press(f"{name} has sent no state for {states[name].age_s:.1f} s")
        self._watch()
        self._require_free()
        self._guard.settled(states)
        self._halted = False
        self._recovered += recovered
        self.counts.update(notes)
        return self._reading(0.0, (*recovered, *notes))

    def home(self) -> RigReading:
        """Every arm to its home, at half its speed and guarded, grippers open."""
        self._require_free()
        self.settle()
        opened = Command({name: ArmCommand(gripper=-1.0) for name in self._units})
        for _ in range(HOME_OPENS):
            if all(unit.is_open for unit in self._units.values()):
                break
            self._on_the_way(opened, COME_HOME)
        self._go({name: unit.entry.home for name, unit in self._units.items()}, COME_HOME, -1.0)
        self.settle()
        return self.tare()

    def tare(self) -> RigReading:
        """Take the force that each arm measures now for its bias in free air. Only of arms at rest
        whose fingers are free: the others keep theirs, which the next tick notes. RigFault where
        that cannot be a bias.
        """
        self._require_free()
        self._begin_to_hold()
        self._deadline_s = None
        free = [unit for unit in self._units.values() if unit.fingers_free]
        before = self._states()
        forces_n: dict[str, list[Array]] = {unit.entry.name: [] for unit in free}
        for _ in range(max(3, math.ceil(TARE_S / self.period_s))):
            self._hold_for(1)
            for unit in free:
                if (force_n := unit.raw_force_n) is not None:
                    forces_n[unit.entry.name].append(force_n)
        self._watch()
        self._require_free()
        after, sensing = self._states(), [u for u in self._units.values() if u.senses_force]
        self._untared = []
        for unit in sensing:
            name = unit.entry.name
            if not forces_n.get(name):
                self._untared.append(self._noted(name, NOT_FREE))
            elif not _rests(before[name].tip, after[name].tip):
                self._untared.append(self._noted(name, NOT_AT_REST))
            elif wrong := unit.tare(forces_n[name]):
                self._press(f"{name}: {wrong}")
                raise RigFault(f"{name}: {wrong}")
        return self.read()

    def park(self) -> None:
        """Arms that have a park pose go there as they go home, fingers as they are; who was only
        looked at or held stays. What keeps them from it is said, and they stay: closing goes on.
        """
        parks = {n: u.entry.park for n, u in self._units.items() if u.entry.park is not None}
        if not parks or self._guard.pressed or not self.counts["tick"]:
            return
        try:
            self.settle()
            self._go(parks, "park", 0.0)
            self.settle()
        except RigFault as error:
            print(f"{error}; they are left where they are", flush=True)

    def _go(self, to: Mapping[str, Pose], verb: str, gripper: float) -> None:
        """Every arm that is named to its pose, at half its speed."""
        best, since, turns_first, straight = math.inf, 0, set[str](), False
        while max(map(max, self._distances(to))) > 1.0:
            if since % 10 == 0:  # a long way is many moves
                self._guard.settled(self._states())
            known = len(turns_first)
            straight = straight or since > HOME_STRAIGHT
            moves = {
                n: self._straight(n, pose, gripper)
                if straight
                else self._towards(n, pose, turns_first, gripper)
                for n, pose in to.items()
            }
            if len(turns_first) > known:  # the way back may lead away from home
                best, since = math.inf, -HOME_PATIENCE
            reading = self._on_the_way(Command(moves), verb)
            distance = sum(map(sum, self._distances(to)))
            best, since = (distance, 0) if distance < best - 0.05 else (best, since + 1)
            if since > HOME_PATIENCE:
                raise RigFault(
                    f"{NOT_THERE}{verb}: {self._why_not(to, reading)}", not_home=verb == COME_HOME
                )

    def _on_the_way(self, command: Command, verb: str) -> RigReading:
        reading = self.tick(command)
        self._interrupt()
        if reading.stopped:
            raise RigFault(f"{NOT_THERE}{verb}: {reading.stopped}", not_home=verb == COME_HOME)
        return reading

    def _towards(self, name: str, to: Pose, turns_first: set[str], gripper: float) -> ArmCommand:
        """A step on the way; from below first straight up, away from what stands on the table. An
        arm with a joint inside its margin goes back to where it was free and turns there first.
        """
        unit = self._units[name]
        tip, goal = unit.state.T_base_tip, to
        back = self._guard.way_back(name, unit.tip_state)
        if back is not None:
            turns_first.add(name)
            goal = back if apart_m(back, tip) > HOME_BACK_M else goal
        way_m = goal.position_m - tip.position_m
        turned = angle_between(goal.rotation, tip.rotation)
        if goal is to and name in turns_first and turned > HOME_RAD:
            way_m = 0.0 * way_m
        elif goal is not back and way_m[2] > HOME_UP_M and length(way_m[:2]) > HOME_UP_M:
            way_m = way_m * [0.0, 0.0, 1.0]
        move = shortened(way_m, 0.5 * unit.entry.max_step_m)
        turn = rotation_vector(goal.rotation @ tip.rotation.T)
        turn = shortened(turn, 0.5 * unit.entry.max_step_rad)
        return ArmCommand((move[0], move[1], move[2]), (turn[0], turn[1], turn[2]), gripper)

    def _straight(self, name: str, to: Pose, gripper: float) -> ArmCommand:
        """A step on the straight way, on which move and turn end together."""
        unit = self._units[name]
        tip, entry = unit.state.T_base_tip, unit.entry
        move, turn = to.position_m - tip.position_m, rotation_vector(to.rotation @ tip.rotation.T)
        pace = 2 * max(0.5, length(move) / entry.max_step_m, length(turn) / entry.max_step_rad)
        (x, y, z), (a, b, c) = move / pace, turn / pace
        return ArmCommand((x, y, z), (a, b, c), gripper)

    def _distances(self, to: Mapping[str, Pose]) -> list[tuple[float, float]]:
        """Of each arm, how far it is from a pose and how far turned; 1 is near enough."""
        pairs = [(pose, self._units[name].state.T_base_tip) for name, pose in to.items()]
        return [
            (
                length(pose.position_m - tip.position_m) / HOME_M,
                angle_between(pose.rotation, tip.rotation) / HOME_RAD,
            )
            for pose, tip in pairs
        ]

    def _why_not(self, to: Mapping[str, Pose], reading: RigReading) -> str:
        left = {
            name: length(pose.position_m - self._units[name].state.T_base_tip.position_m)
            for name, pose in to.items()
        }
        name = max(left, key=lambda name: left[name])
        guard = f" ({', '.join(reading.guard)})" if reading.guard else ""
        return f"{name} stays {100 * left[name]:.1f} cm from where it should be{guard}"

    def press(self, stop: PersonStop) -> None:
        """A person's stop. It takes the place of one that is being cleared."""
        if self._pressed_by is not None:
            self._guard.pressed = ""
        self._press(stop.sentence, stop)

    def latch(self, reason: str) -> None:
        """Stop; only a person lets the arms go on."""
        self._press(reason)

    @property
    def pressed(self) -> str:
        """Why only `clear` lets the arms go on; empty while they may move."""
        return self._guard.pressed

    def clear(self) -> None:
        """A person says that it is safe to go on: lost arms are reached again, errors cleared. An
        arm that still floats goes on floating.
        """
        for unit in self._units.values():
            unit.revive(self._clock.now_s())
        self._deadline_s, self._halted = None, False
        self._holds |= not self._floating
        self._hold_for(RECOVERY_TICKS)
        for name, unit in self._units.items():
            if wrong := unit.lost or unit.reading.error:
                self._press(f"{name}: {wrong}")
                raise RigFault(f"{name} cannot go on yet: {wrong}")
        self._interrupt()  # the last moment for a stop that came meanwhile
        self._guard.clear()
        self._pressed_by = None
        self._guard.settled(self._states())

    def hold_alone(self, seconds: float) -> None:
        """The collector is gone: stop, and hold for so long."""
        if not self._holds:
            return
        self._press("the collector is gone")
        until_s = self._clock.now_s() + seconds
        while not self._clock.lock_step and self._clock.now_s() < until_s:
            self._clock.sleep_until(min(until_s, self._clock.now_s() + self.period_s))
            for unit in self._units.values():
                unit.hold()

    def close(self) -> None:
        """Park, and let the drivers leave their arms."""
        try:
            self.park()
        finally:
            for unit in self._units.values():
                unit.close()

    def _keep_cadence(self) -> float:
        """Set the end of this tick; returns how late it was asked for."""
        now_s, late_s = self._clock.now_s(), 0.0
        begin_s = now_s
        if self._deadline_s is not None and not self._clock.lock_step:
            late_s = max(0.0, now_s - self._deadline_s)
            begin_s = self._deadline_s + math.floor(late_s / self.period_s) * self.period_s
        self._deadline_s = begin_s + self.period_s
        return late_s

    def _recover(self) -> list[str]:
        """Try once to clear what a robot reports; what then remains is a fault."""
        failing = {
            name: unit
            for name, unit in self._units.items()
            if unit.reading.status is not ArmStatus.READY and not unit.lost
        }
        if not failing:
            return []
        for name, unit in failing.items():
            if unit.reading.status.needs_person:
                self._press(f"{name}: {unit.reading.error}")
        self._require_free()
        notes = [f"{name} recovered from: {unit.reading.error}" for name, unit in failing.items()]
        for unit in failing.values():
            unit.recover()
        self._hold_for(RECOVERY_TICKS)
        self._deadline_s = self._clock.now_s() + self.period_s
        for name, unit in failing.items():
            if wrong := unit.lost or unit.reading.error:
                self._press(f"{name}: {wrong}")
        self._require_free()
        self._guard.settled(self._states())
        self._halted = False
        return notes

    @property
    def _floating(self) -> dict[str, ArmUnit]:
        """The arms that float until they are first held, while they do."""
        if self._holds:
            return {}
        return {name: unit for name, unit in self._units.items() if unit.facts.floats}

    def _begin_to_hold(self) -> None:
        """Before the first request that holds the arms: RigFault where one that floats has a joint
        at its limit. Held there it would be too stiff to be led away by hand.
        """
        if floating := self._floating:
            self._measure()
            near = {n: u.state.joints_at_limit for n, u in floating.items()}
            if at_limits := [f"{', '.join(j)} of {n}" for n, j in near.items() if j]:
                by_hand = dict.fromkeys(u.facts.by_hand for n, u in floating.items() if near[n])
                raise RigFault(
                    f"nothing was held: {'; '.join(at_limits)} are nearer to their limits than the"
                    f" guard's margin of {self._rig.guard.joint_margin_rad:g} rad; move the arm by"
                    f" hand until all are free ({'; '.join(by_hand)})"
                )
        self._holds = True

    def _hold(self) -> None:
        for unit in self._units.values() if self._holds else ():
            unit.hold()

    def _hold_for(self, ticks: int) -> None:
        """Hold for some ticks, and measure; arms that nobody has needed yet are only measured."""
        self._hold()
        for _ in range(ticks):
            self._clock.sleep_until(self._clock.now_s() + self.period_s)
            self._hold()
            self._interrupt()
            self._measure()
        if not ticks:
            self._measure()

    def _measure(self) -> None:
        """Read every arm. While they are held, what needs a person is latched when it is seen, for
        it may be gone at the next look.
        """
        for unit in self._units.values():
            unit.measure(self._clock.now_s())
        for name, unit in self._units.items() if self._holds else ():
            if unit.lost or unit.reading.status.needs_person:
                self._press(f"{name}: {unit.lost or unit.reading.error}")

    def _watch(self) -> str:
        """Measure, and stop where something is wrong; returns what is."""
        self._measure()
        return self._halt(self._guard.watch(self._states()))

    def _halt(self, reason: str) -> str:
        """Stop all arms that are held, once until a goal is let through again."""
        if reason and not self._halted:
            self._halted = True
            for unit in self._units.values() if self._holds else ():
                unit.stop(forget_bias=self._guard.stopped_by_force)
        return reason

    def _press(self, reason: str, stop: PersonStop | None = None) -> None:
        if not self._guard.pressed:
            self.counts.update([f"fault: {reason}"])
            self._pressed_by, self._halted = stop, False
        self._guard.press(reason)
        self._deadline_s = None
        self._halt(reason)

    def _require_free(self) -> None:
        if self._guard.pressed:
            raise RigFault(self._guard.pressed, stop=self._pressed_by)

    def _noted(self, name: str, note: str) -> str:
        return f"{name}: {note}" if len(self._units) > 1 else note

    def _states(self) -> dict[str, TipState]:
        return {name: unit.tip_state for name, unit in self._units.items()}

    def _reading(
        self, late_s: float = 0.0, notes: tuple[str, ...] = (), stopped: str = ""
    ) -> RigReading:
        units = self._units
        return RigReading(
            arms={name: unit.state for name, unit in units.items()},
            joints_rad={name: unit.reading.joints_rad for name, unit in units.items()},
            force_n={name: unit.force_n for name, unit in units.items()},
            time_s=self._clock.now_s(),
            commanded_s=self._commanded_s,
            late_s=late_s,
            guard=notes,
            stopped=stopped,
            age_s={name: unit.tip_state.age_s for name, unit in units.items()},
            errors={name: unit.tip_state.error for name, unit in units.items()},
        )


def _rests(before: Pose, after: Pose) -> bool:
    """Whether a tip stayed where it was, but for noise."""
    moved_m = length(after.position_m - before.position_m)
    return moved_m < STILL_M and angle_between(after.rotation, before.rotation) < STILL_RAD


def _still(latest: list[_Moment]) -> bool:
    """Whether every tip stayed where it was, by states that were measured since."""
    (first, first_s), (_, last_s) = latest[0], latest[-1]
    return all(last_s[name] > first_s[name] for name in first) and all(
        _rests(first[name].tip, state.tip) for states, _ in latest for name, state in states.items()
    )
