"""What the prompt gets of memory: skeleton, up to two references with start pictures, label count;
past the paper, for a method that asks for it, what stopped earlier attempts.

The filled system prompt never exceeds `prompts.SIZE_MAX` characters. What matters least goes first,
always in whole lines:
1. the older reference's located points that nothing is written against, and its calls from the
   middle outwards, down to the last one;
2. the same of the newer reference;
3. details of the skeleton, in the order that `Skeleton.text` gives;
4. the older reference altogether, then the newer one, then the skeleton.
A reference that is left out takes its pictures with it. The page about failures has bounds of its
own and takes its room first, at most a quarter of what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capex.errors import CapexError, ErrorCode
from capex.method.memory import Memory
from capex.method.memory.failures import SIZE_MAX as FAILURES_SIZE
from capex.method.memory.failures import ShownFailures, failures_page
from capex.method.memory.references import (
    REFERENCES_MAX,
    Reference,
    ShownReference,
    choose,
    shown,
    versions,
)
from capex.method.presets import MethodSettings
from capex.method.prompts import SIZE_MAX, system_prompt, system_values
from capex.models import Picture
from capex.models.prompt_values import SkeletonValues, SystemValues
from capex.worlds import Spec


@dataclass(frozen=True)
class Context:
    """Memory as one episode's prompt shows it. References and their pictures come newest first."""

    skeleton_text: str = ""
    failures_text: str = ""
    references: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()  # each reference's exterior start images
    labels: int = 0  # labelled waypoints that the calibrator was fitted on
    system: str = field(default="", compare=False)  # the prompt filled with all this
    values: SystemValues = field(default_factory=SystemValues, compare=False)  # that it prints

    @property
    def references_text(self) -> str:
        """All references as one text."""
        return "\n".join(self.references)


def build(
    memory: Memory,
    method: MethodSettings,
    spec: Spec,
    start: int,
    scene: str,
    *,
    weights: Sequence[float] | None = None,
    hints: str = "",
    template: Path | None = None,
    json_form: bool = False,
) -> Context:
    """What memory has to say before the episode at a start, cut so that the filled system prompt is
    not too long.

    start: index of the episode's own start, never shown as a reference. scene: its surroundings; a
    reference with an equal one is from the same kitchen. A method without memory passes an empty
    Memory.
    """
    labels = memory.labels if method.calibrated else 0
    chosen = choose(memory.successes, start, min(method.references, REFERENCES_MAX))
    numbered = [(r, number, r.scene == scene) for number, r in enumerate(chosen, start=1)]

    failures = ShownFailures("", ())

    def fill(skeleton: str = "", references: Sequence[ShownReference] = ()) -> str:
        return system_prompt(
            spec,
            method,
            labels=labels,
            weights=weights,
            references="\n".join(r.text for r in references),
            skeleton="\n".join(filter(None, (skeleton, failures.text))),
            hints=hints,
            template=template,
            json_form=json_form,
        )

    room = SIZE_MAX - len(fill())
    if room < 0:
        size = f"the system prompt has {SIZE_MAX - room} characters without any memory"
        raise CapexError(f"{size}; at most {SIZE_MAX} are allowed", code=ErrorCode.BAD_SETTING)
    if method.failures:
        failures = failures_page(memory.failures, method.failures, min(FAILURES_SIZE, room // 4))
        room = SIZE_MAX - len(fill())
    while True:
        (skeleton, reliability), references = _fit(memory, method, numbered, room)
        system = fill(skeleton, references)
        # the headings that come with references, which only the prompt knows
        over = len(system) - SIZE_MAX
        if over <= 0:
            break
        room -= over
    pictures = [
        image.picture(f"Reference episode {number}, start, camera {image.camera}:")
        for reference, number, _ in numbered[: len(references)]
        for image in reference.images
    ]
    values = system_values(
        spec,
        method,
        references=[r.waypoints for r in references],
        skeleton=reliability,
        failures=failures.values,
        hints=hints,
        template=template,
    )
    texts = tuple(r.text for r in references)
    return Context(skeleton, failures.text, texts, tuple(pictures), labels, system, values)


def _fit(
    memory: Memory,
    method: MethodSettings,
    numbered: Sequence[tuple[Reference, int, bool]],
    room: int,
) -> tuple[tuple[str, SkeletonValues | None], list[ShownReference]]:
    """Skeleton and references, newest first, in at most `room` characters, line breaks included."""
    nothing = "", None
    if not numbered:
        return (memory.skeleton.shown(room) if method.skeleton else nothing), []
    skeleton = memory.skeleton.shown() if method.skeleton else nothing
    references = [next(versions(*reference)) for reference in numbered]
    for k in reversed(range(len(references))):  # the older one first
        rest = len(skeleton[0]) + sum(len(r.text) + 1 for i, r in enumerate(references) if i != k)
        if cut := shown(*numbered[k], limit=room - rest - 1):
            return skeleton, [*references[:k], cut, *references[k + 1 :]]
        references[k] = list(versions(*numbered[k]))[-1]
    left = room - sum(len(r.text) + 1 for r in references)
    details = memory.skeleton.shown(left) if skeleton[0] else nothing
    if left >= 0 and (details[0] or not skeleton[0]):
        return details, references
    return _fit(memory, method, numbered[:-1], room)
