"""`pilot`, `pilot:SEED`: a stand-in demonstrator. Classical vision behind the Model contract.

It sees only what a model sees: pictures, and the typed values that the prompt prints
(`Request.values`). From text alone, `prompt_parser` reads the same values.

It is no foundation model and its results say nothing about one: it lets the whole system run
without a key, and closes the loop in tests through the real interface. Its overconfidence and its
use of memory are designed in.

A reply is a function of the request alone. A skill is a generator that asks for points and ends in
an intent; for every request it runs anew, fed with the answers that the request's messages hold,
until it asks for something not yet answered or knows what to do.

    pilot:3                    another seed for its noise
    pilot:3,blur=2,usual=0.9   more pixel noise (of a 512 image), other stated confidences
    pilot:blind=yes            given blank pictures: what it can do without pictures
    pilot:price=NAME           billed like the model NAME of the price table; else unpriced

`apprentice:SKILL,SEED` is the pilot with beliefs that nobody tuned: drawn once per task and seed,
corrected only by the request. It shows the harness with a demonstrator that needs experience.

    apprentice:0.3,1                     skill from 0 to 1 (1 is the pilot), and a seed
    apprentice:0.3,1,usual=0.9,touch=0   other stated confidences, as with the pilot
    apprentice:0.3,1,haste=30            plans in haste, from afar too deep (in cm)
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.models import (
    Answer,
    AssistantMessage,
    AttemptObserver,
    Model,
    Observers,
    Reply,
    Request,
    RequestAttempt,
    ToolCall,
    ToolResult,
    prices,
)
from capex.models.probe import REPORT
from capex.models.retry import conclude
from capex.pilot import appearance
from capex.pilot.biases import TUNED, Noise, Overconfidence, draw
from capex.pilot.cameras import KITCHEN, GuessedCameras, from_words, wrist_camera
from capex.pilot.feedback import bend, looks_again
from capex.pilot.grounding import (
    HELD,
    Answers,
    Asking,
    Drive,
    Feature,
    Intent,
    Located,
    Move,
    apart,
    by_sight,
)
from capex.pilot.prompt import Page, pictures, read_brief, read_page, targets_m
from capex.pilot.scene import Scene
from capex.pilot.segmentation import blank, see
from capex.pilot.skills import choose
from capex.plan import WaypointStatus, orientation_matrix
from capex.pose import Array, Pose, angle_between

HUES = ("red", "yellow", "green", "cyan", "blue", "magenta")  # every 60 degrees
BLUR_PX = 2.5  # of a 512 image: the noise of both methods, as docs/pilot.md has it
BLUR_MAX_PX = 100.0  # a fifth of an image: more is blind
HASTE_MAX_CM = 30.0
SHIFT_MAX = 0.12  # of an image: pads seen farther from where the guess shows them are no pads
THERE_M, REACHED_M, TURNED_RAD = 0.009, 0.006, 0.09  # what the page's whole cm and degrees hide

UNREADABLE = (
    "I cannot read this request: it has no typed values, or its text is no page of this harness."
)

Answered = dict[tuple[str, float, float], Array | None]  # (camera, u, v) -> the located point


@dataclass(frozen=True)
class Pilot(Model):
    """The stand-in. Two pilots differ in their settings only, which are part of the name."""

    name: str = "pilot"
    seed: int = 0
    blur_px: float = BLUR_PX
    blind: bool = False
    skill: float = 1.0  # less: an apprentice, with biases of its own
    haste_m: float = 0.0  # of an apprentice, whatever its skill
    overconfidence: Overconfidence = field(default_factory=Overconfidence)
    price_name: str = "pilot"
    stand_in: bool = True
    computes_here = True  # no field: the same for every pilot

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """Answer a request: locate_pixel calls, or an act."""
        observer = observer or Observers()
        observer.before(request, 1)
        asked = time.monotonic()
        answer = Answer(self.answer(request))
        usage, body = prices.usage(request, answer), {"stand_in": self.name}
        attempt = RequestAttempt(
            "ok", "yes", time.monotonic() - asked, usage, answer=answer, body=body
        )
        observer.after(request, 1, attempt)
        return conclude([attempt])

    def reseeded(self, shift: int) -> Pilot:
        """The same pilot with other noise, under its own name."""
        return replace(self, seed=self.seed + shift)

    def answer(self, request: Request) -> tuple[ToolCall, ...]:
        """The calls of a reply."""
        # `capex doctor --model`: which colour is the picture?
        if {tool.name for tool in request.tools} == {REPORT.name}:
            return (_call(1, 0, REPORT.name, {"colour": self._colour(request)}),)
        if request.values is None:
            still = {"reasoning": UNREADABLE, "delta_cm": [0, 0, 0], "confidence": 0.9}
            return (_call(1, 0, "act", still),)
        page = read_page(request.values.observation, request)
        brief = read_brief(request.values.system, request)
        noise = Noise(self.seed, _key(page))
        views = {c: see(c, blank(png) if self.blind else png) for c, png in page.pictures.items()}
        biases = TUNED
        if self.skill < 1:
            biases = draw(self.skill, self.seed, page.instruction, self.haste_m)
        biases = looks_again(biases, page, brief)
        scene = Scene(page, brief, views, noise, self.blur_px, biases)
        rounds = _answered(request)
        outcome = _think(choose(scene), scene, rounds, last=request.tool_choice == "act")
        number = len([m for m in request.messages if isinstance(m, AssistantMessage)]) + 1
        if isinstance(outcome, Intent):
            points = [p for answered in rounds for p in answered.values() if p is not None]
            intent = bend(outcome, scene, points)
            return (_call(number, 0, "act", self._act(intent, scene)),)
        pixels = [{"camera": c, "u": u, "v": v} for c, u, v in _pixels(outcome)]
        return tuple(_call(number, k, "locate_pixel", pixel) for k, pixel in enumerate(pixels))

    def _colour(self, request: Request) -> str:
        """The colour that most of a request's first picture has, in a word."""
        shown = pictures(request)
        if not shown:
            return "none"
        view = see("", blank(shown[0].png) if self.blind else shown[0].png)
        if float(np.median(view.saturation)) < 0.2:
            return "grey"
        return HUES[round(float(np.median(view.hue)) / 60) % 6]

    def _act(self, intent: Intent, scene: Scene) -> dict[str, Any]:
        arguments: dict[str, Any] = {"reasoning": intent.why}
        if intent.done:
            return arguments | {"done": True}
        if intent.drive is not None:
            return arguments | _drive(intent.drive) | self._confidence(scene)
        whole = scene
        if scene.brief.several_arms:
            scene = whole.of(intent.arm or scene.brief.several_arms[0])
        moves = _shortened(_moving(intent.moves, scene), scene)
        targets = _targets(moves, scene)
        for arm, others in intent.beside.items():
            other = whole.of(arm)
            rows = _targets(_moving(others, other), other)
            nothing: dict[str, Any] = {}
            pairs = zip_longest(targets, rows, fillvalue=nothing)
            targets = [row | more for row, more in pairs]
        first, *rest = [
            target | self._confidence(scene, k, move.touch)
            for k, (move, target) in enumerate(zip(moves, targets, strict=False))
        ]
        return arguments | first | ({"chunk": rest} if rest else {})

    def _confidence(self, scene: Scene, index: int = 0, touch: bool = False) -> dict[str, float]:
        if not scene.brief.confidence:
            return {}
        return {"confidence": self.overconfidence.state(scene.noise, index, touch)}


def make(rest: str, name: str = "", skill: float = 1.0) -> Pilot:
    """From pilot, pilot:SEED or pilot:SEED,key=value.."""
    settings: dict[str, Any] = {"skill": skill}
    name = name or (f"pilot:{rest}" if rest else "pilot")
    overconfidence: dict[str, float] = {}
    keys: dict[str, Callable[[str], None]] = {
        "seed": lambda text: settings.update(seed=int(text)),
        "blur": lambda text: settings.update(blur_px=_within(float(text), 0.0, BLUR_MAX_PX)),
        "blind": lambda text: settings.update(blind={"yes": True, "no": False}[text]),
        "usual": lambda text: overconfidence.update(usual=_within(float(text), 0.02, 0.98)),
        "scatter": lambda text: overconfidence.update(scatter=_within(float(text), 0.0, 10.0)),
        "touch": lambda text: overconfidence.update(touch=_within(float(text), -10.0, 10.0)),
        "price": lambda text: settings.update(price_name=text),
    }
    if skill < 1:
        most = HASTE_MAX_CM
        keys["haste"] = lambda t: settings.update(haste_m=_within(float(t), 0, most) / 100)
    for piece in filter(None, rest.split(",")):
        key, equals, text = piece.partition("=")
        key, text = (key.strip(), text.strip()) if equals else ("seed", piece.strip())
        try:
            keys[key](text)
        except (KeyError, ValueError):
            raise CapexError(
                f"'{name}' has '{piece}'; write pilot, pilot:3 for a seed,"
                " or pilot:3,blur=2,blind=yes,usual=0.9,scatter=0.5,touch=0.2,price=NAME; an"
                f" apprentice also haste=CM, up to {HASTE_MAX_CM:g}",
                code=ErrorCode.BAD_SETTING,
            ) from None
    return Pilot(name, overconfidence=Overconfidence(**overconfidence), **settings)


def make_apprentice(rest: str) -> Pilot:
    """From apprentice:SKILL, apprentice:SKILL,SEED or apprentice:SKILL,SEED,key=value.."""
    skill, _, more = rest.partition(",")
    try:
        value = float(skill)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise CapexError(
            f"'apprentice:{rest}' has the skill '{skill}'; write a number from 0 to 1, then a seed:"
            " apprentice:0.3,1",
            code=ErrorCode.BAD_SETTING,
        )
    return make(more, f"apprentice:{rest}", value)


def _within(value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError
    return value


def _key(page: Page) -> str:
    """What the pilot's noise depends on: the page and its pictures, not memory, not the method."""
    digest = hashlib.sha256(page.instruction.encode())
    digest.update(repr((page.steps_left, page.tip_m.tolist(), page.opening_m)).encode())
    for arm, hand in page.hands.items():
        digest.update(repr((arm, hand.tip_m.tolist(), hand.opening_m)).encode())
    for camera, png in sorted(page.pictures.items()):
        digest.update(camera.encode() + png)
    return digest.hexdigest()


def _answered(request: Request) -> list[Answered]:
    """Per earlier round of this decision, the point of each located pixel, in metres."""
    results = {
        m.call_id: np.array(m.position_cm) / 100
        for m in request.messages
        if isinstance(m, ToolResult) and m.position_cm is not None
    }
    rounds = []
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            points: Answered = {}
            for call in message.calls:
                if call.name == "locate_pixel":
                    asked = json.loads(call.arguments)
                    points[asked["camera"], asked["u"], asked["v"]] = results.get(call.id)
            rounds.append(points)
    return rounds


def _think(
    skill: Asking, scene: Scene, rounds: Sequence[Answered], last: bool
) -> Intent | Sequence[Feature]:
    """Run a skill as far as the answers reach: what it still asks for, or what it wants to do."""
    waiting = list(rounds)
    try:
        asked = next(skill)
        while True:
            answers = Answers()
            if scene.brief.locate and waiting and _pixels(asked):
                answers = _read(asked, waiting.pop(0))
            elif not scene.brief.locate or not scene.biases.looks:
                answers = scene.biases.seen(by_sight(asked, _rig(scene, asked)), scene.tip)
            elif _pixels(asked) and not last:
                return asked
            asked = skill.send(answers)
    except StopIteration as done:
        intent: Intent = done.value
        return intent


def _pixels(asked: Sequence[Feature]) -> list[tuple[str, float, float]]:
    """Every pixel of some features, with its camera."""
    return [(c, u, v) for f in asked for c, row in f.spots.items() for u, v in row]


def _read(asked: Sequence[Feature], points: Answered) -> Answers:
    def located(feature: Feature) -> Located:
        rows = feature.spots.items()
        return Located({c: [points.get((c, u, v)) for u, v in row] for c, row in rows})

    return Answers((f.name, located(f)) for f in asked)


def _rig(scene: Scene, asked: Sequence[Feature]) -> GuessedCameras:
    """The guessed cameras, shifted so that the finger pads, or what they hold, are where they are
    seen.
    """
    held = {c: row[0] for f in asked if f.name == HELD for c, row in f.spots.items()}
    sizes = {v.camera: (v.width, v.height) for v in scene.views.values()}
    words = {c: from_words(text, scene.brief.table_m) for c, text in scene.brief.cameras.items()}
    guesses = {c: guess for c, guess in words.items() if guess} or KITCHEN
    rig, shift = GuessedCameras(sizes, {}, guesses), {}
    tips = [hand.tip_m for hand in scene.page.hands.values()] or [scene.tip]
    for view in scene.outside():
        if view.camera not in guesses:
            continue
        there = [rig.project(view.camera, tip) for tip in tips]
        pads = appearance.pads_by(view, there)
        seen = [held.get(view.camera) or (p.centre if p is not None else None) for p in pads]
        off = [(s[0] - u, s[1] - v) for s, (u, v) in zip(seen, there, strict=True) if s]
        within = SHIFT_MAX * view.width, SHIFT_MAX * view.height
        near = [o for o in off if abs(o[0]) < within[0] and abs(o[1]) < within[1]]
        if near:
            du, dv = (float(mean) for mean in np.mean(near, axis=0))
            shift[view.camera] = (du, dv)
    return GuessedCameras(sizes, shift, guesses, _wrist(scene))


def _wrist(scene: Scene) -> dict[str, tuple[Pose, float]]:
    """The wrist camera by the fingers in its picture: on a rig, while the hand points down."""
    view = scene.wrist_view() if scene.brief.done else None
    if view is None:
        return {}
    opening_m = 0.0 if scene.page.holding else scene.page.opening_m
    return {view.camera: wrist_camera(view, Pose(scene.tip, scene.page.rotation), opening_m)}


def _targets(moves: Sequence[Move], scene: Scene) -> list[dict[str, Any]]:
    """What each waypoint asks of the scene's arm."""
    rows: list[dict[str, Any]] = []
    for move, before in zip(moves, [None, *moves], strict=False):
        target: dict[str, Any] = {**_where(move, before, scene)}
        orientation = move.target.orientation
        if orientation != "keep":
            target["orientation"] = orientation if isinstance(orientation, str) else [*orientation]
        if move.target.gripper != "keep":
            target["gripper"] = move.target.gripper
        rows.append({scene.arm: target} if scene.arm else target)
    return rows


def _where(move: Move, before: Move | None, scene: Scene) -> dict[str, list[float]]:
    """A waypoint's position. What is placed by eye is placed relative to the tip, and the page
    rounds where that is: such a waypoint is given relative to the one before.
    """
    goal = move.target.position_m
    if goal is None:
        return {}
    start = scene.tip if before is None else before.target.position_m
    if not scene.brief.by_eye or start is None:
        return {"target_cm": [round(100 * v, 1) for v in goal]}
    return {"delta_cm": [round(100 * (v - w), 1) for v, w in zip(goal, start, strict=True)]}


def _moving(moves: Sequence[Move], scene: Scene) -> Sequence[Move]:
    """The plan without waypoints at its beginning that ask for nothing new: where the hand is
    already, as it is held already.

    The page rounds to centimetres, so that what was reached a moment ago counts as well.
    """
    now = scene.page.rotation
    executed = scene.page.since_base_motion()[-1:]
    last = targets_m([w for w in executed if w.status == WaypointStatus.REACHED])
    for k, move in enumerate(moves[:-1]):
        target = move.target
        if target.gripper != "keep" or move.touch or target.position_m is None:
            return moves[k:]
        goal = np.array(target.position_m)
        reached = any(float(np.max(np.abs(goal - p))) <= REACHED_M for p in last)
        turned = angle_between(orientation_matrix(target.orientation, now), now)
        if not (reached or apart(goal, scene.tip) <= THERE_M) or turned > TURNED_RAD:
            return moves[k:]
    return moves[-1:]


def _shortened(moves: Sequence[Move], scene: Scene) -> list[Move]:
    """The plan as far as a plan may go, and no further than the first touch where the skeleton
    advises to look after each waypoint.
    """
    plan = list(moves[: scene.brief.plan_max])
    commands = 0
    for k, move in enumerate(plan):
        command = f"{scene.arm} {move.target.gripper}".strip()
        advice = scene.brief.advice.get((command, commands), "")
        if move.touch and advice == "observe after each waypoint":
            return plan[: k + 1]
        commands += move.target.gripper != "keep"
    return plan


def _drive(drive: Drive) -> dict[str, float]:
    return {
        "base_forward_cm": round(100 * drive.forward_m, 1),
        "base_left_cm": round(100 * drive.left_m, 1),
        "base_turn_deg": round(math.degrees(drive.turn_rad), 1),
    }


def _call(round_number: int, index: int, name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(f"call_{round_number}_{index}", name, json.dumps(arguments))
