"""Views of several cameras are read together and show what each shows alone."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from capex.errors import CapexError
from capex.worlds import render

SCENE = """<mujoco><visual><global offwidth="64" offheight="64"/></visual><worldbody>
<light pos="0 0 3"/><geom type="box" size=".2 .1 .3" rgba=".9 .2 .1 1" euler="10 20 30"/>
<geom type="sphere" size=".15" pos=".4 .1 .2" rgba=".1 .6 .9 1"/>
<camera pos="0 -2 .4" xyaxes="1 0 0 0 .2 1"/><camera pos="2 0 .4" xyaxes="0 1 0 -.2 0 1"/>
<camera pos="0 0 2"/></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def scene():
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("samples", [0, 4])
@pytest.mark.parametrize(
    "sizes",
    [
        {0: (48, 27), 1: (64, 64), 2: (33, 90)},  # other heights, larger than the buffer at first
        {2: (20, 20), 0: (20, 20)},  # smaller than what waited there before
        {0: (4000, 8), 1: (200, 8)},  # too wide to wait side by side
    ],
)
def test_views_read_together_equal_those_read_alone(scene, sizes, samples):
    model, data = scene
    renderer = render.Renderer(model, samples=samples)
    depth = renderer.depth(data, 0, (40, 30))
    together = renderer.views(data, sizes)
    for (camera, size), image in zip(sizes.items(), together, strict=True):
        assert image.shape == (size[1], size[0], 3)
        assert image.std() > 0
        np.testing.assert_array_equal(image, renderer.rgb(data, camera, size))
    np.testing.assert_array_equal(renderer.depth(data, 0, (40, 30)), depth)
    renderer.close()


def test_no_camera_gives_no_view_and_a_bad_size_is_a_sentence(scene):
    model, data = scene
    renderer = render.Renderer(model)
    assert renderer.views(data, {}) == []
    with pytest.raises(CapexError, match="image size 0x8"):
        renderer.views(data, {0: (8, 8), 1: (0, 8)})
    renderer.close()


def test_a_framebuffer_that_cannot_grow_leaves_the_next_one_alone(scene, monkeypatch):
    model, data = scene
    renderer = render.Renderer(model)
    before = renderer.views(data, {0: (16, 16), 1: (16, 16)})

    def refuse(self, width, height):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(render._Sheet, "__init__", refuse)
        with pytest.raises(MemoryError):
            renderer.views(data, {0: (1000, 500), 1: (1000, 500)})
    after = renderer.views(data, {0: (16, 16), 1: (16, 16)})
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    renderer.close()
