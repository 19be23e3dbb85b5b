"""What can be known of a rig before it moves: `capex check rig:FILE --dry`.

Everything is connected and read, nothing is commanded but to hold; and no arm is held before its
joints are seen to be clear of their limits, for a held arm may be too stiff to be moved by hand.
"""

from __future__ import annotations

import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np

from capex.errors import RigFault
from capex.rigs.drivers import about
from capex.rigs.env import RigFileEnv
from capex.rigs.locks import RigLock, lock_key
from capex.rigs.opening import camera_key
from capex.rigs.registry import OpenRig
from capex.rigs.rigfile import ArmEntry, CameraEntry, GuardPolicy
from capex.rigs.where import look, near_limits
from capex.worlds.contract import CheckReport, try_rules
from capex.worlds.contract.trial import NotClaimedError, cm, require

WATCHED_S = 1.0  # how long each camera is watched
SLOWEST_HZ = 2.0
MINUTES_RECORDED = 60
# Bytes of a recorded pixel, about: video as the recorder writes it, JPEG.
PIXEL_BYTES = {"video": 0.02, "images": 0.15}


def check_dry(env: RigFileEnv) -> CheckReport:
    """Look at a rig without moving it."""
    return CheckReport(f"{env.spec.world}, nothing moves", try_rules(DRY_RULES, env))


def policy_lines(policy: GuardPolicy) -> list[str]:
    """The guard's policy, a line per rule."""
    values = {f.name: getattr(policy, f.name) for f in fields(policy)}
    boxes = {"workspace": policy.workspace}
    boxes |= {box.name: box for box in policy.arm_workspaces.values()}
    boxes |= {f"keep out {b.name}": b for b in policy.keep_out}
    lines = [f"{name}: {_cm(box.lower_m)} to {_cm(box.upper_m)} cm" for name, box in boxes.items()]
    for name, value in values.items():
        if name not in ("workspace", "keep_out", "arm_workspaces", "hands", "floor_m"):
            lines.append(f"{name}: {'off' if value is None else format(value, 'g')}")
    for arm, hand in policy.hands.items():
        parts = ", ".join(part.name for part in hand)
        lines.append(f"hand of {arm} ({parts}): above {cm(policy.floor(arm))}, out of keep-outs")
    return lines


def _file_is_right(env: RigFileEnv) -> str:
    """The rig file was read and checked; how far each home is from the box that holds it."""
    rig = env.rig
    homes = (f"{arm.name} {cm(_room(arm, rig.guard))}" for arm in rig.arms)
    return (
        f"{len(rig.arms)} arm(s), {len(rig.cameras)} camera(s), tasks {', '.join(rig.tasks)}; home"
        f" inside the box by {', '.join(homes)}"
    )


def _room(arm: ArmEntry, policy: GuardPolicy) -> float:
    """How far an arm's home lies inside the workspace box."""
    home, box = arm.home.position_m, policy.box(arm.name)
    return float(min(np.min(home - box.lower_m), np.min(np.array(box.upper_m) - home)))


def _locks_are_held(env: RigFileEnv) -> str:
    """Nobody else can take an arm or a camera of the rig while it is open."""
    rig = env.open().rig
    keys = {f"arm {a.name}": lock_key(a.lock, a.options) for a in rig.arms}
    keys |= {f"camera {c.name}": camera_key(c) for c in rig.cameras}
    for what, key in keys.items():
        try:
            lock = RigLock(what, key, "check")
        except RigFault:
            continue
        lock.release()
        require(False, f"{what} could be taken a second time while the rig is open")
    return f"held against other processes: {', '.join(keys)}"


def _joints_are_clear(env: RigFileEnv) -> str:
    """No joint is near its limit, before anything is held; otherwise nothing is."""
    link = env.open().link
    if near := near_limits(env.rig, link):
        raise RigFault(f"nothing was held: {near}")
    joints = [(arm.name, joint) for arm in look(env.rig, link) for joint in arm.joints]
    arm, least = min(joints, key=lambda pair: pair[1].room_rad)
    return f"nearest to its limit: {least.name} of {arm}, by {least.room_rad:.2f} rad"


def _arms_answer(env: RigFileEnv) -> str:
    """Every arm keeps still and sends fresh states."""
    link = env.open().link
    link.settle()  # RigFault where a state is stale or an arm has an error
    near = near_limits(env.rig, link)  # again: some robots measure only while they are held
    require(not near, near)
    words = []
    for arm in env.rig.arms:
        facts = link.facts[arm.name]
        force = "force sensed" if arm.senses_force else "force unknown"
        words.append(f"{arm.name}: {len(facts.joint_names)} joints, {force}; {facts.on_disconnect}")
    return "; ".join(words)


def force_is_quiet(env: RigFileEnv) -> str:
    """After motions in free air: what was measured as force there must be no contact."""
    facts, largest = env.open().link.facts, env.largest_force_n
    limits = {
        arm.name: facts[arm.name].contact_n if arm.contact_n is None else arm.contact_n
        for arm in env.rig.arms
        if arm.name in largest
    }
    if not limits and any(facts[arm.name].senses_force for arm in env.rig.arms):
        raise NotClaimedError("no rule has moved an arm, so no force in free air was measured")
    if not limits:
        raise NotClaimedError("no arm senses a force")
    told = ", ".join(f"{name} {largest[name]:.1f} N" for name in limits)
    for name, limit_n in limits.items():
        loud = (
            f"{name} measured up to {largest[name]:.1f} N in free air, and {limit_n:g} N counts as"
            " contact, by which another rule may have failed: tell the robot its load, clear what"
            " it may have touched, or raise contact_n in the rig file"
        )
        require(largest[name] < limit_n, loud)
    return (
        f"at most {told} in free air; contact from {', '.join(f'{n:g}' for n in limits.values())} N"
    )


def _cameras_deliver(env: RigFileEnv) -> str:
    """Every camera gives new pictures of its size, and depth where the file says so."""
    opened, told = env.open(), []
    for entry in env.rig.cameras:
        rate = _watched(entry, opened)
        said = about(opened.cameras[entry.name])
        device = f" ({said})" if said else ""
        told.append(f"{entry.name} {entry.size[0]}x{entry.size[1]} at {rate:.0f} Hz{device}")
    return ", ".join(told)


def _watched(entry: CameraEntry, rig: OpenRig) -> float:
    """New pictures a second, by the device's count."""
    camera, clock = rig.cameras[entry.name], rig.clock
    began_s, first = clock.now_s(), camera.latest()
    while (seconds := clock.now_s() - began_s) < WATCHED_S:
        if clock.lock_step:
            rig.link.settle()  # only the rig's process lets the room's clock go on
        else:
            clock.sleep_until(clock.now_s() + 0.01)
    frame = camera.latest()
    rate = (frame.number - first.number) / seconds
    name, image = entry.name, frame.image
    shape = (entry.size[1], entry.size[0], 3)
    require(image.shape == shape, f"{name} gave {image.shape}; the file says {shape}")
    require(int(np.ptp(image)) > 0, f"{name} gives an image of one colour")
    slow = f"{name} gave {frame.number - first.number} new picture(s) in {seconds:.1f} s"
    require(rate >= SLOWEST_HZ, f"{slow}; at least {SLOWEST_HZ:g} a second are needed")
    depth = frame.depth_m
    missing = f"{name} gives no depth; the file says depth = true"
    require(not entry.depth or depth is not None, missing)
    return rate


def _cameras_are_calibrated(env: RigFileEnv) -> str:
    """Which cameras have intrinsics and extrinsics; locate_pixel works through those."""
    opened = env.open()
    have: list[str] = []
    lack: list[str] = []
    for entry in env.rig.cameras:
        known = opened.cameras[entry.name].intrinsics is not None or entry.intrinsics is not None
        parts = {"intrinsics": known, "extrinsics": entry.extrinsics is not None}
        missing = [part for part, there in parts.items() if not there]
        (lack if missing else have).append(f"{entry.name} ({', '.join(missing) or 'both'})")
    advice = f"`capex rig calibrate {env.rig.path} CAMERA` finds extrinsics"
    if not have:
        raise NotClaimedError(f"no camera is calibrated; missing: {', '.join(lack)}; {advice}")
    return ", ".join(have) + (f"; missing: {', '.join(lack)}; {advice}" if lack else "")


def _disk_has_room(env: RigFileEnv) -> str:
    """An hour of recorded frames fits where runs are written from here."""
    rig = env.rig
    pixels = sum(camera.size[0] * camera.size[1] for camera in rig.cameras)
    per_minute = 60 * rig.control_hz * pixels * PIXEL_BYTES[rig.frames]
    free = shutil.disk_usage(Path.cwd()).free
    told = f"{free / 1e9:.0f} GB free; frames take about {per_minute / 1e6:.0f} MB a minute"
    enough = free > MINUTES_RECORDED * per_minute
    require(enough, f"{told}: that is less than an hour; free some, or go elsewhere")
    return told


def _guard_is_on(env: RigFileEnv) -> str:
    """The policy in force, and what it takes for a hand where the file does not say."""
    assumed = [
        f"the hand of {name} is assumed to be a Franka Hand; hands.{name}.shape or its parts in"
        " the rig file say otherwise"
        for name in env.rig.hands_assumed
    ]
    return "; ".join([*policy_lines(env.rig.guard), *assumed])


def _cm(corner: tuple[float, float, float]) -> str:
    return "[" + ", ".join(f"{100 * v:.0f}" for v in corner) + "]"


DRY_RULES = {
    "file": _file_is_right,
    "guard": _guard_is_on,
    "disk": _disk_has_room,
    "locks": _locks_are_held,
    "joints": _joints_are_clear,
    "arms": _arms_answer,
    "cameras": _cameras_deliver,
    "calibration": _cameras_are_calibrated,
}
