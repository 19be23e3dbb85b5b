'''A setting is declared once, where it is kept: a field of a frozen dataclass.

    tau: Annotated[float, Setting(0, 1)] = 0.5
    """Commit threshold (default {default})."""

Flag, key of a file, keyword and validation are read from there; so is the help, where {default}
becomes the field's default.
'''

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from capex.errors import CapexError, ErrorCode

OnOff = Literal["on", "off"]  # how a bool is written


def as_flag(name: str) -> str:
    """A setting's name as it is typed on the command line."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Setting:
    """What the type and the default of a field do not say."""

    least: float = -math.inf
    most: float = math.inf
    metavar: str = ""  # stands for a value in the help, where the type does not say it
    read: Callable[[Any], Any] | None = None  # turns what a user writes into a value of the type
    right: str = ""  # what would be right, where type and bounds do not say it
    kind: Any = None  # what a user may choose; None: the field's type
    help: str = ""  # of the field's docstring

    def checked(self, name: str, value: Any, *, from_text: bool = False) -> Any:
        """The value as it is kept, or a sentence. `from_text`: numbers may be given as text."""
        from pydantic import TypeAdapter, ValidationError  # here: it takes 60 ms

        try:
            read = value if self.read is None else self.read(value)
        except CapexError as error:
            raise CapexError(f"{name}: {error}", code=error.code) from None
        lax = from_text and not isinstance(value, bool)
        try:
            return TypeAdapter(self._validated(self.kind, strict=not lax)).validate_python(read)
        except ValidationError:
            raise CapexError(
                f"{name} is {value!r}; {self._sentence()}", code=ErrorCode.BAD_SETTING
            ) from None

    def _validated(self, kind: Any, *, strict: bool) -> Any:
        """The type with the bounds, for pydantic."""
        from pydantic import BeforeValidator, Field

        if len(members := _members(kind)) > 1:
            return Union[tuple(self._validated(k, strict=strict) for k in members)]  # noqa: UP007
        if kind is bool:
            on_off = BeforeValidator(lambda v: v == "on" if v in get_args(OnOff) else v)
            return Annotated[bool, Field(strict=True), on_off]
        if kind not in (int, float, Decimal):
            return kind
        bounds = {"ge": self.least, "le": self.most}
        finite: dict[str, Any] = {k: v for k, v in bounds.items() if math.isfinite(v)}
        if kind is not int:
            finite["allow_inf_nan"] = False
        return Annotated[kind, Field(strict=strict, **finite)]

    def _sentence(self) -> str:
        """What would have been right."""
        if self.right:
            return f"it must be {self.right}"
        words, number = _words(self.kind), _number(self.kind)
        if words and not number:
            return f"valid: {', '.join(words)}"
        if not number:
            return "it must be a path" if self.kind is Path else "it must be a text"
        bounds = f"between {self.least:g} and {self.most:g}"
        if math.isinf(self.most):
            bounds = "that is not negative" if self.least == 0 else f"of at least {self.least:g}"
        whole = "whole " if number == "N" else ""
        return f"it must be a {whole}number {bounds}{''.join(f', or the word {w}' for w in words)}"

    def complete(self, kind: Any, text: str) -> Setting:
        """With the type and the help of the field."""
        kind = self.kind or Union[tuple(k for k in _members(kind) if k is not NoneType)]  # noqa: UP007
        metavar = self.metavar or "|".join(filter(None, (_number(kind), *_words(kind))))
        return replace(self, kind=kind, metavar=metavar, help=text)


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _words(kind: Any) -> tuple[str, ...]:
    """The words that a type allows."""
    kinds = (OnOff if k is bool else k for k in _members(kind))
    return tuple(word for k in kinds if get_origin(k) is Literal for word in get_args(k))


def _number(kind: Any) -> str:
    """N for a whole number, X for any, nothing where the type allows none."""
    letters = {int: "N", float: "X", Decimal: "X"}
    return "".join(letters.get(k, "") for k in _members(kind))


def declared(owner: type) -> dict[str, Setting]:
    """The settings among the fields of a dataclass, in their order."""
    hints, helps = get_type_hints(owner, include_extras=True), docstrings(owner)
    found = {}
    for field in fields(owner):
        kind, *metadata = get_args(hints[field.name]) or (None,)
        for setting in [m for m in metadata if isinstance(m, Setting)]:
            metadata.remove(setting)  # the rest is for pydantic
            if metadata:
                kind = Annotated[kind, *metadata]
            text = helps.get(field.name, "").format(default=field.default)
            found[field.name] = setting.complete(kind, text)
    return found


def docstrings(owner: type) -> dict[str, str]:
    """field -> the text that stands below it; none where a class was made by a call."""
    try:
        (tree,) = ast.parse(inspect.getsource(owner)).body
    except OSError:
        return {}
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }
