"""capex rig: look at a rig's arms, make one float, find where a camera stands."""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from rich.live import Live
from rich.text import Text
from tyro.conf import OmitSubcommandPrefixes, Positional, arg, subcommand

from capex import worlds
from capex.cli.console import console
from capex.cli.help import Examples
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.method.executor import Executor
from capex.plan import LEG_M, ArmTarget, Waypoint
from capex.pose import Array, Pose
from capex.rigs import RIG, rig_world
from capex.rigs.cameras.calibration import CameraPose, places, solve_pose
from capex.rigs.env import RigFileEnv
from capex.rigs.opening import open_arms
from capex.rigs.rigfile import CameraEntry, Corner, RigFile
from capex.rigs.where import ArmAt, look, look_long, wait_until_it_floats
from capex.worlds import Start

WATCH_EVERY_S = 0.5
Asked = Callable[[int, Path], str]  # (place from 1, picture) -> "u,v", or nothing where not seen


@dataclass(frozen=True)
class RigWhere:
    """Where the arms of a rig are: tip, joints and how far they are from their limits, opening,
    force, and how old that is. Nothing is sent to an arm: it does not move, and one that floats
    goes on floating.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Once": "capex rig where lab.toml",
        "While you lead an arm by hand": "capex rig where yam.toml --watch",
    }

    file: Positional[Annotated[str, arg(metavar="FILE")]]
    """The rig file, or the name of a packaged one (franka-twin, yam-twin, room)."""
    watch: bool = False
    """Look again twice a second, until Ctrl-C."""

    def run(self) -> int:
        """Read and print."""
        with open_arms(_rig(self.file)) as (rig, link):
            arms = look_long(rig, link)
            if not self.watch:
                _print_lines(arms)
                return 0
            with contextlib.suppress(KeyboardInterrupt), Live(console=console) as live:
                while True:
                    live.update(Text("\n".join(line for arm in arms for line in arm.lines())))
                    time.sleep(WATCH_EVERY_S)
                    arms = look(rig, link)
        return 0


@dataclass(frozen=True)
class RigFloat:
    """Make a YAM arm float, so that a hand can lead it. i2rt's server floats its arm from its start
    to the first goal and offers no way back, so you start the server anew: this says when to hold
    the arm, waits for the server, and shows where the arm is. Nothing is sent to it.
    """

    EXAMPLES: ClassVar[Examples] = {
        "The left arm": "capex rig float yam.toml left",
        "The other one": "capex rig float yam.toml right",
    }

    file: Positional[Annotated[str, arg(metavar="FILE")]]
    """The rig file."""
    arm: Positional[Annotated[str, arg(metavar="ARM")]]
    """Which of its arms."""

    def run(self) -> int:
        """Say, wait, print."""
        rig = _rig(self.file)
        if self.arm not in (names := [entry.name for entry in rig.arms]):
            raise UnknownName("arm", self.arm, names, where=f" in {rig.path}")
        arms = wait_until_it_floats(rig, self.arm, lambda told: console.print(told, markup=False))
        _print_lines(arms)
        console.print(f"{self.arm} floats until it is first held.", highlight=False)
        return 0


@dataclass(frozen=True)
class RigCalibrate:
    """Where a camera stands: the tip moves, guarded, to eight places in the workspace; you say at
    which pixel you see it, and get the extrinsics for the rig file with their error in pixels.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Look at each picture and type the pixel": "capex rig calibrate lab.toml front",
        "A wrist camera, which sees a mark on the table instead of the tip": (
            "capex rig calibrate lab.toml wrist --mark 0.45 0.0 0.0"
        ),
    }

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
        rig = _rig(self.file)
        env = worlds.make(f"{RIG}{self.file.removeprefix(RIG)}:{next(iter(rig.tasks))}")
        assert isinstance(env, RigFileEnv)
        try:
            solved = calibrate(env, self.camera, self._asked(), self.pictures, self.mark)
        except KeyboardInterrupt:
            with contextlib.suppress(CapexError):  # between motions, too: so it is not parked
                env.stop()
            raise
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
            raise CapexError(
                f"{self.pixels} cannot be read: {error.strerror}", code=ErrorCode.UNREADABLE_FILE
            ) from None
        return lambda place, _: ",".join(rows[place - 1]) if place <= len(rows) else ""


@dataclass(frozen=True)
class RigCommand:
    """Look at a rig's arms, make one float, or find where a camera stands."""

    EXAMPLES: ClassVar[Examples] = {
        "Where the arms are; nothing moves": "capex rig where lab.toml",
        "Where a camera stands; the arm moves": "capex rig calibrate lab.toml front",
    }

    command: OmitSubcommandPrefixes[
        Annotated[RigWhere, subcommand("where")]
        | Annotated[RigFloat, subcommand("float")]
        | Annotated[RigCalibrate, subcommand("calibrate")]
    ]

    def run(self) -> int:
        """Do it."""
        return self.command.run()


def _rig(name: str) -> RigFile:
    world = f"{RIG}{name.removeprefix(RIG)}"
    worlds.allow(world)
    return rig_world(world).rig


def _print_lines(arms: Sequence[ArmAt]) -> None:
    for arm in arms:
        for line in arm.lines():
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def calibrate(
    env: RigFileEnv, camera: str, ask: Asked, pictures: Path, mark: Corner | None = None
) -> CameraPose:
    """Move the tip that a camera sees, or rides on, to eight places; solve for its pose."""
    env.spec.camera(camera)
    (entry,) = (c for c in env.rig.cameras if c.name == camera)
    if (entry.kind == "wrist") != (mark is not None):
        right = "--mark X Y Z" if mark is None else "no --mark: it sees the tip itself"
        raise CapexError(
            f"camera {camera} is a {entry.kind} camera; it needs {right}",
            code=ErrorCode.MISSING_SETTING,
        )
    env.reset(Start(env.spec.task, 0))
    device = env.open().cameras[camera].intrinsics
    intrinsics = entry.intrinsics if device is None else device
    if intrinsics is None:
        raise CapexError(
            f"camera {camera} does not know its intrinsics; give them in {env.rig.path}",
            code=ErrorCode.MISSING_SETTING,
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


def _move(env: RigFileEnv, arm: str, place: Corner) -> Pose:
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


def _save(env: RigFileEnv, camera: str, path: Path) -> None:
    from PIL import Image

    Image.fromarray(env.observe([camera])[camera]).save(path)


def _pixel(text: str, entry: CameraEntry) -> Array | None:
    if not text.strip():
        return None
    try:
        u, v = (float(word) for word in text.split(","))
    except ValueError:
        raise CapexError(
            f"the pixel is '{text}'; it must be two numbers with a comma, as in 320,180",
            code=ErrorCode.BAD_SETTING,
        ) from None
    width, height = entry.size
    if not (0 <= u <= width and 0 <= v <= height):
        raise CapexError(
            f"the pixel {u:g},{v:g} lies outside the {width}x{height} image",
            code=ErrorCode.BAD_SETTING,
        )
    return np.array([u, v])
