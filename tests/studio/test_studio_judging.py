"""Judging in a real browser: ten attempts by keyboard over a killed server, and a second judge who is blind."""

from __future__ import annotations

import pytest

from capex.run import load_run
from capex.run.agreement import agreements
from capex.run.stats import cohen_kappa
from capex.run.verdicts import read_opinions, read_verdicts
from lab.campaigns import collect
from studio_pages import browser as browser
from studio_pages import free_port, quiet, serving, studio_process

TASK = "lab.world:judged"


def judge_by(browser, name):
    browser.wait("Boolean(document.querySelector('[name=by]'))")
    browser.ask("document.querySelector('[name=by]').focus()")
    browser.ask("document.querySelector('[name=by]').select()")
    browser.type(name)
    browser.key("Enter")
    browser.ask("document.querySelector('[name=by]').blur()")
    browser.wait("Boolean(document.querySelector('.verdict'))")


def press(browser, *keys):
    """Give a verdict; returns once the page says that it was written."""
    before = browser.ask("document.querySelector('.said').dataset.written ?? '0'")
    for key in keys:
        browser.key(key)
    browser.wait(f"document.querySelector('.said').dataset.written === '{int(before) + 1}'")
    browser.wait("document.querySelector('.verdict, .hint') !== null")


def verdicts(run):
    return {e.path: read_verdicts(e.path) for chain in run.chains for e in chain.episodes}


def test_ten_attempts_are_judged_over_a_killed_server(browser, shm):
    run, _ = collect(shm / "runs" / "waits", TASK, arm="capex,base", starts="0:5", judge="later")
    assert len(run.episodes) == 10
    port = free_port()
    process, url = studio_process(shm / "runs", port, "--allow-module", "lab.world")
    try:
        browser.open(f"{url}#/judge")
        browser.wait("document.querySelector('.runs td b')?.innerText === '10'")
        browser.open(f"{url}#/judge/waits")
        judge_by(browser, "Ada")
        browser.wait("document.querySelector('canvas')?.dataset.tick > 0")
        told = browser.ask("document.body.innerText")
        assert "the left tip rose by 5 cm" in told
        assert "capex" not in told.replace("CAPEX", "")  # blind to the method
        for keys in ("s", "f2", "f", "s"):
            press(browser, *keys, *(["Enter"] if keys == "f" else []))
        press(browser, "u")
        press(browser, "s")
        process.kill()
        process.wait()
        browser.key("s")
        browser.wait("Boolean(document.querySelector('.said .notice'))")  # not shown as written
        held = [v[-1] for v in verdicts(run).values() if v]
        assert sorted(v.verdict for v in held) == ["failure", "failure", "success", "success"]
        assert {v.reason for v in held} == {"", "dropped"}
        assert "6 attempts left" in browser.ask("document.querySelector('.left').innerText")
        process, url = studio_process(shm / "runs", port, "--allow-module", "lab.world")
        for _ in range(6):
            press(browser, "s")
        browser.wait("document.body.innerText.includes('Nothing waits for a verdict')")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    lines = [v for said in verdicts(run).values() for v in said]
    assert len(lines) == 12  # ten, one taken back and given again
    assert {v.by for v in lines} == {"Ada"}
    assert sum(e.success is True for e in load_run(run.path).episodes) == 8


def test_a_second_judge_is_blind_and_counts_nowhere_else(browser, shm):
    run, _ = collect(shm / "runs" / "two", TASK, arm="capex", starts="0:4", judge="later")
    with serving(shm / "runs") as address:
        browser.open("about:blank")
        browser.open(f"{address.url}#/judge/two")
        judge_by(browser, "Ada")
        for keys in ("s", "s", "f1", "f1"):
            press(browser, *keys)
        browser.open("about:blank")
        browser.open(f"{address.url}#/judge/two/second")
        judge_by(browser, "Ben")
        assert "4 attempts left" in browser.ask("document.querySelector('.left').innerText")
        for keys in ("s", "s", "f1", "s"):
            assert not browser.ask("document.querySelectorAll('.agreement').length")
            press(browser, *keys)
        browser.wait("Boolean(document.querySelector('.agreement'))")
        cells = browser.ask("[...document.querySelectorAll('.agreement td')].map(c => c.innerText)")
        assert cells == ["Ada", "Ben", "4", "3", "0.50"]
        quiet(browser, address)
    after = load_run(run.path)
    assert sorted(e.success for e in after.episodes) == [False, False, True, True]
    assert all(set(read_opinions(e.path)) == {"Ben"} for e in after.episodes)
    (row,) = agreements(e.path for e in after.episodes)
    assert str(row) == "Ada and Ben agree on 3 of 4 (Cohen's kappa 0.50)"


def test_kappa_is_agreement_beyond_chance():
    said = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(said) == pytest.approx(0.4)  # a textbook's example
    assert cohen_kappa([("y", "y")] * 3) is None
    assert cohen_kappa([]) is None
