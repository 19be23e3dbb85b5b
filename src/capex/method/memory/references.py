"""Own-success references: what the prompt shows of an earlier success from another start.

    Reference episode 1 (same kitchen): success in 4 calls, 3 of them acts
    Located points (base cm): L1 [17,-40,54], L2 [47,-41,60]
    Waypoints (target = located point + offset, base cm), each with the executor's report:
    Call 2: [16,-1,63]=L1+[-1,39,9] forward close reached | [8,-5,63]=L1+[-9,35,9] reached

Targets are as requested, in whole centimetres, and add up exactly as printed. A waypoint belongs to
the nearest point that had been located by then, however far; where none had been, to the nearest
one located later; it stands alone only if the whole attempt located nothing.

Located points stay where they are in the world. When the base has moved between locating and
acting, they are carried into the base frame of the act by the measured motion (the turns' base
poses, or the reported motions where a turn has none), and the points are listed again in front of
the first call in the new frame. A frame is new when the base stands more than 0.5 cm or 0.01 rad
from where the last list was made. A base frame keeps its height.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capex.errors import CapexError, ErrorCode
from capex.method.executor import BASE_REACHED_M, BASE_REACHED_RAD
from capex.method.observation import base_text, centimetres, hand_words, of_arms, position_text
from capex.method.record import EpisodeRecord, Turn, WaypointRecord
from capex.models import Picture, pictures
from capex.models.prompt_values import Centimetres, ReportedWaypoint
from capex.plan import ArmTarget, WaypointStatus
from capex.pose import PlanarPose

REFERENCES_MAX = 2
WITH_REPORT = "each with the executor's report"

Triple = tuple[float, float, float]
Source = Path | bytes  # where a picture lies, or the PNG


@dataclass(frozen=True)
class StartImage:
    """An exterior start image of a reference, read only when it is shown."""

    camera: str
    sha256: str
    source: Source

    def loaded(self) -> StartImage:
        """The same with the PNG itself, for a machine that cannot read the file."""
        return replace(self, source=self.picture("").png)

    def picture(self, label: str) -> Picture:
        """The image under a label; refused if it is not the one that was recorded."""
        source, what = self.source, f"the start image of camera {self.camera}"
        try:
            png = pictures.read_png(source) if isinstance(source, Path) else source
            picture = Picture(label, png)
        except OSError as error:
            raise CapexError(
                f"{what} cannot be read: {error}", code=ErrorCode.UNREADABLE_FILE
            ) from None
        if picture.sha256 != self.sha256:
            raise CapexError(
                f"{what} has sha256 {picture.sha256}; the record says {self.sha256}",
                code=ErrorCode.DAMAGED_FILE,
            )
        return picture


@dataclass(frozen=True)
class Call:
    """One act of a reference."""

    number: int
    line: str
    frame: int  # the base frame that it was made in
    used: frozenset[int]  # the points that its targets are written against
    waypoints: tuple[ReportedWaypoint, ...]  # the values of the line


@dataclass(frozen=True)
class Reference:
    """A success, digested when it enters memory: small, immutable, and free of the record."""

    start: int
    scene: str
    calls: int
    acts: tuple[Call, ...]
    frames: tuple[Mapping[int, Centimetres], ...]  # per base frame, the located points by number
    images: tuple[StartImage, ...] = ()


@dataclass(frozen=True)
class ShownReference:
    """A reference as a prompt shows it."""

    text: str
    waypoints: tuple[ReportedWaypoint, ...]  # of the calls in the text


@dataclass(frozen=True)
class _Point:
    """A located point with the base pose it was seen from and the turn in which it was."""

    number: int
    position_m: Triple
    base: Triple
    turn: int


def digest(record: EpisodeRecord, images: Mapping[str, Source]) -> Reference:
    """What a success leaves for later prompts. `images` holds its start images by sha256."""
    missing = [camera for camera, sha in record.images.items() if sha not in images]
    if missing:
        lacking = f"without the start image of {', '.join(missing)}; give it by its sha256"
        raise CapexError(
            f"start {record.start} of {record.task} comes {lacking}", code=ErrorCode.WRONG_ORDER
        )
    poses = base_poses(record.turns)
    points = _points(record.turns, poses)
    frame_of, frame_poses = _frames(poses)
    acts, used_in_frame = [], [set[int]() for _ in frame_poses]
    calls = 0
    for k, turn in enumerate(record.turns):
        calls += turn.calls
        if not turn.waypoints:
            continue
        frame = frame_of[k]
        known = [p for p in points if p.turn <= k] or points
        points_m = {p.number: carry(p.position_m, p.base, frame_poses[frame]) for p in known}
        used: set[int] = set()
        rows = [_waypoint(row, points_m, used) for row in turn.waypoints]
        line = f"Call {calls}: {' | '.join(text for text, _ in rows)}"
        values = tuple(value for _, value in rows)
        acts.append(Call(calls, line, frame, frozenset(used), values))
        used_in_frame[frame] |= used
    frames = []
    for frame, pose in enumerate(frame_poses):
        last = max(k for k, f in enumerate(frame_of) if f == frame)
        listed = [p for p in points if p.turn <= last or p.number in used_in_frame[frame]]
        frames.append({p.number: centimetres(carry(p.position_m, p.base, pose)) for p in listed})
    pictures = tuple(StartImage(camera, sha, images[sha]) for camera, sha in record.images.items())
    return Reference(record.start, record.scene, calls, tuple(acts), tuple(frames), pictures)


def choose(
    successes: Sequence[Reference], exclude_start: int, limit: int = REFERENCES_MAX
) -> tuple[Reference, ...]:
    """The latest of `successes` (oldest first) from other starts, newest first, one per start."""
    chosen: dict[int, Reference] = {}
    for reference in reversed(successes):
        if reference.start != exclude_start and len(chosen) < limit:
            chosen.setdefault(reference.start, reference)
    return tuple(chosen.values())


def text(reference: Reference, number: int, same_scene: bool, limit: int | None = None) -> str:
    """A reference for the prompt: the first of its `versions` within `limit`; empty if none is."""
    found = shown(reference, number, same_scene, limit)
    return "" if found is None else found.text


def shown(
    reference: Reference, number: int, same_scene: bool, limit: int | None = None
) -> ShownReference | None:
    """The first of a reference's `versions` within `limit`."""
    found = versions(reference, number, same_scene)
    return next((v for v in found if limit is None or len(v.text) <= limit), None)


def versions(reference: Reference, number: int, same_scene: bool) -> Iterator[ShownReference]:
    """The reference from whole to shortest, always in whole lines.

    First go the located points that no waypoint is written against, then calls from the middle
    outwards, so that how it began and how it succeeded stay longest; the call that succeeded is
    never left out.
    """
    acts = reference.acts
    yield _render(reference, number, same_scene, len(acts), False)
    for kept in range(len(acts), 0, -1):
        yield _render(reference, number, same_scene, kept, True)


def base_poses(turns: Sequence[Turn]) -> list[Triple]:
    """The base's x, y, yaw at each turn; turns without a pose follow the measured motions."""
    pose: Triple = next((turn.base for turn in turns if turn.base is not None), (0.0, 0.0, 0.0))
    poses = []
    for turn in turns:
        pose = turn.base if turn.base is not None else pose
        poses.append(pose)
        for row in turn.waypoints:
            if row.base_moved is not None:
                pose = PlanarPose(*pose) @ row.base_moved
    return poses


def carry(point_m: Triple, seen_from: Triple, into: Triple) -> Triple:
    """A point of the base frame at one base pose (x, y, yaw), in the base frame at another."""
    return PlanarPose(*into).inverse().apply(PlanarPose(*seen_from).apply(point_m))


def _points(turns: Sequence[Turn], poses: Sequence[Triple]) -> list[_Point]:
    points: list[_Point] = []
    for k, turn in enumerate(turns):
        for located in turn.located:
            if located.position_m is not None:
                points.append(_Point(len(points) + 1, located.position_m, poses[k], k))
    return points


def _frames(poses: Sequence[Triple]) -> tuple[list[int], list[Triple]]:
    """For each turn the number of its base frame, and the pose of each frame."""
    numbers: list[int] = []
    frames: list[Triple] = []
    for pose in poses:
        if not frames or _apart(frames[-1], pose):
            frames.append(pose)
        numbers.append(len(frames) - 1)
    return numbers, frames


def _apart(a: Triple, b: Triple) -> bool:
    turned = math.remainder(b[2] - a[2], math.tau)
    return math.dist(a[:2], b[:2]) > BASE_REACHED_M or abs(turned) > BASE_REACHED_RAD


def _waypoint(
    row: WaypointRecord, points_m: Mapping[int, Triple], used: set[int]
) -> tuple[str, ReportedWaypoint]:
    """One waypoint as requested with its report, and its values; `used` gets the points it is
    written against.
    """
    base, several = row.waypoint.base, len(row.tips) > 1
    status = WaypointStatus(row.status)
    parts = [base_text(base)] if base is not None else []
    values: dict[str, ReportedWaypoint] = {}
    for name, target in row.waypoint.targets.items():
        words, value = _target(target, points_m, used)
        if words:
            parts.append(" ".join([name, *words] if several else words))
            values[name] = replace(value, status=status)
    report = " ".join(row.report.split())  # whatever a world's names hold, a call stays one line
    line = f"{' + '.join(parts)}{':' * (base is not None)} {report}".strip()
    return line, of_arms(values, status, row.waypoint, several)


def _target(
    target: ArmTarget, points_m: Mapping[int, Triple], used: set[int]
) -> tuple[list[str], ReportedWaypoint]:
    words, value = [], ReportedWaypoint(gripper=target.gripper)
    there_m = target.position_m
    if there_m is not None:
        words.append(position_text(there_m))
        value = replace(value, target_cm=centimetres(there_m))
    if there_m is not None and points_m:
        number = min(points_m, key=lambda n: math.dist(points_m[n], there_m))
        rows = zip(centimetres(there_m), centimetres(points_m[number]), strict=True)
        x, y, z = (a - b for a, b in rows)
        words[-1] += f"=L{number}+{_list_text((x, y, z))}"
        value = replace(value, offset_cm=(x, y, z))
        used.add(number)
    return words + hand_words(target), value


def _list_text(values: Sequence[int]) -> str:
    return "[" + ",".join(str(v) for v in values) + "]"


def _render(
    reference: Reference, number: int, same_scene: bool, kept: int, used_only: bool
) -> ShownReference:
    """The reference with `kept` calls, from both ends, and all located points or those used."""
    acts = reference.acts
    first, left_out = kept // 2, len(acts) - kept
    kept_acts = (*acts[:first], *acts[first + left_out :])
    kitchen = "same kitchen" if same_scene else "another kitchen"
    calls = f"{reference.calls} call{'s' * (reference.calls != 1)}, {len(acts)} of them acts"
    lines = [f"Reference episode {number} ({kitchen}): success in {calls}"]
    nothing_located = not any(reference.frames)
    if nothing_located:
        lines.append(f"Nothing was located. Waypoints (base cm), {WITH_REPORT}:")
    frame: int | None = None
    for k, act in enumerate(kept_acts):
        gap = [_left_out_text(acts[first : first + left_out])] if left_out and k == first else []
        points: list[str] = []
        if act.frame != frame and not nothing_located:
            shown_points = reference.frames[act.frame]
            if used_only:
                used = frozenset[int]().union(*(a.used for a in kept_acts if a.frame == act.frame))
                shown_points = {n: point for n, point in shown_points.items() if n in used}
            points = _point_lines(shown_points, again=frame is not None)
        lines += [*gap, *points, act.line] if k else [*points, *gap, act.line]
        frame = act.frame
    waypoints = tuple(w for act in kept_acts for w in act.waypoints)
    return ShownReference("\n".join(lines), waypoints)


def _point_lines(points: Mapping[int, Centimetres], again: bool) -> list[str]:
    listed = ", ".join(f"L{n} {_list_text(point)}" for n, point in points.items())
    if again:
        where = f"; located points in its new frame (base cm): {listed}" if listed else "."
        return [f"The base has moved{where}"]
    located = [f"Located points (base cm): {listed}"] if listed else []
    return [*located, f"Waypoints (target = located point + offset, base cm), {WITH_REPORT}:"]


def _left_out_text(acts: Sequence[Call]) -> str:
    if len(acts) == 1:
        return f"(call {acts[0].number} is left out)"
    return f"(calls {acts[0].number} to {acts[-1].number} are left out)"
