"""README.md, ARCHITECTURE.md, CHANGELOG.md and docs/ are true: snippets run, commands parse, files and names exist.

Every Python block is run as the file that a reader would make of it: `python FILE` in a folder that holds the datasets and policies which
the block reads (small ones). Two comments in the pages' source speak to this test, on the line above a block:

    <!-- the same file -->       the block goes on in the file of the block before it
    <!-- not run: REASON -->     the block is only compiled; its reason is printed and counted
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from capex.campaign.settings import read_config, resolve
from capex.cli import all_commands, parse
from capex.cli.collect import Collect
from capex.cli.help import pages
from capex.dataset import Filters, Pipeline, export_run
from capex.dataset.frames import ANNOTATIONS
from capex.errors import CapexError

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "capex"
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
NOT_RUN_AT_MOST = 0
FENCE = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
INLINE = re.compile(r"`([^`]+)`")
FOREIGN_FLAGS = {"--no-deps"}  # pip's
FOLDERS = "benchmarks|docs|examples|scripts|src|tests"


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# --- Snippets.


@dataclass
class Snippet:
    """One file that a reader makes of a page, or the reason why it cannot be run here."""

    page: Path
    line: int
    text: str
    not_run: str = ""


def _blocks(page: Path, language: str) -> Iterator[tuple[int, str, str]]:
    """Line, comment above and text of each fenced block of a language."""
    source = page.read_text()
    for block in FENCE.finditer(source):
        if block["language"] == language:
            yield source[: block.start("text")].count("\n"), block["comment"] or "", block["text"]


def _snippets() -> list[Snippet]:
    snippets: list[Snippet] = []
    for page in PAGES:
        for line, comment, text in _blocks(page, "python"):
            if comment == "the same file":
                assert snippets, f"{_name(page)}:{line} goes on in a file that nothing began"
                assert snippets[-1].page == page, (
                    f"{_name(page)}:{line} goes on in a file that another page began"
                )
                snippets[-1].text += "\n" + text
            else:
                assert not comment or comment.startswith("not run: "), (
                    f"{_name(page)}:{line}: what does '{comment}' mean?"
                )
                snippets.append(Snippet(page, line, text, comment.removeprefix("not run: ")))
    return snippets


SNIPPETS = _snippets()


def _id(snippet: Snippet) -> str:
    return f"{_name(snippet.page)}:{snippet.line}"


def _dataset(path: Path, demos: Path) -> None:
    export_run(demos, path, filters=Filters(max=1), pipeline=Pipeline((64, 64)))


def _policy(path: Path, demos: Path) -> None:
    import student_data
    from capex.students.settings import make_settings
    from capex.students.train import TrainingJob, train

    path.mkdir(parents=True)
    pack = student_data.write(path.parent / "pack")
    train(
        TrainingJob((pack,), make_settings("act", student_data.SMALL["act"]), 1, path, device="cpu")
    )


READ: dict[str, Callable[[Path, Path], None]] = {
    "datasets/fridge": _dataset,
    "runs/act": _policy,
}  # what snippets read -> who makes it

PRINTED = {  # words of a snippet -> what it must print
    "ArmTarget((x + 0.05": r"Close the fridge door\.\nreached; close: opening 0\.0 cm 1\n",
    'starts="0:3"': r"0 True \d+ \S+/episodes/0000\n1 .*\n2 .*\n",
    "CLOSE_DRAWER": r"Close the .*\n(.*\n)+True\n",
    "starts=range(2)": r"(kitchen--TurnOnMicrowave--(base|capex) [01] .*\n){4}",
}


@pytest.mark.parametrize("snippet", [s for s in SNIPPETS if not s.not_run], ids=_id)
def test_a_snippet_runs_as_the_file_a_reader_would_make_of_it(snippet, expert_demos, tmp_path):
    for place, make in READ.items():
        if f'"{place}' in snippet.text:
            make(tmp_path / place, expert_demos)
    (tmp_path / "snippet.py").write_text(snippet.text)
    run = subprocess.run(
        [sys.executable, "snippet.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=_environment(),
        check=False,
    )
    assert run.returncode == 0, f"{_id(snippet)}\n{run.stdout}{run.stderr}"
    assert "Traceback" not in run.stderr, run.stderr  # of a worker
    for words, pattern in PRINTED.items():
        assert words not in snippet.text or re.fullmatch(pattern, run.stdout), run.stdout


def _environment() -> dict[str, str]:
    """This one, with one core per process: the snippets are small."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_snippets_that_cannot_be_run_say_why_and_are_few():
    not_run = [s for s in SNIPPETS if s.not_run]
    for snippet in not_run:
        print(f"{_id(snippet)} is not run: {snippet.not_run}")
        compile(snippet.text, _id(snippet), "exec")
    assert len(not_run) <= NOT_RUN_AT_MOST, [_id(s) for s in not_run]
    assert len(SNIPPETS) - len(not_run) >= 5


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_settings_files_are_read(page, tmp_path):
    for _, _, text in _blocks(page, "toml"):
        file = tmp_path / "file.toml"
        file.write_text(text)
        if "[sources]" in text:
            from capex.students.study_plan import load_study

            assert load_study(file).tasks
        else:
            assert resolve((), {}, read_config(file)).tasks


# --- Commands.


def _parse(words: list[str]) -> str:
    """What the real parser says against a command line; empty when it takes it. Nothing is executed."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            command = parse(words)
        if isinstance(command, Collect):
            command.given()
    except SystemExit as end:
        return said.getvalue() if end.code else ""
    except CapexError as error:
        return str(error)
    return ""


def _command_words(line: str) -> list[str] | None:
    """The words after `capex`, without environment variables before and a comment behind; None for another program's line."""
    words = shlex.split(line.removeprefix("$ ").replace("\\|", "|"), comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    return words[1:] if words[:1] == ["capex"] and len(words) > 1 else None


def _alternatives(words: list[str]) -> list[list[str]]:
    """`--policy act|diffusion` is two commands; `TASK[,TASK..|all]` is one name."""
    return [
        list(w)
        for w in itertools.product(
            *(word.split("|") if re.fullmatch(r"[\w|]+", word) else [word] for word in words)
        )
    ]


def _typed_commands(page: Path) -> Iterator[list[str]]:
    """Lines to be typed: those of fenced and indented blocks."""
    source = page.read_text()
    lines = [
        line
        for block in FENCE.finditer(source)
        if block["language"] in ("", "sh")
        for line in block["text"].splitlines()
    ]
    lines += re.findall(r"^    (?=capex )(.*)$", FENCE.sub("", source), re.MULTILINE)
    for line in lines:
        for part in line.split(";") if "capex " in line else ():
            if (words := _command_words(part)) is not None:
                yield from _alternatives(words)


def _spans(page: Path) -> list[str]:
    """Code within sentences and tables."""
    return [" ".join(span.split()) for span in INLINE.findall(FENCE.sub("", page.read_text()))]


def _named_commands(page: Path) -> Iterator[list[str]]:
    """Commands named within sentences; what they leave out is not needed to make the point."""
    for span in _spans(page):
        if (words := _command_words(span)) is not None:
            yield from _alternatives(words)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_are_what_the_command_line_takes(page):
    for words in _typed_commands(page):
        assert not (said := _parse(words)), f"capex {shlex.join(words)}\n{said}"
    for words in _named_commands(page):
        completed = ([], ["X"], ["X", "X"], ["--out", "X"], ["X", "--out", "X"])
        assert any(not _parse(words + rest) for rest in completed), (
            f"capex {shlex.join(words)}\n{_parse(words)}"
        )


@pytest.fixture(scope="module")
def flags():
    """Every flag of every command and of those below it, as their help pages name them."""
    found = set()
    commands = {kind.__metadata__[0].name: kind.__origin__ for kind in get_args(all_commands())}
    for name in pages(commands):
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            parse([*name.split(), "--help"])
        found |= set(re.findall(r"--[a-z][a-z-]*", said.getvalue()))
    return found


def test_flags_named_alone_exist(flags):
    for page in PAGES:
        for span in (s for s in _spans(page) if s.startswith("--")):
            named = set(re.findall(r"--[a-z][a-z-]*", span))
            assert named <= flags | FOREIGN_FLAGS, f"{_name(page)}: {sorted(named - flags)}"


def test_every_command_is_in_the_table_of_commands():
    named = {words[0] for words in _named_commands(ROOT / "docs" / "commands.md")}
    assert {kind.__metadata__[0].name for kind in get_args(all_commands())} <= named


@pytest.mark.parametrize(
    ("page", "words", "answer"),
    [
        ("docs/commands.md", ["prompt", "--arm", "capex"], "locate_pixel"),
        ("docs/robosuite.md", ["install", "robosuite", "--dry-run"], "--no-deps robosuite=="),
        (
            "docs/collecting.md",
            ["collect", "kitchen:CloseFridge,TurnOnMicrowave", "--dry-run"],
            "80 of 2 tasks x 2 arms x 20 starts",
        ),
    ],
    ids=["prompt", "install", "collect"],
)
def test_cheap_commands_answer(page, words, answer, tmp_path):
    """The command of the page that begins with these words, or with `--dry-run` added, for real."""
    known = [*_typed_commands(ROOT / page), *_named_commands(ROOT / page)]
    begin = [word for word in words if word != "--dry-run"]
    typed = next(given for given in known if given[: len(begin)] == begin) + words[len(begin) :]
    keys = {"OPENAI_API_KEY": "none"}
    command = [sys.executable, "-m", "capex.cli", *typed]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=_environment() | keys,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert answer in " ".join(run.stdout.split())
    assert not list(tmp_path.iterdir())


# --- Files, headings and names.


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_are_named_exist(page):
    text = page.read_text()
    for path in re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w", text):
        assert (ROOT / path).exists(), f"{_name(page)} names {path}"
    for path in re.findall(r"(?<![\w/.-])capex/[\w./-]*\w", text):
        if path.endswith(".py"):
            assert (ROOT / "src" / path).exists(), f"{_name(page)} names {path}"
    known = {p.name for folder in FOLDERS.split("|") for p in (ROOT / folder).rglob("*")}
    for name in re.findall(r"(?<![\w/.*-])\w+\.(?:py|sh|toml)\b", FENCE.sub("", text)):
        assert name in known | {"pyproject.toml", "FILE.toml", "fridge.toml", "microwave.toml"}, (
            f"{_name(page)} names {name}"
        )


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"https?:", target):
            continue
        path, _, heading = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.is_file(), f"{_name(page)} links to {target}"
        if heading:
            headings = re.findall(r"^#+ (.*)$", FENCE.sub("", linked.read_text()), re.MULTILINE)
            assert heading in {
                re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings
            }, target


def test_the_picture_of_the_house_names_every_room():
    """ARCHITECTURE's picture has the packages and the modules below them, and no others."""
    picture = next(FENCE.finditer((ROOT / "ARCHITECTURE.md").read_text()))["text"]
    package = SRC / "capex" if (SRC / "capex").is_dir() else SRC
    rooms = {p.name for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert set(re.findall(r"(\w+)/", picture)) == rooms
    ground = {p.name for p in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert set(re.findall(r"\w+\.py", picture)) == ground


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_names_exist(page):
    named = {
        name
        for span in _spans(page)
        for name in re.findall(r"(?<![\w./-])capex(?:\.[a-zA-Z_]\w*)+", span)
    }
    for name in named - set(ANNOTATIONS):  # columns of a dataset look the same
        thing = importlib.import_module("capex")
        for part in name.split(".")[1:]:
            if not hasattr(thing, part):
                importlib.import_module(f"{thing.__name__}.{part}")
            thing = getattr(thing, part)


# --- The site.


@pytest.fixture(scope="module")
def site():
    """scripts/docs_site.py as a module; it imports docs_reference beside it."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield importlib.import_module("docs_site")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def test_the_navigation_names_every_page_once(site):
    named = [page for entries in site.NAVIGATION.values() for page in entries]
    beside = {Path(new).stem for new in site.BESIDE.values()}
    written = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert len(named) == len(set(named))
    assert set(named) | {"index"} == written | beside | {"reference/cli", "reference/python"}, (
        "NAVIGATION of scripts/docs_site.py and docs/*.md differ"
    )


def test_the_reference_has_every_command_and_every_export(site):
    import capex

    pages = site.pages()
    for kind in get_args(all_commands()):
        name = kind.__metadata__[0].name
        assert f"## capex {name}\n\n```text\n" in pages["reference/cli.md"]
    assert "### capex dataset check\n" in pages["reference/cli.md"]
    for name in capex.__all__:
        assert f"### capex.{name}\n" in pages["reference/python.md"]
    for block in re.findall(r"```python\n(.*?)```", pages["reference/python.md"], re.DOTALL):
        ast.parse(block)


def test_the_site_builds_without_a_broken_link_and_asks_nobody_for_anything(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "docs_site.py"), str(tmp_path / "site")]
    run = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False)
    assert run.returncode == 0, run.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert {p.stem for p in PAGES if p.parent.name == "docs"} <= {p.stem for p in pages}
    for page in pages:
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text())
        assert not [tag for tag in tags if re.search(r"""=["']?(?:https?:)?//""", tag)], page
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


PROGRAMS = sorted(
    p for folder in ("benchmarks", "examples", "scripts") for p in (ROOT / folder).glob("*.py")
)


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_benchmarks_examples_and_scripts_say_how_they_are_called_and_import_what_exists(program):
    tree = ast.parse(program.read_text())
    assert f"python {_name(program)}" in (ast.get_docstring(tree) or "")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "capex":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
