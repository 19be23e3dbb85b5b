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

from capex.errors import CapexError, StateMismatch, Unsupported
from capex.worlds import ArmCommand, Command, EnvFactory, Start
from capex.worlds.contract.trial import (
    PIXELS,
    BrokenRuleError,
    NotClaimedError,
    Trial,
    require,
    require_same_pixels,
)


def spec_is_well_formed(t: Trial) -> str:
    """Unique names, positive sizes, and a robot state that has what the spec lists."""
    t.begin()
    spec, robot = t.spec, t.env.robot_state()
    arms, cameras = [a.name for a in spec.arms], [c.name for c in spec.cameras]
    named = {
        "arms": arms,
        "cameras": cameras,
        "action_names": list(spec.action_names),
        "state_names": list(spec.state_names),
    }
    for what, names in named.items():
        require(
            len(names) > 0 and all(names),
            f"{what} is {names}; it needs at least one name and none empty",
        )
        require(len(set(names)) == len(names), f"{what} is {names}; every name must be unique")
    for what, text in (
        ("world", spec.world),
        ("task", spec.task),
        ("instruction", t.env.instruction),
        ("scene", t.env.scene),
    ):
        require(
            isinstance(text, str) and bool(text.strip()),
            f"{what} is {text!r}; it must be a text that is not empty",
        )
    positive = {"horizon": spec.horizon, "control_hz": spec.control_hz, "starts": spec.starts}
    for arm in spec.arms:
        limits = dataclasses.asdict(arm)
        positive |= {
            f"{arm.name}.{limit}": limits[limit]
            for limit in ("max_opening_m", "max_step_m", "max_step_rad")
        }
    if spec.base is not None:
        positive |= dataclasses.asdict(spec.base)
    for what, value in positive.items():
        require(math.isfinite(value) and value > 0, f"{what} is {value}; it must be positive")
    require(
        not spec.exact_replay or (spec.can_save and spec.can_reset),
        "exact_replay is claimed, which only a world with can_save and can_reset can show",
    )
    lower, upper = (np.asarray(corner, dtype=float) for corner in spec.workspace_m)
    ordered = lower.shape == upper.shape == (3,) and bool(np.all(lower < upper))
    require(
        ordered,
        f"workspace_m is {lower.tolist()} to {upper.tolist()}; the lower corner must lie below the"
        " upper",
    )
    for camera in spec.cameras:
        require(
            min(camera.size) > 0,
            f"camera {camera.name} has size {camera.size}; both must be positive",
        )
        wrist = camera.kind == "wrist"
        require(
            not wrist or camera.arm in arms,
            f"wrist camera {camera.name} rides on arm '{camera.arm}'; arms: {arms}",
        )
    require(
        sorted(robot.arms) == sorted(arms),
        f"robot_state has arms {sorted(robot.arms)}; the spec lists {sorted(arms)}",
    )
    lengths = (
        f"proprio has shape {robot.proprio.shape}; state_names has {len(spec.state_names)} names"
    )
    require(robot.proprio.shape == (len(spec.state_names),), lengths)
    require(
        (robot.base is None) == (spec.base is None),
        f"robot_state.base is {robot.base}; the spec's base is {spec.base}",
    )
    return (
        f"{len(arms)} arm(s), {len(cameras)} camera(s), {len(spec.action_names)} native numbers,"
        f" {spec.starts} starts"
    )


def unknown_starts_are_refused(t: Trial) -> str:
    """A start index outside 0 .. starts-1 raises CapexError."""
    for index in (-1, t.spec.starts):
        try:
            t.env.reset(Start(task=t.spec.task, index=index, seed=t.start.seed))
        except CapexError:
            continue
        raise BrokenRuleError(
            f"reset accepted start index {index}; valid are 0 to {t.spec.starts - 1}"
        )
    return f"start indices -1 and {t.spec.starts} are refused"


def reset_is_deterministic(t: Trial) -> str:
    """The same start gives the same state, pixels and future, whatever happened before."""
    t.begin_exactly()
    script = t.script(seed=1)
    state, pixels = t.state(), t.pixels()
    t.run(script)
    future = t.state()
    t.begin()
    require(t.state() == state, "the state after a second reset to the same start differs")
    require_same_pixels(pixels, t.pixels(), "after a second reset to the same start")
    t.run(script)
    require(t.state() == future, "the same commands from the same start ended in another state")
    t.run(t.script(seed=2))
    t.begin()
    t.begin()
    require(
        t.state() == state,
        "the state after two resets in a row, with other commands before, differs",
    )
    require_same_pixels(pixels, t.pixels(), "after two resets in a row, with other commands before")
    return f"state, pixels and {t.ticks} ticks of future are equal after every reset"


def success_is_false_after_reset(t: Trial) -> str:
    """No task is achieved at its start; where an operator judges, the world says None."""
    if t.spec.success == "operator":
        require(
            t.env.success() is None,
            f"success() is {t.env.success()!r}; it must be None where an operator judges",
        )
        raise NotClaimedError("an operator judges success; success() is None")
    if not t.spec.can_reset:
        raise NotClaimedError("a world that cannot reset may stand anywhere in its task")
    t.begin()
    require(
        t.env.success() is False,
        f"success() is {t.env.success()!r} right after reset; it must be False",
    )
    return "success() is False right after reset"


def bad_commands_are_refused(t: Trial) -> str:
    """Commands and native actions that are not finite, misshapen or too large raise ValueError and
    touch nothing.
    """
    t.begin()
    arm, n = t.spec.arms[0], len(t.spec.action_names)

    def command(**fields: Any) -> Command:
        return t.command(arm.name, ArmCommand(**fields))

    bad: list[tuple[str, Command]] = [
        ("arms", Command({a.name: ArmCommand() for a in t.spec.arms[1:]}))
    ]
    for field, limit in (("step_m", arm.max_step_m), ("step_rad", arm.max_step_rad)):
        for value in (
            (math.nan, 0.0, 0.0),
            (0.0, math.inf, 0.0),
            (0.0, 0.0),
            (0.0, 0.0, 1.5 * limit),
        ):
            bad.append((field, command(**{"step_m": (0.0, 0.0, 0.0), field: value})))
    bad += [("gripper", command(gripper=value)) for value in (1.5, -1.5, math.nan)]
    if t.spec.base is not None:
        speed = t.spec.base.max_speed_m_s
        for velocity in ((math.nan, 0.0, 0.0), (1.5 * speed, 0.0, 0.0), (0.0, 0.0, math.inf)):
            bad.append(("base_velocity", dataclasses.replace(t.command(), base_velocity=velocity)))
    actions = [
        np.full(n, math.nan),
        np.full(n, math.inf),
        np.zeros(n + 1),
        np.zeros(n - 1),
        np.zeros((1, n)),
    ]
    for field, given in bad:
        _require_refusal(t, functools.partial(t.env.step, given), (field,), f"step with {given}")
    for action in actions:
        what = f"apply of shape {action.shape} filled with {action.flat[0]}"
        _require_refusal(
            t, functools.partial(t.env.apply, action), ("action", *t.spec.action_names), what
        )
    untouched = "" if t.spec.real_time else " and change nothing"
    return f"{len(bad)} bad commands and {len(actions)} bad native actions are refused{untouched}"


def _require_refusal(
    t: Trial, call: Callable[[], object], words: tuple[str, ...], what: str
) -> None:
    before = "" if t.spec.real_time else t.state()
    try:
        call()
    except ValueError as error:
        require(
            any(word in str(error) for word in words),
            f"{what} was refused without naming {words[0]}: {error}",
        )
    else:
        raise BrokenRuleError(f"{what} was accepted; it must raise ValueError")
    require(t.spec.real_time or t.state() == before, f"{what} was refused but changed the state")


def observing_changes_nothing(t: Trial) -> str:
    """Looking between commands, in every way there is, leaves the future as it was."""
    t.begin_exactly()
    script = t.script(seed=3)
    t.run(script)
    unseen = t.state()
    t.begin()
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
    require(
        t.state() == unseen,
        f"{t.ticks} commands ended in another state when the world was observed between them",
    )
    return f"{t.ticks} commands end in the same state, observed or not"


def saved_states_continue_exactly(t: Trial) -> str:
    """From a saved state, loaded or as a start, commands give the same states and pixels; a foreign
    one is refused.
    """
    if not t.spec.can_save:
        try:
            t.env.save_state()
        except Unsupported:
            raise NotClaimedError(
                "the world saves no state; save_state() raises Unsupported"
            ) from None
        raise BrokenRuleError(
            "save_state() works but the spec says can_save=False; it must raise Unsupported"
        )
    t.begin()
    t.run(t.script(seed=4))
    saved, here, seen, script = t.env.save_state(), t.state(), t.pixels(), t.script(seed=5)

    def future() -> list[str]:
        require(t.state() == here, "the state after load_state differs from the saved one")
        require_same_pixels(seen, t.pixels(), "after load_state")
        return [t.state() for command in script if t.env.step(command) is not None]

    expected = future()
    end = t.pixels()
    t.env.load_state(saved)
    require(
        future() == expected, "commands after load_state gave other states than after save_state"
    )
    require_same_pixels(end, t.pixels(), "at the end of commands run after load_state")
    if t.spec.can_reset:
        t.env.reset(dataclasses.replace(t.start, state=saved))
        require(
            future() == expected,
            "commands after a reset to the saved state gave other states than after save_state",
        )
    try:
        t.env.load_state(dataclasses.replace(saved, header="another " + saved.header))
    except StateMismatch:
        return (
            f"{len(script)} ticks after loading a state ({saved.vector.size} numbers) equal those"
            " after saving it"
        )
    raise BrokenRuleError(
        "load_state accepted a state with another header; it must raise StateMismatch"
    )


def native_actions_replay(t: Trial) -> str:
    """The native actions that `step` returns give the same bits when applied from the
    same start.
    """
    t.begin_exactly()
    n = len(t.spec.action_names)
    actions = t.run(t.script(seed=6))
    state, pixels = t.state(), t.pixels()
    t.begin()
    for action in actions:
        require(
            action.shape == (n,),
            f"step returned an action of shape {action.shape}; action_names has {n} names",
        )
        require(
            bool(np.all(np.isfinite(action))),
            f"step returned {action.tolist()}; every number must be finite",
        )
        t.env.apply(action)
    require(
        t.state() == state,
        "the recorded native actions, applied from the same start, ended in another state",
    )
    require_same_pixels(pixels, t.pixels(), "after applying the recorded native actions")
    return f"{len(actions)} native actions of {n} numbers replay to the same state and pixels"


def another_process_agrees(t: Trial) -> str:
    """A spawned process with the same start and commands ends in the same state and pixels."""
    t.begin_exactly()
    if t.factory is None:
        raise NotClaimedError(
            "the world is not registered and no factory was given; pass factory= to try a spawned"
            " process"
        )
    script = t.script(seed=7)
    t.run(script)
    state, pixels = t.state(), t.pixels()
    with ProcessPoolExecutor(
        max_workers=1, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        theirs, their_pixels = pool.submit(_rollout, t.factory, t.start, t.ticks, 7).result()
    require(
        theirs == state,
        "a spawned process ended in another state after the same commands from the same start",
    )
    require_same_pixels(pixels, their_pixels, "in a spawned process")
    combined = hashlib.sha256("".join([state, *pixels.values()]).encode()).hexdigest()
    return f"a spawned process ends in the same state and pixels (sha256 {combined[:12]})"


def _rollout(
    factory: EnvFactory, start: Start, ticks: int, seed: int
) -> tuple[str, dict[str, str]]:
    trial = Trial(factory(), None, start, ticks)
    try:
        trial.begin()
        trial.run(trial.script(seed))
        return trial.state(), trial.pixels()
    finally:
        trial.env.close()
