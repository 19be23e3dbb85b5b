"""System prompts: text files that a person can edit, and the code that fills their <<FIELDS>>.

Static text comes first and what changes between episodes comes last (settings with calibrator
weights, references, skeleton), so that provider caches hit on the long common prefix. The same
inputs give the same bytes.

A prompt of a user's own may use our fields, or those of the paper's two listings, which write out
the settings and fill in single values: <<N_LABELS>>, <<W: 8 floats>>, <<WORKSPACE_BOX>>
(centimetres), <<REFERENCE EPISODES>> and <<SKELETON>>. What follows a colon says what to expect
there and is not read. Line breaks inside a field count as spaces.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from capex.errors import CapexError, ErrorCode, UnknownName, closest_first, printable
from capex.method import executor as ex
from capex.method import motion
from capex.method.calibrator import PRIOR_MEAN
from capex.method.motion import REACHED_M
from capex.method.presets import MethodSettings
from capex.method.tools import Interface, interface
from capex.models.prompt_values import PhaseStops, ReportedWaypoint, SkeletonValues, SystemValues
from capex.plan import BASE_TRANSLATION_MAX_M, BASE_TURN_MAX_RAD, PLAN_MAX
from capex.worlds import CameraSpec, Spec
from capex.worlds.spec import Corner

_WORLD: Mapping[str, str] = {
    "WHO_JUDGES": (
        "Only the environment decides whether the task is achieved; the moment it is, the episode"
        " ends by itself."
    ),
    "SCORING": (
        "Success counts only when the task's state is achieved and the gripper is well away from"
        " what it handled: after handling or letting go of something, retreat at least 25 cm, up"
        " and back, and wait for the end of the episode before doing anything else. Never declare"
        " that you are done."
    ),
    "GOES_ON": "the episode goes on",
    "NOT_YET": "; if the episode has not ended at your next look, it is not done",
    "DONE": " and done (boolean; default false). done ends the attempt without moving",
}
_WHEN = (
    "Send it only when the images of your newest look, taken after your last motion, show the whole"
    " success state"
)
_OPERATOR: Mapping[str, str] = {
    "WHO_JUDGES": (
        "A person judges afterwards, by what you leave behind, whether the task is achieved. The"
        " attempt does not end by itself when it is: it goes on until you send done or a limit is"
        " reached."
    ),
    "SCORING": (
        "Success counts only when the instruction is fulfilled as you leave the scene: what is to"
        " be held up is still held, and what is to be put somewhere rests there, let go, with the"
        " gripper at least 15 cm away from it. Then look at what you have left, and send an act"
        f" with done: true, which ends the attempt. {_WHEN}, and name in reasoning what shows it."
        " A done that comes too early counts as a failure and cannot be taken back; without it the"
        " attempt runs into its limit."
    ),
    "GOES_ON": "is not yet where the task wants it",
    "NOT_YET": (
        ", and compare every view with the success state; if it is not there, or no view shows it,"
        " it is not done"
    ),
    "DONE": (
        " and done (boolean; default false). done ends the attempt without moving, and nothing else"
        f" says that you have finished. {_WHEN}; a done that comes too early counts as a failure"
        " and cannot be taken back"
    ),
}
_ALONG_X = (
    "The exterior cameras look roughly along +x, so the left side of their images is +y; a wrist"
    " camera looks along its gripper."
)
_AGREE = (
    " Ground the same point from {} exterior views and act on it only if they agree within a few"
    " centimetres."
)
_BEHIND_X = (
    " A pixel beside the target lands on what is behind it: much further forward at"
    " nearly the same height. A point further forward than everything else you measured is"
    " background."
)
_BEHIND = (
    " A pixel beside the target lands on what is behind it: a point further from its camera than"
    " everything else you measured is background."
)


def judging(spec: Spec, *, done: bool) -> dict[str, str]:
    """The fields that say who judges success and what `done` means, where it is offered."""
    fields = dict(_OPERATOR if spec.success == "operator" else _WORLD)
    return fields if done else fields | {"DONE": ""}


def frame(spec: Spec) -> str:
    """Where the base frame's origin is, where there are several arms."""
    if len(spec.arms) < 2:
        return ""
    names = " and ".join(arm.name for arm in spec.arms)
    own = any(arm.workspace_m for arm in spec.arms)
    boxes = ", and each arm has a workspace box of its own" if own else ""
    return (
        f" All arms ({names}) share it: its origin lies midway between their mounts{boxes}. A"
        " waypoint has a target for each arm that moves, and one that is left out holds still; the"
        " arms set out and arrive together, then their gripper commands run together. What stops"
        " one arm stops the plan for all, and the waypoint's confidence is that every arm gets"
        " there."
    )


def cameras(spec: Spec) -> str:
    """Where each camera stands and how its image lies."""
    words = camera_words(spec)
    return " ".join(f"Camera {name} {view}." for name, view in words.items()) or _ALONG_X


def camera_words(spec: Spec) -> dict[str, str]:
    """By camera, the words about it; none where the world has no words about any."""
    if not any(camera.view for camera in spec.cameras):
        return {}
    several = len(spec.arms) > 1
    return {camera.name: _view(camera, several) for camera in spec.cameras}


def locating(spec: Spec) -> str:
    """What locate_pixel does, and for which cameras."""
    having = [camera for camera in spec.cameras if camera.depth]
    where = "any camera"
    if len(having) < len(spec.cameras):
        where = "camera " + " or ".join(camera.name for camera in having)
    wrist = any(camera.kind == "wrist" for camera in having)
    part = ", and from the wrist view the part you are about to touch" if wrist else ""
    return (
        f" locate_pixel(camera, u, v) returns the position of the surface at that pixel of {where};"
        f" use it to ground small or distant targets{part}."
    )


def grounding(spec: Spec) -> str:
    """How to check a located point: another view, and what lies behind the target."""
    outside = [camera for camera in spec.cameras if camera.kind == "exterior"]
    if not any(camera.view for camera in outside):
        return _AGREE.format("both") + _BEHIND_X
    number = {0: "", 1: "", 2: "both"}.get(len(outside), "two")
    return (_AGREE.format(number) if number else "") + _BEHIND


def _view(camera: CameraSpec, several: bool) -> str:
    if camera.view:
        return " ".join(camera.view.split()).rstrip(".")
    if camera.kind == "wrist":
        return (
            f"looks along the gripper of arm {camera.arm}" if several else "looks along its gripper"
        )
    return "looks roughly along +x, so the left side of its image is +y"


SIZE_MAX = 18_000  # characters, however long the memory
HINTS_MAX = 4_000  # characters of a file of hints
HINTS_FIELD = "<<HINTS>>"
HINTS_HEAD = "\nTHIS ROBOT AND TASK\n"
FIELD = re.compile(r"<<([A-Za-z][^<>]*)>>")

BASE_CAPEX = """
BASE MOTION
When a target lies more than about 60 cm ahead, 35 cm to the side, or lower than 10 cm below the base frame's origin, or when the arm keeps hitting the fixture around it, first use base_forward_cm, base_left_cm and base_turn_deg (left is positive) to put it 35 to 50 cm ahead. Ground the target again afterwards, since the frame has moved. The arm holds its grip while the base drives: what the arm cannot pull far enough is pulled by holding it and driving backward. A base motion stands alone in its act, without target and chunk. If the instruction asks you to go to a place or a fixture, the drive is the task: approach it in successive base motions, turn to face it, and finish in front of it within arm's reach.
"""
BASE_BASE = (
    "\nbase_forward_cm, base_left_cm and base_turn_deg (left is positive, default 0) drive the base"
    " in its own frame; any value other than zero makes the act a base motion alone, followed by"
    " the gripper command; at most 60 cm of translation in all and 90 degrees."
)
FUNCTION_FORM = "Use the functions that are offered."
BATCHING = (
    "You may batch several locate_pixel calls, followed by at most one act; an act that depends on"
    " their result must wait for the next round."
)
REFERENCES_HEAD = (
    "\nREFERENCE EPISODES\nYour own earlier successes at this task from other starts: their start"
    " images come with the first message; here is where you located things, the waypoints and what"
    " the executor reported. Work out how their geometry relates to the scene before you, ground"
    " the matching points anew, and plan for the present scene. Do not copy their coordinates.\n"
)


def system_prompt(
    spec: Spec,
    method: MethodSettings,
    *,
    labels: int = 0,
    weights: Sequence[float] | None = None,
    references: str = "",
    skeleton: str = "",
    hints: str = "",
    template: Path | None = None,
    json_form: bool = False,
) -> str:
    """The filled system prompt of a method in a world. `references` and `skeleton` are what memory
    has to say, already bounded; `hints` stand beside those of the world, and at the end of a
    template that has no field for them. The base method is told the interface and facts, not how
    the world's robot is best used (`Spec.technique`).
    """
    face = interface(spec, method)
    text = template_text(method, template)
    passages = _passages(spec, method, hints)
    if passages and HINTS_FIELD not in text:
        text = f"{text.rstrip()}\n{HINTS_FIELD}"
    line = settings(spec, method, face, labels, weights)
    base_motion = BASE_BASE if method.prompt == "base" else BASE_CAPEX
    fields = {
        "DISPLACEMENT_CM": f"{100 * ex.DISPLACEMENT_MAX_M:.0f}",
        "LOCATE_EXECUTOR": locating(spec) if face.locate else "",
        "LOCATE_GROUNDING": grounding(spec) if face.locate else "",
        "FRAME": frame(spec),
        "CAMERAS": cameras(spec),
        "FLOOR": ", whose lower bound is the floor" if spec.base is not None else "",
        "BASE_MOTION": base_motion if face.base_motion else "",
        "REPLY_FORM": _json_form(face) if json_form else FUNCTION_FORM,
        "BATCHING": BATCHING if face.locate else "",
        **judging(spec, done=face.done),
        "HINTS": f"{HINTS_HEAD}{passages}\n" if passages else "",
        "SETTINGS": json.dumps(line),
        "REFERENCES": f"{REFERENCES_HEAD}{references}\n" if references else "",
        "SKELETON": f"\n{skeleton}\n" if skeleton else "",
        # as the paper's listings have them
        "N_LABELS": json.dumps(labels),
        "W": json.dumps(line.get("calibrator_weights") or PRIOR_MEAN),
        "WORKSPACE_BOX": json.dumps(line["workspace_box_cm"]),
        "REFERENCE EPISODES": references,
    }

    def fill(field: re.Match[str]) -> str:
        name = _field_name(field)
        if name not in fields:
            known = ", ".join(f"<<{known}>>" for known in closest_first(name, sorted(fields)))
            unknown = f"the prompt has a field {' '.join(field[0].split())}, which nothing fills"
            raise CapexError(f"{unknown}; known fields: {known}", code=ErrorCode.UNKNOWN_NAME)
        return fields[name]

    # One pass over the template: a field's own text is never searched for fields again.
    return FIELD.sub(fill, text).strip() + "\n"


def system_values(
    spec: Spec,
    method: MethodSettings,
    *,
    references: Sequence[tuple[ReportedWaypoint, ...]] = (),
    skeleton: SkeletonValues | None = None,
    failures: Sequence[tuple[PhaseStops, ...]] = (),
    hints: str = "",
    template: Path | None = None,
) -> SystemValues:
    """The typed values that `system_prompt` prints: those whose fields its template has."""
    printed = {_field_name(field) for field in FIELD.finditer(template_text(method, template))}
    remembers = "SKELETON" in printed
    return SystemValues(
        plan_max=method.plan_max if "SETTINGS" in printed else PLAN_MAX,
        operator_judges="WHO_JUDGES" in printed and spec.success == "operator",
        cameras=camera_words(spec) if "CAMERAS" in printed else {},
        hints=_passages(spec, method, hints),
        references=tuple(references) if printed & {"REFERENCES", "REFERENCE EPISODES"} else (),
        skeleton=skeleton if remembers else None,
        failures=tuple(failures) if remembers else (),
    )


def _passages(spec: Spec, method: MethodSettings, hints: str) -> str:
    """The hints of a world and those given."""
    technique = "" if method.prompt == "base" else spec.technique
    passages = (spec.hints.strip(), technique.strip(), hints.strip())
    return "\n".join(passage for passage in passages if passage)


def _field_name(field: re.Match[str]) -> str:
    return " ".join(field[1].partition(":")[0].split())


def _json_form(face: Interface) -> str:
    """How a model without function calling writes a call: an example that the interface accepts."""
    sure: dict[str, object] = {"confidence": 0.9} if face.confidence else {}

    def waypoint(target: dict[str, object]) -> dict[str, object]:
        return {**({face.arms[0]: target} if len(face.arms) > 1 else target), **sure}

    hover = waypoint({"target_cm": [40, 0, 60], "orientation": "down"})
    act = {"reasoning": "Hover over it.", **hover}
    if face.plan_max > 1:
        act["chunk"] = [waypoint({"delta_cm": [0, 0, -9], "gripper": "close"})]
    return f"Write only {json.dumps({'calls': [{'tool': 'act', 'arguments': act}]})}."


def read_hints(path: Path) -> str:
    """The passages of a file for the prompt; a long one is refused. Fields in it are not filled."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CapexError(
            f"the hints file {path} cannot be read: {reason}", code=ErrorCode.UNREADABLE_FILE
        ) from None
    text = printable(text).strip()
    if not 0 < len(text) <= HINTS_MAX:
        raise CapexError(
            f"the hints file {path} has {len(text)} characters; it must have 1 to {HINTS_MAX}",
            code=ErrorCode.BAD_SETTING,
        )
    return text


def template_text(method: MethodSettings, template: Path | None = None) -> str:
    """The unfilled prompt: a user's file, or the method's own."""
    if template is not None:
        try:
            return template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CapexError(
                f"the prompt file {template} cannot be read: {error}",
                code=ErrorCode.UNREADABLE_FILE,
            ) from None
    return _packaged(method.prompt)


@functools.cache
def _packaged(name: str) -> str:
    packaged = resources.files(__package__) / f"{name}.txt"
    if not packaged.is_file():
        raise UnknownName("prompt", name, ("capex", "base"))
    return packaged.read_text(encoding="utf-8")


def _boxes_cm(spec: Spec) -> object:
    """The workspace, by arm where each has its own."""
    boxes = {a.name: _cm(spec.workspace_of(a.name)) for a in spec.arms}
    own = any(a.workspace_m for a in spec.arms)
    return boxes if own else _cm(spec.workspace_m)


def _cm(box: tuple[Corner, Corner]) -> list[list[int]]:
    return [[round(100 * v) for v in corner] for corner in box]


def settings(
    spec: Spec,
    method: MethodSettings,
    face: Interface,
    labels: int,
    weights: Sequence[float] | None,
) -> dict[str, object]:
    """The harness line: only what our code honours. What changes between episodes stands last."""
    openings = {a.name: round(100 * a.max_opening_m, 1) for a in spec.arms}
    line: dict[str, object] = {
        "history": method.history,
        "max_model_rounds": method.rounds,
        "max_displacement_cm": 100 * ex.DISPLACEMENT_MAX_M,
        "reached_cm": 100 * REACHED_M,
        "max_motion_steps": ex.MOTION_STEPS_MAX,
        "max_gripper_steps": ex.GRIPPER_STEPS_MAX,
        "plan_max": method.plan_max,
        "perception_tool": "locate_pixel" if face.locate else None,
        "workspace_box_cm": _boxes_cm(spec),
        "gripper_max_opening_cm": openings if len(openings) > 1 else next(iter(openings.values())),
        "gripper_open_tolerance_cm": 100 * motion.OPEN_TOLERANCE_M,
        "gripper_close_threshold_cm": 100 * motion.CLOSED_BELOW_M,
    }
    if face.base_motion and spec.base is not None:
        line["base_motion"] = {
            "max_speed_m_s": spec.base.max_speed_m_s,
            "max_yaw_rate_rad_s": spec.base.max_yaw_rate_rad_s,
            "max_translation_m": BASE_TRANSLATION_MAX_M,
            "max_yaw_rad": round(BASE_TURN_MAX_RAD, 2),
        }
    if method.confidence:
        rounded = [round(float(w), 3) for w in weights] if weights is not None else None
        line |= {"commit_threshold": method.tau, "calibration_labels": labels}
        line["calibrator_weights"] = rounded
    return line
