"""RealSense cameras, through the vendor's own software device: no camera was there."""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capex.errors import CapexError, ErrorCode, RigFault
from refusals import refuses

# Where there is a wheel, the tests' environment has it, and a missing one is a failure.
if (sys.platform, platform.machine()) != ("linux", "x86_64"):
    pytest.skip("there is no wheel of pyrealsense2 for this machine", allow_module_level=True)

import pyrealsense2 as rs
from soft_realsense import BASELINE_M, BOX, BUSY, FOCAL, POWER, SERIAL, SIZE, Bus, SoftD435

from capex.rigs.cameras import open_cameras, realsense
from capex.rigs.cameras.realsense import RealSenseCamera
from capex.rigs.drivers import RealClock
from capex.rigs.locks import one_at_a_time
from rig_devices import entry, rig


@pytest.fixture
def soft() -> Iterator[SoftD435]:
    device = SoftD435()
    yield device
    device.plugged = False


def camera(soft: SoftD435, size: tuple[int, int] = SIZE, **options: Any) -> RealSenseCamera:
    return RealSenseCamera({"warm_up": 3, **options}, "front", size, soft.devices)


def test_the_newest_picture_with_its_number_and_the_devices_time(soft):
    front = camera(soft, serial=SERIAL)
    with pytest.raises(RigFault, match="camera front has not been started"):
        front.latest()
    front.start()
    time.sleep(0.1)
    known = soft.number
    time.sleep(0.3)  # some seventy pictures; none of them waits in a queue
    frame = front.latest()
    assert frame.number > known
    assert frame.image[0, 0, 0] == frame.number % 256
    assert frame.device_s == pytest.approx(frame.number / 30)
    assert frame.depth_m is None
    assert front.about == (
        "Software D435 123456789012, firmware 5.16.0.1, USB 3.2; exposure auto; white_balance auto;"
        " distortion inverse_brown_conrady, 0.0 pixels in the corners"
    )
    front.close()
    with pytest.raises(RigFault, match="camera front is closed"):
        front.latest()
    front.start()  # and anew
    assert front.latest().number > frame.number
    front.close()


def test_depth_lies_where_our_pinhole_puts_it(soft):
    front = camera(soft, depth=True)
    front.start()
    frame = front.latest()
    front.close()
    K, depth_m = front.intrinsics, frame.depth_m
    assert depth_m is not None
    assert (depth_m.dtype, depth_m.shape) == (np.float32, SIZE[::-1])
    assert np.allclose(K, [[60, 0, 32], [0, 60, 18], [0, 0, 1]])  # the first pixel's centre is 0.5
    near = np.flatnonzero(np.isclose(depth_m[18], 0.5, atol=1e-3))
    edges_m = (np.array([BOX.start, BOX.stop]) - 32) / FOCAL["depth"] * 0.5 - BASELINE_M
    expected = K[0, 0] * edges_m / 0.5 + K[0, 2]
    assert np.abs(np.array([near[0], near[-1] + 1]) - expected).max() <= 1.0
    wall = depth_m[18, : near[0] - 2]
    assert np.isclose(wall[wall > 0], 1.0, atol=1e-3).all()
    assert (wall > 0).mean() > 0.5


def test_exposure_and_white_balance_are_set_or_locked(soft):
    front = camera(soft, exposure="lock", white_balance="lock")
    front.start()
    image = front.latest().image
    front.close()
    automatic = {
        key: soft.colour.get_option(getattr(rs.option, f"enable_auto_{key}"))
        for key in ("exposure", "white_balance")
    }
    assert automatic == {"exposure": 0, "white_balance": 0}
    red, green, blue = (float(v) for v in image[5, 5])
    assert green == pytest.approx(110, rel=0.06)
    assert red / blue == pytest.approx(1.1, rel=0.06)
    assert "exposure 7" in front.about
    assert "(locked)" in front.about
    soft.colour.set_option(rs.option.gain, 128)  # by another program, earlier
    front = camera(soft, exposure=80, white_balance=4000)
    front.start()
    assert front.latest().image[5, 5].tolist() == [120, 120, 120]
    front.close()
    with refuses(
        ErrorCode.BAD_SETTING,
        r"options.exposure is 20000; the device takes 1 to 10000, 'auto' or 'lock'",
    ):
        camera(soft, exposure=20000).start()
    with refuses(
        ErrorCode.BAD_SETTING,
        r"options.white_balance is \[\]; it must be 'auto', 'lock' or a number",
    ):
        camera(soft, white_balance=[])


def test_what_is_not_there_is_said_with_what_is(soft, monkeypatch):
    monkeypatch.setattr(realsense, "PAUSES_S", (0.01, 0.02, 0.03))
    with pytest.raises(RigFault, match=r"there is no RealSense 999; plugged in: 123456789012"):
        camera(soft, serial="999").start()
    other = SoftD435("210987654321")
    both = RealSenseCamera({}, "front", SIZE, lambda: [soft.device, other.device])
    with pytest.raises(
        RigFault, match=r"has no options.serial; plugged in: 123456789012, 210987654321; give one"
    ):
        both.start()
    other.plugged = False
    with refuses(
        ErrorCode.UNSUPPORTED,
        r"gives no color of 640x350 at 30 Hz; it has 64x36 at 15, 30; 128x72 at 30",
    ):
        camera(soft, (640, 350)).start()
    with refuses(ErrorCode.UNSUPPORTED, r"gives no depth of 64x36 at 15 Hz; it has 64x36 at 30"):
        camera(soft, fps=15, depth=True).start()
    with refuses(
        ErrorCode.UNKNOWN_NAME,
        r"there is no key 'exposre' in cameras 'front'.options; valid: exposure",
    ):
        camera(soft, exposre=3)


def fault_of(front: RealSenseCamera, last: int | None = None) -> str:
    """What the camera says when it is lost; until then no picture but the last."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            frame = front.latest()
        except RigFault as fault:
            return str(fault)
        assert last in (None, frame.number)
        time.sleep(0.01)
    return ""


def test_drops_show_repeats_are_refused_and_silence_is_a_fault(soft, monkeypatch):
    monkeypatch.setattr(realsense, "LOST_S", 0.5)
    front = camera(soft)
    front.start()
    before, soft.drops = front.latest().number, 1000
    time.sleep(0.2)
    assert front.latest().number > before + 1000
    soft.repeats = True
    time.sleep(0.1)
    said = fault_of(front, front.latest().number)
    assert said.startswith("camera front has given no new picture for 0.5 s: Software D435 1234")
    assert said.endswith("is plugged in but sends nothing new; plug it in anew")
    soft.repeats = False
    front.start()
    soft.plugged = False
    assert (
        "0.5 s: it was unplugged (camera front has no options.serial; plugged in: none"
        in fault_of(front)
    )
    front.close()


@pytest.mark.parametrize(("busy", "unlisted"), [(2, 0), (1, 1), (0, 2)])
def test_a_device_that_is_busy_is_tried_again(tmp_path, monkeypatch, busy, unlisted):
    monkeypatch.setattr(realsense, "PAUSES_S", (0.01, 0.02, 0.03))
    soft = SoftD435(bus=Bus(tmp_path / "bus.log", busy, unlisted, opening_s=0.0))
    front = camera(soft)
    front.start()
    assert front.latest().number > 0
    assert front.about.startswith("Software D435 123456789012")
    front.close()
    refused = (tmp_path / "bus.log").read_text().splitlines()
    assert refused.count("started") == 1
    assert [line in (BUSY, POWER) for line in refused] == [True, True, False]
    soft.plugged = False


@pytest.mark.parametrize("serial", [SERIAL, ""])
def test_a_device_that_is_not_listed_for_a_moment_is_looked_for_again(soft, monkeypatch, serial):
    monkeypatch.setattr(realsense, "PAUSES_S", (0.01, 0.02, 0.03))
    listed = iter([[], []])  # it was reset, and the hub lists it anew
    front = RealSenseCamera(
        {"warm_up": 3, "serial": serial}, "front", SIZE, lambda: next(listed, soft.devices())
    )
    front.start()
    assert front.latest().number > 0
    front.close()


def test_a_device_that_gives_no_first_picture_is_started_again(soft, monkeypatch):
    monkeypatch.setattr(realsense, "PAUSES_S", (0.01, 0.02, 0.03))
    monkeypatch.setattr(realsense, "FIRST_S", 0.5)
    starts = []

    def devices():
        starts.append(True)
        soft.mute = len(starts) == 1
        return soft.devices()

    front = RealSenseCamera({"warm_up": 3}, "front", SIZE, devices)
    front.start()
    assert len(starts) > 1
    assert front.latest().number > 0
    front.close()
    soft.mute = True
    always = RealSenseCamera({"warm_up": 3}, "front", SIZE, soft.devices)
    with pytest.raises(RigFault, match="camera front"):
        always.start()


def test_options_that_are_wrong_end_the_start_at_once(soft):
    listed = []

    def devices():
        listed.append(True)
        return soft.devices()

    with refuses(ErrorCode.UNSUPPORTED, "gives no color"):
        RealSenseCamera({}, "front", (640, 350), devices).start()
    assert len(listed) == 1


def test_a_silent_device_is_not_looked_for_while_another_one_starts(soft, monkeypatch):
    monkeypatch.setattr(realsense, "LOST_S", 0.3)
    monkeypatch.setattr(realsense, "LOOK_S", 0.2)
    listed = []

    def devices():
        listed.append(True)
        return soft.devices()

    front = RealSenseCamera({"warm_up": 3}, "front", SIZE, devices)
    front.start()
    with one_at_a_time("another", "realsense", 30.0):
        soft.mute = True
        assert "it could not be looked for" in fault_of(front)
        assert len(listed) == 1
    front.close()


@pytest.mark.parametrize(
    ("faults", "what"),
    [
        ({"busy": 99}, r"Software D435 123456789012, firmware 5.16.0.1, USB 3.2 did not start"),
        ({"unlisted": 99}, r"no RealSense device could be listed"),
    ],
)
def test_a_device_that_stays_busy_is_a_sentence(tmp_path, monkeypatch, faults, what):
    monkeypatch.setattr(realsense, "PAUSES_S", (0.01, 0.02, 0.03))
    soft = SoftD435(bus=Bus(tmp_path / "bus.log", opening_s=0.0, **faults))
    front = camera(soft)
    with pytest.raises(
        RigFault, match=rf"camera front: {what} in 4 tries \(.*(busy|power)"
    ) as fault:
        front.start()
    for word in ("USB 3 port", "powered USB 3 hub", "cable", "V4L2", "RSUSB"):
        assert word in str(fault.value)
    assert len((tmp_path / "bus.log").read_text().splitlines()) == 4
    soft.plugged = False


def test_cameras_of_two_rigs_start_one_at_a_time(tmp_path):
    log, driver = tmp_path / "bus.log", "soft_realsense:soft_camera"
    names = (("front", "wrist"), ("side",))
    cameras, failed = [], []

    def open_one(mine):
        entries = [entry(name, driver, SIZE, bus=str(log), warm_up=1) for name in mine]
        try:
            cameras.extend(open_cameras(rig(*entries), RealClock()).values())
        except CapexError as error:
            failed.append(str(error))

    rigs = [threading.Thread(target=open_one, args=(mine,)) for mine in names]
    for each in rigs:
        each.start()
    for each in rigs:
        each.join()
    for opened in cameras:
        assert opened.latest().number > 0
        opened.close()
    assert not failed
    assert log.read_text().splitlines() == ["started"] * 3  # nobody was refused


def test_whoever_waits_too_long_for_other_cameras_says_so(soft, monkeypatch):
    monkeypatch.setattr(realsense, "TURN_S", 0.2)
    begun, done = threading.Event(), threading.Event()

    def holder():
        with one_at_a_time("another", "realsense", 30.0):
            begun.set()
            done.wait(30)

    other = threading.Thread(target=holder)
    other.start()
    begun.wait(40)
    try:
        with pytest.raises(RigFault, match=r"camera front has waited 0 s for another process"):
            camera(soft).start()
    finally:
        done.set()
        other.join()
    assert Path("/tmp/capex-realsense.lock").exists()
