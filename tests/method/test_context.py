"""What the prompt gets of memory: of a reviewed set of attempts, by method, and bounded however long the chain."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from attempts import BY_HASH, IMAGES, driven, random_attempt, remembering, shelf, slow, stuck, tray
from capex.errors import ErrorCode
from capex.method.memory import Memory
from capex.method.memory.context import Context, build
from capex.method.memory.failures import SIZE_MAX as FAILURES_SIZE
from capex.method.memory.failures import digest_failure, failures_page
from capex.method.memory.references import digest, text, versions
from capex.method.presets import preset
from capex.method.prompts import SIZE_MAX, system_prompt
from refusals import refuses
from toy import Toy, ToyEnv


def test_context_of_the_reviewed_attempts():
    spec = ToyEnv(Toy(arms=("left",))).spec
    memory = remembering(shelf(), stuck(), tray(), driven(), slow())
    context = build(memory, preset("capex"), spec, 7, "layout 1")
    assert context.references == (
        text(digest(driven(), BY_HASH), 1, True),
        text(digest(tray(), BY_HASH), 2, False),
    )
    assert context.skeleton_text == memory.skeleton.text()
    assert [p.label for p in context.pictures] == [
        f"Reference episode {n}, start, camera {c}:" for n in (1, 2) for c in ("left", "right")
    ]
    assert [p.sha256 for p in context.pictures] == [*IMAGES.values()] * 2
    assert context.labels == memory.labels == len(memory.labelled()[1])
    prompt = system_prompt(
        spec,
        preset("capex"),
        labels=context.labels,
        references=context.references_text,
        skeleton=context.skeleton_text,
    )
    assert len(prompt) <= SIZE_MAX
    assert context.skeleton_text in prompt


def test_what_an_arm_leaves_out_is_not_shown():
    spec, memory = ToyEnv(Toy()).spec, remembering(shelf(), tray())
    assert build(memory, preset("capex-no-references"), spec, 7, "").references == ()
    assert build(memory, preset("capex-no-skeleton"), spec, 7, "").skeleton_text == ""
    assert len(build(memory, preset("capex", references=1), spec, 7, "").pictures) == 2
    assert build(memory, preset("capex-stated"), spec, 7, "").labels == 0
    assert build(Memory(), preset("capex-fresh"), spec, 7, "") == Context()
    assert build(Memory(), preset("base"), spec, 7, "") == Context()


def test_a_page_of_failures_is_shown_to_the_method_that_asks_for_it():
    spec, memory = ToyEnv(Toy()).spec, remembering(shelf(), stuck(), tray(), slow())
    context = build(memory, preset("capex-failures"), spec, 7, "")
    assert context.failures_text.splitlines()[2:] == [
        "Failed attempt 1 (start 4): 1 phase begun, the last close#0; ended by decisions after 100"
        " steps",
        "- close#0, 1 time: [40,0,60] close timeout",
        "Failed attempt 2 (start 1): 2 phases begun, the last close#1; ended by horizon after 600"
        " steps",
        "- close#1, 2 times: [41,0,50] stalled",
        "- close#1, 1 time: base forward 20 cm, left 0 cm, turn 0 deg: stopped by contact (chassis"
        " on fridge)",
    ]
    assert f"{context.skeleton_text}\n{context.failures_text}" in context.system
    one = build(memory, preset("capex", failures=1), spec, 7, "").failures_text
    assert one.count("Failed attempt") == 1
    usual = build(memory, preset("capex"), spec, 7, "")
    assert not usual.failures_text
    assert context.system.replace(f"\n{context.failures_text}", "") == usual.system
    assert build(memory.snapshot(), preset("capex-failures"), spec, 7, "") == context


def test_a_page_of_failures_is_bounded():
    failures = [replace(digest_failure(stuck(k)), stops=(f"- {'x' * 300}",) * 3) for k in range(9)]
    page = failures_page(failures, 8).text
    assert 0 < len(page) <= FAILURES_SIZE
    assert "Failed attempt 1 (start 8)" in page
    assert len(failures_page(failures, 8, 400).text) <= 400
    assert failures_page(failures, 8, 10).text == failures_page([], 8).text == ""


def test_the_prompt_is_bounded_with_ten_thousand_attempts():
    spec, settings, draw = ToyEnv(Toy()).spec, preset("capex"), random.Random(1)
    usual = [random_attempt(draw, k, turns=1) for k in range(40)]
    longest = [random_attempt(draw, k, turns=80, success=True) for k in range(2)]
    looks = (1, 2, 3, 10, 100, 1000, 10_000)
    memory = Memory()
    weights = [-12.345] * 8
    for k in range(10_000):
        about_to_look = k + 1 in looks or k + 2 in looks
        memory.add(
            replace(longest[k % 2] if about_to_look else usual[k % len(usual)], start=k), BY_HASH
        )
        if k + 1 in looks:
            context = build(memory, settings, spec, k + 1, "layout 1", weights=weights)
            prompt = system_prompt(
                spec,
                settings,
                labels=context.labels,
                weights=weights,
                references=context.references_text,
                skeleton=context.skeleton_text,
            )
            assert len(prompt) <= SIZE_MAX
            assert len(context.references) == min(k + 1, 2)
    assert memory.attempts == 10_000
    assert len(re.findall(r"^Phase", context.skeleton_text, re.M)) == 8
    assert len(memory.successes) == 3


def test_the_least_is_cut_first_whatever_room_a_template_leaves(tmp_path):
    spec, settings = ToyEnv(Toy()).spec, preset("capex")
    memory = remembering(stuck(1), shelf(0), tray(2), slow(4), shelf(3))
    whole = build(memory, settings, spec, 7, "layout 1")
    lines = {
        line for part in (*whole.references, whole.skeleton_text) for line in part.splitlines()
    }
    seen = []
    for filler in range(12_000, SIZE_MAX - 1000, 60):
        own = tmp_path / "own.txt"
        own.write_text("x" * filler + "\n<<SETTINGS>>\n<<REFERENCES>><<SKELETON>>")
        context = build(memory, settings, spec, 7, "layout 1", template=own)
        prompt = system_prompt(
            spec,
            settings,
            labels=context.labels,
            references=context.references_text,
            skeleton=context.skeleton_text,
            template=own,
        )
        assert len(prompt) <= SIZE_MAX
        shown = [
            line
            for part in (*context.references, context.skeleton_text)
            for line in part.splitlines()
        ]
        assert all(
            line in lines or re.match(r"\(calls? |Located points|Phase ", line) for line in shown
        )
        assert len(context.pictures) == 2 * len(context.references)
        newer, older, skeleton = (
            (*context.references, "", "")[0],
            (*context.references, "", "")[1],
            context.skeleton_text,
        )
        seen.append(
            (
                skeleton == whole.skeleton_text,
                newer == whole.references[0],
                older == whole.references[1],
            )
        )
        assert (
            newer == whole.references[0]
            or older == ""
            or older == list(versions(memory.successes[-2], 2, False))[-1].text
        )
        assert skeleton == whole.skeleton_text or newer in (
            "",
            list(versions(memory.successes[-1], 1, True))[-1].text,
        )
    assert seen[0] == (True, True, True)
    assert {(True, True, False), (True, False, False), (False, False, False)} <= set(seen)
    own.write_text("x" * SIZE_MAX)
    with refuses(
        ErrorCode.BAD_SETTING,
        r"the system prompt has 18001 characters without any memory; at most 18000 are allowed",
    ):
        build(Memory(), settings, spec, 7, "", template=own)


def test_a_template_that_shows_memory_twice_is_bounded_too(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("x" * 15_000 + "<<REFERENCES>><<REFERENCES>><<SKELETON>>")
    spec, settings = ToyEnv(Toy()).spec, preset("capex")
    context = build(remembering(shelf(0), tray(2)), settings, spec, 7, "", template=own)
    prompt = system_prompt(
        spec,
        settings,
        references=context.references_text,
        skeleton=context.skeleton_text,
        template=own,
    )
    assert len(prompt) <= SIZE_MAX
    assert context.references
