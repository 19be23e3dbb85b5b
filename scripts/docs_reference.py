"""The reference pages of the site, made from the code.

`python scripts/docs_reference.py DIR` writes them to a folder to look at; `make docs` builds the
site with them, and neither is committed.

reference/cli.md has the help of every command, reference/python.md the names that `import capex`
exports and what worlds, models and metrics are written with, as the source declares them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import capex
from capex.cli import COMMANDS
from capex.cli.help import command_page
from capex.cli.help import pages as pages_of
from capex.registry import load

COLUMNS = 80

CLI_INTRO = """# Command line

What `capex COMMAND --help` prints, command by command. A command that ends well exits with 0, a
mistake of yours is one sentence and status 2, and Ctrl-C is 130. `capex collect` also takes its
settings from a TOML file: [how](../collecting.md#settings).
"""

PYTHON_INTRO = """# Python

`import capex` loads nothing heavy; each name is fetched when it is first used. Lengths are metres
and angles radians, in the arm's base frame (x forward, y left, z up). Bodies of functions are left
out below; the docstrings are the code's own.
"""

# Module -> the functions of it to show; its public classes are shown anyway.
SECTIONS: dict[str, str] = {
    "capex.worlds": "make tasks check",
    "capex.models": "make",
    "capex.method.presets": "preset",
    "capex.method.commit": "committed",
    "capex.method.calibrator": "",
    "capex.method.features": "features",
    "capex.method.record": "",
    "capex.run.reading": "",
    "capex.run.stats": "wilson mcnemar sign_test fisher cochran_mantel_haenszel per_success"
    " per_success_interval reliability ece auroc brier",
    "capex.errors": "",
}


def cli_page() -> str:
    """The help of every command and of its subcommands."""
    parts = [CLI_INTRO]
    for command, (target, _) in COMMANDS.items():
        for name, page in pages_of({command: load(target)}).items():
            text = command_page(name, page, COLUMNS).plain.strip()
            level = "#" * (2 + name.count(" "))
            parts.append(f"{level} capex {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def python_page() -> str:
    """The flat exports, then the names that worlds, models and metrics are written with."""
    parts = [PYTHON_INTRO, "## capex: what most programs need\n"]
    parts += [_entry(f"capex.{name}", getattr(capex, name)) for name in capex.__all__]
    for module_name, functions in SECTIONS.items():
        module = importlib.import_module(module_name)
        purpose = (module.__doc__ or "").partition("\n\n")[0]
        parts.append(f"## {module_name}\n\n{purpose}\n")
        for name in (*functions.split(), *_own_classes(module)):
            if name not in capex.__all__:
                parts.append(_entry(f"{module_name}.{name}", getattr(module, name)))
    return "\n".join(parts)


def _own_classes(module: Any) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__ == module.__name__ and name[0] != "_"
    ]


def _entry(name: str, thing: Any) -> str:
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        listed = ", ".join(f"`{key}`" for key in thing)
        return f"### {name}\n\n{type(thing).__name__} with {listed}.\n"
    home = inspect.getmodule(thing)
    where = (
        f"From `{home.__name__}`.\n\n"
        if home and home.__name__ + f".{thing.__name__}" != name
        else ""
    )
    return f"### {name}\n\n{where}```python\n{stub(thing)}\n```\n"


def stub(thing: Any) -> str:
    """The source of a class or function with its comments and docstrings, without the bodies of
    functions and without private ones.
    """
    source = textwrap.dedent(inspect.getsource(thing))
    lines = source.splitlines()
    (top,) = ast.parse(source).body
    dropped: set[int] = set()
    shortened: dict[int, str] = {}
    for node in ast.walk(top):
        if not isinstance(node, ast.FunctionDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        last = node.end_lineno or node.lineno
        if node is not top and node.name[0] == "_" and node.name != "__init__":
            dropped.update(range(first, last + 1))
            continue
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body and (begin := _after(node)) < last:
            dropped.update(range(begin + 1, last + 1))
            if ast.get_docstring(node) is None:
                shortened[begin] = " ..."
    kept = [line + shortened.get(k, "") for k, line in enumerate(lines, 1) if k not in dropped]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).rstrip()


def _after(node: ast.FunctionDef) -> int:
    """The last line of a function's signature, or of its docstring where it has one."""
    if ast.get_docstring(node) is not None:
        return node.body[0].end_lineno or node.lineno
    return max(node.body[0].lineno - 1, node.lineno)


def pages() -> dict[str, str]:
    """Both pages by their path in the site's source."""
    return {"reference/cli.md": cli_page(), "reference/python.md": python_page()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} DIR")
    for path, text in pages().items():
        page = Path(sys.argv[1]) / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
        print(page)
