"""capex rig: what a rig needs once, before it collects."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from tyro.conf import Positional, arg

from capex import worlds
from capex.cli.console import console
from capex.cli.help import Examples
from capex.errors import CapexError
from capex.method.executor import Executor
from capex.plan import LEG_M, ArmTarget, Waypoint
from capex.pose import Array, Pose
from capex.worlds import Start
from capex.worlds.rigs import rig_world
from capex.worlds.rigs.calibration import CameraPose, places, solve_pose
from capex.worlds.rigs.env import RigEnv
from capex.worlds.rigs.rigfile import CameraEntry, Corner

Asked = Callable[[int, Path], str]  # (place from 1, picture) -> "u,v", or nothing where not seen


@dataclass(frozen=True)
class RigCommand:
    """Where a camera stands: the tip moves, guarded, to eight places in the workspace; you say at
    which pixel you see it, and get the extrinsics for the rig file with their error in pixels.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Look at each picture and type the pixel": "capex rig calibrate lab.toml front",
        "A wrist camera, which sees a mark on the table instead of the tip": (
            "capex rig calibrate lab.toml wrist --mark 0.45 0.0 0.0"
        ),
    }

    command: Positional[Annotated[Literal["calibrate"], arg(metavar="calibrate")]]
    """Find a camera's pose."""
    file: Positional[Annotated[str, arg(metavar="FILE")]]
    """The rig file, or the name of a packaged one."""
    camera: Positional[Annotated[str, arg(metavar="CAMERA")]]
    """Which of its cameras; its intrinsics must be known."""
    pixels: Annotated[Path | None, arg(metavar="FILE.csv")] = None
    """A line u,v for each of the eight places, empty where nothing is seen (default: you are
    asked)."""
    mark: Annotated[tuple[float, float, float] | None, arg(metavar="X Y Z")] = None
    """For a wrist camera: where in the base frame the thing is that you point at, metres
    (default: none)."""
    pictures: Annotated[Path, arg(metavar="DIR")] = Path("calibration")
    """Where the picture of each place is put (default calibration)."""

    def run(self) -> int:
        """Move, ask, solve, print."""
        name = f"rig:{self.file}"
        worlds.allow(name)
        rig = rig_world(name).rig
        env = worlds.make(f"{name}:{next(iter(rig.tasks))}")
        assert isinstance(env, RigEnv)
        try:
            solved = calibrate(env, self.camera, self._asked(), self.pictures, self.mark)
        finally:
            env.close()
        console.print(
            f"pixels lie {solved.error_px:.1f} px off (root mean square; worst"
            f" {solved.worst_px:.1f}); in the table of camera {self.camera}:",
            highlight=False,
        )
        console.print(solved.as_toml(), highlight=False, markup=False, soft_wrap=True)
        return 0

    def _asked(self) -> Asked:
        if self.pixels is None:
            return lambda place, picture: console.input(f"{place}: u,v in {picture} (none: Enter) ")
        try:
            rows = list(csv.reader(self.pixels.read_text(encoding="utf-8").splitlines()))
        except OSError as error:
            raise CapexError(f"{self.pixels} cannot be read: {error.strerror}") from None
        return lambda place, _: ",".join(rows[place - 1]) if place <= len(rows) else ""


def calibrate(
    env: RigEnv, camera: str, ask: Asked, pictures: Path, mark: Corner | None = None
) -> CameraPose:
    """Move the tip that a camera sees, or rides on, to eight places; solve for its pose."""
    env.spec.camera(camera)
    (entry,) = (c for c in env.rig.cameras if c.name == camera)
    if (entry.kind == "wrist") != (mark is not None):
        right = "--mark X Y Z" if mark is None else "no --mark: it sees the tip itself"
        raise CapexError(f"camera {camera} is a {entry.kind} camera; it needs {right}")
    env.reset(Start(env.spec.task, 0))
    device = env.open().cameras[camera].intrinsics
    intrinsics = entry.intrinsics if device is None else device
    if intrinsics is None:
        raise CapexError(
            f"camera {camera} does not know its intrinsics; give them in {env.rig.path}"
        )
    arm = entry.arm or env.rig.arms[0].name
    pictures.mkdir(parents=True, exist_ok=True)
    points, seen = [], []
    for number, place in enumerate(places(env.rig.guard.box(arm)), 1):
        tip = _move(env, arm, place)
        picture = pictures / f"{camera}-{number}.png"
        _save(env, camera, picture)
        pixel = _pixel(ask(number, picture), entry)
        if pixel is not None:
            points.append(tip.position_m if mark is None else tip.inverse().apply(np.array(mark)))
            seen.append(pixel)
    return solve_pose(points, seen, intrinsics)


def _move(env: RigEnv, arm: str, place: Corner) -> Pose:
    """Lead a tip to a place in legs that the executor takes; where it ended is measured."""
    begin = env.robot_state().arms[arm].T_base_tip.position_m
    legs = max(1, int(np.ceil(np.linalg.norm(np.array(place) - begin) / LEG_M)))
    line = np.linspace(begin, np.array(place), legs + 1)[1:]
    waypoints = [
        Waypoint({arm: ArmTarget((float(x), float(y), float(z)), "keep")}) for x, y, z in line
    ]
    Executor(env).execute(waypoints)
    env.observe([])  # the arm comes to rest
    return env.robot_state().arms[arm].T_base_tip


def _save(env: RigEnv, camera: str, path: Path) -> None:
    from PIL import Image

    Image.fromarray(env.observe([camera])[camera]).save(path)


def _pixel(text: str, entry: CameraEntry) -> Array | None:
    if not text.strip():
        return None
    try:
        u, v = (float(word) for word in text.split(","))
    except ValueError:
        raise CapexError(
            f"the pixel is '{text}'; it must be two numbers with a comma, as in 320,180"
        ) from None
    width, height = entry.size
    if not (0 <= u <= width and 0 <= v <= height):
        raise CapexError(f"the pixel {u:g},{v:g} lies outside the {width}x{height} image")
    return np.array([u, v])
