"""Memory: calibration rows, snapshots, what a worker gets, start images, refusals, records as JSON."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from attempts import (
    BY_HASH,
    IMAGES,
    PNG,
    attempt,
    decision,
    driven,
    remembering,
    row,
    shelf,
    slow,
    stuck,
    tray,
)
from capex.errors import ErrorCode
from capex.method.calibrator import Calibrator
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import preset
from capex.method.record import from_json
from refusals import refuses
from toy import Toy, ToyEnv


def test_labelled_rows_grow_in_order_and_snapshots_stay():
    memory = Memory()
    assert [a.shape for a in memory.labelled()] == [(0, 8), (0,)]
    expected: list[tuple[float, int]] = []
    snapshots = []
    for k in range(300):
        number = float(k)
        rows = [
            replace(row((40, 0, 60), status), features=(number,) * 8)
            for status in ("reached", "stalled")
        ]
        rows.append(
            replace(row((40, 0, 60)), features=None)
        )  # a label without features, as on the base arm
        memory.add(attempt(k, False, [decision(1, *rows, row((40, 0, 60), "deferred"))]))
        expected += [(number, 1), (number, 0)]
        if k % 50 == 0:
            snapshots.append((memory.snapshot(), len(expected), memory.skeleton.text()))
    for frozen, count, skeleton in snapshots:
        features, labels = pickle.loads(pickle.dumps(frozen)).labelled()
        assert features[:, 3].tolist() == [f for f, _ in expected[:count]]
        assert labels.tolist() == [y for _, y in expected[:count]]
        assert frozen.skeleton.text() == skeleton
        assert frozen.snapshot() is frozen
    with pytest.raises(ValueError, match="read-only"):
        memory.labelled()[0][0, 0] = 1.0
    with refuses(ErrorCode.WRONG_ORDER):
        snapshots[0][0].add(stuck())


def test_what_a_worker_gets_does_not_grow_with_the_attempts_and_predicts_the_same():
    memory, capex, sizes = Memory(), preset("capex"), []
    assert memory.fitted(capex).calibrator(capex, "toy:Fetch") == Calibrator()
    for k in range(400):
        phi = (1.0, 0.01 * k, 0.0, 0.25, 0.5, -0.1, 2.0, 0.25)
        waypoints = [
            replace(row((40, 0, 60), s), features=phi) for s in ("reached", "stalled", "reached")
        ]
        memory.add(attempt(k, False, [decision(1, *waypoints)]))
        if k % 100 == 99:
            sent = pickle.dumps(memory.fitted(capex))
            fitted = pickle.loads(sent)
            sizes.append(len(sent))
            known = memory.calibrator(capex, "toy:Fetch")
            assert fitted.calibrator(capex, "toy:Fetch") == known
            assert known.labels == fitted.labels == memory.labels == 3 * (k + 1)
            assert fitted.skeleton.text() == memory.skeleton.text()
            assert fitted.fitted(capex) is fitted
            assert fitted.calibrator(preset("capex-stated"), "toy:Fetch").weights is None
    assert max(sizes) < 1.1 * min(sizes)
    with refuses(ErrorCode.WRONG_ORDER):
        fitted.add(stuck())


def test_memory_and_its_snapshots_travel_between_processes():
    memory = remembering(shelf(), tray(), driven())
    spec = ToyEnv(Toy()).spec
    copied = pickle.loads(pickle.dumps(memory.snapshot()))
    assert build(copied, preset("capex"), spec, 7, "layout 1") == build(
        memory, preset("capex"), spec, 7, "layout 1"
    )


def test_start_images_are_read_when_shown_and_must_be_the_recorded_ones(tmp_path):
    paths = {}
    for camera, png in PNG.items():
        paths[IMAGES[camera]] = tmp_path / f"{IMAGES[camera]}.png"
        paths[IMAGES[camera]].write_bytes(png)
    memory, spec = Memory(), ToyEnv(Toy()).spec
    memory.add(shelf(), paths)
    assert [p.png for p in build(memory, preset("capex"), spec, 7, "").pictures] == list(
        PNG.values()
    )
    paths[IMAGES["right"]].write_bytes(b"another")
    with refuses(
        ErrorCode.DAMAGED_FILE, r"the start image of camera right has sha256 \w+; the record says"
    ):
        build(memory, preset("capex"), spec, 7, "")
    paths[IMAGES["right"]].unlink()
    with refuses(ErrorCode.UNREADABLE_FILE, "the start image of camera right cannot be read"):
        build(memory, preset("capex"), spec, 7, "")


def test_refused_attempts_leave_memory_as_it_was():
    memory = remembering(shelf())
    before = (memory.attempts, memory.labels, memory.skeleton.text())
    for record, images, code, sentence in (
        (
            replace(tray(), task="Push"),
            BY_HASH,
            ErrorCode.MISMATCH,
            "about toy:Fetch; an attempt at toy:Push does not belong",
        ),
        (
            tray(),
            {},
            ErrorCode.WRONG_ORDER,
            "start 2 of Fetch comes without the start image of left, right",
        ),
        (
            attempt(5, False, [decision(1, replace(row((40, 0, 60)), features=(1.0,)))]),
            {},
            ErrorCode.MISMATCH,
            "has 1 features; the calibrator has 8",
        ),
    ):
        with refuses(code, sentence):
            memory.add(record, images)
    assert (memory.attempts, memory.labels, memory.skeleton.text()) == before
    memory.add(replace(tray(), success=None), {})
    assert "2 earlier attempts, 1 succeeded, 0 failed, 1 not judged yet" in memory.skeleton.text()
    assert len(memory.successes) == 1


@pytest.mark.parametrize(
    "record",
    [shelf(), tray(), driven(), driven(poses=False), stuck(), slow(), attempt(5, None, [])],
    ids=lambda r: f"start {r.start}",
)
def test_records_survive_json(record):
    data = json.loads(json.dumps(record.as_json()))
    assert from_json(data) == record
    assert from_json(data).as_json() == record.as_json()
