"""Arranging in a real browser: the live scene over the stored one until somebody says that it is ready."""

from __future__ import annotations

import threading

from capex.operators.arrangements import read_match
from capex.operators.page_operator import PageOperator
from capex.run import load_run
from lab.campaigns import collect
from studio_pages import browser as browser
from studio_pages import quiet, serving


def test_a_scene_is_matched_in_the_page(browser, shm):
    out = shm / "runs" / "rig"
    options = {"arm": "capex,base", "starts": "0:1", "judge": "later", "order": "turn"}
    words = {"operator": PageOperator("Ada"), **options}
    (shm / "runs").mkdir()
    campaign = threading.Thread(target=collect, args=(out, "lab.world:robot"), kwargs=words)
    campaign.start()
    with serving(shm / "runs") as address:
        browser.open(f"{address.url}#/arrange")
        browser.wait("document.querySelector('.plain a') !== null")
        browser.click(".plain a")
        browser.wait("document.querySelector('.view')?.dataset.taken !== undefined")
        assert "as you like" in browser.ask("document.querySelector('.next').innerText")
        for name in ("robot, capex, start 0", "robot, base, start 0"):
            browser.wait(f"document.querySelector('h1').innerText === '{name}'")
            browser.ask("document.querySelector('[name=by]').value = 'Ben'")
            if "base" in name:
                browser.wait(
                    "document.querySelector('.next + p').innerText.includes('Difference 0.0')"
                )
                browser.wait("document.querySelector('.over').naturalWidth === 32")
                browser.key("m")
                browser.key("m")
                browser.wait("document.querySelector('.view img').src.includes('edges')")
            browser.click("[name=ready]")
        browser.wait("document.querySelector('h1').innerText === 'No scene is waited for'")
        campaign.join(60)
        quiet(browser, address)
    run = load_run(out)
    matches = {e.record.arm: read_match(e.path) for e in run.episodes}
    assert {m.by for m in matches.values()} == {"Ben"}
    assert matches["capex"].score is None  # it made the arrangement
    assert matches["base"].score < 0.05
    assert not (out / "arranging").exists()
