"""Settings: flags over file over defaults, everything in the manifest, and what is impossible
refused before the first episode.
"""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import pytest

import capex
from capex.campaign import prepare
from capex.campaign.ceiling import bytes_text, ceiling
from capex.campaign.manifest import Change
from capex.campaign.names import parse_starts, starts_text
from capex.campaign.settings import OPTIONS, resolve
from capex.cli import parse
from capex.cli.collect import OTHER_NAMES, Flags
from capex.errors import ErrorCode
from capex.models import Sampling
from capex.models.prices import load_prices
from capex.worlds import FRESH
from lab.campaigns import SMALL, collect, price_file
from refusals import refuses

CONFIG = """
tasks = ["lab.world:low"]
model = "lab.model:"
starts = "0:2"
image-size = 32
decisions = 3
tau = 0.3
effort = "low"
arm = "eager,base"

[arms.eager]
preset = "capex"
references = 1
"""


def test_flags_win_over_the_file_and_all_of_it_is_in_the_manifest(shm):
    config = shm / "campaign.toml"
    config.write_text(CONFIG)
    prices = price_file(shm)
    run = capex.collect(config=config, out=shm / "run", tau=0.8, prices=prices, seed=5)
    settings = run.manifest.settings
    assert settings["tasks"] == ["lab.world:low"]
    assert settings["seed"] == 5
    assert settings["sampling"] == vars(Sampling(effort="low"))
    eager, base = settings["arms"]["eager"], settings["arms"]["base"]
    assert (eager["tau"], eager["references"], eager["decisions"], eager["image_size"]) == (
        0.8,
        1,
        3,
        32,
    )
    assert (base["decisions"], base["tau"], base["plan_max"]) == (
        3,
        0.5,
        1,
    )  # tau means nothing to it
    assert run.manifest.plan.starts == (0, 1)
    assert run.manifest.price.model == "lab"
    assert run.manifest.price.source == "a test"
    assert {c.arm for c in run.chains} == {"eager", "base"}
    assert all(e.record.seed == 5 for e in run.episodes)


CHAT = {
    "names": "lab.world:low",
    "model": "chat:m@http://127.0.0.1:9/v1",
    "arm": "base",
    "starts": "0:1",
    "out": Path("run"),
}


def test_what_a_chat_server_is_sent_stands_in_the_manifest_with_the_papers_defaults():
    def identity(**options):
        return resolve(**_split({**CHAT, **options})).identity

    assert identity()["chat"] == {
        "context_tokens": 32_768,
        "temperature": 1.0,
        "top_p": 0.95,
        "top_k": 20,
    }
    said = identity(
        context_tokens=16_000,
        temperature=0.3,
        top_p="server",
        top_k="server",
        model="chat-text:m@http://127.0.0.1:9/v1",
    )
    assert said["chat"] == {
        "context_tokens": 16_000,
        "temperature": 0.3,
        "top_p": None,
        "top_k": None,
    }
    assert said["sampling"] == vars(Sampling(temperature=0.3))
    assert "chat" not in identity(model="pilot")
    assert identity(model="openai:m", top_k=7, temperature="server")["sampling"] == vars(
        Sampling(top_k=7)
    )  # sent where it was typed


def _split(options):
    return {"names": options.pop("names"), "given": options}


def test_a_run_keeps_the_price_it_began_with(shm):
    collect(shm / "run", starts="0:1", prices=price_file(shm, fresh=10))
    price_file(shm, fresh=20)
    run, _ = collect(shm / "run", starts="0:1")
    assert run.manifest.price.fresh == 10
    with refuses(ErrorCode.OTHER_SETTINGS, r"--prices, fresh: '10' before, '20' now"):
        collect(shm / "run", starts="0:1", prices=shm / "prices.toml")


def test_a_prompt_of_ones_own_is_kept_with_the_run(shm):
    prompt = shm / "mine.txt"
    prompt.write_text("Drive the robot. <<SETTINGS>>")
    run, _ = collect(shm / "run", "lab.world:low", arm="capex", starts="0:1", prompt=prompt)
    asked = next(iter(run.episodes[0].exchanges())).request["system"]
    assert asked.startswith("Drive the robot. {")
    assert (run.path / "prompt.txt").read_text() == prompt.read_text()
    prompt.write_text("Another. <<SETTINGS>>")
    with refuses(ErrorCode.OTHER_SETTINGS, "prompt: another text"):
        collect(shm / "run", "lab.world:low", arm="capex", starts="0:1", prompt=prompt)


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        (
            "Drive. <<SPEED>>",
            ErrorCode.UNKNOWN_NAME,
            "the prompt has a field <<SPEED>>, which nothing fills",
        ),
        ("x" * 18_001, ErrorCode.BAD_SETTING, "at most 18000 are allowed"),
    ],
)
def test_a_prompt_that_cannot_be_filled_is_refused_before_anything_is_written(
    shm, text, code, sentence
):
    (shm / "mine.txt").write_text(text)
    with refuses(code, sentence):
        collect(shm / "run", "lab.world:low", arm="capex", prompt=shm / "mine.txt")
    assert not (shm / "run").exists()


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (
            {"names": "lab.world:fixed", "base_motion": "on"},
            ErrorCode.UNSUPPORTED,
            "the robot of lab.world:fixed stands on a fixed base",
        ),
        (
            {"names": "lab.world:fixed", "locate": "on"},
            ErrorCode.UNSUPPORTED,
            "lab.world:fixed has no depth",
        ),
        (
            {"episode_usd": 25},
            ErrorCode.NO_PRICE,
            r"a budget of \$25.00 per episode cannot hold for lab.model:, which has no price",
        ),
        ({"campaign_usd": 5}, ErrorCode.NO_PRICE, r"a budget of \$5.00 per campaign cannot hold"),
        (
            {"names": "lab.world:judged", "until_successes": 3, "judge": "later"},
            ErrorCode.CONFLICTING_SETTINGS,
            "a person judges lab.world:judged later",
        ),
        (
            {"starts": "0:201"},
            ErrorCode.UNKNOWN_START,
            "there is no start 200 of lab.world:low; valid: 0 to 199",
        ),
        ({"starts": "5:2"}, ErrorCode.BAD_SETTING, "empty or negative range"),
        ({"arm": "capx"}, ErrorCode.UNKNOWN_NAME, "there is no arm 'capx'; valid: capex"),
        (
            {"arm": "base", "tau": 0.4},
            ErrorCode.NOT_APPLICABLE,
            "--tau means nothing to the arm base",
        ),
        ({"tau": 1.5}, ErrorCode.BAD_SETTING, "tau is 1.5; it must be a number between 0 and 1"),
        (
            {"decisions": 0},
            ErrorCode.BAD_SETTING,
            "decisions is 0; it must be a whole number between 1 and",
        ),
        ({"image_size": 5000}, ErrorCode.BAD_SETTING, "image_size is 5000"),
        ({"memory": "none"}, ErrorCode.BAD_SETTING, "memory is 'none'; valid: chain, fresh"),
        (
            {"temperature": "hot"},
            ErrorCode.BAD_SETTING,
            "temperature is 'hot'; it must be a number between 0 and 2, or the word server",
        ),
        (
            {"top_k": 0},
            ErrorCode.BAD_SETTING,
            "top_k is 0; it must be a whole number between 1 and 1e",
        ),
        (
            {"context_tokens": 9000},
            ErrorCode.NOT_APPLICABLE,
            "--context-tokens bounds what is sent to a chat: or chat-text: server, and the model is"
            " lab.model:",
        ),
        (
            {"context_tokens": 8000, "model": "chat:m@http://127.0.0.1:9/v1"},
            ErrorCode.CONFLICTING_SETTINGS,
            "--context-tokens 8000 has no room beside an answer of up to 8000 tokens; raise it, or lower"
            " --max-output-tokens",
        ),
        ({"max_starts": 9}, ErrorCode.MISSING_SETTING, "--max-starts 9 bounds --until-successes"),
        (
            {"prompt": "nowhere.txt"},
            ErrorCode.UNREADABLE_FILE,
            "the prompt file nowhere.txt cannot be read: No such file",
        ),
        (
            {"prices": "nowhere.toml"},
            ErrorCode.UNREADABLE_FILE,
            "the price file nowhere.toml cannot be read",
        ),
        ({"model": "nobody"}, ErrorCode.UNKNOWN_NAME, "there is no kind of model 'nobody'"),
        (
            {"model": "nowhere.model:x"},
            ErrorCode.NOT_FOUND,
            "names the module nowhere.model, which cannot be imported",
        ),
        (
            {"names": "nowhere.world:x"},
            ErrorCode.NOT_FOUND,
            "named like a module, but it cannot be imported",
        ),
        (
            {"names": "lab.model:x"},
            ErrorCode.CONTRACT_BROKEN,
            "the module lab.model is no world: it has no TASKS",
        ),
        (
            {"names": "gantry:x"},
            ErrorCode.UNKNOWN_NAME,
            "or a module of yours with a dot in its name",
        ),
        (
            {"names": "lab.world:lo"},
            ErrorCode.UNKNOWN_NAME,
            "there is no task 'lo' in world 'lab.world'; valid: low",
        ),
        ({"names": ()}, ErrorCode.MISSING_SETTING, "no task was named"),
        (
            {"parallel": 2, "ray": "auto"},
            ErrorCode.CONFLICTING_SETTINGS,
            "--parallel 2 and --ray auto are two engines",
        ),
        (
            {"tua": 0.5},
            ErrorCode.UNKNOWN_NAME,
            "there is no setting 'tua' of a campaign; valid: tau",
        ),
        (
            {"arms": "capex"},
            ErrorCode.UNKNOWN_NAME,
            r"there is no setting 'arms' of a campaign; valid: arm, (?!.*\barms\b)",
        ),
        (
            {"methods": "capex"},
            ErrorCode.UNKNOWN_NAME,
            r"no setting 'methods' of a campaign; valid: method, (?!.*\bmethods\b)",
        ),
        (
            {"config": "nowhere.toml"},
            ErrorCode.UNREADABLE_FILE,
            "the config file nowhere.toml cannot be read: No such file",
        ),
        (
            {"out": None},
            ErrorCode.MISSING_SETTING,
            "no run directory was named; write --out runs/NAME",
        ),
        ({"branch": True}, ErrorCode.NOT_FOUND, "holds no run that could be branched"),
    ],
)
def test_the_impossible_is_refused_before_anything_is_written(shm, options, code, sentence):
    with refuses(code, sentence):
        collect(**{"out": shm / "run", **options})
    assert not (shm / "run").exists()


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("arm = [", ErrorCode.UNREADABLE_FILE, "is not TOML"),
        ("tua = 0.5", ErrorCode.UNKNOWN_NAME, "there is no setting 'tua'"),
        (
            "armz = 3",
            ErrorCode.UNKNOWN_NAME,
            "there is no setting 'armz' of a campaign; valid: arm, arms, ",
        ),
        ("arms = 3", ErrorCode.BAD_SETTING, r"must hold tables: \[arms.NAME\]"),
        (
            "[arms.mine]\ntua = 1",
            ErrorCode.UNKNOWN_NAME,
            r"there is no setting 'tua' of \[arms.mine\]",
        ),
        (
            "[arms.base]\ntau = 0.5",
            ErrorCode.BAD_SETTING,
            "cannot be the name of an arm of your own",
        ),
        ("[arms.mine]\npreset = 'capx'", ErrorCode.UNKNOWN_NAME, "there is no arm 'capx'"),
        ("starts = -1", ErrorCode.BAD_SETTING, "starts: -1 names no starts"),
        ("decisions = true", ErrorCode.BAD_SETTING, "decisions is True"),
        ("notes = 'maybe'", ErrorCode.BAD_SETTING, "notes is 'maybe'; valid: on, off"),
        ("model = 3", ErrorCode.BAD_SETTING, "model is 3; it must be a text"),
        ("out = 3", ErrorCode.BAD_SETTING, "out is 3; it must be a path"),
        (
            "seed = '7'",
            ErrorCode.BAD_SETTING,
            "seed is '7'; it must be a whole number between 0 and",
        ),
        (
            "campaign_usd = -1",
            ErrorCode.BAD_SETTING,
            "campaign_usd is -1; it must be a number that is not negative",
        ),
        ("campaign-usd = inf", ErrorCode.BAD_SETTING, "campaign_usd is inf; it must be a number"),
        (
            f"campaign_usd = {10**400}",
            ErrorCode.BAD_SETTING,
            "campaign_usd is 1000.*; it must be a number",
        ),
        (
            "campaign_usd = 'much'",
            ErrorCode.BAD_SETTING,
            "campaign_usd is 'much'; it must be a number",
        ),
        (
            "until_successes = 0",
            ErrorCode.BAD_SETTING,
            "until_successes is 0; it must be a whole number of at least 1",
        ),
        (
            "effort = 'huge'",
            ErrorCode.BAD_SETTING,
            "effort is 'huge'; valid: none, minimal, low, medium, high",
        ),
        ("prompt = 3", ErrorCode.BAD_SETTING, "prompt is 3; it must be a path"),
        (
            "[arms.mine]\ndone = 'perhaps'",
            ErrorCode.BAD_SETTING,
            "done is 'perhaps'; valid: on, off",
        ),
    ],
)
def test_a_bad_config_file_is_refused_with_a_sentence(shm, text, code, sentence):
    (shm / "c.toml").write_text(text)
    out = None if "out" in text else shm / "run"
    with refuses(code, sentence) as refused:
        capex.collect("lab.world:low", out=out, config=shm / "c.toml")
    assert "pydantic" not in str(refused.value)


def test_every_setting_is_a_flag():
    assert [f.name for f in fields(Flags)] == [*OPTIONS, *OTHER_NAMES]
    assert all(s.help.endswith(".") and s.metavar for s in OPTIONS.values())


def test_a_method_may_be_called_an_arm():
    settings = resolve("lab.world:low", {"out": Path("run"), "method": ["base", "capex"]})
    assert [m.name for m in settings.methods] == ["base", "capex"]
    table = {"methods": {"eager": {"tau": 0.2}}, "method": "eager,base", "locate": False}
    eager, base = resolve("lab.world:low", {"out": Path("run")}, table).methods
    assert (eager.name, eager.tau, eager.locate) == ("eager", 0.2, False)
    assert base.name == "base"
    words = ("collect", "lab.world:low", "--method", "base")
    assert parse(words).given() == {"method": "base"}
    assert parse((*words[:2], "--arm", "base")).given() == {"arm": "base"}
    with refuses(
        ErrorCode.CONFLICTING_SETTINGS, "--method is another name of --arm; give one of them"
    ):
        parse((*words, "--arm", "capex")).given()
    with refuses(
        ErrorCode.CONFLICTING_SETTINGS, "'method' is another name of 'arm'; give one of them"
    ):
        resolve("lab.world:low", {"arm": "base", "method": "capex"})


@pytest.mark.parametrize(
    ("flag", "text", "code", "sentence"),
    [
        ("--tau", "x", ErrorCode.BAD_SETTING, "--tau is 'x'; it must be a number between 0 and 1"),
        (
            "--image-size",
            "8",
            ErrorCode.BAD_SETTING,
            "--image-size is '8'; it must be a whole number between 32 and 2048",
        ),
        (
            "--decisions",
            "1.5",
            ErrorCode.BAD_SETTING,
            "--decisions is '1.5'; it must be a whole number between 1 and",
        ),
        (
            "--campaign-usd",
            "nan",
            ErrorCode.BAD_SETTING,
            "--campaign-usd is 'nan'; it must be a number",
        ),
        (
            "--top-k",
            "many",
            ErrorCode.BAD_SETTING,
            "--top-k is 'many'; it must be a whole number between 1 and 1e",
        ),
        ("--base-motion", "None", ErrorCode.BAD_SETTING, "--base-motion is 'None'; valid: on, off"),
        ("--starts", "x", ErrorCode.BAD_SETTING, "--starts: 'x' names no starts"),
        (
            "--prompt",
            "none.txt",
            ErrorCode.UNREADABLE_FILE,
            "--prompt: the prompt file none.txt cannot be read",
        ),
    ],
)
def test_a_wrong_flag_is_named_as_it_was_typed(flag, text, code, sentence):
    with refuses(code) as refused:
        parse(("collect", "lab.world:low", flag, text)).given()
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ({"method": "capx"}, ErrorCode.UNKNOWN_NAME, "there is no method 'capx'; valid: capex"),
        ({"arm": "capx"}, ErrorCode.UNKNOWN_NAME, "there is no arm 'capx'; valid: capex"),
        (
            {"method": ","},
            ErrorCode.BAD_SETTING,
            "--method is ',', which names no method; write capex, base",
        ),
        (
            {"method": "base", "tau": 0.4},
            ErrorCode.NOT_APPLICABLE,
            "--tau means nothing to the method base",
        ),
        (
            {"arm": "base", "tau": 0.4},
            ErrorCode.NOT_APPLICABLE,
            "--tau means nothing to the arm base",
        ),
        (
            {"method": "capex,base", "prompt": __file__},
            ErrorCode.CONFLICTING_SETTINGS,
            "--prompt fills the prompt of one method, and 2 methods were named",
        ),
        (
            {"model": "chat:name@http://localhost/v1", "context_tokens": 100},
            ErrorCode.CONFLICTING_SETTINGS,
            "--context-tokens 100 has no room beside an answer of up to 8000 tokens; raise it, or"
            " lower --max-output-tokens",
        ),
    ],
)
def test_a_sentence_speaks_of_arms_or_methods_as_the_user_does(words, code, sentence):
    with refuses(code) as refused:
        resolve("lab.world:low", {"out": "run", **words})
    assert str(refused.value).startswith(sentence)
    file = {k: v for k, v in words.items() if k in ("arm", "method")}
    with refuses(code) as refused:
        resolve("lab.world:low", {"out": "run", **words, "arm": None, "method": None}, file)
    assert str(refused.value).startswith(sentence)


def test_a_changed_setting_is_named_by_its_flag():
    texts = {
        str(Change(name, before, now))
        for name, before, now in (
            ("limits.wall_s", None, 90.0),
            ("limits.steps", None, 100),
            ("sampling.max_output_tokens", 8000, 9),
            ("arms.my.own.image_size", 512, 64),
            ("arms.base.done", True, False),
            ("prompt", "a", "b"),
            ("command", "expert", "collect"),
        )
    }
    assert texts == {
        "--episode-minutes: None before, 1.5 now",
        "--steps: None before, 100 now",
        "--max-output-tokens: 8000 before, 9 now",
        "--image-size of arm my.own: 512 before, 64 now",
        "done of arm base: True before, False now",
        "--prompt: another text",
        "command: 'expert' before, 'collect' now",
    }


def test_flags_say_the_same_as_keywords():
    words = "--tau 0.3 --locate off --campaign-usd 7 --starts 0:2 --temperature server --seed 5"
    given = parse(("collect", "lab.world:low", "--out", "run", *words.split())).given()
    keywords = {"tau": 0.3, "locate": False, "campaign_usd": 7, "starts": range(2), "seed": 5}
    keywords |= {"temperature": "server", "out": "run"}
    assert resolve("lab.world:low", given) == resolve("lab.world:low", keywords)


def test_starts_read_and_write():
    assert parse_starts("0:3,7") == [0, 1, 2, 7]
    assert parse_starts("fresh:0:2,1") == [FRESH, FRESH + 1, 1]
    for text in ("0:20", "3,9,4", "5,6", "1,3:7", "0:3,fresh:0:50", "fresh:7"):
        assert starts_text(parse_starts(text)) == text


def test_the_ceiling_is_the_smallest_of_what_bounds_it():
    price = load_prices(None).find("gpt-6-astra")
    said = resolve("kitchen:CloseFridge", {"out": Path("x"), "model": "openai:gpt-6-astra"})
    assert ceiling(said, price, 20).usd == 500
    assert "20 episodes of at most $25.00" in ceiling(said, price, 20).sentence
    limited = resolve("kitchen:CloseFridge", {"out": Path("x"), "campaign_usd": 30.5})
    assert ceiling(limited, price, 20, Decimal(3)).usd == Decimal("30.5")
    assert "$3.00 of it spent or held already" in ceiling(limited, price, 20, Decimal(3)).sentence
    # One of the starts that are left took more than its budget: a request above its worst case.
    assert ceiling(said, price, 2, Decimal(40), (Decimal(30), Decimal(5))).usd == 40 - 25 - 5 + 50
    assert ceiling(limited, price, 20, Decimal(31)).usd == 31
    assert ceiling(said, price, None).usd is None
    assert "give --campaign-usd" in ceiling(said, price, None).sentence
    assert ceiling(said, None, 20).usd is None
    bounded = {"out": Path("x"), "model": "pilot", "until_successes": 3, "max_starts": 7}
    assert ceiling(resolve("kitchen:CloseFridge", bounded), price, None).usd == 175
    assert bytes_text(1_234_567) == "1.2 MB"


def test_a_dry_run_knows_the_size_and_sends_nothing(shm):
    class Untouched:
        name, price_name, stand_in = "lab.model:", "lab", True

        def complete(self, request, observer=None):
            raise AssertionError("a dry run asked the model")

    options = {**SMALL, "model": Untouched(), "prices": price_file(shm), "out": shm / "run"}
    plan = prepare.dry_run(prepare.prepare("lab.world:low,high", **options))
    assert plan.episodes == 16
    assert plan.ceiling.usd == 16 * 25
    assert not (shm / "run").exists()
    run, _ = collect(shm / "run", prices=shm / "prices.toml")
    lines = [line for e in run.episodes for line in e.exchanges()]
    capex_sample, base_sample = plan.samples
    first = next(iter(run.chain("lab.world", "low", "base").episodes[0].exchanges()))
    assert base_sample.tokens == first.usage.fresh
    assert max(line.usage.fresh for line in lines) < capex_sample.largest_bound
    size = sum(f.stat().st_size for f in (shm / "run/chains").rglob("*") if f.is_file())
    about, most = plan.disk
    assert size < most
    assert about < most
    assert prepare.dry_run(prepare.prepare("lab.world:low,high", **options)).episodes == 0
