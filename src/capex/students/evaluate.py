"""`capex evaluate`: a policy on starts that no dataset used, the same list for every policy;
success if the criterion holds at any step.

Results depend neither on the number of processes nor on which starts run together: on a CPU the
network sees one episode at a time, on a GPU always a batch of the same size.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex import worlds
from capex.campaign import world_files
from capex.campaign.names import parse_names, start_text
from capex.errors import CapexError, ErrorCode
from capex.method.context import Episode, EpisodeContext
from capex.method.memory import Memory
from capex.run import load_chain
from capex.run.store import Chain, Run, open_run
from capex.run.summary import STUDENT, Summary
from capex.students import checkpoint, lerobot_checkpoint, lerobot_policy
from capex.students.actor import Actor, ActorSpec
from capex.students.advance import BATCH, SLOTS, Advance
from capex.students.hearing import Hearing
from capex.students.lerobot_checkpoint import LeRobotSpec
from capex.students.policy import make_policy
from capex.students.rollouts import Rollout, RolloutPlan, Simulators
from capex.students.settings import require_name
from capex.students.spec import PolicySpec
from capex.worlds import Env, Spec, Start
from capex.worlds.robots import latest_images

SLOTS_OF_A_PROCESS = 8  # each has a world of its own in memory
UNTRAINED = "untrained"
UNADAPTED = "unadapted"  # what fine-tuning begins from, as it is
DESCRIBED = ("steps", "seed", "datasets", "episodes", "sources", "labels")
SEED_MOST = 10**12  # an episode's seed is made of this one and its start, and must fit into 63 bits


@dataclass(frozen=True)
class Rollouts:
    """One evaluation."""

    checkpoint: Path  # or lerobot:FOLDER
    name: str  # WORLD:TASK
    starts: tuple[int, ...]
    out: Path
    arm: str = ""  # what the records call the policy; by default its kind and training steps
    parallel: int = 0  # processes; 0: about one per core
    device: str = "auto"
    seed: int = 0  # of what is random in the policy
    untrained: bool = False  # fresh weights in place of the trained ones
    allow_seen: bool = False
    horizon: int = 0  # control steps of a rollout; 0: the task's own
    instructions: Path | None = None  # the encoder or embeddings it was trained with
    python: str = ""  # of lerobot:FOLDER, an interpreter that has LeRobot
    dataset: Path | None = None  # of lerobot:FOLDER, where it is not where it was trained on


def evaluate(
    job: Rollouts, asks: Callable[[int, int], None] = lambda left, steps: None
) -> Iterator[Summary]:
    """Run what the run directory does not hold yet, yielding each episode as it is written.
    `asks` hears of every question to the network (see `Advance.run`). Where a person judges,
    `attended.roll_out` runs them.
    """
    folder, spec, world = _opened(job)
    if world.success != "world":
        raise CapexError(
            f"success in {job.name} is judged by a person, who stands beside each rollout; use"
            " `capex evaluate` or capex.students.attended.roll_out",
            code=ErrorCode.PERSON_NEEDED,
        )
    about = describe(job, folder, spec, job.horizon or world.horizon)
    chain = open_run(job.out, {"command": "evaluate"}).chain(
        world.world, world.task, arm_of(job, spec)
    )
    with chain.owned():
        chain.sweep()
        refuse_other_student(chain, about)
        chain.ask(job.starts)
        todo = _left(job, chain)
        if not todo:
            return
        slots, processes = share_out(len(todo), job.parallel)
        plan = _rollout_plan(job, spec, chain.path, about)
        seeds = functools.partial(_seed, job.seed)
        with Simulators(plan, slots, processes) as simulators:
            policy = _load(job, folder, spec)  # while the processes start
            advance = Advance(policy, simulators, todo, seeds, world.state_names)
            yield from advance.run(asks)


def share_out(rollouts: int, parallel: int = 0) -> tuple[int, int]:
    """How many rollouts run side by side, and in how many processes: `parallel`, or as many as
    there are cores, or up to a quarter more where that gives each as many.
    """
    cores = os.cpu_count() or 1
    slots = min(SLOTS, SLOTS_OF_A_PROCESS * (parallel or cores), rollouts)
    even = math.ceil(slots / max(1, slots // cores))
    return slots, min(slots, parallel or (even if even <= 1.25 * cores else cores))


def student(job: Rollouts, batch: int = BATCH) -> Student:
    """The policy of an evaluation as a demonstrator; `batch`: to what a GPU's batches are padded,
    1 where no others act beside it.
    """
    folder, spec, world = _opened(job)
    about = describe(job, folder, spec, job.horizon or world.horizon)
    plan = _rollout_plan(job, spec, job.out, about)
    return Student(_load(job, folder, spec, batch), plan, job.seed)


def identify(job: Rollouts) -> tuple[Spec, RolloutPlan]:
    """The world of an evaluation, and what its records say of the policy; everything that does not
    fit together is refused.
    """
    folder, spec, world = _opened(job)
    about = describe(job, folder, spec, job.horizon or world.horizon)
    return world, _rollout_plan(job, spec, job.out, about)


def _rollout_plan(
    job: Rollouts, spec: ActorSpec, chain: Path, about: Mapping[str, Any]
) -> RolloutPlan:
    return RolloutPlan(
        name=job.name,
        chain=chain,
        arm=arm_of(job, spec),
        model=f"student:{spec.policy}",
        cameras=spec.cameras,
        size=spec.image_size,
        looks=spec.looks,
        horizon=about["horizon"],
        stand_in=bool(spec.training.get("stand_in")),
        student=about,
        hearing=Hearing.of(spec).tell,
    )


def judged_by_person(name: str) -> bool:
    """Whether rollouts at WORLD:TASK need somebody beside them, as on a rig."""
    return world_of(name).success == "operator"


def world_of(name: str) -> Spec:
    """The description of WORLD:TASK."""
    env = worlds.make(name)
    env.close()
    return env.spec


def require_possible(world: Spec, starts: Iterable[int], horizon: int, flags: str = "--") -> None:
    """Refuse rollouts from starts, or for more steps, than a world has. `flags`: what stands before
    the names of settings where the user writes them.
    """
    for index in sorted(starts, reverse=True):
        if not world.has_start(index):
            none = f"{flags}starts: start {start_text(index)} does not exist in {world.name}"
            raise CapexError(f"{none}; valid: {world.valid_starts}", code=ErrorCode.UNKNOWN_START)
    if not 0 <= horizon <= world.horizon:
        raise CapexError(
            f"{flags}horizon is {horizon}; {world.name} has {world.horizon} steps, and 0 means all"
            " of them",
            code=ErrorCode.BAD_SETTING,
        )


def missing(job: Rollouts) -> list[int]:
    """The starts that the run directory does not hold yet; rollouts of another policy under the
    same name are refused.
    """
    world, plan = identify(job)
    chain = Run(job.out).chain(world.world, world.task, plan.arm)
    refuse_other_student(chain, plan.student)
    return _left(job, chain)


def _left(job: Rollouts, chain: Chain) -> list[int]:
    there = set(chain.finished())
    return [i for i in job.starts if i not in there]


def _opened(job: Rollouts) -> tuple[Path, ActorSpec, Spec]:
    """The checkpoint, what it is, and the world; everything that does not fit together
    is refused.
    """
    folder, spec = _policy_of(job)
    if len(parse_names(job.name)) != 1:
        raise CapexError(
            f"'{job.name}' names several tasks; a policy is evaluated on one at a time",
            code=ErrorCode.BAD_SETTING,
        )
    return folder, spec, _check(job, spec)


def _policy_of(job: Rollouts) -> tuple[Path, ActorSpec]:
    """The folder of the policy, ours or LeRobot's, and what it is."""
    if (given := lerobot_checkpoint.named(job.checkpoint)) is not None:
        folder = lerobot_checkpoint.find(given)
        version = lerobot_policy.find_interpreter(job.python).version
        return folder, lerobot_checkpoint.read_spec(folder, job.dataset, version)
    if job.python or job.dataset is not None:
        raise CapexError(
            "--python and --dataset belong to a policy of LeRobot's; name it as lerobot:FOLDER",
            code=ErrorCode.NOT_APPLICABLE,
        )
    folder = checkpoint.find(job.checkpoint)
    return folder, checkpoint.read_spec(folder)


def arm_of(job: Rollouts, spec: ActorSpec) -> str:
    """What the records call the policy."""
    kind = spec.policy.replace(" ", "-")
    return job.arm or f"{kind}-{UNTRAINED if job.untrained else spec.training.get('steps', 0)}"


def describe(job: Rollouts, folder: Path, spec: ActorSpec, horizon: int) -> dict[str, Any]:
    """What goes into every record about the policy: enough to tell two of them apart, and no path
    of this machine.
    """
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    kept = {
        k: spec.training[k] for k in (*DESCRIBED, "lerobot", "processors") if k in spec.training
    }
    fresh = (
        {"steps": 0, "untrained": True, "weights": UNTRAINED, "initialisation": "random"}
        if job.untrained
        else {}
    )
    unadapted = not job.untrained and not kept.get("steps") and spec.training.get("tuned")
    return {
        "policy": spec.policy,
        "weights": weights,
        "initialisation": spec.initialisation,
        **kept,
        **fresh,
        **({UNADAPTED: True} if unadapted else {}),
        "evaluation_seed": job.seed,
        "horizon": horizon,
        **_rig(job.name),
    }


def _rig(name: str) -> dict[str, str]:
    """What the world's files say, so that a changed one is noticed; nothing of other worlds."""
    contents = world_files.contents(parse_names(name))
    text = json.dumps(contents, sort_keys=True, default=str)
    return {"rig": hashlib.sha256(text.encode()).hexdigest()[:16]} if contents else {}


def _load(job: Rollouts, folder: Path, spec: ActorSpec, batch: int = BATCH) -> Actor:
    if isinstance(spec, LeRobotSpec):
        python, fresh = lerobot_policy.find_interpreter(job.python), job.untrained
        return lerobot_policy.load(folder, spec, python, job.device, untrained=fresh, seed=job.seed)
    import torch

    assert isinstance(spec, PolicySpec)
    torch.manual_seed(job.seed)
    net = spec.network() if job.untrained else checkpoint.load_network(folder)[1]
    if job.untrained and spec.language == "given":  # embeddings that no training changes
        given = checkpoint.load_policy_files(folder)[1]["instructions.weight"]
        net.load_state_dict({"instructions.weight": given}, strict=False)
    return make_policy(spec, net, job.device, batch=batch, instructions=job.instructions)


def _check(job: Rollouts, spec: ActorSpec) -> Spec:
    """The world's description; a policy that does not fit it, and a wrong option, are refused."""
    world = world_of(job.name)
    wanted, sees = world.action_names, [c.name for c in world.cameras]
    missing = [n for n in spec.state_names if n not in world.state_names]
    if tuple(spec.action_names) != tuple(wanted):
        raise CapexError(
            f"the policy acts in {', '.join(spec.action_names)} and {job.name} takes"
            f" {', '.join(wanted)}; the orders must agree",
            code=ErrorCode.MISMATCH,
        )
    if missing or not set(spec.cameras) <= set(sees):
        lacking = [*missing, *(c for c in spec.cameras if c not in sees)]
        raise CapexError(
            f"{job.name} does not measure {', '.join(lacking)}, which the policy was trained on",
            code=ErrorCode.MISMATCH,
        )
    trained = {(w, t, i) for w, t, i, _ in spec.training.get("starts", [])}
    seen = [i for i in job.starts if (world.world, world.task, i) in trained]
    if seen and not job.allow_seen:
        raise CapexError(
            f"{len(seen)} of the starts were trained on (first: {seen[0]}); take others, such as"
            " --starts 1000:1050, or add --allow-seen",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    if not 0 <= job.seed <= SEED_MOST:
        raise CapexError(
            f"--seed is {job.seed}; it must be from 0 to {SEED_MOST}", code=ErrorCode.BAD_SETTING
        )
    if job.parallel < 0:
        raise CapexError(
            f"--parallel is {job.parallel}; it must be at least 1, or 0 for one process per core",
            code=ErrorCode.BAD_SETTING,
        )
    require_name("--arm", arm_of(job, spec))
    require_possible(world, job.starts, job.horizon)
    return world


def refuse_other_student(chain: Chain, student: Mapping[str, Any]) -> None:
    """A chain holds rollouts of one policy under the same conditions."""
    for episode in load_chain(chain).episodes[:1]:
        recorded = episode.record.extensions.get(STUDENT, {})
        changed = sorted(k for k in {*recorded, *student} if recorded.get(k) != student.get(k))
        if changed:
            raise CapexError(
                f"{chain.path} holds rollouts with other {', '.join(changed)}; choose another --arm"
                " or --out",
                code=ErrorCode.OTHER_SETTINGS,
            )


@dataclass(frozen=True)
class Student:
    """A trained policy as a demonstrator, one episode at a time; `evaluate` runs many at once."""

    policy: Actor
    plan: RolloutPlan
    seed: int = 0
    model: None = None

    @property
    def name(self) -> str:
        """As records name it."""
        return self.plan.model

    @property
    def stand_in(self) -> bool:
        """Whether its demonstrations came from a stand-in."""
        return self.plan.stand_in

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """Act until success or the horizon."""
        rollout = Rollout(env, self.plan, start, context)
        acting = self.policy.begin(seed=_seed(self.seed, start.index))
        while True:
            looks = acting.wants_images()
            views = latest_images(env, self.plan.cameras, self.plan.size) if looks else {}
            state = dict(zip(env.spec.state_names, rollout.proprio, strict=True))
            seen = {"images": views, "state": state, "instruction": env.instruction}
            (action,) = self.policy.act_many([acting], [seen])
            if (episode := rollout.apply(action)) is not None:
                return episode


def _seed(seed: int, start: int) -> int:
    """Of an episode, from the evaluation's and its start."""
    return seed * 1_000_003 + start
