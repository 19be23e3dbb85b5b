"""What a change loses is named, unless a verdict says where it went."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "inventory.py"


def inventory(*words):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True
    )


def test_rows_that_are_gone_need_a_verdict(tmp_path):
    before, verdicts = tmp_path / "before.tsv", tmp_path / "verdicts.tsv"
    before.write_text(
        "command\tcollect\ncommand\tfly\ncommand\tswim\ncommand\twalk\ntest\ttest_inventory.py::test_rows_that_are_gone_need_a_verdict\t99\n"
    )
    verdicts.write_text(
        "command\tfly\tremoved: robots have no wings\ncommand\tswim\trenamed to dive\ncommand\twalk\trenamed to collect\n"
    )
    told = inventory("compare", before, verdicts)
    lines = told.stdout.splitlines()
    assert (told.returncode, len(lines)) == (1, 2), told.stdout + told.stderr
    assert lines[0] == "command\tswim\trenamed to dive: there is none"
    assert lines[1].endswith("assertions, before 99")


def test_an_inventory_is_equal_to_itself(tmp_path):
    before, verdicts = tmp_path / "before.tsv", tmp_path / "verdicts.tsv"
    listed = inventory().stdout
    assert len({row.partition("\t")[0] for row in listed.splitlines()}) == 14
    before.write_text(listed)
    verdicts.write_text("")
    told = inventory("compare", before, verdicts)
    assert (told.returncode, told.stdout) == (0, "")
