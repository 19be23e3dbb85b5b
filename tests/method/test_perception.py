"""locate_pixel finds the surface at exactly that pixel, the same point from either camera, and says why when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from bare import ROBOT_X_M, TOP_M, bare_kitchen
from capex.errors import PhysicsDiverged
from capex.method.dialogue import Sight, describe
from capex.method.executor import Executor
from capex.plan import ArmTarget, Waypoint
from capex.worlds import Start
from toy import Toy, ToyEnv

SIZE = (512, 512)


def _to_base(env, point):
    data = env.truth.data
    mount = data.site("mount")
    return mount.xmat.reshape(3, 3).T @ (np.asarray(point) - mount.xpos)


def test_both_exterior_cameras_agree_on_the_same_surface_point():
    env = bare_kitchen()  # an empty worktop: what is seen near a point of it is that point
    env.reset(Start("Bare", 0))
    compared = 0
    for x in np.arange(0.05, 0.55, 0.05):
        for y in np.arange(-0.4, 0.41, 0.05):
            point = np.array([x - ROBOT_X_M, y, TOP_M - 0.45])
            found = []
            for camera in ("left", "right"):
                u, v, _ = env.camera_model(camera, SIZE).project(point)
                if 0 <= u < 512 and 0 <= v < 512:
                    found.append(Sight(env, {camera: SIZE}).locate(camera, u, v))
            seen = [
                f for f in found if not isinstance(f, str) and np.linalg.norm(f - point) < 0.03
            ]  # others see the arm before it
            if len(seen) == 2:
                compared += 1
                assert np.linalg.norm(seen[0] - seen[1]) < 0.01
    env.close()
    assert compared >= 40


def test_a_thin_handle_counts(fridge):
    fridge.reset(Start("CloseFridge", 5))
    model, data = fridge.truth.model, fridge.truth.data
    door = model.body("fridge door").id
    bars = [
        g
        for g in range(model.ngeom)
        if model.geom_bodyid[g] == door and model.geom_type[g] == 3 and model.geom_size[g][1] > 0.2
    ]
    point = _to_base(fridge, data.geom_xpos[bars[0]])
    hits = []
    for camera in ("left", "right"):
        u, v, _ = fridge.camera_model(camera, SIZE).project(point)
        if 0 <= u < 512 and 0 <= v < 512:
            found = Sight(fridge, {camera: SIZE}).locate(camera, u, v)
            hits.append(not isinstance(found, str) and np.linalg.norm(found - point) < 0.012)
    assert any(hits)


def test_refusals_are_sentences(stove):
    stove.reset(Start("PickPlaceCounterToStove", 0))
    assert "lies outside the 512x512 image" in Sight(stove, {"left": SIZE}).locate("left", 600, 10)
    blind = ToyEnv(Toy(depth=False))
    assert (
        Sight(blind, {"back_left": (64, 64)}).locate("back_left", 5, 5)
        == "No position: this toy has no depth."
    )
    sky = ToyEnv(Toy())
    Executor(sky).execute(
        [Waypoint({"left": ArmTarget((0.45, 0.2, 0.15), "forward")})]
    )  # the wrist camera now looks at the horizon
    rows = [
        Sight(sky, {"left_wrist": (64, 64)}).locate("left_wrist", 60, v) for v in range(0, 64, 4)
    ]
    assert "No position: nothing is seen at pixel (60, 0) of camera left_wrist." in [
        r for r in rows if isinstance(r, str)
    ]
    assert any(not isinstance(r, str) for r in rows)
    assert describe(np.array([0.4049, -0.006, 1.2])) == "[40, -1, 120]"


def test_a_diverged_simulation_is_no_answer_for_a_model():
    class Diverged(ToyEnv):
        def depth(self, camera, size=None):
            raise PhysicsDiverged("the simulation is no longer finite")

    env = Diverged(Toy())
    env.reset(Start("reach", 0))
    with pytest.raises(PhysicsDiverged):
        Sight(env, {"back_left": (64, 64)}).locate("back_left", 3, 3)
