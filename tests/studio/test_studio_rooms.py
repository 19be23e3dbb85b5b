"""The rooms in a real browser: a campaign is watched and steered, an episode played, a waypoint followed to its words."""

from __future__ import annotations

import json

import pytest

import runs
from capex.campaign.replay import replay
from capex.dataset.projection import project_plan, tips_at
from capex.dataset.views import open_views
from capex.report.data import SPOKEN_TO, load
from capex.run import load_run, read_record
from capex.run.control import requested
from capex.run.live import LIVE_FOLDER
from capex.run.steps import read_steps
from capex.worlds.cache import Environments
from studio_pages import browser as browser
from studio_pages import quiet, running_campaign, serving, stand_still

WORDS = "Mind the mug, it is full."
MARKUP = '<img src=x onerror="alert(1)"><script>alert(2)</script>\x1b[31m\u202e'


def dots(browser, camera):
    """Which decision a page shows; by waypoint, where its dot is drawn and whether it is hollow."""
    marks = f"[...document.querySelectorAll('.view[data-camera=\"{camera}\"] .waypoint')].map(g => [+g.dataset.k, +g.querySelector('.dot').getAttribute('cx'), +g.querySelector('.dot').getAttribute('cy'), g.classList.contains('hollow')])"
    shown = f"(() => {{ const found = {marks}; return found.length && [{{...document.querySelector('.pictures').dataset}}, found]; }})()"
    where, found = browser.wait(shown)
    return where, {k: ((x, y), hollow) for k, x, y, hollow in found}


def drawn_by_the_report(episode, decision, camera, width):
    """The same dots by the report's way from the finished record: saved state, projection, pixels."""
    envs, record = Environments(), read_record(episode)
    try:
        views = open_views(episode, record, read_steps(episode), envs)
        turn = record.turns[decision - 1]
        model = views.camera_model(camera, turn.step, (width, width))
        (arm,) = project_plan(turn, tips_at(views, turn.step), model)
        return {mark.place - 1: mark.at for mark in arm.marks}, turn
    finally:
        envs.close()


def test_a_running_campaign_is_watched_paused_and_stopped(browser, tmp_path):
    out = tmp_path / "runs" / "live"
    with running_campaign(out) as campaign, serving(tmp_path / "runs") as address:
        browser.open(f"{address.url}#/live/live")
        stand_still(browser)
        browser.wait("document.body.innerText.includes('asked for a pause')")
        assert requested(out, "pause")["by"] == "studio"
        (chain,) = (out / "chains").iterdir()
        browser.ask("document.querySelector('[name=word]').focus()")
        browser.type(WORDS)
        browser.key("Enter")
        browser.wait("document.body.innerText.includes('(not told yet)')")
        browser.key("p")
        browser.wait("!document.body.innerText.includes('asked for a pause')")
        assert requested(out, "pause") is None
        browser.wait("/told at decision|is over/.test(document.body.innerText)")
        where, drawn = dots(browser, "left")
        assert browser.ask(
            "[...document.querySelectorAll('.view img')].every(i => i.naturalWidth === 512)"
        )
        browser.click("[name=stop]")
        browser.wait("document.querySelector('.next').innerText.includes('is over')")
        assert campaign.wait(60) == 0
        quiet(browser, address)
    done = load_run(out).episodes
    assert 0 < len(done) < 40
    (spoken,) = (e for e in done if e.record.messages)
    (message,) = spoken.record.messages
    assert (message.text, message.by) == (WORDS, "studio")
    asked = [json.dumps(line.request or {}) for line in spoken.exchanges()]
    assert 1 <= sum(f"The operator says: {WORDS}" in text for text in asked) <= 6
    assert spoken.index in {e.start for e in load([out]).episodes}
    unaided = load([out], unaided=True)
    assert spoken.index not in {e.start for e in unaided.episodes}
    assert [row.start for row in unaided.invalid if row.error == SPOKEN_TO] == [spoken.index]
    assert not [r.difference for r in replay(out) if r.path == spoken.path and r.difference]
    assert not list(chain.rglob(LIVE_FOLDER))  # nothing of it stays
    episode = chain / "episodes" / f"{int(where['start']):04d}"
    marks, turn = drawn_by_the_report(episode, int(where["decision"]), "left", 512)
    assert set(drawn) == set(marks)
    for k, (at, hollow) in drawn.items():
        assert at == pytest.approx(marks[k], abs=0.6), k  # within a pixel
        assert hollow == (k >= turn.committed)


def test_an_episode_plays_and_tells_every_word(browser, model_demos):
    episode = load_run(model_demos).episodes[0]
    first = next(turn for turn in episode.record.turns if turn.waypoints[0].clamped_m)
    chosen = f"{episode.chain}/{episode.index}@{first.decision}"
    with serving(model_demos) as address:
        browser.open(f"{address.url}#/episode/{model_demos.name}/{chosen}")
        browser.wait(f"document.querySelector('canvas')?.dataset.tick === '{first.step}'", 120)
        assert (
            browser.ask(
                "document.querySelector('canvas').getContext('2d').getImageData(240, 240, 1, 1).data[3]"
            )
            == 255
        )
        browser.wait("document.querySelectorAll('.stage .waypoint').length > 0")
        drawn = {
            k: at
            for k, at, _ in browser.ask(
                "[...document.querySelectorAll('.stage .waypoint')].map(g => [+g.dataset.k, [+g.querySelector('.dot').getAttribute('cx'), +g.querySelector('.dot').getAttribute('cy')], 0])"
            )
        }
        marks, _ = drawn_by_the_report(episode.path, first.decision, "left", 480)
        assert {k: pytest.approx(at, abs=0.6) for k, at in marks.items()} == {
            k: tuple(at) for k, at in drawn.items()
        }
        browser.key("ArrowRight")
        browser.wait(f"document.querySelector('canvas').dataset.tick === '{first.step + 1}'")
        browser.key("End")
        browser.wait(f"document.querySelector('canvas').dataset.tick === '{episode.record.steps}'")
        browser.key("[")
        last = episode.record.turns[-1]
        browser.wait(f"document.querySelector('.know h2').innerText === 'Decision {last.decision}'")
        assert browser.ask("location.hash").endswith(f"@{last.decision}")
        browser.ask("document.querySelector('.talk summary').click()")
        browser.wait("document.querySelectorAll('.exchange').length > 0")
        assert "act(" in browser.ask("document.querySelector('.exchange').textContent")
        assert (
            f"capex fork {model_demos} {episode.chain}/{episode.index}@{last.decision}"
            in browser.ask("document.querySelector('.know').textContent")
        )
        before = f"document.querySelector('canvas').dataset.tick === '{last.step}'"
        browser.wait(before)
        browser.key(" ")
        browser.wait(f"+document.querySelector('canvas').dataset.tick > {last.step}")
        quiet(browser, address)


def test_a_dot_of_calibration_leads_to_its_waypoint(browser, synthetic):
    with serving(synthetic) as address:
        browser.open(f"{address.url}#/calibration/{synthetic.name}/kitchen--CloseFridge--capex")
        browser.wait("Boolean(document.querySelector('.uplot canvas'))")
        assert browser.ask("document.querySelectorAll('.reliability circle').length") > 4
        browser.ask("document.querySelector('.cloud').focus()")
        browser.key("ArrowRight")
        browser.wait(
            "document.querySelector('.tipline').innerText.startsWith('episode 0, decision 1, waypoint 1')"
        )
        browser.key("Enter")
        browser.wait("document.querySelector('.know h2')?.innerText === 'Decision 1'")
        assert (
            browser.ask("location.hash")
            == f"#/episode/{synthetic.name}/kitchen--CloseFridge--capex/0@1"
        )


def test_foreign_text_is_shown_as_text(browser, tmp_path):
    run = runs.new_run(tmp_path / "runs" / "<b>run", ["capex"], ["CloseFridge"], [0])
    turns = [runs._turn(runs.random.Random(0), 0, 3, True, runs.Calibrator(None))]
    turns = [runs.Turn(**{**vars(turns[0]), "reasoning": MARKUP})]
    made = runs.record(success=False, turns=turns, instruction=MARKUP, model=MARKUP)
    runs.commit(run.chain("kitchen", "CloseFridge", "capex"), made)
    with serving(tmp_path / "runs") as address:
        for place in (
            "#/campaigns",
            "#/campaigns/%3Cb%3Erun",
            "#/episode/%3Cb%3Erun/kitchen--CloseFridge--capex/0",
            "#/calibration/%3Cb%3Erun",
            "#/live",
        ):
            browser.open("about:blank")
            browser.open(address.url + place, width=390, height=800, phone=True)
            browser.wait("Boolean(document.querySelector('main h1'))")
            assert not browser.ask(
                "document.querySelectorAll('main img[src=x], main script').length"
            )
            assert browser.ask("document.documentElement.scrollWidth") <= 390, place
            text = browser.ask("document.body.textContent")
            assert "\x1b" not in text
            assert "\u202e" not in text
            assert not [m for m in browser.messages if "dialog" in m]
        browser.open("about:blank")
        browser.open(f"{address.url}#/episode/%3Cb%3Erun/kitchen--CloseFridge--capex/0")
        browser.wait("document.querySelector('blockquote')?.textContent.includes('onerror')")
        told = json.loads(browser.ask(f"fetch('{address.url}api/campaigns').then(r => r.text())"))
        assert told["runs"][0]["name"] == "<b>run"
