"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_hello_makes_one_decision():
    out = subprocess.run([sys.executable, str(EXAMPLES / "hello.py")], capture_output=True, text=True, check=True).stdout
    assert out.startswith("Instruction: Pick the ")
    assert "stated 0.95: reached (label 1)" in out
    assert len((EXAMPLES / "hello.py").read_text().splitlines()) < 50
