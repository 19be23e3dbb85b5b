"""The rules of `check` about state: the spec, starts, repeating to the bit, refusals, saving,
replay, another process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from capex import trust
from capex.errors import CapexError, StateMismatch, Unsupported
from capex.pose import Array
from capex.processes import safe_path
from capex.worlds import ArmCommand, Command, EnvFactory, Start
from capex.worlds.contract.trial import (
    PIXELS,
    Bits,
    BrokenRuleError,
    NotClaimedError,
    WorldTrial,
    describe_error,
    refuses,
    require,
    require_same_bits,
)


def spec_is_well_formed(t: WorldTrial) -> str:
    """Unique names, positive sizes, and a robot state that has what the spec lists."""
    t.begin()
    _require_names(t)
    _require_sizes(t)
    spec, robot, arms = t.spec, t.env.robot_state(), sorted(a.name for a in t.spec.arms)
    listed = sorted(robot.arms)
    require(listed == arms, f"robot_state has arms {listed}; the spec lists {arms}")
    shape, count = robot.proprio.shape, len(spec.state_names)
    require(shape == (count,), f"proprio has shape {shape}; state_names has {count} names")
    bases = f"robot_state.base is {robot.base}; the spec's base is {spec.base}"
    require((robot.base is None) == (spec.base is None), bases)
    return (
        f"{len(arms)} arm(s), {len(spec.cameras)} camera(s), {len(spec.action_names)} native"
        f" numbers, {spec.starts} starts"
    )


def _require_names(t: WorldTrial) -> None:
    spec, arms = t.spec, [a.name for a in t.spec.arms]
    named = {"arms": arms, "cameras": [c.name for c in spec.cameras]}
    named |= {"action_names": list(spec.action_names), "state_names": list(spec.state_names)}
    for what, names in named.items():
        some = len(names) > 0 and all(names)
        require(some, f"{what} is {names}; it needs at least one name and none empty")
        require(len(set(names)) == len(names), f"{what} is {names}; every name must be unique")
    texts = {"world": spec.world, "task": spec.task}
    texts |= {"instruction": t.env.instruction, "scene": t.env.scene}
    for what, text in texts.items():
        given = isinstance(text, str) and bool(text.strip())
        require(given, f"{what} is {text!r}; it must be a text that is not empty")
    for camera in spec.cameras:
        mounted = camera.kind != "wrist" or camera.arm in arms
        rides = f"wrist camera {camera.name} rides on arm '{camera.arm}'; arms: {arms}"
        require(mounted, rides)


def _require_sizes(t: WorldTrial) -> None:
    spec = t.spec
    starts = spec.starts + spec.fresh
    positive = {"horizon": spec.horizon, "control_hz": spec.control_hz, "starts": starts}
    for arm in spec.arms:
        limits = ("max_opening_m", "max_step_m", "max_step_rad")
        positive |= {f"{arm.name}.{limit}": getattr(arm, limit) for limit in limits}
    if spec.base is not None:
        positive |= dataclasses.asdict(spec.base)
    for what, value in positive.items():
        require(math.isfinite(value) and value > 0, f"{what} is {value}; it must be positive")
    require(
        not spec.exact_replay or (spec.can_save and spec.can_reset),
        "exact_replay is claimed, which only a world with can_save and can_reset can show",
    )
    for box in {spec.workspace_m, *(a.workspace_m or spec.workspace_m for a in spec.arms)}:
        lower, upper = (np.asarray(corner, dtype=float) for corner in box)
        ordered = lower.shape == upper.shape == (3,) and bool(np.all(lower < upper))
        corners = f"{lower.tolist()} to {upper.tolist()}"
        require(ordered, f"workspace_m is {corners}; the lower corner must lie below the upper")
    for camera in spec.cameras:
        sizes = f"camera {camera.name} has size {camera.size}; both must be positive"
        require(min(camera.size) > 0, sizes)


def unknown_starts_are_refused(t: WorldTrial) -> str:
    """A start index outside 0 .. starts-1 raises CapexError."""
    for index in (-1, t.spec.starts):
        refused = refuses(CapexError, t.env.reset, Start(t.spec.task, index, t.start.seed))
        valid = f"valid are {t.spec.valid_starts}"
        require(refused, f"reset accepted start index {index}; {valid}")
    return f"start indices -1 and {t.spec.starts} are refused"


def reset_is_deterministic(t: WorldTrial) -> str:
    """The same start gives the same state, pixels and future, whatever happened before."""
    t.begin_exactly()
    script, begun = t.script(seed=1), t.bits()
    t.run(script)
    future = t.state()
    t.reset()
    require_same_bits(begun, t.bits(), "after a second reset to the same start")
    t.run(script)
    require(t.state() == future, "the same commands from the same start ended in another state")
    t.run(t.script(seed=2))
    t.reset()
    t.reset()
    require_same_bits(begun, t.bits(), "after two resets in a row, with other commands before")
    return f"state, pixels and {t.ticks} ticks of future are equal after every reset"


def success_is_false_after_reset(t: WorldTrial) -> str:
    """No task is achieved at its start; where an operator judges, the world says None."""
    if t.spec.success == "operator":
        judged = t.env.success()
        require(
            judged is None, f"success() is {judged!r}; it must be None where an operator judges"
        )
        raise NotClaimedError("an operator judges success; success() is None")
    if not t.spec.can_reset:
        raise NotClaimedError("a world that cannot reset may stand anywhere in its task")
    t.begin()
    judged = t.env.success()
    require(judged is False, f"success() is {judged!r} right after reset; it must be False")
    return "success() is False right after reset"


def bad_commands_are_refused(t: WorldTrial) -> str:
    """Commands and actions that are not finite, misshapen or too large raise ValueError and touch
    nothing.
    """
    t.begin()
    arm, n = t.spec.arms[0], len(t.spec.action_names)

    def command(**fields: Any) -> Command:
        return t.command(arm.name, ArmCommand(**fields))

    bad = [("arms", Command({a.name: ArmCommand() for a in t.spec.arms[1:]}))]
    misshapen = [(math.nan, 0.0, 0.0), (0.0, math.inf, 0.0), (0.0, 0.0)]
    for field, limit in (("step_m", arm.max_step_m), ("step_rad", arm.max_step_rad)):
        for value in (*misshapen, (0.0, 0.0, 1.5 * limit)):
            bad.append((field, command(**{"step_m": (0.0, 0.0, 0.0), field: value})))
    bad += [("gripper", command(gripper=value)) for value in (1.5, -1.5, math.nan)]
    if t.spec.base is not None:
        speed = t.spec.base.max_speed_m_s
        for velocity in ((math.nan, 0.0, 0.0), (1.5 * speed, 0.0, 0.0), (0.0, 0.0, math.inf)):
            bad.append(("base_velocity", dataclasses.replace(t.command(), base_velocity=velocity)))
    actions: list[Array] = [np.full(n, math.nan), np.full(n, math.inf)]
    actions += [np.zeros(n + 1), np.zeros(n - 1), np.zeros((1, n))]
    for field, given in bad:
        _require_refusal(t, functools.partial(t.env.step, given), (field,), f"step with {given}")
    words = ("action", *t.spec.action_names)
    for action in actions:
        what = f"apply of shape {action.shape} filled with {action.flat[0]}"
        _require_refusal(t, functools.partial(t.env.apply, action), words, what)
    untouched = "" if t.spec.real_time else " and change nothing"
    return f"{len(bad)} bad commands and {len(actions)} bad native actions are refused{untouched}"


def _require_refusal(
    t: WorldTrial, call: Callable[[], object], words: tuple[str, ...], what: str
) -> None:
    before = "" if t.spec.real_time else t.state()
    try:
        call()
    except ValueError as error:
        named = any(word in str(error) for word in words)
        require(named, f"{what} was refused without naming {words[0]}: {error}")
    else:
        raise BrokenRuleError(f"{what} was accepted; it must raise ValueError")
    require(t.spec.real_time or t.state() == before, f"{what} was refused but changed the state")


def observing_changes_nothing(t: WorldTrial) -> str:
    """Looking between commands, in every way there is, leaves the future as it was."""
    t.begin_exactly()
    script = t.script(seed=3)
    t.run(script)
    unseen = t.state()
    t.reset()
    for tick, command in enumerate(script):
        t.env.robot_state()
        t.env.success()
        if tick % 3 == 0:
            t.env.observe(size=PIXELS)
            for camera in t.spec.cameras:
                with contextlib.suppress(Unsupported):
                    t.env.camera_model(camera.name)
                with contextlib.suppress(Unsupported):
                    t.env.depth(camera.name, PIXELS)
        t.env.step(command)
    ended = f"{t.ticks} commands ended in another state when the world was observed between them"
    require(t.state() == unseen, ended)
    return f"{t.ticks} commands end in the same state, observed or not"


def saved_states_continue_exactly(t: WorldTrial) -> str:
    """From a saved state, loaded or as a start, commands give the same states and pixels; a foreign
    one is refused.
    """
    if not t.spec.can_save:
        require(
            refuses(Unsupported, t.env.save_state),
            "save_state() works but the spec says can_save=False; it must raise Unsupported",
        )
        raise NotClaimedError("the world saves no state; save_state() raises Unsupported")
    t.begin()
    t.run(t.script(seed=4))
    saved, here, script = t.env.save_state(), t.bits(), t.script(seed=5)

    def future() -> list[str]:
        require_same_bits(here, t.bits(), "after load_state")
        return [t.state() for command in script if t.env.step(command) is not None]

    expected, end = future(), t.bits()
    t.env.load_state(saved)
    others = "gave other states than after save_state"
    require(future() == expected, f"commands after load_state {others}")
    require_same_bits(end, t.bits(), "at the end of commands run after load_state")
    if t.spec.can_reset:
        t.env.reset(dataclasses.replace(t.start, state=saved))
        require(future() == expected, f"commands after a reset to the saved state {others}")
    foreign = dataclasses.replace(saved, header="another " + saved.header)
    require(
        refuses(StateMismatch, t.env.load_state, foreign),
        "load_state accepted a state with another header; it must raise StateMismatch",
    )
    size = f"({saved.vector.size} numbers)"
    return f"{len(script)} ticks after loading a state {size} equal those after saving it"


def native_actions_replay(t: WorldTrial) -> str:
    """The native actions that `step` returns give the same bits when applied from its start."""
    t.begin_exactly()
    n = len(t.spec.action_names)
    actions = t.run(t.script(seed=6))
    ended = t.bits()
    t.reset()
    for action in actions:
        shape = f"step returned an action of shape {action.shape}; action_names has {n} names"
        require(action.shape == (n,), shape)
        finite = bool(np.all(np.isfinite(action)))
        require(finite, f"step returned {action.tolist()}; every number must be finite")
        t.env.apply(action)
    require_same_bits(ended, t.bits(), "after applying the recorded native actions from the start")
    return f"{len(actions)} native actions of {n} numbers replay to the same state and pixels"


def another_process_agrees(t: WorldTrial) -> str:
    """A spawned process with the same start and commands ends in the same state and pixels."""
    t.begin_exactly()
    if t.factory is None:
        raise NotClaimedError(
            "the world is not registered and no factory was given; pass factory= to try a spawned"
            " process"
        )
    t.run(t.script(seed=7))
    state, pixels = t.bits()
    spawn = multiprocessing.get_context("spawn")
    allowed = (trust.held(),)
    with ProcessPoolExecutor(1, spawn, initializer=trust.hold, initargs=allowed) as pool:
        with safe_path():
            rolling = pool.submit(_rollout, t.factory, t.start, t.ticks, 7)
        theirs = rolling.result()
    when = "in a spawned process, after the same commands from the same start"
    require_same_bits((state, pixels), theirs, when)
    combined = hashlib.sha256("".join([state, *pixels.values()]).encode()).hexdigest()
    return f"a spawned process ends in the same state and pixels (sha256 {combined[:12]})"


def _rollout(factory: EnvFactory, start: Start, ticks: int, seed: int) -> Bits:
    try:
        trial = WorldTrial(factory(), None, start, ticks)
        try:
            trial.begin()
            trial.run(trial.script(seed))
            return trial.bits()
        finally:
            trial.env.close()
    except CapexError:
        raise
    except Exception as error:  # whose frames do not leave this process
        raise BrokenRuleError(f"in a spawned process, {describe_error(error)}") from None
