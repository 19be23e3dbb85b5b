"""One episode through the whole harness with a scripted model, compared with reviewed golden files, and each way an episode can end."""

from __future__ import annotations

import base64
import itertools
import json
import multiprocessing
import os
import random
import re
import signal
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from capex import worlds
from capex.campaign.api import collect
from capex.campaign.chain import ChainPlan
from capex.campaign.ledger import Budget, Ledger
from capex.errors import ErrorCode
from capex.method.context import EpisodeContext, Limits
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import preset
from capex.method.prompts import SIZE_MAX, system_prompt
from capex.method.record import from_json
from capex.models import ModelError, Picture
from capex.models.prices import load_prices
from capex.models.scripted import Scripted
from capex.run import load_chain
from capex.run.files import read_json
from capex.run.spend import Spend
from capex.run.steps import read_steps
from capex.run.store import Chain, Run
from capex.worlds import Start
from demos import attempt
from refusals import model_fails, refuses
from toy import Toy, ToyEnv

GOLDEN = Path(__file__).parents[1] / "golden"
TASK = "TurnOnMicrowave"
REPLIES = json.loads((GOLDEN / "microwave_replies.json").read_text())
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
HOP = [("act", {"reasoning": "a hop", "delta_cm": [0, 0, 2], "confidence": 0.9})]


@pytest.fixture(scope="module")
def microwave():
    env = worlds.make(f"kitchen:{TASK}")
    yield env
    env.close()


def _same(got: str, wanted: str, tolerance: float) -> None:
    """Equal but for the last digits of numbers, which depend on the processor."""
    assert NUMBER.sub("#", got) == NUMBER.sub("#", wanted)
    for a, b in zip(NUMBER.findall(got), NUMBER.findall(wanted), strict=True):
        assert abs(float(a) - float(b)) <= tolerance, (a, b)


HOP_LEFT = [("act", {"reasoning": "a hop", "left": {"delta_cm": [0, 0, 2]}, "confidence": 0.9})]


def _golden(name: str, text: str, tolerance: float) -> None:
    path = GOLDEN / name
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text)  # pixels depend on the renderer
    if os.environ.get("CAPEX_WRITE_GOLDEN"):
        path.write_text(text)
    _same(text, path.read_text(), tolerance)


def test_a_whole_episode_and_the_next_prompt_match_the_reviewed_files(microwave, tmp_path):
    chain = Chain(tmp_path / f"kitchen--{TASK}--capex")
    events = []
    result = attempt(microwave, Scripted(REPLIES), preset("capex"), chain, 0, [events.append])
    assert result.success
    record = read_json(result.path / "record.json")
    reports = [w["report"] for t in record["turns"] for w in t["waypoints"]]
    for words in (
        "deferred: low confidence",
        "finger contact",
        "stopped by contact (base on",
        "reclose: opening",
        "base moved -5 cm",
        "terminal",
    ):
        assert any(words in r for r in reports), words
    assert record["turns"][0]["located"][0]["position_m"] is not None
    _golden("microwave_record.json", json.dumps(record, indent=1), 0.02)
    assert from_json(record).as_json() == record
    assert {type(e).__name__ for e in events} == {
        "Remembered",
        "Deciding",
        "Replied",
        "Committed",
        "Tick",
        "Passed",
        "Executed",
        "Ended",
    }

    memory = ChainPlan(chain, []).memory
    assert memory.labels == sum(
        w["label"] is not None for t in record["turns"] for w in t["waypoints"]
    )
    context = build(memory, preset("capex"), microwave.spec, 1, "layout 1, style oak")
    prompt = system_prompt(
        microwave.spec,
        preset("capex"),
        labels=context.labels,
        weights=None,
        references=context.references_text,
        skeleton=context.skeleton_text,
    )
    assert len(prompt) <= SIZE_MAX
    assert len(context.pictures) == 2
    _golden("microwave_next_prompt.txt", prompt, 1.01)
    shas = set(record["images"].values())
    assert len(shas) == 2
    assert all((result.path / "images" / f"{sha}.png").is_file() for sha in shas)
    assert len((result.path / "exchanges.jsonl").read_text().splitlines()) == len(REPLIES)


def test_the_next_episode_is_calibrated_and_sees_its_references(microwave, tmp_path):
    chain = Chain(tmp_path / "chain")
    seen = []

    class Watching(Scripted):
        def complete(self, request, observer=None):
            seen.append(request)
            return super().complete(request, observer)

    attempt(microwave, Watching([*REPLIES, *[HOP] * 3]), preset("capex", decisions=8), chain, 0)
    attempt(microwave, Watching([HOP] * 3), preset("capex", decisions=3), chain, 1)
    last = seen[-1]
    pictures = [p for p in last.messages[0].parts if isinstance(p, Picture)]
    assert (
        len(pictures) == 2 + 3
    )  # one reference with two exterior start images, and the present views
    assert "REFERENCE EPISODES" in last.system
    second = read_json(chain.episode(1) / "record.json")
    assert second["labels_before"] > 5
    assert second["weights"] is not None
    hop = second["turns"][0]["waypoints"][0]
    assert hop["waypoint"]["confidence"] == 0.9
    assert hop["calibrated"] != 0.9
    first = read_json(chain.episode(0) / "record.json")
    assert (
        first["turns"][1]["waypoints"][0]["calibrated"]
        == first["turns"][1]["waypoints"][0]["waypoint"]["confidence"]
    )  # no labels yet: p = q exactly


@pytest.mark.parametrize(
    ("name", "labels", "calibrated"),
    [("capex", True, True), ("capex-fresh", False, False), ("capex-stated", False, False)],
)
def test_each_ablation_is_a_setting(microwave, tmp_path, name, labels, calibrated):
    chain = Chain(tmp_path / name)
    attempt(microwave, Scripted([*REPLIES, *[HOP] * 2]), preset(name), chain, 0)
    attempt(microwave, Scripted([HOP] * 2), preset(name, decisions=2), chain, 1)
    record = read_json(chain.episode(1) / "record.json")
    assert (record["labels_before"] > 0) is labels
    assert (record["turns"][0]["waypoints"][0]["calibrated"] != 0.9) is calibrated


def test_the_base_arm_moves_one_waypoint_at_a_time_and_may_say_done(microwave):
    replies = [
        [
            ("locate_pixel", {"camera": "left", "u": 1, "v": 1}),
            ("act", {"reasoning": "", "delta_cm": [0, 0, 3]}),
        ],
        [("act", {"reasoning": "", "done": True})],
    ]
    episode = run_episode(microwave, Start(TASK, 0), Scripted(replies), preset("base"), Memory())
    assert episode.record.end == "done"
    assert episode.record.success is False  # done never decides
    assert [len(t.waypoints) for t in episode.record.turns] == [1, 0]
    assert episode.record.turns[0].located == ()


def test_six_invalid_rounds_spend_the_decision_and_the_last_allows_only_act():
    choices = []

    class Watching(Scripted):
        def complete(self, request, observer=None):
            choices.append(request.tool_choice)
            return super().complete(request, observer)

    replies = [
        "no call at all",
        [("act", "{")],
        [("act", {"reasoning": "no confidence", "left": {"target_cm": [40, 20, 20]}})],
        [("dance", {})],
        [],
        [("act", {"done": True})],
    ]
    episode = run_episode(
        ToyEnv(Toy()),
        Start("reach", 0),
        Watching(replies),
        preset("capex", decisions=1, image_size=64),
        Memory(),
    )
    assert choices == ["required"] * 5 + ["act"]
    (turn,) = episode.record.turns
    assert turn.skipped_reason.startswith(
        "spent without motion: no valid act in 6 rounds (done is not offered"
    )
    assert episode.record.end == "decisions"
    assert episode.record.steps == 0


def test_a_model_that_calls_nothing_fails_after_three_decisions_with_its_own_words():
    def episode(replies, **overrides):
        settings = preset("capex", image_size=64, decisions=7, **overrides)
        return run_episode(
            ToyEnv(Toy()), Start("reach", 0), Scripted(replies), settings, Memory()
        ).record

    rant = "I am a language model and \x1b[31mcannot move robots. " * 20
    silent = episode([rant] * 18)
    assert (silent.end, silent.success, silent.requests, len(silent.turns)) == (
        "silent",
        False,
        18,
        3,
    )
    assert silent.silent.reason == "3 decisions in a row without a valid tool call"
    assert silent.silent.last_words == rant.strip()[:500]  # the record keeps what was said
    assert episode([[("dance", {"a": 1})]] * 18).silent.last_words == 'dance({"a": 1})'
    assert episode(["..."] * 42, silent_decisions=0).end == "decisions"
    assert episode(["..."] * 12, silent_decisions=2).end == "silent"
    looking = [("locate_pixel", {"camera": "back_left", "u": 3, "v": 3})]
    heard = episode(
        [*["..."] * 12, looking, *["..."] * 5, *["..."] * 24]
    )  # one valid call in the third decision
    assert (heard.end, len(heard.turns)) == ("silent", 6)
    assert episode([*["..."] * 12, *([HOP_LEFT] * 5)]).silent is None


def test_budgets_and_limits_end_an_episode(microwave):
    price = load_prices(None).find("gpt-6-astra")
    ledger = Ledger(price, (Budget(Decimal("0.01"), "episode"),))
    episode = run_episode(
        microwave,
        Start(TASK, 0),
        Scripted([HOP] * 3),
        preset("capex"),
        Memory(),
        EpisodeContext(ledger),
    )
    assert episode.record.end == "cost"
    assert episode.record.requests == 0
    ticks = itertools.count()
    episode = run_episode(
        microwave,
        Start(TASK, 0),
        Scripted([HOP] * 9),
        preset("capex"),
        Memory(),
        EpisodeContext(limits=Limits(wall_s=3), clock=lambda: float(next(ticks))),
    )
    assert episode.record.end == "time"
    ledger = Ledger(price)
    episode = run_episode(
        microwave,
        Start(TASK, 0),
        Scripted([HOP] * 2),
        preset("capex", decisions=2),
        Memory(),
        EpisodeContext(ledger),
    )
    assert episode.record.end == "decisions"
    assert episode.record.cost_usd > 0
    assert episode.record.ledger.attempts == 2


def _collect(out, replies, starts, **options):
    model = replies if isinstance(replies, Scripted) else Scripted(replies)
    return collect(f"kitchen:{TASK}", model=model, starts=starts, out=out, **options)


def _chain(out: Path) -> Chain:
    return Run(out).chain("kitchen", TASK, "capex")


def test_a_model_error_invalidates_the_attempt_which_is_rerun_once(tmp_path):
    chain = _chain(tmp_path / "run")
    with model_fails("script"):
        _collect(tmp_path / "run", [HOP], [0], decisions=3)
    assert chain.finished() == []
    assert len(chain.invalid(0)) == 2
    assert "no reply left" in read_json(chain.path / "invalid" / "0000-1" / "record.json")["error"]
    run = _collect(tmp_path / "run", [HOP] * 3, [0], decisions=3, retry_invalid=True)
    assert [e.index for e in run.episodes] == [0]
    assert ChainPlan(chain, []).memory.labels == 3  # the invalid attempts left no label


def _run_for_ever(path: str) -> None:
    _collect(Path(path), [HOP] * 4000, range(1000), decisions=3)


def test_a_chain_killed_at_random_moments_stays_whole_and_continues(tmp_path):
    context, rng = multiprocessing.get_context("spawn"), random.Random(5)
    chain = _chain(tmp_path / "run")
    for _ in range(5):
        already = len(chain.finished())
        process = context.Process(target=_run_for_ever, args=(str(tmp_path / "run"),))
        process.start()
        while len(chain.finished()) <= already:
            assert process.is_alive()
            time.sleep(0.01)
        time.sleep(rng.random() * 0.6)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        finished = chain.finished()
        assert finished == list(range(len(finished)))
        for index in finished:
            record = from_json(read_json(chain.episode(index) / "record.json"))
            assert read_steps(chain.episode(index))["actions"].shape[0] == record.steps
            assert record.turns
    undisturbed = _chain(tmp_path / "undisturbed")
    count = min(len(finished), 6)
    _collect(tmp_path / "undisturbed", [HOP] * 60, range(count), decisions=3)
    for index in range(count):
        for file in ("record.json", "steps.npz"):
            assert (undisturbed.episode(index) / file).read_bytes() == (
                chain.episode(index) / file
            ).read_bytes()


def test_a_spent_campaign_ends_the_chain_and_leaves_the_start_for_later(tmp_path):
    class Priced(Scripted):
        price_name = "gpt-6-astra"

    chain, model, events = _chain(tmp_path / "run"), Priced([HOP] * 20), []
    told = lambda event, board: events.append(event)  # noqa: E731
    _collect(tmp_path / "run", model, range(20), decisions=2, campaign_usd=1.0, watch=told)
    assert events[-1].why == "out of budget"
    spend = Spend(tmp_path / "run" / "spend.jsonl")
    assert len(chain.finished()) < 20
    assert all(
        read_json(chain.episode(i) / "record.json")["decisions"] == 2 for i in chain.finished()
    )
    assert spend.total() <= 1
    with refuses(ErrorCode.NO_PRICE):
        _collect(tmp_path / "other", [HOP], [0], episode_usd=3.0)


def test_more_starts_extend_a_chain_with_all_it_remembers(microwave, tmp_path):
    chain = Chain(tmp_path / "chain")
    settings = preset("capex", decisions=2)
    for start in (5, 2, 9):
        attempt(microwave, Scripted([HOP] * 2), settings, chain, start)
    assert [e.index for e in load_chain(chain).episodes] == [5, 2, 9]
    assert read_json(chain.episode(9) / "record.json")["labels_before"] == 4


def test_errors_that_will_not_pass_are_not_repeated(tmp_path):
    class Locked(Scripted):
        def complete(self, request, observer=None):
            raise ModelError("authentication", "the key is not valid")

    with model_fails("authentication"):
        _collect(tmp_path / "run", Locked([]), [0])
    assert len(_chain(tmp_path / "run").invalid(0)) == 1


@pytest.mark.parametrize(
    "canary", ["sk-canary-0123456789abcdef", "canary-0123456789", 'canary-"naïve"\\']
)
def test_a_key_that_a_model_quotes_is_written_nowhere(microwave, tmp_path, monkeypatch, canary):
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    encoded = base64.b64encode(canary.encode()).decode().rstrip("=")
    reply = [
        (
            "act",
            {
                "reasoning": f"the key is {canary}, or {encoded}",
                "delta_cm": [0, 0, 2],
                "confidence": 0.9,
                canary: 1,
            },
        )
    ]
    chain = Chain(tmp_path / "chain")
    attempt(microwave, Scripted([reply] * 2), preset("capex", decisions=2), chain, 0)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) > 5
    forms = [canary, json.dumps(canary)[1:-1], json.dumps(canary, ensure_ascii=False)[1:-1]]
    for form in (*forms, encoded[4:-4]):  # as JSON has it, with and without escapes
        assert not [p for p in files if form.encode() in p.read_bytes()]


def test_located_points_ride_with_the_base():
    pixel = {"camera": "back_left", "u": 32, "v": 40}
    replies = [
        [("locate_pixel", pixel)],
        [("act", {"reasoning": "", "base_forward_cm": 20, "base_turn_deg": 90})],
        [("act", {"reasoning": "", "left": {"delta_cm": [0, 0, 1]}, "confidence": 0.9})],
    ]
    episode = run_episode(
        ToyEnv(Toy()),
        Start("reach", 0),
        Scripted(replies),
        preset("capex", decisions=2, image_size=64),
        Memory(),
    )
    drive, hop = episode.record.turns
    point = np.array(drive.located[0].position_m)
    forward, left, turn = drive.waypoints[0].base_moved
    moved = point - [forward, left, 0]
    carried = np.array(
        [
            np.cos(turn) * moved[0] + np.sin(turn) * moved[1],
            -np.sin(turn) * moved[0] + np.cos(turn) * moved[1],
            moved[2],
        ]
    )
    target = np.array(hop.waypoints[0].clamped_m["left"])
    assert np.isclose(
        hop.waypoints[0].features[6],
        min(100 * np.linalg.norm(target - carried), 40) / 20,
        atol=1e-6,
    )
