"""What the project offers, as rows `kind<TAB>name`, and the rows that a change lost.

`python scripts/inventory.py` prints every command, flag, setting, preset, name of the Python
package, report section, table and figure, studio page and route, export format and test function.
A test has a third column: how many assertions it makes.

`python scripts/inventory.py compare BEFORE.tsv VERDICTS.tsv` prints the rows of BEFORE that are
gone and the tests that assert less than before, unless VERDICTS has a row for them: kind, name, and
`renamed to NEW` or `removed: REASON` (of the row, or of some of its assertions). A renamed row must
exist under its new name. Exit status 1 if anything is printed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
SRC, TESTS = ROOT / "src", ROOT / "tests"
sys.path.insert(0, str(SRC))

Row = tuple[str, str]
# A call whose first argument names what a user sees -> the kind of its row.
NAMED = {
    "Section": "report section",
    "Table": "report table",
    "file_table": "report table",
    "Figure": "report figure",
    "Route": "studio route",
    "WebSocketRoute": "studio route",
}
RENAMED, REMOVED = "renamed to ", "removed: "


def commands() -> Iterator[Row]:
    """Commands, those below them, and their arguments."""
    from capex.cli import COMMANDS
    from capex.cli.help import arguments, pages

    kinds = {name: _loaded(target) for name, (target, _) in COMMANDS.items()}
    for name, kind in pages(kinds).items():
        yield "command", name
        for argument in arguments(kind):
            for flag in argument.flags or (argument.metavar,):
                yield "flag", f"{name} {flag}"
    for form in get_args(get_type_hints(kinds["export"])["format"]):
        yield "export format", form


def _loaded(target: Any) -> Any:
    """A command's dataclass, given itself or as "module:Class"."""
    if isinstance(target, type):
        return target
    from capex.registry import load

    return load(target)


def settings() -> Iterator[Row]:
    """Settings of campaigns, methods, students and studies, and presets."""
    from capex.campaign.settings import CAMPAIGN, METHOD
    from capex.method.presets import PRESETS
    from capex.setting import declared
    from capex.students.settings import POLICIES
    from capex.students.study_plan import StudyPlan

    yield from (("setting", name) for name in {**CAMPAIGN, **METHOD})
    yield from (("preset", name) for name in PRESETS)
    yield from (("study setting", name) for name in declared(StudyPlan))
    for policy, kind in POLICIES.items():
        yield from (("student setting", f"{policy} {name}") for name in declared(kind))


def exports() -> Iterator[Row]:
    """What `import capex` offers."""
    import capex

    yield from (("python", name) for name in capex.__all__)


def pages() -> Iterator[Row]:
    """Report and studio, read from the source: sections are made only where a run has their data.

    A part of a name that is known only then is `*`.
    """
    for path in sorted((SRC / "capex").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                kind, name = NAMED.get(node.func.id), _text(node.args[0])
                heads = len(node.args) > 1 and _text(node.args[1]) and node.func.id == "Table"
                if kind and name not in (None, "/", "/*") and not heads:  # not a table of rich
                    yield kind, str(name)
    page = (SRC / "capex/report/page.html").read_text(encoding="utf-8")
    for anchor in re.findall(r'id="([\w-]+)"', page):
        yield "report section", anchor
    for path in (SRC / "capex/studio/static").glob("*/*.js"):
        if path.parent.name != "uplot":
            yield "studio page", path.stem


def _text(node: ast.expr) -> str | None:
    """A literal text; None where it is something else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "*" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def tests() -> dict[Row, int]:
    """Every test function by its file's name, and how many assertions it makes."""
    found: dict[Row, int] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if function and node.name.startswith("test_"):
                row = ("test", f"{path.name}::{node.name}")
                found[row] = found.get(row, 0) + sum(map(_asserts, ast.walk(node)))
    return found


def _asserts(node: ast.AST) -> bool:
    raises = isinstance(node, ast.Attribute) and node.attr in ("raises", "warns")
    refuses = isinstance(node, ast.Name) and node.id in ("refuses", "model_fails")  # tests.refusals
    return raises or refuses or isinstance(node, ast.Assert)


def inventory() -> dict[Row, int]:
    """Every row, with the assertions of tests."""
    rows = {row: 0 for part in (commands, settings, exports, pages) for row in part()}
    return dict(sorted({**rows, **tests()}.items()))


def lost(before: Path, verdicts: Path) -> list[str]:
    """The rows that are gone, or assert less, and have no verdict."""
    now = inventory()
    verdict = {(kind, name): text for kind, name, text in _read(verdicts)}
    found = []
    for kind, name, *asserted in _read(before):
        row, said = (kind, name), verdict.get((kind, name), "")
        if said.startswith(REMOVED) and said != REMOVED.strip():
            continue
        if said.startswith(RENAMED):
            row = (kind, said.removeprefix(RENAMED))
        if row not in now:
            found.append(f"{kind}\t{name}" + (f"\t{said}: there is none" if said else ""))
        elif asserted and now[row] < int(asserted[0]):
            found.append(f"{kind}\t{name}\t{now[row]} assertions, before {asserted[0]}")
    return found


def _read(path: Path) -> list[list[str]]:
    if not path.exists():
        sys.exit(f"{path} does not exist; give the file of an inventory and one of verdicts")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def main(words: list[str]) -> int:
    if not words:
        for (kind, name), asserted in inventory().items():
            print(kind, name, *([asserted] if kind == "test" else []), sep="\t")
        return 0
    if words[0] != "compare" or len(words) != 3:
        sys.exit(f"usage: python {sys.argv[0]} [compare BEFORE.tsv VERDICTS.tsv]")
    gone = lost(Path(words[1]), Path(words[2]))
    print(*gone, sep="\n", end="\n" if gone else "")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
