"""The report of a real pilot campaign in a real browser: clicked through at desk and phone width, light and dark; and planted markup."""

from __future__ import annotations

import base64
import io
import json
import re
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

import capex
import runs
from browser import Browser
from capex import report
from capex.method.record import LocatedPoint, Turn
from capex.report.strips import left_camera
from capex.run.writing import InvalidNote, Timing
from capex.worlds import Start

TASKS, ARMS, STARTS = (
    ("CloseFridge", "PickPlaceCounterToStove"),
    ("capex", "base", "capex-fresh"),
    2,
)
pytestmark = pytest.mark.filterwarnings(
    "error::UserWarning"
)  # what matplotlib says of a layout that does not fit


@pytest.fixture(scope="module")
def browser():
    started = Browser()
    yield started
    started.close()


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Two tasks, three arms, two starts by the pilot; the base arm, slow otherwise, gets ten decisions."""
    path = tmp_path_factory.mktemp("pilot") / "campaign"
    capex.collect(
        [f"kitchen:{t}" for t in TASKS],
        arm=",".join(ARMS),
        model="pilot",
        starts=f"0:{STARTS}",
        decisions=10,
        parallel=2,
        out=path,
    )
    return path


@pytest.fixture(scope="module")
def page(campaign, tmp_path_factory):
    return report.write([campaign], tmp_path_factory.mktemp("page"))


def count(browser, selector):
    return browser.ask(f"document.querySelectorAll({json.dumps(selector)}).length")


def choose(browser, name, value):
    browser.ask(
        f"(() => {{ const s = document.querySelector('.filters').elements[{json.dumps(name)}]; s.value = {json.dumps(value)}; s.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
    )


def shown(browser):
    """Outcomes of the episodes that are visible."""
    return browser.ask(
        "[...document.querySelectorAll('article.card')].filter(c => c.offsetParent !== null).map(c => c.dataset.outcome)"
    )


def test_the_page_loads_from_a_file_without_network_or_complaint(browser, page):
    browser.open(page)
    assert browser.messages == []
    assert [u for u in browser.requests if not u.startswith("data:")] == [page.resolve().as_uri()]
    assert (
        browser.ask("document.title")
        == "CAPEX report: capex against base and capex-fresh with pilot (stand-in)"
        " on CloseFridge and PickPlaceCounterToStove"
    )
    assert count(browser, "section") == count(browser, "nav a") == 9
    assert browser.ask(
        "[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')))"
    )
    assert count(browser, ".panel svg text") > 50
    assert browser.ask("[...document.images].every(i => i.naturalWidth === 320)")
    assert "Stand-in: pilot." in browser.ask("document.querySelector('header').textContent")


@pytest.mark.parametrize(("width", "height", "phone"), [(1280, 900, False), (390, 844, True)])
def test_the_first_screen_is_a_poster(browser, page, width, height, phone):
    browser.open(page, width=width, height=height, phone=phone)
    assert re.fullmatch(
        r"capex solved \d of 4 starts, base \d of the same 4, at [\d.]+ instead of [\d.]+ requests"
        r" per success\.",
        browser.ask("document.querySelector('.result').textContent"),
    )
    edge = "top" if phone else "bottom"  # a phone of another font may cut the last axis
    edges = browser.ask(
        f"[...document.querySelectorAll('.notice.stand-in, .result, .film img.moving, .bars .panel')].map(e => e.getBoundingClientRect().{edge})"
    )
    assert len(edges) == 6
    assert max(edges) <= (height - 100 if phone else height)
    outcomes = browser.ask(
        "[...document.querySelectorAll('.film .outcome')].map(e => e.textContent)"
    )
    assert outcomes == ["solved", "not solved"]
    assert browser.ask("[...document.querySelectorAll('.bars h3')].map(e => e.textContent)") == [
        "Success",
        "Requests per success",
    ]


def test_films_play_without_a_script_and_can_be_stopped(browser, page):
    text = page.read_text()
    films = [base64.b64decode(f) for f in re.findall(r"data:image/webp;base64,([^\"]+)", text)]
    assert len(films) == 2
    for film in films:
        with Image.open(io.BytesIO(film)) as moving:
            assert moving.n_frames > 20
            assert moving.info["loop"] == 0
        assert len(film) < 400_000
    browser.open(page)
    shown = "['moving', 'still'].map(c => getComputedStyle(document.querySelector('.film .' + c)).display)"
    assert browser.ask(shown) == ["block", "none"]
    browser.click(".film button")
    assert browser.ask(shown) == ["none", "block"]
    browser.click(".film button")
    assert browser.ask(shown) == ["block", "none"]


def test_every_link_leads_to_a_file(browser, page):
    browser.open(page)
    links = browser.ask(
        "[...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !h.startsWith('#'))"
    )
    assert len(links) > 50
    for link in links:
        assert (page.parent / unquote(link)).is_file(), link
    assert any(link.endswith("record.json") for link in links)


def test_episodes_are_filtered_unfolded_and_enlarged_by_clicking(browser, page):
    browser.open(page)
    everything = shown(browser)
    assert len(everything) == len(TASKS) * len(ARMS) * STARTS
    solved = everything.count("solved")
    assert solved > 0
    choose(browser, "outcome", "solved")
    assert shown(browser) == ["solved"] * solved
    assert (
        browser.ask("document.querySelector('.filters output').textContent")
        == f"{solved} of {len(everything)} shown"
    )
    choose(browser, "task", "CloseFridge")
    assert len(shown(browser)) < solved
    choose(browser, "outcome", "")
    assert len(shown(browser)) == len(everything) // 2
    choose(browser, "source", "0")
    assert len(shown(browser)) == STARTS
    choose(browser, "source", "")
    choose(browser, "task", "")
    assert count(browser, "details.decisions[open]") == 0
    browser.click(".filters button")
    assert count(browser, "details.decisions[open]") == len(everything)
    browser.click(".filters button")
    assert count(browser, "details.decisions[open]") == 0
    browser.click("article.card details.decisions summary")
    assert count(browser, "details.decisions[open]") == 1
    assert (
        browser.ask(
            "document.querySelector('details.decisions[open] .reasoning').textContent.trim().length"
        )
        > 10
    )

    browser.click(
        "article[data-source='1'] .frame:has(.plan circle) button"
    )  # a frame under a plan that moves the hand
    assert browser.ask("document.querySelector('dialog').open")
    assert count(browser, "dialog img") == 1
    assert count(browser, "dialog .plan circle") > 0
    assert count(browser, "dialog table.waypoints tbody tr") > 0
    assert (
        browser.ask("getComputedStyle(document.querySelector('dialog .plan text')).display")
        != "none"
    )
    browser.click("dialog form button")
    assert not browser.ask("document.querySelector('dialog').open")


def test_strips_have_six_frames_with_the_plan_its_confidences_and_where_it_stopped(browser, page):
    browser.open(page)
    assert browser.ask(
        "[...document.querySelectorAll('article.card .strip')].every(s => s.children.length === 6)"
    )
    titles = browser.ask(
        "[...document.querySelectorAll('article[data-source=\"1\"] .plan title')].map(t => t.textContent)"
    )
    assert any(
        re.fullmatch(r"waypoint \d+, stated 0\.\d\d, calibrated 0\.\d\d: .+", t) for t in titles
    )
    assert count(browser, ".track .tau") > 0
    assert count(browser, ".track circle") > 0
    assert count(browser, ".twins .card") >= 4
    assert "the one nearest to the median length" in browser.ask(
        "document.querySelector('.twins figcaption').textContent"
    )


def test_drawn_waypoints_lie_where_the_camera_sees_them(campaign, fridge):
    """The overlay's pixels are the camera's projection of the clamped targets: projecting the tip's own position finds the gripper."""
    from capex.report.data import load
    from capex.report.strips import WIDTH_PX, Filmer
    from capex.run import read_record

    episode = next(
        e for e in load([campaign]).episodes if e.arm == "capex" and e.task == "CloseFridge"
    )
    record = read_record(episode.path)
    filmer = Filmer()
    strip = filmer.strip(episode, record)
    filmer.close()
    fridge.reset(Start("CloseFridge", episode.start))
    camera = fridge.camera_model(left_camera(fridge.spec), (WIDTH_PX, WIDTH_PX))
    checked = 0
    for frame in strip.frames:
        for mark in (m for d in frame.drawn for m in d.marks):
            u, v, _ = camera.project(
                np.array(frame.turn.waypoints[mark.place - 1].clamped_m["arm"])
            )
            assert mark.at == (
                pytest.approx(u, abs=1.5),
                pytest.approx(v, abs=1.5),
            )  # the camera rides on the base, whose suspension gives a little
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_nothing_overflows_and_both_schemes_have_contrast(browser, page, tmp_path, dark):
    browser.open(page, width=390, height=844, dark=dark, phone=True)
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    assert (
        browser.ask(
            "getComputedStyle(document.querySelector('.strip')).gridTemplateColumns.split(' ').length"
        )
        == 3
    )
    paper, ink, label = browser.ask(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color, getComputedStyle(document.querySelector('.panel svg text')).fill]"
    )
    assert contrast(paper, ink) > 7
    assert contrast(paper, label) > 7
    assert (luminance(paper) < 0.1) == dark
    assert browser.screenshot(tmp_path / "phone.png").stat().st_size > 20_000


def luminance(colour):
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_it_prints(browser, page, tmp_path):
    browser.open(page)
    assert browser.pdf(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script></style></title></svg></table>\'"`&{{ 7 * 7 }}$x$'
NAME = "<img src=x onerror=window.pwned=3>{{ 7 * 7 }}$_"  # fits into a folder's name


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A page made from records with markup in every text that a model or a scene can write."""
    path = tmp_path_factory.mktemp("planted") / "run"
    run = runs.new_run(path, [], [NAME], range(2))
    chain = run.chain("kitchen", NAME, NAME)
    for start in range(2):
        rows = (
            runs.waypoint((0.4, 0.0, 0.3), 0.9, 0.8, 1, "reached", EVIL),
            runs.waypoint((0.4, 0.0, 0.3), 0.9, 0.8, 0, "stalled", EVIL),
        )
        located = (LocatedPoint(EVIL, 1.0, 2.0, None, EVIL),)
        turns = [
            Turn(1, 0, 1, rows, 2, located, None, EVIL, EVIL, (EVIL,)),
            Turn(2, 0, 1, (), 0, skipped_reason=EVIL),
        ]
        made = runs.record(
            NAME,
            NAME,
            start,
            success=bool(start),
            turns=turns,
            model=EVIL,
            instruction=EVIL,
            scene=EVIL,
            weights=[0.1] * 8,
        )
        runs.commit(chain, made)
    note = InvalidNote(task=NAME, model=EVIL, start=3, error=EVIL)
    chain.begin(3).commit_invalid(note, Timing(), {})
    broken = runs.commit(chain, runs.record(NAME, NAME, 4, model=EVIL))
    (broken / "record.json").write_text("{" + EVIL)
    return report.write([path], tmp_path_factory.mktemp("planted-page"))


@pytest.mark.parametrize("guarded", [True, False])
def test_planted_markup_stays_text(browser, planted, tmp_path, guarded):
    """With and without the page's content security policy: escaping alone must hold."""
    text = planted.read_text()
    copy = tmp_path / "page.html"
    copy.write_text(
        text if guarded else re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    )
    browser.open(copy)
    browser.click(".filters button")
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask("window.pwned") is None
    assert browser.messages == []
    assert count(browser, "script") == 1
    assert count(browser, "img") == 0
    assert (
        browser.ask(
            "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"
        )
        == 0
    )
    assert browser.ask("document.title").startswith("CAPEX report")
    body = browser.ask("document.body.innerText")
    assert (
        "<script>window.pwned=2</script></style></title></svg></table>'\"`&{{ 7 * 7 }}$x$" in body
    )
    assert body.count(NAME) > 5
    assert "49" not in browser.ask("document.querySelector('.reasoning').textContent")
    labels = browser.ask(
        "[...document.querySelectorAll('.panel svg text')].map(t => t.textContent).join(' ')"
    )
    assert f"{NAME[:15]}…" in labels  # figures shorten a name, and it stays text there too


def test_planted_markup_stays_text_in_the_files(planted):
    for place in (planted.parent / "figures").glob("*.svg"):
        text = place.read_text()
        assert "<img" not in text
        assert "<script" not in text
    assert all(
        "<img" not in line
        for line in (planted.parent / "tables" / "tasks.tex").read_text().splitlines()
    )


def test_pages_of_runs_that_hold_little_open_too(browser, tmp_path):
    runs.new_run(tmp_path / "empty", ["capex"], ["CloseFridge"], range(3))
    browser.open(report.write([tmp_path / "empty"], tmp_path / "out"))
    assert browser.messages == []
    assert "holds no chain yet" in browser.ask("document.querySelector('#notices').textContent")
