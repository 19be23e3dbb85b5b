"""Views of several cameras are read together and show what each shows alone."""

from __future__ import annotations

import threading

import mujoco
import numpy as np
import pytest

from capex import worlds
from capex.errors import ErrorCode
from capex.worlds import render
from capex.worlds.render import DrawingThread
from refusals import refuses

SCENE = """<mujoco><visual><global offwidth="64" offheight="64"/></visual><worldbody>
<light pos="0 0 3"/><geom type="box" size=".2 .1 .3" rgba=".9 .2 .1 1" euler="10 20 30"/>
<geom type="sphere" size=".15" pos=".4 .1 .2" rgba=".1 .6 .9 1"/>
<camera pos="0 -2 .4" xyaxes="1 0 0 0 .2 1"/><camera pos="2 0 .4" xyaxes="0 1 0 -.2 0 1"/>
<camera pos="0 0 2"/></worldbody></mujoco>"""


def views(renderer, data, sizes):
    (taken,) = render.take(
        [render.Shot(renderer, data, {f"camera {k}": (k, size) for k, size in sizes.items()})]
    )
    return list(taken.values())


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
    together = views(renderer, data, sizes)
    for (camera, size), image in zip(sizes.items(), together, strict=True):
        assert image.shape == (size[1], size[0], 3)
        assert image.std() > 0
        np.testing.assert_array_equal(image, renderer.rgb(data, camera, size))
    np.testing.assert_array_equal(renderer.depth(data, 0, (40, 30)), depth)
    renderer.close()


def test_no_camera_gives_no_view_and_a_bad_size_is_a_sentence(scene):
    model, data = scene
    renderer = render.Renderer(model)
    assert views(renderer, data, {}) == []
    seen = renderer.rgb(data, 0, (8, 8))
    with refuses(ErrorCode.BAD_SETTING, "image size 0x8"):
        views(renderer, data, {0: (8, 8), 1: (0, 8)})
    with refuses(ErrorCode.BAD_SETTING, "image size 0x8"):
        renderer.depth(data, 0, (0, 8))
    np.testing.assert_array_equal(renderer.rgb(data, 0, (8, 8)), seen)
    renderer.close()


def test_a_framebuffer_that_cannot_grow_leaves_the_next_one_alone(scene, monkeypatch):
    model, data = scene
    renderer = render.Renderer(model)
    before = views(renderer, data, {0: (16, 16), 1: (16, 16)})

    def refuse(self, width, height):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(render._Sheet, "__init__", refuse)
        with pytest.raises(MemoryError):
            views(renderer, data, {0: (1000, 500), 1: (1000, 500)})
    after = views(renderer, data, {0: (16, 16), 1: (16, 16)})
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    renderer.close()


SCATTERED = """<mujoco><asset><mesh name="wedge" vertex="0 0 0 .3 0 0 0 .2 0 0 0 .4"/></asset><worldbody>
<light pos="0 0 3"/><geom type="plane" size="0 0 .1" rgba=".4 .5 .3 1"/>{shapes}
<camera pos="0 0 1" xyaxes="1 0 0 0 .3 1"/><camera pos=".5 .2 1" xyaxes="0 1 .2 -.2 0 1" fovy="20"/>
<camera pos="0 0 1" sensorsize=".02 .01" resolution="40 20" focal=".02 .02" principal=".004 .001"/>
<camera pos="0 0 3" orthographic="true" fovy="2"/></worldbody></mujoco>"""


@pytest.mark.parametrize("size", [(64, 48), (30, 80)])
def test_what_is_out_of_sight_is_left_out_without_a_trace(size):
    rng = np.random.default_rng(0)
    kinds = (
        'type="box" size=".3 .1 .05"',
        'type="capsule" size=".05 .4"',
        'type="mesh" mesh="wedge"',
    )
    shapes = "".join(
        f'<geom {kinds[k % 3]} pos="{x:.3f} {y:.3f} {z:.3f}" euler="{40 * k} {70 * k} 0" rgba="{r:.2f} {g:.2f} .5 1"/>'
        for k, (x, y, z, r, g) in enumerate(
            rng.uniform((-3, -3, 0, 0, 0), (3, 3, 2, 1, 1), (120, 5))
        )
    )
    model = mujoco.MjModel.from_xml_string(SCATTERED.format(shapes=shapes))
    groups, data = model.geom_group.copy(), mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    some, every = render.Renderer(model), render.Renderer(model, groups=range(6))
    shaded = render.Renderer(model, shadows=True)
    shaded.rgb(data, 1, size)
    assert shaded._scene.ngeom == model.ngeom  # what is out of sight may throw a shadow into it
    shaded.close()
    for camera in range(model.ncam):
        np.testing.assert_array_equal(
            some.rgb(data, camera, size), every.rgb(data, camera, size), f"camera {camera}"
        )
        np.testing.assert_array_equal(
            some.depth(data, camera, size), every.depth(data, camera, size)
        )
        assert every._scene.ngeom == model.ngeom
        assert some._scene.ngeom < model.ngeom or camera == 3  # parallel rays are not looked into
    np.testing.assert_array_equal(model.geom_group, groups)
    some.close()
    every.close()


def test_worlds_drawn_together_show_what_each_shows_alone():
    envs = [worlds.make("kitchen:TurnOffStove") for _ in range(3)]
    for start, env in enumerate(envs):
        env.reset(worlds.Start("TurnOffStove", start))
    cameras = ["wrist", "left", "right"]
    for size in ((32, 24), (600, 400)):  # nine of the latter are read in two rows
        for env, seen in zip(envs, render.take([e.shot(cameras, size) for e in envs]), strict=True):
            for camera, alone in env.observe(cameras, size).items():
                np.testing.assert_array_equal(seen[camera], alone)
    for env in envs:
        env.close()


def test_a_thread_that_draws_itself_does_what_others_post():
    drawing, here, done = DrawingThread(), threading.current_thread(), []
    drawing.be_this_one()
    assert drawing.run(threading.current_thread) is here
    other = threading.Thread(target=lambda: drawing.post(lambda: done.append(1)))
    other.start()
    other.join()
    assert done == []
    assert drawing.run(threading.current_thread) is here
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        drawing.run(lambda: 1 / 0)


def test_a_thread_that_draws_already_goes_on_drawing():
    drawing = DrawingThread()
    first = drawing.run(threading.current_thread)
    drawing.be_this_one()
    assert drawing.run(threading.current_thread) is first is not threading.current_thread()
