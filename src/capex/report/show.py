"""How numbers are shown: thousands apart, signs for missing and infinite ones, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal

from capex.report.compare import Rate, Tally

MISSING, INFINITE, MINUS = "—", "∞", "\N{MINUS SIGN}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as percent."""
    return MISSING if share is None or math.isnan(share) else f"{100 * share:.{digits}f} %"


def change(share: float | None) -> str:
    """A relative change in percent, with its sign."""
    return percent(share, 0) if share is None or share < 0 else f"+{percent(share, 0)}"


def points(difference: float | None) -> str:
    """A difference of shares in percentage points, with its sign."""
    if difference is None:
        return MISSING
    return f"{MINUS if difference < 0 else '+'}{abs(100 * difference):.1f}"


def count(value: int | None) -> str:
    """A whole number with its thousands apart."""
    return MISSING if value is None else f"{value:,}"


def part(counts: tuple[int, int]) -> str:
    """A whole and a part of it: 3/12  25.0 %."""
    whole, some = counts
    return f"{some:,}/{whole:,}  {percent(some / whole)}"


def slashed(values: Iterable[object]) -> str:
    """Counts that belong together: 3 / 1 / 0."""
    return " / ".join(map(str, values))


def fraction(tally: Tally) -> str:
    """k/n."""
    return f"{tally.successes}/{tally.n}" if tally.n else MISSING


def success(tally: Tally) -> str:
    """k/n with percent and interval."""
    if tally.interval is None:
        return MISSING
    low, high = tally.interval
    return f"{fraction(tally)}  {percent(tally.share)} ({100 * low:.1f} to {100 * high:.1f})"


def number(value: float | None, digits: int = 2) -> str:
    """A number; infinite and missing ones as signs."""
    if value is None or math.isnan(value):
        return MISSING
    return INFINITE if math.isinf(value) else f"{value:,.{digits}f}"


def three_digits(value: float | None) -> str:
    """A number with three digits after the point."""
    return number(value, 3)


def significant(value: float | None) -> str:
    """A number with about three significant digits."""
    size = abs(value or 0)
    return number(value, 0 if size >= 100 else 1 if size >= 10 else 2)


def brief(value: float) -> str:
    """A number for a sentence: about three significant digits, no zeros after the point."""
    text = significant(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def spread(low: str, high: str) -> str:
    """From one shown amount to another; one of them where they are shown alike."""
    return low if low == high else f"{low} to {high}"


def rate(amount: Rate, scale: float = 1, unit: str = "") -> str:
    """An amount per success with its interval, in a unit so many times smaller."""
    if amount.value is None:
        return MISSING
    if amount.value == 0:
        return "0"
    value = significant(scale * amount.value)
    value = value if amount.most is None else spread(value, significant(scale * amount.most))
    if math.isinf(amount.value):
        return value
    if amount.interval is None:
        return f"{value}{unit}"
    low, high = (significant(scale * end) for end in amount.interval)
    return f"{value}{unit} ({low} to {high})"


def time_rate(minutes: Rate) -> str:
    """Time per success with its interval: seconds below a minute, else minutes."""
    return rate(minutes, 60, " s") if (minutes.value or 0) < 1 else rate(minutes, unit=" min")


def duration(minutes: float | None) -> str:
    """A time: seconds below a minute, else minutes."""
    return time_rate(Rate(minutes, None, None))


def times(ratio: float | None) -> str:
    """A ratio."""
    return MISSING if ratio is None else f"{ratio:.2f}x"


def dollars(amount: Decimal | None) -> str:
    """An amount from the campaign's books, with four digits after the point."""
    return MISSING if amount is None else f"{amount:.4f}"


def p_value(p: float | None) -> str:
    """A p-value with two significant digits."""
    if p is None or math.isnan(p):
        return MISSING
    if p < 1e-4:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def paired_or_across(p: tuple[float | None, float | None]) -> str:
    """The p-value of the pairs, or across tasks where there are none."""
    paired, across = p
    return p_value(paired) if across is None else f"{p_value(across)} (CMH)"


def counted(n: int, noun: str) -> str:
    """1 task, 2 tasks."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
