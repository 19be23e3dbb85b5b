"""The moving picture of an episode with its plans, of a scripted model's episode in the kitchen."""

from __future__ import annotations

import itertools

import av
import numpy as np
import pytest
from PIL import Image as Picture

from capex.dataset import animation
from capex.dataset.animation import VIEW_PX, confidence_colour, draw_plan, write_animation
from capex.dataset.film import open_episode
from capex.dataset.projection import Drawn, Mark, fate
from capex.errors import ErrorCode
from capex.run import read_record
from refusals import refuses

EPISODE = "chains/kitchen--TurnOnMicrowave--capex/episodes/0000"


@pytest.fixture(scope="module")
def filmed(model_demos, tmp_path_factory):
    out = tmp_path_factory.mktemp("film") / "new" / "episode.webp"
    return write_animation(model_demos / EPISODE, out, speed=8)


def test_the_film_loops_and_shows_every_decision_long_enough_to_read(filmed, model_demos):
    film = Picture.open(filmed)
    durations = []
    for k in range(film.n_frames):
        film.seek(k)
        film.load()
        durations.append(film.info["duration"])
    with open_episode(model_demos / EPISODE) as (record, _, env):
        assert film.size[0] > len(env.spec.cameras) * VIEW_PX
        assert durations.count(round(1000 * animation.PLAN_S)) == len(record.turns)
        cut = sum(t.committed < len(t.waypoints) for t in record.turns)
    assert cut >= 1
    assert durations.count(round(1000 * animation.COMMITTED_S)) == cut
    assert film.info["loop"] == 0  # for ever
    assert durations[-1] == round(1000 * animation.END_S)


def test_committed_waypoints_are_filled_and_the_deferred_tail_is_hollow(model_demos):
    """A plan that was cut, drawn over grey with its waypoints side by side: each has a ring in the
    colour of its calibrated confidence; inside it the same colour, or the view.
    """
    turn = next(
        t for t in read_record(model_demos / EPISODE).turns if t.committed < len(t.waypoints)
    )
    grey, step = (90, 90, 90), 30
    marks = [
        Mark(place, (place * step, 20.0), fate(row.status), None)
        for place, row in enumerate(turn.waypoints, start=1)
    ]
    view = Picture.new("RGB", (200, 40), grey)
    plan = Drawn(((2.0, 20.0), *(m.at for m in marks)), tuple(marks))
    whole = draw_plan(view, plan, turn, None)
    before = draw_plan(view, plan, turn, turn.committed)
    assert {m.fate == "deferred" for m in marks} == {True, False}
    for mark, row in zip(marks, turn.waypoints, strict=True):
        x, y = mark.place * step, 20
        colour, deferred = confidence_colour(row.calibrated), mark.fate == "deferred"
        ring = (x, y - round(animation.RADIUS_PX - 2))
        assert _near(whole.getpixel(ring), colour)
        assert _near(whole.getpixel((x, y)), grey if deferred else colour)
        assert _near(before.getpixel(ring), grey if deferred else colour)  # the tail comes later


def _near(pixel, colour):
    return np.abs(np.subtract(pixel, colour)).max() < 12


def test_confidences_are_told_apart_by_lightness_alone():
    grey = [np.dot(confidence_colour(p), (0.2126, 0.7152, 0.0722)) for p in np.linspace(0, 1, 21)]
    assert all(b > a for a, b in itertools.pairwise(grey))
    assert confidence_colour(None) == animation.NO_CONFIDENCE


def test_a_gif_and_a_video_are_made_too(model_demos, tmp_path):
    failure = model_demos / EPISODE.replace("0000", "0001")
    gif = Picture.open(write_animation(failure, tmp_path / "film.gif", speed=8))
    assert gif.n_frames > 4
    with av.open(str(write_animation(failure, tmp_path / "film.mp4", speed=8))) as video:
        shown = sum(1 for _ in video.decode(video=0))
    assert shown > animation.VIDEO_FPS * animation.END_S


@pytest.mark.parametrize(
    ("name", "speed", "sentence"),
    [
        ("film.avi", 1, "must end in .webp, .gif, .mp4"),
        ("film.webp", 0, "--speed is 0; it must be above 0"),
    ],
)
def test_mistakes_get_sentences(model_demos, tmp_path, name, speed, sentence):
    with refuses(ErrorCode.BAD_SETTING, sentence):
        write_animation(model_demos / EPISODE, tmp_path / name, speed=speed)
    assert not list(tmp_path.iterdir())
