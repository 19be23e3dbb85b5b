"""The acting side of an evaluation: many episodes side by side, and one network for all.

Each takes all actions that are planned and shows what the policy wants to see of its last steps. As
soon as enough of those under way wait for the network, it is asked once for all of these, while the
others move.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from capex.run.summary import Summary
from capex.students.actor import Actor, ActorMemory, Question
from capex.students.policy import BEFORE, STACKED
from capex.students.rollouts import Simulators, SlotView

SLOTS = 50  # episodes side by side at most: the paper's evaluation
BATCH = SLOTS // 2  # so many ask the network together at most
# The network is asked when one in so many of those under way waits for it: an answer that is good
# for one step takes less time than the step, a plan more than its steps.
SHARES, SHARES_OF_PLANS = 3, 2
ANSWER_S = 0.0005  # after so long without news of the others, whether the network has answered


class Asked(NamedTuple):
    """A question that was asked for some slots at a time."""

    slots: list[int]
    question: Question
    began: float


class Advance:
    """Episodes from a list of starts, each in a slot of `simulators`; a slot that becomes free
    takes the next one. `seeds`: of what is random in an episode, by its start.
    """

    def __init__(
        self,
        policy: Actor,
        simulators: Simulators,
        starts: Sequence[int],
        seeds: Callable[[int], int],
        state_names: Sequence[str],
    ):
        self._policy, self._simulators, self._seeds = policy, simulators, seeds
        self._names = state_names
        self._left = deque(starts)
        self._memories: dict[int, ActorMemory] = {}  # of the slots under way
        self._steps: dict[int, int] = {}
        self._shares = SHARES

    def run(self, asks: Callable[[int, int], None]) -> Iterator[Summary]:
        """Every episode as it ends. Before each question to the network, `asks` hears how many are
        under way and how many steps the furthest has taken.
        """
        self._begin(range(self._simulators.slots))
        waiting: dict[int, SlotView] = {}  # for the network
        while len(waiting) < len(self._memories):  # all set off together
            waiting |= self._simulators.receive()
        asked: deque[Asked] = deque()
        while self._memories:
            if asked and asked[0].question.ready():
                self._move(asked.popleft())
            elif waiting and len(waiting) >= len(self._memories) // self._shares:
                asks(len(self._memories), max(self._steps[slot] for slot in self._memories))
                half = min(BATCH, math.ceil(len(self._memories) / 2))
                asked.append(self._ask({slot: waiting.pop(slot) for slot in [*waiting][:half]}))
            else:
                shown = self._simulators.receive(ANSWER_S if asked else None)
                over = {slot: view.ended for slot, view in shown.items() if view.ended is not None}
                for slot in over:
                    del self._memories[slot]
                waiting |= {slot: view for slot, view in shown.items() if slot not in over}
                self._begin(over)
                yield from over.values()

    def _begin(self, free: Iterable[int]) -> None:
        taken = {slot: self._left.popleft() for slot in free if self._left}
        for slot, start in taken.items():
            self._memories[slot] = self._policy.begin(seed=self._seeds(start))
            self._steps[slot] = 0
        self._simulators.begin(taken)

    def _ask(self, showing: Mapping[int, SlotView]) -> Asked:
        began = time.perf_counter()
        acting = [self._memories[slot] for slot in showing]
        seen = [self._observation(slot, view) for slot, view in showing.items()]
        return Asked(list(showing), self._policy.ask_many(acting, seen), began)

    def _move(self, asked: Asked) -> None:
        """Send the actions up to the next question."""
        moves = {}
        for slot, action in zip(asked.slots, asked.question.take(), strict=True):
            memory = self._memories[slot]
            chosen = [action, *memory.ahead()]
            most = self._policy.spec.looks if memory.wants_images() else 0
            moves[slot] = (chosen, min(len(chosen), most))
            self._steps[slot] += len(chosen)
        planned = any(len(chosen) > 1 for chosen, _ in moves.values())
        self._shares = SHARES_OF_PLANS if planned else SHARES
        self._simulators.move(moves, time.perf_counter() - asked.began)

    def _observation(self, slot: int, view: SlotView) -> dict[str, Any]:
        """What a slot showed last, with what it showed before since the last question."""
        pictures = self._simulators.images[slot, -len(view.proprio) :]
        looking, cameras = self._memories[slot].wants_images(), self._policy.spec.cameras
        looks = []
        for proprio, views in zip(view.proprio, pictures, strict=True):
            state = dict(zip(self._names, proprio, strict=True))
            look = {"images": {}, "state": state, "instruction": view.instruction}
            if looking:
                look |= {"images": dict(zip(cameras, views, strict=True)), STACKED: views}
            looks.append(look)
        return {**looks[-1], BEFORE: looks[:-1]}
