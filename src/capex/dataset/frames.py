"""What the frames of an episode hold: frame t is the observation of state t and the native action
that followed it.

The pictures come from the saved states, at any size, or are those that were recorded; nothing is
simulated again. Besides
observation and action each frame carries what the demonstrator meant by it, under names that no
learner takes for an input:

    capex.decision    the model's decision, from 1
    capex.waypoint    the waypoint within its plan, from 0
    capex.phase       how many gripper commands came before
    capex.stated      the model's confidence in the waypoint, NaN where it stated none
    capex.calibrated  what the calibrator made of it, NaN where there is none
    capex.label       1 reached, 0 not, -1 where nothing can be said
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.dataset.views import TIP, Views, open_views, require_pictures
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.method.memory.skeleton import phase_numbers
from capex.method.record import EpisodeRecord, Turn, WaypointRecord
from capex.pose import Array, quaternion_xyzw
from capex.run import read_judged, read_record
from capex.run.steps import StepArrays, read_steps
from capex.worlds import Image, Spec, Start, State
from capex.worlds.cache import OF_THIS_PROCESS
from capex.worlds.proprioception import continuous

ANNOTATIONS = {
    "capex.decision": np.int64,
    "capex.waypoint": np.int64,
    "capex.phase": np.int64,
    "capex.stated": np.float32,
    "capex.calibrated": np.float32,
    "capex.label": np.int64,
}
RENDERED_SIZE = (256, 256)
JOINT = re.compile(r"(.*)joint\d+")  # of an arm's name before it
OUTCOMES = {"next.reward": np.float32, "next.done": np.bool_, "next.success": np.bool_}


def exported_state(names: Sequence[str]) -> list[int]:
    """Which of the recorded numbers an export has: all, but of an arm that tells its joints only
    those and its opening, from which the tip follows.
    """
    joints = {k: match[1] for k, name in enumerate(names) if (match := JOINT.fullmatch(name))}
    told = set(joints.values())
    left_out = {prefix + part for prefix in told for part in TIP}
    return [k for k, name in enumerate(names) if name not in left_out]


@dataclass(frozen=True)
class Pipeline:
    """How pictures are made and kept: the same for datasets that are to be compared."""

    # Width and height; None: RENDERED_SIZE, or what was recorded.
    size: tuple[int, int] | None = None
    cameras: tuple[str, ...] = ()  # all of the world's, if empty
    depth: bool = False
    video: bool = False  # h264 instead of a PNG per frame
    crf: int = 18  # quality of the video: 0 is lossless, 23 small
    recorded: tuple[tuple[int, int], ...] = ()  # sizes of the cameras' frames, where recorded

    def resolve(self, spec: Spec) -> Pipeline:
        """The same with the cameras' names, each one that the world has."""
        if self.size is not None and not all(1 <= side <= 4096 for side in self.size):
            given = " ".join(map(str, self.size))
            raise CapexError(
                f"--size is {given}; width and height must lie between 1 and 4096",
                code=ErrorCode.BAD_SETTING,
            )
        if not 0 <= self.crf <= 51:
            raise CapexError(
                f"--crf is {self.crf}; it must lie between 0 and 51", code=ErrorCode.BAD_SETTING
            )
        cameras = self.cameras or tuple(c.name for c in spec.cameras)
        own = tuple(spec.camera(name).size for name in cameras)
        if self.depth and not spec.depth:
            raise CapexError(
                f"{spec.name} has no depth; leave out --depth", code=ErrorCode.UNSUPPORTED
            )
        resolved = replace(self, cameras=cameras, recorded=own if spec.records_frames else ())
        for name, (width, height) in resolved.sizes.items():
            if self.video and (width % 2 or height % 2):
                given = f"camera {name} has {width}x{height} pixels" if self.size is None else ""
                raise CapexError(
                    f"{given or f'--size is {width} {height}'}; video needs an even width and"
                    " height",
                    code=ErrorCode.BAD_SETTING,
                )
        return resolved

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height of each camera's pictures."""
        given = (self.size or RENDERED_SIZE,) * len(self.cameras)
        own = self.recorded if self.size is None and self.recorded else given
        return dict(zip(self.cameras, own, strict=True))


@dataclass(frozen=True)
class Take:
    """An episode ready to be shot: its views, the record and the arrays."""

    views: Views
    record: EpisodeRecord
    steps: StepArrays

    @property
    def spec(self) -> Spec:
        """What is known of the robot."""
        return self.views.spec

    @property
    def length(self) -> int:
        """How many frames."""
        return len(self.steps["actions"])

    @property
    def state(self) -> Array:
        """Proprioception before each action, (T, S), as far as it is exported; quaternions are
        continuous.
        """
        columns = exported_state(self.spec.state_names)
        return continuous(self.state_names, self.steps["proprio"][:-1, columns])

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the state's numbers."""
        return tuple(self.spec.state_names[k] for k in exported_state(self.spec.state_names))

    @property
    def action(self) -> Array:
        """Native actions, (T, A)."""
        return np.asarray(self.steps["actions"])

    @property
    def start(self) -> Start:
        """What the world was reset to."""
        return Start(self.record.task, self.record.start, self.record.seed)

    @property
    def start_state(self) -> State:
        """The complete state before the first action; empty where none is saved."""
        return State(str(self.steps["header"]), np.asarray(self.steps["states"][0]))

    def pictures(self, pipeline: Pipeline) -> Iterator[dict[str, Image]]:
        """The images of each frame in order, by camera."""
        return self.views.pictures(pipeline.sizes, range(self.length))

    def outcomes(self) -> dict[str, npt.NDArray[Any]]:
        """next.reward, next.done and next.success of each frame: all zero but for the last one."""
        last = np.arange(self.length) == self.length - 1
        success = last & bool(self.record.success)
        return {
            "next.reward": success.astype(np.float32),
            "next.done": last,
            "next.success": success,
        }

    def annotations(self) -> dict[str, npt.NDArray[Any]]:
        """What the demonstrator meant by each frame, by the names of ANNOTATIONS; -1 and NaN
        throughout where nobody planned, as of a person who drove.
        """
        plans = plans_of(self.record, self.steps)
        if not plans:
            unplanned = {np.int64: -1, np.float32: np.nan}
            kinds = ANNOTATIONS.items()
            return {n: np.full(self.length, unplanned[kind], dtype=kind) for n, kind in kinds}
        phases = self._phases()
        rows = []
        for plan, waypoint in zip(
            self.steps["decision"].tolist(), self.steps["waypoint"].tolist(), strict=True
        ):
            turn = plans[plan]
            row = turn.waypoints[waypoint]
            label = -1 if row.label is None else row.label
            rows.append(
                (
                    turn.decision,
                    waypoint,
                    phases[turn.decision, waypoint],
                    *_confidences(row),
                    label,
                )
            )
        columns: Sequence[Sequence[float]] = (
            list(zip(*rows, strict=True)) if rows else [()] * len(ANNOTATIONS)
        )
        return {
            name: np.array(values, dtype=kind)
            for (name, kind), values in zip(ANNOTATIONS.items(), columns, strict=True)
        }

    def waypoints(self) -> list[dict[str, Any]]:
        """One row per requested waypoint, executed or not, with the frames it took."""
        plans = {
            turn.decision: number for number, turn in enumerate(plans_of(self.record, self.steps))
        }
        phases = self._phases()
        rows = []
        for turn in self.record.turns:
            for number, row in enumerate(turn.waypoints):
                ticks = np.flatnonzero(
                    (self.steps["decision"] == plans[turn.decision])
                    & (self.steps["waypoint"] == number)
                )
                stated, calibrated = _confidences(row)
                rows.append(
                    {
                        "decision": turn.decision,
                        "waypoint": number,
                        "phase": phases[turn.decision, number],
                        "committed": number < turn.committed,
                        "stated": None if np.isnan(stated) else stated,
                        "calibrated": None if np.isnan(calibrated) else calibrated,
                        "label": row.label,
                        "status": row.status,
                        "report": row.report,
                        "from_frame": int(ticks[0]) if len(ticks) else None,
                        "to_frame": int(ticks[-1]) + 1 if len(ticks) else None,
                    }
                )
        return rows

    def cameras_json(self, pipeline: Pipeline) -> dict[str, Any]:
        """Intrinsics and pose of each calibrated camera at the start; a wrist camera's pose is in
        the frame of its tip.
        """
        tips = self.views.tips(0)
        found: dict[str, Any] = {}
        for name, size in pipeline.sizes.items():
            spec = self.spec.camera(name)
            model = self.views.camera_model(name, 0, size)
            if model is None:
                continue
            pose, frame = model.T_base_camera, "base"
            if spec.kind == "wrist":
                pose, frame = tips[spec.arm].inverse() @ pose, f"tip of {spec.arm}"
            found[name] = {
                "kind": spec.kind,
                "size": list(size),
                "intrinsics": model.intrinsics.tolist(),
                "frame": frame,
                "position_m": [float(v) for v in pose.position_m],
                "quaternion_xyzw": [float(v) for v in quaternion_xyzw(pose.rotation)],
            }
        return found

    def _phases(self) -> dict[tuple[int, int], int]:
        places = [
            (turn.decision, number)
            for turn in self.record.turns
            for number in range(len(turn.waypoints))
        ]
        return dict(zip(places, phase_numbers(self.record), strict=True))


def plans_of(record: EpisodeRecord, steps: StepArrays) -> list[Turn]:
    """The turns whose plans the recorder counted; a turn without motion may have none, and a person
    has no turns.
    """
    turns, count = record.turns, len(steps["plan_starts"])
    if not turns and count <= 1:
        return []
    plans = list(turns) if len(turns) == count else [t for t in turns if t.waypoints]
    if len(plans) != count:
        raise DamagedFile(steps.path, f"it has {count} plans, and the record {len(plans)}")
    return plans


def _confidences(row: WaypointRecord) -> tuple[float, float]:
    stated, calibrated = row.waypoint.confidence, row.calibrated
    return (np.nan if stated is None else stated, np.nan if calibrated is None else calibrated)


def check_episode(episode: Path) -> None:
    """DamagedFile unless an episode's record, arrays and recorded frames can be read and belong
    together.
    """
    steps = read_steps(episode)
    plans_of(read_record(episode), steps)
    require_pictures(episode, steps)


def open_take(episode: Path) -> Take:
    """An episode with its views."""
    record, steps = read_judged(episode), read_steps(episode)
    if not len(steps["actions"]):
        raise CapexError(f"{episode} has no actions to make frames of", code=ErrorCode.NO_DATA)
    return Take(open_views(episode, record, steps, OF_THIS_PROCESS), record, steps)
