"""What the room's cameras took, drawn when someone asks and at most once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco
import numpy as np
import numpy.typing as npt

from capex.rigs.twins.physics import Exposure
from capex.worlds import Image, render

Size = tuple[int, int]


@dataclass(frozen=True)
class DrawnFrame:
    """One drawn frame; its depth only where it was asked for."""

    exposure: Exposure
    size: Size
    image: Image
    depth_m: npt.NDArray[np.float32] | None = None


class Pictures:
    """Draws exposures of one model on data of its own: physics goes on meanwhile."""

    def __init__(self, model: mujoco.MjModel):
        self.model = model
        self._data = mujoco.MjData(model)
        self._renderer = render.Renderer(model)
        self._drawn: dict[str, DrawnFrame] = {}

    def take(self, camera: str, exposure: Exposure, size: Size, depth: bool) -> DrawnFrame:
        """The picture of an exposure."""
        drawn = self._drawn.get(camera)
        if drawn is None or (drawn.exposure.number, drawn.size) != (exposure.number, size):
            self._pose(exposure)
            number = self.model.camera(camera).id
            drawn = DrawnFrame(exposure, size, self._renderer.rgb(self._data, number, size))
        if depth and drawn.depth_m is None:
            self._pose(exposure)
            number = self.model.camera(camera).id
            drawn = replace(drawn, depth_m=self._renderer.depth(self._data, number, size))
        self._drawn[camera] = drawn
        return drawn

    def _pose(self, exposure: Exposure) -> None:
        self._data.qpos[:] = exposure.qpos
        mujoco.mj_kinematics(self.model, self._data)
        mujoco.mj_comPos(self.model, self._data)  # lights and cameras may track it
        mujoco.mj_camlight(self.model, self._data)

    def intrinsics(self, camera: str, size: Size) -> npt.NDArray[np.float64]:
        """The pinhole matrix of a camera at a size."""
        return render.intrinsics(float(self.model.camera(camera).fovy[0]), size)

    def close(self) -> None:
        """Free the drawing."""
        self._renderer.close()
