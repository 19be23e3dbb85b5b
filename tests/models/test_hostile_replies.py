"""Generated replies through every wire: a harmless reading or a sentence, whatever a server sends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from hostile_replies import ENDS, WIRES, storm


@pytest.mark.parametrize("wire", WIRES)
def test_every_reply_ends_as_a_harmless_reading_or_a_sentence(wire, shm):
    (told,) = storm(120, shm, seed=7, wires=(wire,))
    assert told.broken == []
    assert told.sent >= 120
    ends = {end for _, end in told.ends}
    assert ends == set(ENDS) - {"broken"}
