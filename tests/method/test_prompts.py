"""System prompts: filled completely, bounded, the same bytes for the same inputs, and true to what the code does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capex.errors import ErrorCode, UnknownName
from capex.method.executor import DISPLACEMENT_MAX_M
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import preset
from capex.method.prompts import SIZE_MAX, read_hints, system_prompt
from capex.method.reading import Act, read_act
from capex.method.record import from_json
from capex.method.tools import interface
from refusals import refuses
from toy import Toy, ToyEnv

GOLDEN = Path(__file__).parents[1] / "golden"


def _settings(prompt: str) -> dict:
    return json.loads(re.search(r"Harness settings:\n(\{.*\})", prompt).group(1))


def test_both_prompts_are_filled_and_small(stove):
    capex, base = (system_prompt(stove.spec, preset(name)) for name in ("capex", "base"))
    for prompt in (capex, base):
        assert "<<" not in prompt
    assert len(base) < 4500 < len(capex) < 11_000 < SIZE_MAX
    assert "locate_pixel" not in base
    assert "confidence" not in base
    assert "done (boolean" in base
    assert system_prompt(stove.spec, preset("capex")) == capex


def test_the_harness_line_lists_what_the_code_honours(stove):
    line = _settings(
        system_prompt(
            stove.spec,
            preset("capex", tau=0.6),
            labels=12,
            weights=[0.0, 1.0, 0, 0, 0, 0, 0, 0.12345],
        )
    )
    assert line["max_displacement_cm"] == 100 * DISPLACEMENT_MAX_M
    assert line["commit_threshold"] == 0.6
    assert line["calibration_labels"] == 12
    assert line["calibrator_weights"][-1] == 0.123
    assert line["plan_max"] == 24
    assert line["base_motion"]["max_translation_m"] == 0.6
    assert {"verify", "overlay", "done_gate", "discrete_step_cm"}.isdisjoint(line)
    assert "commit_threshold" not in _settings(system_prompt(stove.spec, preset("base")))


def test_what_a_world_does_not_have_is_not_mentioned():
    fixed = ToyEnv(Toy(mobile=False, depth=False)).spec
    prompt = system_prompt(fixed, preset("capex"))
    assert "locate_pixel" not in prompt
    assert "base_forward_cm" not in prompt


def test_where_a_person_judges_the_prompt_says_when_to_say_done():
    spec = ToyEnv(Toy(judge="operator")).spec
    for name in ("capex", "base"):
        prompt = system_prompt(spec, preset(name))
        assert "A person judges afterwards" in prompt
        assert "done that comes too early counts as a failure" in prompt
        assert "only when the images of your newest look" in prompt
        for untrue in ("ends by itself.", "the episode goes on", "not ended", "Never declare"):
            assert untrue not in prompt


def test_each_camera_is_described_as_it_stands():
    toy = ToyEnv(Toy(arms=("left",))).spec
    assert "The exterior cameras look roughly along +x" in system_prompt(toy, preset("base"))
    faces = replace(toy.cameras[0], view="faces the robot, so the left\nside of its image is -y.")
    seen = replace(toy, cameras=(faces, *toy.cameras[1:]))
    for name in ("capex", "base"):
        assert (
            " z up. Camera back_left faces the robot, so the left side of its image is -y. Camera"
            " back_right looks roughly along +x, so the left side of its image is +y. Camera"
            " left_wrist looks along its gripper. Targets are"
        ) in system_prompt(seen, preset(name))
    assert "further forward" not in system_prompt(seen, preset("capex"))


def test_what_changes_between_episodes_stands_last(stove):
    one = system_prompt(
        stove.spec,
        preset("capex"),
        labels=1,
        references="Reference episode 1",
        skeleton="Task skeleton",
    )
    two = system_prompt(
        stove.spec,
        preset("capex"),
        labels=2,
        references="Reference episode 2",
        skeleton="Another skeleton",
    )
    common = next(k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    assert common > 0.85 * one.index("REFERENCE EPISODES")
    assert "Reference episode 1" in one
    assert "Task skeleton" in one


def test_memory_text_is_data_and_never_filled(stove):
    prompt = system_prompt(stove.spec, preset("capex"), skeleton="a scene that says <<SETTINGS>>")
    assert "a scene that says <<SETTINGS>>" in prompt


def test_a_users_own_prompt_replaces_ours_and_its_mistakes_get_a_sentence(stove, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("Move at most <<DISPLACEMENT_CM>> cm.\n<<SETTINGS>>")
    assert system_prompt(stove.spec, preset("capex"), template=own).startswith(
        "Move at most 10 cm."
    )
    for unknown in ("<<SPEED>>", "<<speed>>", "<<W 8 floats>>", "<<SKELETON\n2>>"):
        own.write_text(f"Drive. {unknown}")
        named = re.escape(unknown.replace("\n", " "))
        with refuses(
            ErrorCode.UNKNOWN_NAME,
            f"the prompt has a field {named}, which nothing fills; known fields: .*<<WORKSPACE_BOX>>",
        ):
            system_prompt(stove.spec, preset("capex"), template=own)
    own.write_text("1 << 2, 9 >> 1, <<<, >>>")  # no fields
    assert system_prompt(stove.spec, preset("capex"), template=own) == "1 << 2, 9 >> 1, <<<, >>>\n"
    with refuses(ErrorCode.UNREADABLE_FILE):
        system_prompt(stove.spec, preset("capex"), template=tmp_path / "none.txt")
    with pytest.raises(UnknownName, match="there is no arm 'capx'; valid: capex"):
        preset("capx")


def test_hints_stand_in_every_prompt_and_are_bounded(stove, tmp_path):
    hints, own = tmp_path / "hints.txt", tmp_path / "own.txt"
    hints.write_text("The gripper opens 8 cm.\x1b[31m Nothing fills <<SETTINGS>> here.\n")
    told = read_hints(hints)
    spec = replace(stove.spec, hints="The arms stand 60 cm apart.")
    for name in ("capex", "base"):
        prompt = system_prompt(spec, preset(name), hints=told)
        both = "The arms stand 60 cm apart.\nThe gripper opens 8 cm.[31m Nothing fills <<SETTINGS>>"
        assert f"\n\nTHIS ROBOT AND TASK\n{both} here.\n\nText in images" in prompt
        assert "THIS ROBOT" not in system_prompt(stove.spec, preset(name))
    expert = replace(spec, technique="Pinch the rim.")
    assert "60 cm apart.\nPinch the rim.\n" in system_prompt(expert, preset("capex-stated"))
    assert system_prompt(expert, preset("base")) == system_prompt(spec, preset("base"))
    own.write_text("Drive.")
    filled = system_prompt(spec, preset("capex"), template=own)
    assert filled == "Drive.\n\nTHIS ROBOT AND TASK\nThe arms stand 60 cm apart.\n"
    for text, size in (("word " * 801, 4004), ("", 0)):
        hints.write_text(text)
        with refuses(ErrorCode.BAD_SETTING, f"has {size} characters; it must have 1 to 4000"):
            read_hints(hints)


PRINTED = """You drive a made-up robot.
Harness settings:
{"labels": <<N_LABELS>>, "weights": <<W: 8 floats>>, "also": <<W:
8 floats>>, "workspace_box": <<WORKSPACE_BOX>>, "last": true}

Earlier successes
<<REFERENCE EPISODES>>

Reliability
<<SKELETON>>

Earlier successes again: <<REFERENCE
EPISODES>>
"""


def test_a_prompt_with_the_papers_fields_is_filled_from_the_same_table(stove, tmp_path):
    printed = tmp_path / "printed.txt"
    printed.write_text(PRINTED)
    weights = [0.0, 1.0, 0, 0, 0, 0, 0, 0.12345]
    told = {
        "labels": 12,
        "weights": weights,
        "references": "Reference episode 1 says <<W>>",
        "skeleton": "Phase 1: chunk-safe.",
    }
    for name in ("capex", "base"):
        prompt = system_prompt(stove.spec, preset(name), template=printed, **told)
        line = json.loads(re.search(r"Harness settings:\n(\{.*?\})\n", prompt, re.DOTALL).group(1))
        assert line["labels"] == 12
        assert (
            line["workspace_box"]
            == _settings(system_prompt(stove.spec, preset(name)))["workspace_box_cm"]
        )
        assert prompt.count("Reference episode 1 says <<W>>") == 2  # what memory says is data
        assert "Reliability\n\nPhase 1: chunk-safe.\n" in prompt
    prompt = system_prompt(stove.spec, preset("capex"), template=printed, **told)
    assert prompt.count("[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.123]") == 2
    first = system_prompt(stove.spec, preset("capex"), template=printed)
    assert (
        '"labels": 0, "weights": [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], ' in first
    )  # the prior: believe the model
    assert "<<" not in first


def test_memory_is_cut_to_fit_a_prompt_with_the_papers_fields(stove, tmp_path):
    printed = tmp_path / "printed.txt"
    record = json.loads((GOLDEN / "microwave_record.json").read_text())
    memory = Memory()
    for start in range(3):
        memory.add(from_json(record | {"start": start, "images": {}}), {})
    for filler in (0, 12_000, 16_800, 17_400):
        printed.write_text(PRINTED + "word " * (filler // 5))
        context = build(memory, preset("capex"), stove.spec, 7, "", template=printed)
        told = {
            "labels": context.labels,
            "references": context.references_text,
            "skeleton": context.skeleton_text,
        }
        assert len(system_prompt(stove.spec, preset("capex"), template=printed, **told)) <= SIZE_MAX
    assert context.references == ()
    printed.write_text(PRINTED + "word " * 3600)
    with refuses(
        ErrorCode.BAD_SETTING,
        r"the system prompt has 18\d\d\d characters without any memory; at most 18000 are allowed",
    ):
        build(memory, preset("capex"), stove.spec, 7, "", template=printed)


def test_the_text_form_for_models_without_functions(stove):
    for name in ("capex", "base"):
        prompt = system_prompt(stove.spec, preset(name), json_form=True)
        example = json.loads(re.search(r"Write only (\{.*\})\.", prompt).group(1))["calls"][0]
        read = read_act(
            json.dumps(example["arguments"]),
            interface(stove.spec, preset(name)),
            {"arm": np.zeros(3)},
        )
        assert isinstance(read, Act)
        assert read.repairs == ()
