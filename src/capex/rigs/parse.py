"""From a rig file in TOML to a checked `RigFile`. Nothing is connected and nothing imported."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from capex.errors import CapexError, ErrorCode, UnknownName, closest_first
from capex.pose import Array, Pose
from capex.rigs.drivers import CAMERA_DRIVERS, DRIVERS, require_driver
from capex.rigs.hands import (
    ASSUMED,
    DRIVER_HANDS,
    FINGERS,
    HANDS,
    PARTS,
    Hand,
    HandPart,
    capsule,
    opened,
)
from capex.rigs.rigfile import ArmEntry, Box, CameraEntry, GuardPolicy, RigFile, RigTask
from capex.rigs.shapes import hull_of, tilt_rad
from capex.rigs.tables import TomlTable, read_toml

PACKAGED = Path(__file__).parent / "files"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NAME_WORDS = "letters, digits, - and _, beginning with a letter"
OFF = "off"  # TOML has no null


def find_rig(name: str) -> Path:
    """The rig file of a name in the package, or of a path. The package's own come first: a file of
    that name in the current folder may be anybody's.
    """
    path = Path(name).expanduser()
    packaged = PACKAGED / f"{name}.toml"
    if NAME.fullmatch(name) and packaged.is_file():
        return packaged
    if path.is_file():
        return path
    known = ", ".join(closest_first(name, (p.stem for p in PACKAGED.glob("*.toml"))))
    also = f" or the name of a packaged one ({known})" if known else ""
    raise CapexError(
        f"there is no rig file '{name}'; give the path of a TOML file{also}",
        code=ErrorCode.NOT_FOUND,
    )


def read_rig(path: Path) -> RigFile:
    """Read and check a rig file, with the files of tasks and guard that it names."""
    top = TomlTable(path, "", read_toml(path, "rig file"))
    control_hz = top.number("control_hz", 20.0, most=1000.0)
    arms = tuple(_arm(table) for table in _distinct(top.tables("arms")))
    if not arms:
        raise top.wrong("arms", "at least one table [[arms]]")
    names = tuple(arm.name for arm in arms)
    cameras = tuple(_camera(table, names) for table in _distinct(top.tables("cameras")))
    if not cameras:
        raise top.wrong("cameras", "at least one table [[cameras]]")
    _require_own_serials(path, cameras)
    policy = _inline_or_file(top, "guard", "guard policy")
    tasks = _inline_or_file(top, "tasks", "task file")
    guard = _guard(policy, arms)
    for arm in arms:
        _require_inside(path, arm, "home", arm.home, guard)
        if arm.park is not None:
            _require_inside(path, arm, "park pose", arm.park, guard)
    room = top.table("room", {})
    rig = RigFile(
        path=path,
        name=top.text("name", path.stem),
        arms=arms,
        cameras=cameras,
        guard=guard,
        tasks=_tasks(tasks, control_hz),
        clock=cast(
            Literal["real", "lock-step"], top.choice("clock", ("real", "lock-step"), "real")
        ),
        control_hz=control_hz,
        starts=top.whole("starts", 1000),
        operator=cast(
            Literal["person", "scripted"], top.choice("operator", ("person", "scripted"), "person")
        ),
        frames=cast(Literal["video", "images"], top.choice("frames", ("video", "images"), "video")),
        python=top.text("python", ""),
        settle_s=top.number("settle_s", 0.15),
        settle_at_most_s=top.number("settle_at_most_s", 3.0),
        room=room.values,
        beside=tuple(table.path for table in (policy, tasks) if table.path != path),
        hands_assumed=tuple(
            arm.name
            for arm in arms
            if arm.driver not in DRIVER_HANDS
            and not _names_hand(policy.values.get("hands", {}).get(arm.name, {}))
        ),
    )
    top.end()
    if not rig.room and (rig.clock == "lock-step" or rig.operator == "scripted"):
        word = "clock = 'lock-step'" if rig.clock == "lock-step" else "operator = 'scripted'"
        raise CapexError(
            f"{path}: {word} needs a simulated room; there is no table [room]",
            code=ErrorCode.MISSING_SETTING,
        )
    return rig


def _inline_or_file(top: TomlTable, key: str, what: str) -> TomlTable:
    """A table of the rig file, or of the file beside it that the key names."""
    if top.given(key) and isinstance(top.values[key], str):
        path = top.path.parent / top.text(key)
        return TomlTable(path, "", read_toml(path, what))
    if key not in top.values:
        raise top.wrong(key, f"a table [{key}], or the path of a {what} in TOML")
    return top.table(key)


def _distinct(tables: Iterable[TomlTable], *, words: bool = False) -> list[TomlTable]:
    """The tables of an array, each with a name of its own, in any `words` or fit for a path."""
    seen: list[TomlTable] = []
    for table in tables:
        name = table.text("name")
        if not words and not NAME.fullmatch(name):
            raise table.wrong("name", f"made of {NAME_WORDS}")
        if any(other.values["name"] == name for other in seen):
            kind = table.of.partition(" ")[0]
            raise CapexError(
                f"{table.path}: two {kind} have the name '{name}'; each must have its own",
                code=ErrorCode.BAD_SETTING,
            )
        seen.append(table)
    return seen


def _require_own_serials(path: Path, cameras: Iterable[CameraEntry]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for camera in cameras:
        device = camera.driver, str(camera.options.get("serial", ""))
        if device[1] and device in seen:
            raise CapexError(
                f"{path}: the cameras '{seen[device]}' and '{camera.name}' have one serial,"
                f" '{device[1]}'; each must have its own",
                code=ErrorCode.BAD_SETTING,
            )
        seen[device] = camera.name


def _driver(table: TomlTable, known: Mapping[str, str]) -> str:
    name = table.text("driver")
    try:
        require_driver(name, known)
    except CapexError as error:
        raise CapexError(f"{table.path}: {table.of}.driver: {error}", code=error.code) from None
    return name


def _arm(table: TomlTable) -> ArmEntry:
    no_turn = Pose(np.zeros(3), np.eye(3))
    mount = table.pose("mount", turned=False) if table.given("mount") else no_turn
    entry = ArmEntry(
        name=table.text("name"),
        driver=_driver(table, DRIVERS),
        options=dict(table.table("options", {}).values),
        T_base_mount=mount,
        home=table.pose("home"),
        park=table.pose("park") if table.given("park") else None,
        max_step_m=table.number("max_step_m", ArmEntry.max_step_m, most=0.1),
        max_step_rad=table.number("max_step_rad", ArmEntry.max_step_rad, most=1.0),
        contact_n=table.number("contact_n") if table.given("contact_n") else None,
        held_gap_m=table.number("held_gap_m", ArmEntry.held_gap_m, most=0.1),
        lock=table.text("lock", ""),
        max_opening_m=table.number("max_opening_m", most=0.5),
        senses_force=table.flag("senses_force", ArmEntry.senses_force),
        joints=table.whole("joints") if table.given("joints") else 0,
    )
    table.end()
    return entry


def _camera(table: TomlTable, arms: tuple[str, ...]) -> CameraEntry:
    kind = table.choice("kind", ("exterior", "wrist"))
    arm = table.text("arm", arms[0] if kind == "wrist" and len(arms) == 1 else "")
    if kind == "wrist" and arm not in arms:
        raise table.wrong("arm", f"the arm that it rides on, one of {', '.join(arms)}")
    if kind == "exterior" and arm:
        raise table.wrong("arm", "left out: an exterior camera rides on no arm")
    width, height = (round(float(v)) for v in table.vector("size", 2))
    if not (0 < width <= 10_000 and 0 < height <= 10_000):
        raise table.wrong("size", "width and height in pixels, as in [640, 480]")
    entry = CameraEntry(
        name=table.text("name"),
        driver=_driver(table, CAMERA_DRIVERS),
        options=dict(table.table("options", {}).values),
        kind=cast(Literal["exterior", "wrist"], kind),
        size=(width, height),
        arm=arm,
        view=table.text("view", ""),
        depth=table.flag("depth", False),
        intrinsics=_intrinsics(table.table("intrinsics")) if table.given("intrinsics") else None,
        extrinsics=table.pose("extrinsics") if table.given("extrinsics") else None,
        lock=table.text("lock", ""),
    )
    table.end()
    return entry


def _intrinsics(table: TomlTable) -> Array:
    """{fx, fy, cx, cy} in pixels, the first pixel's centre being (0.5, 0.5)."""
    fx, fy, cx, cy = (table.number(key) for key in ("fx", "fy", "cx", "cy"))
    table.end()
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])


def _box(table: TomlTable, name: str) -> Box:
    box = Box(name, table.corner("lower_m"), table.corner("upper_m"))
    table.end()
    if not all(low < high for low, high in zip(box.lower_m, box.upper_m, strict=True)):
        raise table.wrong("upper_m", f"above lower_m ({list(box.lower_m)}) in x, y and z")
    return box


def _guard(table: TomlTable, arms: tuple[ArmEntry, ...]) -> GuardPolicy:
    boxes = _distinct(table.tables("keep_out"), words=True)
    names = tuple(arm.name for arm in arms)
    own, hands = (_by_arm(table, key, names) for key in ("arm_workspaces", "hands"))
    keep_out = tuple(_box(t, t.text("name")) for t in boxes)
    values: dict[str, Any] = {
        "workspace": _box(table.table("workspace"), "workspace"),
        "keep_out": keep_out,
        "arm_workspaces": {n: _box(own.table(n), f"workspace of {n}") for n in own.values},
        "hands": {arm.name: _hand(hands.table(arm.name, {}), arm) for arm in arms},
        "max_tilt_deg": table.number("max_tilt_deg", GuardPolicy.max_tilt_deg, most=180.0),
    }
    if table.given("floor_m"):
        values["floor_m"] = table.number("floor_m", least=-math.inf)
    if table.given("force_latch_n") and table.values["force_latch_n"] == OFF:
        values["force_latch_n"] = None
    for field in fields(GuardPolicy):
        if field.name not in values and field.name != "floor_m":
            values[field.name] = table.number(field.name, cast(float, field.default))
    table.end()
    return GuardPolicy(**values)


def _by_arm(table: TomlTable, key: str, arms: tuple[str, ...]) -> TomlTable:
    """A table with a table for each arm that has its own."""
    own = table.table(key, {})
    for name in own.values:
        if name not in arms:
            raise UnknownName("arm", name, arms, where=f" in {key} of {table.path}")
    return own


def _hand(table: TomlTable, arm: ArmEntry) -> Hand:
    """The hand of an arm: a known one, with parts of the file's own."""
    shape = table.choice("shape", tuple(HANDS), DRIVER_HANDS.get(arm.driver, ASSUMED))
    parts = {part.name: part for part in HANDS[shape]}
    parts |= {name: _hand_part(table.table(name), name) for name in PARTS if table.given(name)}
    table.end()
    return opened(tuple(parts.values()), arm.max_opening_m)


def _names_hand(values: Mapping[str, Any]) -> bool:
    """Whether the table of a hand leaves nothing of its shape to be assumed."""
    return "shape" in values or {FINGERS, "palm", "wrist"} <= set(values)


def _hand_part(table: TomlTable, name: str) -> HandPart:
    """A capsule along the approach, or a box in the tip's frame."""
    if name != FINGERS and table.given("lower_m"):
        box = _box(table, name)
        return HandPart(name, box.lower_m, box.upper_m)
    from_m, to_m = (table.number(key, least=-math.inf, most=1.0) for key in ("from_m", "to_m"))
    radius_m = table.number("radius_m", most=0.5)
    table.end()
    if name == FINGERS and from_m > 0:
        raise table.wrong("from_m", "at most 0: the tip is between the fingers")
    if to_m - from_m < 2 * radius_m:
        right = f"at least {from_m + 2 * radius_m:g}: a capsule is no shorter than it is wide"
        raise table.wrong("to_m", right)
    return capsule(name, from_m, to_m, radius_m)


def _require_inside(path: Path, arm: ArmEntry, what: str, pose: Pose, guard: GuardPolicy) -> None:
    at, box = pose.position_m, guard.box(arm.name)
    place = f"{path}: the {what} of arm '{arm.name}' is at {[float(v) for v in at]} m"
    if not inside(at, box):
        ends = f"{list(box.lower_m)} to {list(box.upper_m)}"
        raise CapexError(
            f"{place}, outside the guard's workspace {ends}; it must lie inside",
            code=ErrorCode.BAD_SETTING,
        )
    tilt_deg = math.degrees(tilt_rad(pose.rotation))
    if tilt_deg > guard.max_tilt_deg + 1e-6:
        most = f"max_tilt_deg is {guard.max_tilt_deg:g}"
        raise CapexError(
            f"{place} and tilts by {tilt_deg:.0f} deg from straight down; {most}",
            code=ErrorCode.BAD_SETTING,
        )
    floor_m, hull = guard.floor(arm.name), hull_of(guard.hand(arm.name))
    gaps = hull.gaps_m(floor_m, guard.keep_out, at[None], pose.rotation[None])[0]
    for row, name in enumerate(
        (
            f"below the floor ({floor_m:g} m)",
            *(f"inside the keep-out box '{b.name}'" for b in guard.keep_out),
        )
    ):
        if gaps[row].min() < -1e-9:
            part = hull.names[int(gaps[row].argmin())]
            raise CapexError(
                f"{place}, with its {part} {name}; it must be clear of it",
                code=ErrorCode.BAD_SETTING,
            )


def inside(point_m: Array, box: Box) -> bool:
    """Whether a point lies in a box or on its border."""
    return all(
        low <= float(v) <= high
        for v, low, high in zip(point_m, box.lower_m, box.upper_m, strict=True)
    )


def _criterion(table: TomlTable) -> tuple[str, tuple[str, ...]]:
    """What counts as success: a text, or a list of what must be so at the end and the rules of the
    way there, which a verdict may name one by one.
    """
    if not isinstance(table.values.get("success"), list):
        return table.text("success"), ()
    texts = table.values["success"]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise table.wrong("success", "a text, or a list of texts: the end, then the rules")
    end, *rules = (text.strip().rstrip(".") for text in texts)
    table.given("success")
    return f"{end}. Rules: {'; '.join(rules)}." if rules else f"{end}.", tuple(rules)


def _tasks(tables: TomlTable, control_hz: float) -> dict[str, RigTask]:
    tasks = {}
    for name in tables.values:
        table = tables.table(name)
        if not NAME.fullmatch(name):
            raise CapexError(
                f"{tables.path}: a task has the name '{name}'; it must be made of {NAME_WORDS}",
                code=ErrorCode.BAD_SETTING,
            )
        if table.given("seconds") == table.given("steps"):
            both = "has both" if "steps" in table.values else "has neither"
            raise CapexError(
                f"{tables.path}: {table.of} {both} of seconds and steps; it must have one limit",
                code=ErrorCode.BAD_SETTING,
            )
        by_time = "seconds" in table.values
        steps = round(table.number("seconds") * control_hz) if by_time else table.whole("steps")
        success, rules = _criterion(table)
        tasks[name] = RigTask(
            name=name,
            instruction=table.text("instruction"),
            success=success,
            steps=max(1, steps),
            hints=table.text("hints", ""),
            technique=table.text("technique", ""),
            rules=rules,
        )
        table.end()
    if not tasks:
        raise CapexError(
            f"{tables.path}: there is no task; it must have at least one table",
            code=ErrorCode.MISSING_SETTING,
        )
    return tasks
