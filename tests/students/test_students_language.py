"""Instructions at rollout: what a policy makes of those that it was not trained on."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import student_data
from capex.errors import ErrorCode
from capex.students import checkpoint, data, language
from capex.students.hearing import Hearing
from capex.students.policy import load_policy
from capex.students.settings import make_settings
from capex.students.spoken import Interpreter
from capex.students.train import TrainingJob, train
from refusals import refuses

KNOWN = ("pick the cup from the shelf", "pick the bowl from the sink")
NEW = "pick the cup from the sink"  # known words in a new combination


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """Demonstrations with two instructions."""
    folder = student_data.write(tmp_path_factory.mktemp("pack") / "pack", episodes=2)
    head = json.loads((folder / "pack.json").read_text())
    for episode, text in zip(head["episodes"], KNOWN, strict=True):
        episode["instruction"] = text
    (folder / "pack.json").write_text(json.dumps(head))
    return folder


def trained(pack, out, *, instructions=None, init=None, steps=1, keep=(), **changes):
    settings = make_settings("diffusion", {**student_data.SMALL["diffusion"], **changes})
    job = TrainingJob(
        (pack,), settings, steps, out, instructions=instructions, init=init, keep=keep, device="cpu"
    )
    train(job)
    return out


def test_our_encoder_of_words_embeds_what_it_never_saw(pack, tmp_path):
    spec, net = checkpoint.load_network(trained(pack, tmp_path / "words", text="words"))
    heard = Interpreter(spec, net).embed
    cup, bowl, new, other_order = heard([*KNOWN, NEW, "sink the from cup the pick"])
    assert not torch.equal(new, cup)
    assert not torch.equal(new, bowl)
    assert not torch.equal(new, (cup + bowl) / 2)
    assert not torch.equal(new, other_order)  # the order of words is read
    assert torch.equal(heard([f"{NEW} zzz"])[0], new)  # an unknown word is left out
    tell = Hearing.of(spec).tell
    assert tell(KNOWN[0]) == {"instruction_embedding": "trained on"}
    assert tell(NEW) == {"instruction_embedding": "encoded"}
    assert tell(f"{NEW} zzz")["instruction_embedding"] == "encoded, without zzz"
    assert "no word of it is known" in tell("zzz")["instruction_embedding"]


def test_only_a_learned_table_falls_back_to_the_mean_and_says_so(pack, tmp_path):
    spec, net = checkpoint.load_network(trained(pack, tmp_path / "table"))
    cup, bowl, new = Interpreter(spec, net).embed([*KNOWN, NEW])
    assert torch.allclose(new, (cup + bowl) / 2)
    assert Hearing.of(spec).tell(NEW) == {"instruction_embedding": "mean of the known ones"}
    with refuses(ErrorCode.NOT_APPLICABLE, "it learned its embeddings"):
        Interpreter(spec, net, tmp_path)


def test_given_embeddings_travel_with_the_checkpoint_or_are_named(pack, tmp_path):
    rng = np.random.default_rng(0)
    table = {text: rng.normal(size=8).astype(np.float32) for text in (*KNOWN, NEW, "stand still")}
    language.write(tmp_path / "some.npz", {k: table[k] for k in (*KNOWN, NEW)})
    language.write(tmp_path / "all.safetensors", table)
    shuffled = dict(zip(table, list(table.values())[::-1], strict=True))
    language.write(tmp_path / "other.npz", shuffled)
    folder = trained(pack, tmp_path / "given", instructions=tmp_path / "some.npz")
    spec, net = checkpoint.load_network(folder)
    assert np.allclose(Interpreter(spec, net).embed([NEW])[0], table[NEW])  # never trained on
    assert Hearing.of(spec).tell(NEW) == {"instruction_embedding": "encoded"}
    with refuses(ErrorCode.MISMATCH, r"no embedding of 'stand still'.*--instructions"):
        Interpreter(spec, net).embed(["stand still"])
    named = Interpreter(spec, net, tmp_path / "all.safetensors")
    assert np.allclose(named.embed(["stand still"])[0], table["stand still"])
    with refuses(ErrorCode.MISMATCH, "gives other embeddings than"):
        Interpreter(spec, net, tmp_path / "other.npz")
    policy = load_policy(folder, "cpu", tmp_path / "all.safetensors")
    policy.reset()
    frame = data.open_pack(pack).images[0][0]
    images = dict(zip(student_data.CAMERAS, frame, strict=True))
    seen = {"images": images, "state": np.ones(9), "instruction": "stand still"}
    assert policy.act(seen).shape == (12,)


def test_fine_tuning_keeps_words_and_given_embeddings(pack, tmp_path):
    more = student_data.write(tmp_path / "more", episodes=2)  # "go to the square"
    first = trained(pack, tmp_path / "first", text="words")
    tuned = trained(more, tmp_path / "tuned", init=first, steps=1, keep=(0,), text="words")
    begun, old = checkpoint.load_network(checkpoint.path_of(tuned, 0))
    spec, before = begun, checkpoint.load_network(first)
    assert set(before[0].vocabulary) < set(spec.vocabulary)
    assert "square" in spec.vocabulary
    assert torch.allclose(
        Interpreter(spec, old).embed([NEW]), Interpreter(*before).embed([NEW]), atol=1e-6
    )  # step 0 is what fine-tuning began from
    assert (spec.training["steps"], spec.training["tuned"]) == (0, True)
    language.write(tmp_path / "some.npz", {k: np.ones(8, dtype=np.float32) for k in KNOWN})
    given = trained(pack, tmp_path / "given", instructions=tmp_path / "some.npz")
    with refuses(ErrorCode.MISMATCH, "has none of 'go to the square'"):
        trained(more, tmp_path / "refused", init=given)


def test_fine_tuning_takes_the_embeddings_of_the_first_training_alone(pack, tmp_path):
    more = student_data.write(tmp_path / "more", episodes=2)  # "go to the square"
    rng = np.random.default_rng(0)
    new = "go to the square"
    table = {text: rng.normal(size=8).astype(np.float32) for text in (*KNOWN, new)}
    language.write(tmp_path / "some.npz", {k: table[k] for k in KNOWN})
    language.write(tmp_path / "all.npz", table)
    language.write(tmp_path / "others.npz", {k: v + 1 for k, v in table.items()})
    language.write(tmp_path / "new.npz", {new: table[new]})
    given = trained(pack, tmp_path / "given", instructions=tmp_path / "some.npz")
    for name, sentence in (
        ("others.npz", f"others.npz gives other embeddings than .* '{KNOWN[0]}'"),
        ("new.npz", f"new.npz has no embedding of '{KNOWN[0]}'"),
    ):
        with refuses(ErrorCode.MISMATCH, sentence):
            trained(more, tmp_path / "refused", init=given, instructions=tmp_path / name)
    tuned = trained(more, tmp_path / "tuned", init=given, instructions=tmp_path / "all.npz")
    heard = Interpreter(*checkpoint.load_network(tuned)).embed([new, KNOWN[0]])
    assert np.allclose(heard[0], table[new])
    assert np.allclose(heard[1], table[KNOWN[0]])
    learned = trained(pack, tmp_path / "learned")
    with refuses(ErrorCode.CONFLICTING_SETTINGS, "the policy of --init learned its own"):
        trained(more, tmp_path / "refused", init=learned, instructions=tmp_path / "all.npz")
    assert not (tmp_path / "refused").exists()


def test_clip_of_the_real_shape_embeds_any_instruction(pack, tmp_path):
    """ViT-L/14's text tower with random weights; its tokenizer here knows single letters."""
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer

    letters = [chr(c) for c in range(97, 123)]
    tokens = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps({t: k for k, t in enumerate(tokens)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    CLIPTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")).save_pretrained(
        tmp_path
    )
    shape = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
    config = CLIPTextConfig(**shape, num_hidden_layers=12, projection_dim=768, eos_token_id=53)
    CLIPTextModelWithProjection(config).save_pretrained(tmp_path)
    folder = trained(pack, tmp_path / "policy", instructions=tmp_path, language=768)
    spec, net = checkpoint.load_network(folder)
    cup, new = Interpreter(spec, net, tmp_path).embed([KNOWN[0], NEW])
    assert cup.shape == (768,)
    assert np.allclose(new, language.read(tmp_path, [NEW], 768)[0], atol=1e-5)
    assert not torch.allclose(cup, new)
    with refuses(ErrorCode.MISMATCH, "no embedding of"):
        Interpreter(spec, net).embed([NEW])
