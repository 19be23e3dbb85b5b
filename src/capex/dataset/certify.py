"""Certificates: each success is executed again, because what does not replay is no demonstration.

The recorded native actions are applied from the start, in a process that did nothing before. In a
world whose spec promises exact replay, on the machine that recorded (equal fingerprints, apart from
the renderer), every complete state must come again bit for bit. In such a world elsewhere, success
must come again and the first difference is reported. In any other world the tips must stay within
`TOLERANCE_M` as well.

Where a person judges, nothing is executed again: such a success is judged, not certified.

The certificate is written beside the record and names both files' digests: it is void once either
has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from capex import codec, worlds
from capex.errors import CapexError, DamagedFile
from capex.pose import Array
from capex.run import load_chain, read_record
from capex.run.files import read_json, write_json
from capex.run.jobs import run_jobs
from capex.run.manifest import fingerprint, versions
from capex.run.reading import digests
from capex.run.steps import read_steps
from capex.run.store import find_run
from capex.run.verdicts import Verdict
from capex.worlds import Env, Spec, Start
from capex.worlds.robots import refuse_repeating

TOLERANCE_M = 0.02  # elsewhere: how far a tip may stray from its recorded place
CERTIFICATE = "certificate.json"


@dataclass(frozen=True)
class Certificate:
    """The result of executing a success again. Step 0 is the start, k the state after k actions."""

    certified: bool
    reason: str  # why not; empty when certified
    rule: str  # what was asked for
    steps: int
    success_step: int | None = None  # the first step at which the task was achieved again
    first_difference: int | None = None  # the first step whose complete state differed in any bit
    largest_stray_m: float | None = None  # how far a tip was from its recorded place, at most
    # where the fingerprints differ: [recorded, now]
    elsewhere: dict[str, list[Any]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    digests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Certified:
    episode: Path
    certificate: Certificate
    known: bool  # it was certified before
    damaged: bool = False  # left out because it cannot be read
    judge: str = ""  # who judged it a success, where a person does: nothing is executed again


def certify_run(
    run: Path,
    parallel: int = 1,
    *,
    again: bool = False,
    only: Sequence[str] = (),
    tell: Callable[[int, int, Certified], None] | None = None,
) -> list[Certified]:
    """Certify every success of a run that has no valid certificate yet (`again`: all of them;
    `only`: those of the chains of these names).

    Each certificate is written as soon as it is known, so that an interrupted run continues.
    `tell(done, all, latest)` reports progress. Damaged episodes come last, whether they were
    successes or not.
    """
    recorded = find_run(run)
    recorded_on = recorded.manifest.fingerprint
    wanted = [chain for chain in recorded.chains() if not only or chain.path.name in only]
    chains = [load_chain(chain) for chain in wanted]
    verdicts = {e.path: e.verdict for c in chains for e in c.episodes if e.success is True}
    successes = list(verdicts)
    done: dict[Path, Certified] = {}

    def finish(result: Certified) -> None:
        done[result.episode] = result
        if tell is not None:
            tell(len(done), len(successes), result)

    waiting = []
    for episode, verdict in verdicts.items():
        if verdict is not None:
            finish(Certified(episode, _refused(judged(verdict)), known=False, judge=verdict.by))
        elif not again and (certificate := read_certificate(episode)) is not None:
            finish(Certified(episode, certificate, known=True))
        else:
            waiting.append(episode)
    jobs = [(episode, recorded_on) for episode in waiting]
    for index, result in run_jobs(_replay_job, jobs, parallel, fresh=True):
        episode = waiting[index]
        if isinstance(result, DamagedFile):
            finish(Certified(episode, _refused(str(result)), known=False, damaged=True))
        elif isinstance(result, CapexError):
            # Not kept: it says nothing about the episode (a missing world, a killed process).
            why = f"it could not be executed: {result}"
            finish(Certified(episode, _refused(why), known=False))
        else:
            write_json(episode / CERTIFICATE, asdict(result))
            finish(Certified(episode, result, known=False))
    damaged = [d for chain in chains for d in chain.damaged if d.start is not None]
    left_out = [Certified(d.path, _refused(d.reason), False, True) for d in damaged]
    return [*(done[episode] for episode in successes), *left_out]


def judged(verdict: Verdict) -> str:
    """Why a success that a person judged has no certificate."""
    return f"judged by {verdict.by}, not certified: a person judges this world"


def driven(steps: int) -> str:
    """Why a success that a person helped to is no demonstration of its model's."""
    return f"a person drove {steps} of its steps: not the model's own"


def read_certificate(episode: Path) -> Certificate | None:
    """The certificate of an episode; None without one, or if the certified files have changed."""
    path = episode / CERTIFICATE
    if not path.is_file():
        return None
    try:
        certificate = codec.from_json(read_json(path), Certificate)
        return certificate if certificate.digests == digests(episode) else None
    except (DamagedFile, OSError, ValueError):
        return None


def _replay_job(job: tuple[Path, Mapping[str, Any]]) -> Certificate:
    return replay(*job)


def replay(episode: Path, recorded_on: Mapping[str, Any]) -> Certificate:
    """Execute an episode's actions from its start and compare with what was recorded."""
    record, steps = read_record(episode), read_steps(episode)
    refuse_repeating(record.world, "capex certify")
    env = worlds.make(f"{record.world}:{record.task}")
    try:
        if impossible := _impossible(env.spec):
            return _refused(impossible, episode)
        if record.human_steps:
            return _refused(driven(record.human_steps), episode)
        env.reset(Start(record.task, record.start, record.seed))
        if env.spec.can_save and (header := env.save_state().header) != str(steps["header"]):
            then = f"it was recorded as {steps['header']}"
            return _refused(f"{then}; this version of the world has {header}", episode)
        # States that were shown, not simulated, lack the solver's and the controller's numbers.
        exact = env.spec.exact_replay and env.spec.can_save and not record.recorded
        return _judge(env, episode, steps, _elsewhere(recorded_on), exact=exact)
    finally:
        env.close()


def _impossible(spec: Spec) -> str:
    if not spec.can_reset or spec.real_time:
        return f"{spec.name} cannot be put back to its start by itself"
    return f"success in {spec.name} is judged by a person" if spec.success == "operator" else ""


def _judge(
    env: Env, episode: Path, steps: dict[str, Any], elsewhere: dict[str, list[Any]], *, exact: bool
) -> Certificate:
    can_save, bits = env.spec.can_save, exact and not elsewhere
    actions, states, proprio = steps["actions"], steps["states"], steps["proprio"]
    tips = [k for k, name in enumerate(env.spec.state_names) if name.endswith(("_x", "_y", "_z"))]
    first = None if not can_save or _same_bits(env, states[0]) else 0
    success_step, stray_m, stopped = None, 0.0, ""
    for number, action in enumerate(actions, start=1):
        try:
            env.apply(action)
        except CapexError as error:
            stopped = f"step {number} could not be executed: {error}"
            break
        if first is None and can_save and not _same_bits(env, states[number]):
            first = number
        if first is not None or not can_save:
            strays_m = np.abs(env.robot_state().proprio - proprio[number])[tips]
            stray_m = max(stray_m, float(strays_m.max(initial=0.0)))
        if success_step is None and env.success():
            success_step = number
    again = "success came again" if success_step is not None else "success did not come again"
    differs = f"step {first} of {len(actions)} is the first that differs from the recording"
    if stopped:
        reason = stopped
    elif bits and first is not None:
        reason = f"{differs}; {again}"
    elif success_step is None:
        reason = again if first is None else f"{again}; {differs}"
    elif not exact and stray_m > TOLERANCE_M:
        reason = (
            f"a tip strayed {100 * stray_m:.1f} cm from the recording; at most"
            f" {100 * TOLERANCE_M:g} cm is allowed"
        )
    else:
        reason = ""
    if bits:
        rule = "every state bit for bit, and success"
    elif exact:
        rule = "success again (recorded on another machine)"
    else:
        rule = f"success again, tips within {100 * TOLERANCE_M:g} cm"
    results = (len(actions), success_step, first, stray_m, elsewhere)
    return Certificate(not reason, reason, rule, *results, digests=digests(episode))


def _same_bits(env: Env, recorded: Array) -> bool:
    return env.save_state().vector.tobytes() == recorded.tobytes()


def _elsewhere(recorded_on: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Where the recording machine's fingerprint differs; the renderer does not touch physics."""
    both = {key: [recorded_on.get(key), now] for key, now in fingerprint().items() if key != "gl"}
    return {key: [then, now] for key, (then, now) in both.items() if then != now}


def _refused(reason: str, episode: Path | None = None) -> Certificate:
    """Why there is no certificate; only one that speaks of an episode's files is kept with them."""
    if episode is None:
        return Certificate(False, reason, "", 0)
    steps = len(read_steps(episode)["actions"])
    return Certificate(False, reason, "", steps, digests=digests(episode))
