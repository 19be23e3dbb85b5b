"""The house in numbers: `python scripts/house.py map` lists every module with its first line,
`python scripts/house.py measure` what is long, complex or named twice. Nothing is enforced.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src" / "capex"
SHOWN = 10


def modules() -> dict[str, ast.Module]:
    """Every module by its path within the package."""
    return {
        path.relative_to(SRC).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SRC.rglob("*.py"))
    }


def show_map() -> None:
    """Rooms, and in each the modules with the first line of their docstrings."""
    room = None
    for path, tree in sorted(modules().items(), key=lambda item: item[0].rpartition("/")[::2]):
        here = path.rpartition("/")[0]
        if here != room:
            room = here
            print(f"\n{here or 'capex'}/")
        paragraph = (ast.get_docstring(tree) or "").partition("\n\n")[0]
        sentence = re.split(r"(?<=[.]) ", " ".join(paragraph.split()))[0]
        print(f"  {path.rpartition('/')[2]:22s} {sentence}")


def measure() -> None:
    """Lines by room, what is longest, names with several meanings, complex functions."""
    trees = modules()
    sizes = {path: len((SRC / path).read_text(encoding="utf-8").splitlines()) for path in trees}
    rooms: dict[str, int] = defaultdict(int)
    for path, lines in sizes.items():
        rooms[path.partition("/")[0] if "/" in path else "(ground)"] += lines
    _rows("lines by room", [(lines, room) for room, lines in rooms.items()], len(rooms))
    print(f"{sum(sizes.values()):7,}  in {len(sizes)} modules")
    _rows("longest modules", [(lines, path) for path, lines in sizes.items()])
    functions, homes = [], defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(
                    ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path} {node.name}")
                )
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(path)
    _rows("longest functions", functions)
    shared = [
        (len(paths), f"{name}: {', '.join(sorted(paths))}")
        for name, paths in homes.items()
        if len(paths) > 1
    ]
    _rows(f"type names with several meanings ({len(shared)})", shared, len(shared))
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--select",
        "C901",
        "--output-format",
        "concise",
        str(SRC),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    complex_ = [line.partition("src/capex/")[2] for line in found if "C901" in line]
    print(f"\ncomplex functions, as ruff counts ({len(complex_)})")
    for line in complex_[:SHOWN]:
        print(f"         {line}")


def _rows(title: str, rows: list[tuple[int, str]], most: int = SHOWN) -> None:
    print(f"\n{title}")
    for number, name in sorted(rows, key=lambda row: (-row[0], row[1]))[:most]:
        print(f"{number:7,}  {name}")


if __name__ == "__main__":
    if sys.argv[1:] not in (["map"], ["measure"]):
        raise SystemExit(__doc__)
    show_map() if sys.argv[1] == "map" else measure()
