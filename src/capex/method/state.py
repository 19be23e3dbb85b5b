"""The state of an episode from decision to decision, and the recorder of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from capex.method.context import Drive, EpisodeContext, Passed, Prefix
from capex.method.dialogue import Decision
from capex.method.executor import Executor, Outcome, Tick
from capex.method.features import features
from capex.method.memory.references import carry
from capex.method.motion import GRIPPER_STILL_RUNS
from capex.method.observation import Observation, PastAct, observe
from capex.method.presets import MethodSettings
from capex.method.record import LocatedPoint, Turn, past_outcome
from capex.models import CostObserver
from capex.plan import Plan, Waypoint
from capex.pose import Array, PlanarPose
from capex.worlds import Command, Env


class Recorder:
    """Collects native actions, complete states and proprioception, tick by tick."""

    def __init__(self, env: Env):
        self._env = env
        self._saves = env.spec.can_save
        self._header = env.save_state().header if self._saves else ""
        self._actions: list[Array] = []
        self._states: list[Array] = [self._vector()]
        self._proprio: list[Array] = [env.robot_state().proprio]
        self._decision: list[int] = []
        self._waypoint: list[int] = []
        self._plan_starts: list[int] = []

    def _vector(self) -> Array:
        return self._env.save_state().vector if self._saves else np.zeros(0)

    def preload(self, steps: Mapping[str, Array], ticks: int, plans: int) -> None:
        """Begin with the first ticks and plans of another recording of this start."""
        self._actions = list(steps["actions"][:ticks])
        self._states = list(steps["states"][: ticks + 1])
        self._proprio = list(steps["proprio"][: ticks + 1])
        self._decision = [int(d) for d in steps["decision"][:ticks]]
        self._waypoint = [int(w) for w in steps["waypoint"][:ticks]]
        self._plan_starts = [int(p) for p in steps["plan_starts"][:plans]]

    def begin_plan(self) -> None:
        """Mark the present state as the start of a decision's plan."""
        self._plan_starts.append(len(self._actions))

    def __call__(self, tick: Tick) -> None:
        self._actions.append(tick.action)
        self._states.append(self._vector())
        self._proprio.append(tick.state.proprio)
        self._decision.append(len(self._plan_starts) - 1)
        self._waypoint.append(tick.waypoint)

    @property
    def steps(self) -> dict[str, Array]:
        """Arrays for steps.npz: T actions, T+1 states and proprioceptions, and where each plan
        begins in them.
        """
        names = self._env.spec.action_names
        return {
            "actions": np.array(self._actions).reshape(len(self._actions), len(names)),
            "states": np.array(self._states),
            "proprio": np.array(self._proprio),
            "decision": np.array(self._decision, dtype=np.int64),
            "waypoint": np.array(self._waypoint, dtype=np.int64),
            "plan_starts": np.array(self._plan_starts, dtype=np.int64),
            "header": np.array(self._header),
            "action_names": np.array(names),
            "state_names": np.array(self._env.spec.state_names),
        }


NO_WAYPOINT = -1  # of a tick that a person drove within a model's episode


class EpisodeState:
    """The executor and the recorder of one episode, its decisions so far, and what the features
    need of them.
    """

    def __init__(self, env: Env, method: MethodSettings, context: EpisodeContext):
        self._env, self._method, self._context = env, method, context
        self.recorder = Recorder(env)
        self.executor = Executor(
            env,
            subscribers=[self.recorder, context.emit],
            end_now=context.end_now,
            passed=lambda place, outcome: context.emit(Passed(place, outcome)),
        )
        arms = env.robot_state().arms
        self._closed = {  # by arm, whether it was last told to close
            a.name: arms[a.name].opening_m < a.max_opening_m / 2 for a in env.spec.arms
        }
        self._gripper_commands = 0
        self._located_m: Array | None = None  # the latest, in the present base frame
        self._history: list[PastAct] = []
        self._notes = ""
        self.turns: list[Turn] = []
        self.silent = 0  # decisions in a row without a valid call
        self.human_steps = 0  # control steps that a person drove

    @property
    def steps(self) -> int:
        """Control steps used so far."""
        return self._env.spec.horizon - self.executor.steps_left

    def observe(self, ledger: CostObserver | None, message: str = "") -> Observation:
        """The model's input now, with the operator's message, if there is one."""
        method, spent = self._method, ledger.spent_usd if ledger is not None else None
        dollars = ""
        if method.show_dollars and spent is not None and method.episode_usd:
            dollars = f"{float(method.episode_usd) - float(spent):.2f}"
        return observe(
            self._env,
            steps_left=self.executor.steps_left,
            decisions_left=method.decisions - len(self.turns),
            history=self._history[-method.history :],
            image_size=method.image_size,
            dollars_left=dollars,
            notes=self._notes,
            words=message,
        )

    def begin(self, decision: Decision) -> Turn:
        """Take in a decision; returns its turn as far as it is known before any motion."""
        self.silent = self.silent + 1 if decision.silent else 0
        self._note_located(decision.located)
        act = decision.act
        if act is not None:
            self._notes = act.notes if self._method.notes else ""
        return Turn(
            decision=len(self.turns) + 1,
            step=self.steps,
            calls=decision.calls,
            waypoints=(),
            committed=0,
            located=decision.located,
            base=self._env.robot_state().base,
            reasoning=act.reasoning if act is not None and act.plan is not None else "",
            notes=self._notes,
            repairs=act.repairs if act is not None and act.plan is not None else (),
            skipped_reason=decision.reason,
        )

    def features(self, plan: Plan) -> list[tuple[float, ...] | None]:
        """The features of a plan's waypoints, from where the robot is now."""
        tips = self._env.robot_state().arms
        return features(
            plan.waypoints,
            self.executor.clamp(plan.waypoints),
            tips_m={n: a.T_base_tip.position_m for n, a in tips.items()},
            gripper_commands=self._gripper_commands,
            closed=self._closed,
            located_m=self._located_m,
        )

    def execute(self, plan: Plan, count: int) -> list[Outcome]:
        """Run the first waypoints of a plan and follow what they did to grippers and base."""
        self.recorder.begin_plan()
        outcomes = self.executor.execute(plan.waypoints[:count], plan.waypoints[count:])
        self._follow(plan.waypoints, outcomes)
        return outcomes

    def hand_over(self, drive: Drive) -> int:
        """Let a person drive until they hand back; returns their control steps. Their gripper
        commands and base motions count like those of a plan.
        """
        env, executor = self._env, self.executor
        base, grip = env.robot_state().base, dict(executor.commands.grip)

        def carry_out(command: Command) -> Tick:
            tick = Tick(env.step(command), env.robot_state(), env.success(), NO_WAYPOINT)
            self.recorder(tick)
            self._context.emit(tick)
            return tick

        steps = drive(env, grip, executor.steps_left, carry_out)
        self.human_steps += steps
        executor.go_on(executor.steps_left - steps)
        for arm, sign in grip.items():
            if sign and sign != executor.commands.grip[arm]:
                executor.commands.command_gripper(
                    arm, "close" if sign > 0 else "open", skipped=False
                )
                self._closed[arm] = sign > 0
                self._gripper_commands += 1
        if base is not None and (now := env.robot_state().base) is not None:
            moved = PlanarPose(*base).inverse() @ PlanarPose(*now)
            self._carry_located((moved.x, moved.y, moved.yaw))
        return steps

    def resume(self, prefix: Prefix) -> None:
        """Go on where the prefix ends, from its start: as if its decisions had been made here."""
        for turn in prefix.turns:
            self._note_located(turn.located)
            self.silent = self.silent + 1 if turn.silent else 0
            waypoints = [row.waypoint for row in turn.waypoints]
            outcomes = [past_outcome(row) for row in turn.waypoints]
            if waypoints:
                self._env.load_state(prefix.state(turn.step))
                self.executor.retrace(waypoints, outcomes)
                self._follow(waypoints, outcomes)
            self.end_turn(turn, outcomes)
        self._env.load_state(prefix.state(prefix.ticks))
        self.executor.go_on(self._env.spec.horizon - prefix.ticks)
        self.recorder.preload(prefix.steps, prefix.ticks, prefix.plans)
        self._notes = prefix.notes if self._method.notes else ""

    def _follow(self, waypoints: Sequence[Waypoint], outcomes: Sequence[Outcome]) -> None:
        for waypoint, outcome in zip(waypoints, outcomes, strict=True):
            if outcome.status in GRIPPER_STILL_RUNS:
                self._follow_grippers(waypoint)
            if outcome.base_moved is not None:
                self._carry_located(outcome.base_moved)

    def _carry_located(self, base_moved: tuple[float, float, float]) -> None:
        if self._located_m is not None:
            x, y, z = (float(v) for v in self._located_m)
            self._located_m = np.array(carry((x, y, z), (0.0, 0.0, 0.0), base_moved))

    def _note_located(self, points: Sequence[LocatedPoint]) -> None:
        for point in points:
            if point.position_m is not None:
                self._located_m = np.array(point.position_m)

    def _follow_grippers(self, waypoint: Waypoint) -> None:
        for name, word in waypoint.gripper_words.items():
            self._gripper_commands += 1
            self._closed[name] = word in ("close", "reclose")

    def end_turn(self, turn: Turn, outcomes: Sequence[Outcome] = ()) -> None:
        """Add a decision to those that were made."""
        self.turns.append(turn)
        waypoints = tuple(row.waypoint for row in turn.waypoints)
        without_motion = "" if waypoints else turn.skipped_reason or "said done"
        self._history.append(PastAct(turn.decision, waypoints, tuple(outcomes), without_motion))
