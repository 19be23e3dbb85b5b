"""Pinhole cameras: from points in the base frame to pixels and back, and metric depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capex.pose import Array, Pose


@dataclass(frozen=True)
class CameraModel:
    """Pinhole intrinsics (3,3), the first pixel's centre being (0.5, 0.5), and a camera's pose."""

    intrinsics: Array
    T_base_camera: Pose

    @property
    def matrix(self) -> Array:
        """(3, 4): a base-frame point (x, y, z, 1) to (u w, v w, w), w its depth."""
        rotation = self.T_base_camera.rotation.T
        view = np.column_stack([rotation, -rotation @ self.T_base_camera.position_m])
        projection: Array = self.intrinsics @ view
        return projection

    def project(self, point_m: Array) -> tuple[float, float, float]:
        """Pixel coordinates u (right), v (down) and depth of a base-frame point."""
        u, v, w = self.intrinsics @ self.T_base_camera.inverse().apply(point_m)
        return float(u / w), float(v / w), float(w)

    def unproject(self, u: float, v: float, depth_m: float) -> Array:
        """Base-frame point seen at pixel coordinates u, v at a depth along the optical axis."""
        K = self.intrinsics
        p = np.array([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], 1.0]) * depth_m
        return self.T_base_camera.apply(p)


@dataclass(frozen=True)
class DepthImage:
    """Metric depth along the optical axis (height, width); infinite where nothing is seen."""

    depth_m: npt.NDArray[np.float32]
    camera: CameraModel
