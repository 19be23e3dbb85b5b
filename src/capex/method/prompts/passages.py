"""Passages of the prompts that follow from a world: who judges, and where its cameras look."""

from __future__ import annotations

from collections.abc import Mapping

from capex.worlds import CameraSpec, Spec

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
