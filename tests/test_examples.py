"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_hello_runs_one_episode():
    out = subprocess.run(
        [sys.executable, str(EXAMPLES / "hello.py")], capture_output=True, text=True, check=True
    ).stdout
    assert "Instruction: Press the start button on the microwave." in out
    assert "plan of 4 waypoints, 4 of them trusted enough to run" in out
    assert "success: True" in out
    assert len((EXAMPLES / "hello.py").read_text().splitlines()) < 50
