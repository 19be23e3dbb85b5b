"""One decision: rounds with the model until there is a plan.

At most so many rounds, of which the last allows only `act`: the request says so, or, to a model
that refuses to have its calls forced, a sentence at its end. Perception is answered at once,
defects are sent back. A decision that brings no act is spent without motion, also one in which the
model talks until its context is full; errors of the model leave as exceptions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from capex.errors import CapexError, GLUnavailable, PhysicsDiverged
from capex.method.context import EpisodeContext, Replied
from capex.method.memory.context import Context as ShownMemory
from capex.method.observation import Observation, centimetres
from capex.method.presets import MethodSettings
from capex.method.reading import Act, Defects, Locate, read_calls
from capex.method.record import LocatedPoint
from capex.method.tools import interface, schemas
from capex.models import (
    Message,
    Model,
    ModelError,
    Picture,
    Reply,
    Request,
    Text,
    ToolResult,
    UserMessage,
)
from capex.models.prompt_values import PromptValues
from capex.models.redact import scrub
from capex.pose import Array
from capex.worlds import DepthImage, Env

SENSOR_PATCH = 2  # pixels on each side, for the noisy depth of a real sensor


class Sight:
    """The depth that the cameras measure at one moment, taken once a camera."""

    def __init__(self, env: Env, sizes: Mapping[str, tuple[int, int]]):
        """`sizes`: of the images that the model was shown, by camera."""
        self._env, self._sizes = env, sizes
        self._images: dict[str, DepthImage] = {}

    def locate(self, camera: str, u: float, v: float) -> Array | str:
        """Position in metres in the base frame, or a sentence: sky, out of the image, no depth.

        Simulated depth is exact, so the very pixel counts: a thin handle is found. A real sensor's
        depth is the median of a small patch.
        """
        if camera not in self._images:
            try:
                self._images[camera] = self._env.depth(camera, self._sizes[camera])
            except (PhysicsDiverged, GLUnavailable):  # no answer for a model: the attempt is over
                raise
            except CapexError as error:
                return f"No position: {error}."
        image = self._images[camera]
        height, width = image.depth_m.shape
        column, row = math.floor(u), math.floor(v)
        if not (0 <= column < width and 0 <= row < height):
            return f"No position: pixel ({u:g}, {v:g}) lies outside the {width}x{height} image."
        depth = float(image.depth_m[row, column])
        if self._env.spec.real_time:
            near = (slice(max(0, i - SENSOR_PATCH), i + SENSOR_PATCH + 1) for i in (row, column))
            patch = image.depth_m[tuple(near)]
            seen = patch[np.isfinite(patch) & (patch > 0)]
            depth = float(np.median(seen)) if seen.size else math.inf
        if not math.isfinite(depth) or depth <= 0:
            return f"No position: nothing is seen at pixel ({column}, {row}) of camera {camera}."
        return image.camera.unproject(column + 0.5, row + 0.5, depth)


def describe(point_m: Array) -> str:
    """A located point as the model reads it, in whole centimetres."""
    x, y, z = (round(100 * float(c)) for c in point_m)
    return f"[{x}, {y}, {z}]"


NO_CALL = "Your reply held no tool call. Answer with tool calls only."
CUT_OFF = "Your reply was cut off at the token limit. Answer with a shorter plan."
ONLY_ACT = "Only act is allowed in the last round."
LAST_ROUND = "This is the last round: answer with act and nothing else."
NO_PLAN = "spent without motion: no valid act in {} rounds ({})"
TOO_LONG = (
    "spent without motion: after round {} the decision no longer fitted the model's context ({})"
)
DECISION_DEADLINE_S = 1200.0  # of all model rounds of a decision together
RINGS_EARLY_S = 0.05  # a socket's timeout may come a moment before the time it was set to
SAID_CHARACTERS = 500  # of a model's own words in the record of an episode that it ended silently


class TimeOver(Exception):
    """The episode's wall time ended while its model was asked."""


@dataclass(frozen=True)
class Decision:
    """What a query brought: an act, or the reason why there is none."""

    act: Act | None
    calls: int
    located: tuple[LocatedPoint, ...]
    reason: str = ""
    silent: bool = False  # not one valid call in all its rounds


class Dialogue:
    """The rounds of an episode's decisions, each of which begins anew with an observation."""

    def __init__(
        self,
        env: Env,
        model: Model,
        method: MethodSettings,
        shown: ShownMemory,
        context: EpisodeContext,
        until: float,
    ):
        """`until`: when the episode's time is over, by the clock of the context."""
        self._env, self._model, self._rounds = env, model, method.rounds
        self._context, self._observer, self._until = context, context.observer, until
        self._face = interface(env.spec, method)
        self._request = Request(
            shown.system, (), schemas(self._face), context.sampling, cache_key=context.cache_key
        )
        self._values = shown.values
        self.requests = 0
        self._last: Reply | None = None

    @property
    def last_words(self) -> str:
        """The beginning of what the model said last."""
        return "" if self._last is None else _words(self._last)

    def decide(self, observation: Observation, references: Sequence[Picture] = ()) -> Decision:
        """Perception rounds, then an act, or the reason why none came; TimeOver when the episode's
        time ends meanwhile. `references` are the pictures of reference episodes.
        """
        messages: list[Message] = [_first(observation, references)]
        values = PromptValues(observation.values, self._values)
        located: list[LocatedPoint] = []
        sight = Sight(self._env, self._face.cameras)
        reason, silent = "no act", True
        deadline = self._context.clock() + DECISION_DEADLINE_S
        for number in range(1, self._rounds + 1):
            last, now = number == self._rounds, self._context.clock()
            if number > 1 and now >= self._until:
                raise TimeOver
            forced = self._model.forces_calls
            request = replace(
                self._request,
                messages=tuple(messages) if forced or not last else _last_round(messages),
                tool_choice=("act" if last else "required") if forced else "auto",
                deadline_s=min(max(1.0, deadline - now), max(0.0, self._until - now)),
                values=values,
            )
            try:
                reply = self._ask(request)
            except ModelError as error:
                if error.kind != "context" or number == 1:
                    raise
                # The decision began within the context: what fills it up is what the model said
                # since. That is its own failure.
                reason = TOO_LONG.format(number - 1, _short(str(error)))
                return Decision(None, number - 1, tuple(located), reason, silent)
            act, answers, valid = self._read(reply, sight, located, only_act=last)
            silent = silent and not valid
            if isinstance(act, Act):
                return Decision(act, number, tuple(located))
            reason = str(act) if act is not None else reason
            messages += [reply.as_message(), *answers] if reply.calls else answers
        reason = NO_PLAN.format(self._rounds, _short(reason))
        return Decision(None, self._rounds, tuple(located), reason, silent)

    def _ask(self, request: Request) -> Reply:
        try:
            reply = self._model.complete(request, self._observer)
        except ModelError as error:
            if error.kind == "timeout" and self._context.clock() >= self._until - RINGS_EARLY_S:
                raise TimeOver from error
            raise
        self.requests += 1
        self._last = reply
        self._context.emit(Replied(reply))
        return reply

    def _read(
        self, reply: Reply, sight: Sight, located: list[LocatedPoint], only_act: bool
    ) -> tuple[Act | Defects | None, list[Message], bool]:
        """Carry out perception, in order, unless only an act is allowed now; an act ends the
        reading. Last: whether a call was valid.
        """
        tips = {n: a.T_base_tip.position_m for n, a in self._env.robot_state().arms.items()}
        answers: list[Message] = []
        problem: Defects | None = None
        reads = read_calls(reply.calls, self._face, tips)
        valid = any(isinstance(read.meaning, Act | Locate) for read in reads)
        for read in reads:
            if isinstance(read.meaning, Act):
                return read.meaning, answers, valid
            position_cm = None
            if isinstance(read.meaning, Locate) and not only_act:
                point, text = _locate(read.meaning, sight)
                located.append(point)
                if point.position_m is not None:
                    position_cm = centimetres(point.position_m)
            else:
                problem = (
                    read.meaning if isinstance(read.meaning, Defects) else Defects((ONLY_ACT,))
                )
                text = f"Not carried out: {problem}"
            answers.append(ToolResult(read.call.id, text, position_cm))
        for call in reply.calls[len(reads) :]:  # every call needs an answer on the wire
            answers.append(ToolResult(call.id, "Ignored: a robot command ends the reply."))
        if not reply.calls:
            answers.append(UserMessage((Text(CUT_OFF if reply.incomplete else NO_CALL),)))
        return problem, answers, valid


def _first(observation: Observation, references: Sequence[Picture]) -> UserMessage:
    if not references:
        return observation.message
    head = Text("Start images of the reference episodes:")
    return UserMessage((head, *references, Text("The present scene:"), *observation.message.parts))


def _last_round(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, with the sentence that only act is allowed now. It belongs into the newest
    result of a call, where there is one: text behind results makes some models end their turn.
    """
    *before, newest = messages
    if isinstance(newest, ToolResult):
        return (*before, replace(newest, text=f"{newest.text}\n{LAST_ROUND}"))
    return (*messages, UserMessage((Text(LAST_ROUND),)))


def _locate(pixel: Locate, sight: Sight) -> tuple[LocatedPoint, str]:
    """A pixel's point, and the sentence that the model gets."""
    point = sight.locate(pixel.camera, pixel.u, pixel.v)
    if isinstance(point, str):
        return LocatedPoint(pixel.camera, pixel.u, pixel.v, None, point), point
    x, y, z = (float(v) for v in point)
    return LocatedPoint(pixel.camera, pixel.u, pixel.v, (x, y, z)), (
        f"{describe(point)} cm in the base frame, {math.sqrt(x * x + y * y) * 100:.0f} cm from"
        " the mount horizontally."
    )


def _short(reason: str) -> str:
    return reason if len(reason) <= 200 else f"{reason[:197]}..."


def _words(reply: Reply) -> str:
    """The beginning of what a reply says: its text, or else the calls that it makes. Scrubbed
    first, so that no secret is cut in two.
    """
    said = reply.text.strip() or " ".join(f"{c.name}({c.arguments})" for c in reply.calls)
    return str(scrub(said))[:SAID_CHARACTERS]
