"""Prices: a dated table of dollars per million tokens, exact costs, and the most they can be.

With n tokens of each kind and rates r in dollars per million,

    cost = (n_fresh r_fresh + n_cached r_cached + n_write r_write + n_output r_output) / 10^6

in Decimal, so that sums over a campaign are exact. What is not known is None, never 0.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal, InvalidOperation
from importlib import resources
from pathlib import Path
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.models import (
    Answer,
    AssistantMessage,
    Picture,
    Request,
    Text,
    ToolResult,
    Usage,
    UserMessage,
    describe,
)

# What may follow a row's name; "-mini" is another model.
SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest)")
REQUEST_TOKENS = 1024  # what a provider adds unseen: tool instructions, framing of the request
MESSAGE_TOKENS = 16  # framing of a message
PICTURE_TOKENS = 2048  # of a picture, whatever its size
PICTURE_CELL_PX = 16  # and one token for each cell of this side


@dataclass(frozen=True)
class LongContext:
    """Factors on all rates of a request that has more input tokens than `above`."""

    above: int
    input: Decimal
    output: Decimal


@dataclass(frozen=True)
class Price:
    """One row of the table: dollars per million tokens, where they were read and when."""

    model: str
    fresh: Decimal
    cached: Decimal
    cache_write: Decimal
    output: Decimal
    source: str
    checked: date
    long_context: LongContext | None = None

    def __post_init__(self) -> None:
        for rate in (self.fresh, self.cached, self.cache_write, self.output):
            if not rate.is_finite() or rate < 0:
                raise ValueError(f"a rate is {rate}; a number of at least 0 is right")

    def rates(self, input_tokens: int) -> tuple[Decimal, Decimal, Decimal, Decimal]:
        """Rates (fresh, cached, cache write, output) of a request with that much input."""
        tier = self.long_context
        fresh, cached, written, output = self.fresh, self.cached, self.cache_write, self.output
        if tier is None or input_tokens <= tier.above:
            return fresh, cached, written, output
        k = tier.input
        return fresh * k, cached * k, written * k, output * tier.output


@dataclass(frozen=True)
class PriceTable:
    """Rows by model name."""

    rows: tuple[Price, ...]

    def find(self, model: str) -> Price | None:
        """The latest row of a model, or of the model that it is a snapshot of (longest name)."""
        name = model.lower()
        rows = [row for row in self.rows if name.startswith(row.model)]
        fitting = [r for r in rows if name == r.model or SNAPSHOT.fullmatch(name, len(r.model))]
        return max(fitting, key=lambda r: (len(r.model), r.checked), default=None)


def load_prices(path: Path | None = None) -> PriceTable:
    """The package's table; rows of a file of the same form replace those of its models."""
    table = (resources.files("capex.models") / "prices.toml").read_text(encoding="utf-8")
    packaged = _rows(table, "prices.toml")
    if path is None:
        return PriceTable(packaged)
    try:
        own = _rows(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CapexError(
            f"the price file {path} cannot be read: {error}", code=ErrorCode.UNREADABLE_FILE
        ) from None
    named = {row.model for row in own}
    return PriceTable((*own, *(row for row in packaged if row.model not in named)))


def parse_price(row: Mapping[str, Any], where: str = "price") -> Price:
    """A row from TOML. Without rates of its own, cached input costs like fresh."""
    known = {f.name for f in fields(Price)}
    if unknown := sorted(set(row) - known):
        raise CapexError(
            f"{where} has an unknown key '{unknown[0]}'; valid: {', '.join(sorted(known))}",
            code=ErrorCode.UNKNOWN_NAME,
        )
    needed = ("model", "fresh", "output", "source", "checked")
    if missing := [name for name in needed if not row.get(name) and row.get(name) != 0]:
        raise CapexError(
            f"{where} lacks '{missing[0]}'; a row needs model, fresh, output, source and checked",
            code=ErrorCode.BAD_SETTING,
        )
    try:
        checked = date.fromisoformat(str(row["checked"]))
    except ValueError:
        raise CapexError(
            f"{where}: checked is '{row['checked']}'; write a date, for example 2026-09-22",
            code=ErrorCode.BAD_SETTING,
        ) from None
    rates = {
        name: _rate(row.get(name, row["fresh"]), f"{where}: {name}")
        for name in ("fresh", "cached", "cache_write", "output")
    }
    model, source, tier = str(row["model"]).lower(), str(row["source"]), row.get("long_context")
    if tier is not None:
        whole = isinstance(tier, Mapping) and set(tier) == {"above", "input", "output"}
        if not whole or not isinstance(tier["above"], int):
            raise CapexError(
                f"{where}: long_context is {tier!r}; write {{ above = 272000, input = 2, output ="
                " 1.5 }",
                code=ErrorCode.BAD_SETTING,
            )
        factors = {name: _rate(tier[name], f"{where}: {name}") for name in ("input", "output")}
        tier = LongContext(tier["above"], **factors)
    return Price(model, source=source, checked=checked, long_context=tier, **rates)


def cost(usage: Usage | None, price: Price | None) -> Decimal | None:
    """Dollars that a reply cost, exact to the token; None without its usage or its price."""
    if usage is None or price is None:
        return None
    if min(vars(usage).values()) < 0:
        raise ValueError(f"token counts cannot be negative: {usage}")
    rates = price.rates(usage.fresh + usage.cached + usage.cache_write)
    counts = (usage.fresh, usage.cached, usage.cache_write, usage.output)
    return sum((n * rate for n, rate in zip(counts, rates, strict=True)), Decimal(0)).scaleb(-6)


def worst_case(request: Request, price: Price | None) -> Decimal | None:
    """The most that one attempt can cost: input at its dearest, output to its limit, in dollars."""
    if price is None:
        return None
    tokens, output_tokens = input_bound(request), request.sampling.max_output_tokens
    *inputs, output = price.rates(tokens)
    inputs += [price.fresh, price.cached, price.cache_write]  # in case a long context were cheaper
    return (tokens * max(inputs) + output_tokens * max(output, price.output)).scaleb(-6)


def input_bound(request: Request) -> int:
    """Input tokens that a request can have at most, whatever the tokenizer.

    Text: a byte-level tokenizer gives at most one token per byte, and digits come close to that;
    escaped JSON is never shorter than the text in it. Replayed items count on top of the calls and
    the text that they repeat. Pictures: `picture_bound`.
    """
    text = len(json.dumps(describe(request)))
    replays = [list(m.replay) for m in request.messages if isinstance(m, AssistantMessage)]
    replayed = sum(len(json.dumps(replay, default=dict)) for replay in replays)
    parts = [p for m in request.messages if isinstance(m, UserMessage) for p in m.parts]
    framed = len(request.messages) + len(parts) + len(request.tools)
    pictures = sum(picture_bound(p) for p in parts if isinstance(p, Picture))
    return text + replayed + REQUEST_TOKENS + MESSAGE_TOKENS * framed + pictures


def picture_bound(picture: Picture) -> int:
    """Most tokens of a picture: 2,048, and one for each 16x16 cell (3,072 for 512x512).

    Holds for OpenAI's tiles (85 + at most 8 of 170 each) and patches (32 px, up to 2.46 tokens
    each), Anthropic's pixels / 750 and Qwen's cells of 28 or 32 px. Known exception: gpt-4o-mini,
    which counts a picture 33-fold.
    """
    if picture.png[:8] != b"\x89PNG\r\n\x1a\n" or len(picture.png) < 24:
        raise CapexError(
            f"the picture '{picture.label}' is not a PNG, so what it costs cannot be bounded;"
            " encode it as PNG",
            code=ErrorCode.NO_PRICE,
        )
    width, height = (int.from_bytes(picture.png[at : at + 4], "big") for at in (16, 20))
    return PICTURE_TOKENS + -(-width // PICTURE_CELL_PX) * -(-height // PICTURE_CELL_PX)


def _rows(text: str, where: str) -> tuple[Price, ...]:
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, InvalidOperation) as error:
        raise CapexError(f"{where} is not TOML: {error}", code=ErrorCode.UNREADABLE_FILE) from None
    rows: Any = table.get("price")
    listed = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if set(table) != {"price"} or not listed:
        raise CapexError(
            f"{where} must hold [[price]] rows and nothing else; copy the form of the package's"
            " prices.toml",
            code=ErrorCode.BAD_SETTING,
        )
    return tuple(parse_price(row, f"{where}, row {number}") for number, row in enumerate(rows, 1))


def _rate(given: object, where: str) -> Decimal:
    try:
        rate = Decimal(str(given))
    except InvalidOperation:
        rate = Decimal("NaN")
    if not rate.is_finite() or rate < 0:
        raise CapexError(
            f"{where} is {given!r}; write a number of at least 0", code=ErrorCode.BAD_SETTING
        )
    return rate


CHARACTERS_PER_TOKEN = 4
CELL_PX = 32  # Qwen-VL: patches of 16 px, merged 2 x 2
PICTURE_MARGIN = 16  # start, end and line marks around the cells
UNKNOWN_SIZE = (1024, 1024)


def tokens(request: Request) -> int:
    """Estimated input tokens: 4 characters each, rounded up per piece, and cells for pictures."""
    count = text(request.system) + sum(text(json.dumps(vars(tool))) for tool in request.tools)
    for message in request.messages:
        if isinstance(message, ToolResult):
            count += text(message.text)
        elif isinstance(message, AssistantMessage):
            count += text(message.text) + sum(
                text(call.name + call.arguments) for call in message.calls
            )
        else:
            count += sum(
                text(part.text) if isinstance(part, Text) else text(part.label) + picture(part)
                for part in message.parts
            )
    return count


def usage(request: Request, answer: Answer) -> Usage:
    """What a model that counts no tokens would be billed for an answer, about."""
    written = answer.text + "".join(call.name + call.arguments for call in answer.calls)
    return Usage(fresh=tokens(request), cached=0, cache_write=0, output=text(written))


def picture(part: Picture) -> int:
    """Estimated tokens of a picture: cells, rounded up both ways (256 + 16 for 512 x 512)."""
    width, height = UNKNOWN_SIZE
    if part.png[12:16] == b"IHDR" and len(part.png) >= 24:
        width, height = (int.from_bytes(part.png[n : n + 4], "big") for n in (16, 20))
    return math.ceil(width / CELL_PX) * math.ceil(height / CELL_PX) + PICTURE_MARGIN


def text(written: str) -> int:
    """Estimated tokens of a text."""
    return math.ceil(len(written) / CHARACTERS_PER_TOKEN)
