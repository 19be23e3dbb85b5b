"""The pictures of an episode, and where its arms and cameras were: drawn again from saved states,
or as they were recorded. Nothing is simulated again, and no robot is connected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.errors import CapexError, DamagedFile, Unsupported
from capex.method.record import EpisodeRecord
from capex.pose import Pose, quaternion_matrix
from capex.run.frames import FRAMES, RecordedFrames, has_frames
from capex.run.steps import StepArrays
from capex.worlds import ArmSpec, CameraModel, CameraSpec, Env, Image, Spec, Start, State
from capex.worlds.cache import Environments

Sizes = Mapping[str, tuple[int, int]]  # width and height by camera
TIP = ("x", "y", "z", "qx", "qy", "qz", "qw")


class Views(Protocol):
    """What films, reports and datasets look at. Tick t is the state before action t."""

    @property
    def spec(self) -> Spec: ...

    def pictures(self, sizes: Sizes, ticks: Sequence[int]) -> Iterator[dict[str, Image]]:
        """Images at the given ticks, by camera."""

    def tips(self, tick: int) -> dict[str, Pose]:
        """Where each arm's tip was, base frame."""

    def camera_model(self, camera: str, tick: int, size: tuple[int, int]) -> CameraModel | None:
        """A camera's projection at a tick; None where it is not calibrated."""

    def depth_m(self, camera: str, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Depth along the optical axis, of the pictures that were taken last."""


class RenderedViews:
    """Drawn by the world, which is put into each saved state."""

    def __init__(self, env: Env, steps: StepArrays):
        self.env, self._steps = env, steps

    @property
    def spec(self) -> Spec:
        """What the world claims."""
        return self.env.spec

    def pictures(self, sizes: Sizes, ticks: Sequence[int]) -> Iterator[dict[str, Image]]:
        """Rendered images."""
        for tick in ticks:
            self._show(tick)
            if len(set(sizes.values())) == 1:
                yield self.env.observe(list(sizes), next(iter(sizes.values())))
            else:
                yield {name: self.env.observe([name], size)[name] for name, size in sizes.items()}

    def tips(self, tick: int) -> dict[str, Pose]:
        """As the world measures them."""
        self._show(tick)
        return {name: arm.T_base_tip for name, arm in self.env.robot_state().arms.items()}

    def camera_model(self, camera: str, tick: int, size: tuple[int, int]) -> CameraModel | None:
        """As the world has it."""
        self._show(tick)
        try:
            return self.env.camera_model(camera, size)
        except CapexError:
            return None

    def depth_m(self, camera: str, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Rendered depth of the present state."""
        return self.env.depth(camera, size).depth_m

    def _show(self, tick: int) -> None:
        self.env.load_state(State(str(self._steps["header"]), self._steps["states"][tick]))


class RecordedViews:
    """Recorded frames; tips come from the recorded proprioception."""

    def __init__(self, spec: Spec, frames: RecordedFrames, steps: StepArrays):
        self.spec, self._frames, self._steps = spec, frames, steps

    def pictures(self, sizes: Sizes, ticks: Sequence[int]) -> Iterator[dict[str, Image]]:
        """Recorded images, scaled; quick where ticks go forward."""
        return self._frames.pictures(sizes, ticks)

    def tips(self, tick: int) -> dict[str, Pose]:
        """Of the arms whose tip is among the recorded numbers."""
        names, row = list(self.spec.state_names), self._steps["proprio"][tick]
        tips = {}
        for arm in self.spec.arms:
            prefix = f"{arm.name}_" if len(self.spec.arms) > 1 else ""
            with contextlib.suppress(ValueError):
                numbers = np.array([row[names.index(prefix + part)] for part in TIP])
                tips[arm.name] = Pose(numbers[:3], quaternion_matrix(numbers[3:]))
        return tips

    def camera_model(self, camera: str, tick: int, size: tuple[int, int]) -> CameraModel | None:
        """By the calibration that was recorded with the frames."""
        known = self._frames.camera(camera)
        if known.intrinsics is None or known.extrinsics is None:
            return None
        pose = known.extrinsics
        if known.kind == "wrist":
            tip = self.tips(tick).get(known.arm)
            if tip is None:
                return None
            pose = tip @ pose
        scale = np.array([size[0] / known.size[0], size[1] / known.size[1], 1.0])
        return CameraModel(known.intrinsics * scale[:, None], pose)

    def depth_m(self, camera: str, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """No depth is recorded."""
        raise Unsupported(f"{self.spec.name} has no recorded depth of camera {camera}")


def open_views(
    episode: Path, record: EpisodeRecord, steps: StepArrays, envs: Environments
) -> Views:
    """The views of an episode; the world of one that can be drawn again is taken from `envs`."""
    if has_frames(episode):
        frames = RecordedFrames(episode)
        return RecordedViews(recorded_spec(record, steps, frames), frames, steps)
    require_pictures(episode, steps)
    env = envs.keep(f"{record.world}:{record.task}")
    env.reset(Start(record.task, record.start, record.seed))
    return RenderedViews(env, steps)


def require_pictures(episode: Path, steps: StepArrays) -> None:
    """DamagedFile where an episode has neither saved states nor whole recorded frames."""
    if has_frames(episode):
        RecordedFrames(episode).check(len(steps["proprio"]))
    elif not steps["states"].size:
        said = "there are neither saved states nor recorded frames to make pictures from"
        raise DamagedFile(episode / FRAMES, said)


def recorded_spec(record: EpisodeRecord, steps: StepArrays, frames: RecordedFrames) -> Spec:
    """What is known of the robot: cameras and names as they were recorded, the rest from its file,
    which is only read. Where that is gone, arms are those that were commanded.
    """
    name = f"{record.world}:{record.task}"
    known = [frames.camera(camera) for camera in frames.cameras]
    cameras = tuple(CameraSpec(c.name, c.kind, c.size, c.arm, c.view) for c in known)
    action_names = tuple(str(name) for name in steps["action_names"])
    state_names = tuple(str(name) for name in steps["state_names"])
    try:
        env = worlds.make(name)
        spec = env.spec
        env.close()
    except CapexError:
        targets = [w.waypoint.targets for turn in record.turns for w in turn.waypoints]
        arms = sorted({arm for target in targets for arm in target})
        spec = Spec(
            *(record.world, record.task, record.horizon, known[0].hz if known else 20.0),
            tuple(ArmSpec(arm, 0.0, 0.0, 0.0) for arm in arms),
            *(cameras, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), action_names, state_names),
            starts=record.start + 1,
            success="operator",
            can_save=False,
            real_time=True,
        )
    return replace(
        spec,
        cameras=cameras,
        action_names=action_names,
        state_names=state_names,
        depth=False,
        records_frames=True,
    )
