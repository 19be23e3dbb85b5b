"""The help pages: usage, arguments in groups with defaults and units, and examples, laid out for
the terminal's width.

A page is read from the command's dataclass: the docstring below a field is its text. `GROUPS` of a
command names the fields of each group, the others come under "Options"; `EXAMPLES` maps what a
command line does to the line.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from rich.text import Text
from tyro.conf import OmitArgPrefixes, Positional

from capex.setting import docstrings

Groups = Mapping[str, Sequence[str]]
Examples = Mapping[str, str]

WIDEST = 100  # columns; longer lines are hard to read
COLUMN = 24  # where texts begin, beside what is typed
NAME = 8  # characters of a command that others line up with
NARROW = 72  # columns below which texts stand under what is typed
TIE = "\N{NO-BREAK SPACE}"
OPTIONS, ARGUMENTS = "Options", "Arguments"
WORDS = {int: "N", float: "X", str: "NAME", Path: "PATH"}  # for a value, by its type


@dataclass(frozen=True)
class SameAs:
    """Marks a field as another name of a field before it."""

    name: str


@dataclass(frozen=True)
class Argument:
    """One argument of a command, as a user types it and reads about it."""

    name: str  # of the field
    flags: tuple[str, ...]  # none: it is given by its place
    metavar: str  # stands for its value; empty: it takes none
    text: str
    required: bool
    value: Any  # its type

    @property
    def typed(self) -> str:
        """What stands on the left of a page."""
        return " ".join(filter(None, (", ".join(self.flags), self.metavar)))


def actions(kind: type) -> dict[str, type]:
    """The commands below a command, such as check of `capex dataset`."""
    found: dict[str, type] = {}
    for hint in get_type_hints(kind, include_extras=True).values():
        union = hint.__origin__ if get_origin(hint) is Annotated else hint
        for member in get_args(union) if get_origin(union) in (Union, UnionType) else ():
            for mark in getattr(member, "__metadata__", ()):
                if hasattr(mark, "is_default"):  # tyro's mark of a subcommand
                    found[mark.name] = member.__origin__
    return found


def pages(commands: Mapping[str, type]) -> dict[str, type]:
    """Everything that has a page, by what is typed for it: the commands and those below them."""
    below = {f"{name} {a}": k for name, kind in commands.items() for a, k in actions(kind).items()}
    return {**commands, **below}


def arguments(kind: type) -> list[Argument]:
    """The arguments of a command in the order of its fields, those of nested settings among
    them.
    """
    hints = get_type_hints(kind, include_extras=True)
    texts = docstrings(kind)
    found: list[Argument] = []
    for field in () if actions(kind) else fields(kind):
        hint = hints[field.name]
        metadata = hint.__metadata__ if get_origin(hint) is Annotated else ()
        if OmitArgPrefixes in metadata:
            assert field.default_factory is not MISSING
            found += arguments(type(field.default_factory()))
        elif other := next((m.name for m in metadata if isinstance(m, SameAs)), None):
            (same,) = (a for a in found if a.name == other)
            also = f"--{field.name.replace('_', '-')}"
            found[found.index(same)] = replace(same, flags=(*same.flags, also))
        else:
            found.append(_argument(field, hint, metadata, texts.get(field.name, "")))
    return found


def _argument(field: Field[Any], hint: Any, metadata: Sequence[Any], text: str) -> Argument:
    looks = [m for m in metadata if hasattr(m, "metavar")]
    value = _without_none(hint.__origin__ if metadata else hint)
    by_place = Positional in metadata
    metavar = next((m.metavar for m in looks if m.metavar), None)
    if metavar is None:
        metavar = "" if value is bool else _metavar(value)
    text = next((m.help for m in looks if m.help), text)
    default = field.default
    required = default is MISSING and field.default_factory is MISSING
    if "default" not in text and default not in (MISSING, None, "", ()) and value is not bool:
        shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
        text = f"{text.rstrip('.')} (default {shown})."
    if by_place:
        shown = metavar if required or value is not str else f"[{metavar}]"
        return Argument(field.name, (), shown, text, required, value)
    flag = f"--{field.name.replace('_', '-')}"
    return Argument(field.name, (flag,), metavar, text, required, value)


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (k for k in get_args(kind) if k is not NoneType)
    return kind


def _metavar(kind: Any) -> str:
    """A word for a value of a type: N, X, a|b, N N, PATH [PATH ..]."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if get_origin(kind) is tuple:
        words = [_metavar(k) for k in get_args(kind) if k is not Ellipsis]
        return f"{words[0]} [{words[0]} ..]" if Ellipsis in get_args(kind) else " ".join(words)
    return WORDS[kind]


def groups(kind: type) -> dict[str, list[Argument]]:
    """The arguments of a command by group. A field that the command's groups do not name is an
    option, or an argument if it is given by its place.
    """
    known = {a.name: a for a in arguments(kind)}
    named: Groups = getattr(kind, "GROUPS", {})
    grouped = {title: [known.pop(name) for name in names] for title, names in named.items()}
    rest = {
        ARGUMENTS: [a for a in known.values() if not a.flags],
        OPTIONS: [a for a in known.values() if a.flags],
    }
    first = {ARGUMENTS: rest.pop(ARGUMENTS)}
    return {title: members for title, members in (first | grouped | rest).items() if members}


def command_page(name: str, kind: type, width: int) -> Text:
    """The help of one command."""
    width = min(width, WIDEST)
    listed, below = arguments(kind), actions(kind)
    words = [
        f"capex {name}",
        *(["|".join(below) + " .."] if below else []),
        *(a.metavar for a in listed if not a.flags),
    ]
    words += [f"{a.flags[0]} {a.metavar}" for a in listed if a.flags and a.required]
    words += ["[options]"] if any(a.flags and not a.required for a in listed) else []
    page = Text().append("Usage:", "bold")
    page.append(_hanging(words, width, first=len("Usage:")) + "\n\n")
    page.append(_wrapped(kind.__doc__ or "", width, "") + "\n")
    if below:
        page.append_text(_heading("\nCommands\n"))
    for action, its_kind in below.items():
        _add_row(page, f"capex {name} {action}", its_kind.__doc__ or "", width, COLUMN)
    for title, members in groups(kind).items():
        page.append_text(_heading(f"\n{title}\n"))
        for member in members:
            _add_row(page, member.typed, member.text, width, COLUMN)
    _add_examples(page, getattr(kind, "EXAMPLES", {}), width)
    return page


def root_page(
    what: str,
    sections: Mapping[str, Mapping[str, str]],
    examples: Examples,
    notes: Iterable[str],
    width: int,
) -> Text:
    """The help of `capex` itself: its commands by section, one line each, and notes at the end."""
    width = min(width, WIDEST)
    page = Text().append("Usage:", "bold")
    page.append(" capex COMMAND [options]\n\n" + _wrapped(what, width, "") + "\n")
    names = [name for section in sections.values() for name in section]
    column = 4 + max(len(name) for name in names if len(name) <= NAME)
    for title, section in sections.items():
        page.append_text(_heading(f"\n{title}\n"))
        for name, summary in section.items():
            page.append(f"  {name}", "cyan")
            page.append(" " * max(2, column - 2 - len(name)) + summary + "\n")
    _add_examples(page, examples, width)
    page.append("\n" + "".join(_wrapped(note, width, "") + "\n" for note in notes))
    return page


def _heading(text: str) -> Text:
    return Text(text, "bold", end="")


def _add_row(page: Text, typed: str, text: str, width: int, column: int) -> None:
    """What is typed on the left, its text beside it; below it where there is no room."""
    lines = _fold(typed, width - 2)
    page.append("\n".join(f"  {line}" for line in lines), "cyan")
    if width < NARROW:
        page.append("\n" + _wrapped(text, width, " " * 6) + "\n")
        return
    indent = " " * column
    beside = len(lines) == 1 and len(typed) + 4 <= column
    page.append(" " * (column - 2 - len(typed)) if beside else f"\n{indent}")
    page.append(_wrapped(text, width, indent).lstrip() + "\n")


def _add_examples(page: Text, examples: Examples, width: int) -> None:
    if not examples:
        return
    page.append_text(_heading("\nExamples\n"))
    for what, line in examples.items():
        page.append(_wrapped(f"{what}:", width, "  ") + "\n")
        page.append("\n".join(shell_lines(line, width)) + "\n", "cyan")


def shell_lines(line: str, width: int) -> Iterator[str]:
    """A command line within a width: a shell takes it as it stands. A flag stays with its
    value.
    """
    pieces: list[str] = []
    for word in line.split():
        if pieces and re.fullmatch(r"--\S+", pieces[-1]) and not word.startswith("-"):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    row = "    " + pieces[0]
    for piece in pieces[1:]:
        if len(row) + len(piece) + 3 > width:
            yield row + " \\"
            row = " " * 6 + piece
        else:
            row += f" {piece}"
    yield row


def _hanging(words: Sequence[str], width: int, first: int) -> str:
    """Words of a usage, folded between them."""
    lines, room = [""], width - first
    for word in words:
        if len(lines[-1]) + 1 + len(word) > room and lines[-1]:
            lines.append("    " + word)
            room = width
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _fold(typed: str, width: int) -> list[str]:
    """What is typed in lines; alternatives stay whole."""
    return textwrap.wrap(
        typed, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _wrapped(text: str, width: int, indent: str) -> str:
    """A text in lines; a short default is not torn apart."""
    tied = re.sub(
        r"\(default[^)]{1,12}\)", lambda m: m[0].replace(" ", TIE), " ".join(text.split())
    )
    return textwrap.fill(
        tied,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(TIE, " ")
