"""A campaign's budget spent where it brings most, and what a run still needs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capex.analysis.forecast import forecast
from capex.campaign import events as ev
from capex.campaign.allocation import ALLOCATION, FIRST
from capex.campaign.prediction import History, Prediction, interval
from capex.cli.forecast import ForecastCommand
from capex.errors import ErrorCode
from lab.campaigns import collect, contents, price_file
from refusals import refuses
from runs import fill, new_run

TWO = "lab.world:low,high"


class Killed(Exception):
    pass


def _allocated(out, prices, **options):
    said = {"arm": "capex", "starts": "0:8", "order": "allocate", "campaign_usd": 50}
    return collect(out, TWO, prices=prices, **{**said, "slots": 1, **options})


def test_a_killed_campaign_allocates_like_an_undisturbed_one(shm):
    prices = price_file(shm)
    run, events = _allocated(shm / "whole", prices)
    granted = [e for e in events if isinstance(e, ev.Allocated)]
    begun = [e.chain for e in events if isinstance(e, ev.EpisodeBegan)]
    assert set(begun[: 2 * FIRST]) == {c.name for c in run.chains}
    assert len(granted) > 1
    assert all(max(e.worth, key=e.worth.__getitem__) in e.given for e in granted)
    assert "low (" in granted[0].why

    def kill(event, board):
        if isinstance(event, ev.EpisodeEnded) and board.total.episodes == 2 * FIRST + 2:
            raise Killed

    with pytest.raises(Killed):
        _allocated(shm / "killed", prices, watch=kill)
    assert len(json.loads((shm / "killed" / ALLOCATION).read_text())["batches"]) == 1
    _allocated(shm / "killed", prices, slots=2)
    assert (shm / "killed" / ALLOCATION).read_text() == (shm / "whole" / ALLOCATION).read_text()
    assert contents(shm / "killed") == contents(shm / "whole")


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        ({"campaign_usd": None}, ErrorCode.MISSING_SETTING, "give --campaign-usd"),
        ({"arm": "capex,base"}, ErrorCode.CONFLICTING_SETTINGS, "name one arm"),
        ({"names": "lab.world:low"}, ErrorCode.NOT_APPLICABLE, "name several"),
        ({"names": "lab.world:robot,judged"}, ErrorCode.CONFLICTING_SETTINGS, "one robot"),
        (
            {"names": "lab.world:judged,low", "judge": "later"},
            ErrorCode.CONFLICTING_SETTINGS,
            "judges",
        ),
    ],
)
def test_where_nothing_can_be_allocated_a_sentence_says_why(shm, options, code, word):
    said = {"arm": "capex", "order": "allocate", "campaign_usd": 5, "prices": price_file(shm)}
    names = options.pop("names", TWO)
    with refuses(code, word):
        collect(shm / "run", names, **{**said, **options})
    assert not (shm / "run").exists()


def test_intervals_hold_what_then_happens():
    """Chains from a known rate, whose failures cost three times what successes cost."""
    draw = np.random.default_rng(0)
    kept = {"successes": 0, "dollars": 0, "needed": 0}
    for number in range(150):
        solved = draw.random(60) < 0.6
        usd = np.where(solved, 0.3, 0.9) * np.exp(0.4 * draw.standard_normal(60))
        taken = np.stack([usd, usd, 60 * usd, 20 * usd], axis=1)
        futures = Prediction(History(f"chain {number}", solved[:10].tolist(), taken[:10]), 500)
        then = futures.over(20)
        needed = int(np.argmax(np.cumsum(solved[10:]) == 10)) + 1
        for name, drawn, true in (
            ("successes", then.successes, solved[10:30].sum()),
            ("dollars", then.taken[:, 0], usd[10:30].sum()),
            ("needed", futures.until(10).episodes, needed),
        ):
            i = interval(drawn)
            kept[name] += i.low <= true <= i.high
    assert all(100 <= count <= 145 for count in kept.values()), kept  # of 150; 120 are 80 %


def test_a_chain_that_learns_is_not_held_to_its_first_failures():
    taken = np.ones((16, 4))
    late = [False] * 6 + [True] * 10
    learns, not_ = (Prediction(History("x", late, taken, learns=m)) for m in (True, False))
    assert learns.learning > 0.95
    assert interval(learns.rate()).low > interval(not_.rate()).middle
    mixed = Prediction(History("x", [True, False] * 8, taken, learns=True))
    assert mixed.learning < 0.5


def test_a_forecast_says_what_is_needed_and_where_to_spend(shm, capsys):
    run = new_run(shm / "run", ["capex"], ["CloseFridge", "TurnOnStove"], range(10))
    fill(run, "CloseFridge", "capex", "1101111011", cost_usd=0.5)
    fill(run, "TurnOnStove", "capex", "0010?00010", cost_usd=0.5)
    fill(run, "OpenDrawer", "capex", "??", cost_usd=0.5)
    made = forecast(run.path, 50, usd=30)
    easy, hard = made.chains
    assert (easy.successes, easy.lacks, hard.lacks) == (8, 42, 48)
    assert made.best is easy
    assert made.untried == ("kitchen--OpenDrawer--capex",)
    needed = interval(easy.draws.episodes)
    assert 42 < needed.low < 42 / 0.8 < needed.high
    assert interval(hard.draws.episodes).middle > 2 * needed.middle
    assert np.median(easy.draws.taken[:, 3] / easy.draws.episodes) == pytest.approx(3, rel=0.05)
    assert made.spent.allocated.middle > made.spent.in_turn.middle
    again = forecast(run.path, 50, usd=30)
    assert json.dumps(again.as_json()) == json.dumps(made.as_json())
    assert ForecastCommand(run.path, usd=30.0).run() == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the next dollar brings most in CloseFridge capex" in said
    assert "not forecast: kitchen--OpenDrawer--capex" in said
    assert ForecastCommand(run.path, json=True).run() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["next_dollar"] == easy.chain
    assert told["chains"][easy.chain]["needs_usd"]["low"] > 42 * 0.5 * 0.9


def test_a_run_that_shows_nothing_is_refused(shm):
    run = new_run(shm / "run", ["capex"], ["CloseFridge"], range(2))
    with refuses(ErrorCode.NO_DATA, "collect a few starts"):
        forecast(run.path, 50)
    fill(run, "CloseFridge", "capex", "10", cost_usd=None)
    with refuses(ErrorCode.NO_PRICE, "leave --usd out"):
        forecast(run.path, 50, usd=5)
    with refuses(ErrorCode.BAD_SETTING, "must be at least 1"):
        forecast(run.path, 0)
