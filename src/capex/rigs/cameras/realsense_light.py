"""Exposure and white balance of a RealSense camera: automatic, a number, or locked.

A D400's colour sensor does not tell what its automatic exposure and white balance have chosen, and
turning them off brings back the numbers of before. So `lock` finds numbers of its own that give the
picture the same brightness and the same ratio of red to blue as the automatic had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.rigs.tables import TomlTable
from capex.worlds import Image

Wish = float | str  # a number of the device, AUTO or LOCK
AUTO, LOCK = "auto", "lock"
STEPS = 8  # halvings: of 1 to 333 in proportion, 2 % are left
CLOSE = 0.02  # of the logarithm: nobody sees 2 % of brightness
FAR = 0.1  # a lock that misses by more says so


@dataclass(frozen=True)
class Control:
    """One quantity that the device can choose by itself."""

    word: str  # as in the rig file and in sentences
    value: str  # names of the vendor's options
    automatic: str
    measure: Callable[[Image], float]
    beside: str = ""  # goes to its default while the control is not automatic


def brightness(image: Image) -> float:
    """Logarithm of the mean of a picture."""
    return math.log(float(image.mean()) + 1.0)


def redness(image: Image) -> float:
    """Logarithm of the ratio of red to blue."""
    red, _, blue = (float(v) + 1.0 for v in image.reshape(-1, 3).mean(axis=0))
    return math.log(red / blue)


# A device keeps what an earlier program has set until it loses power; its gain, too.
EXPOSURE = Control("exposure", "exposure", "enable_auto_exposure", brightness, beside="gain")
WHITE_BALANCE = Control("white_balance", "white_balance", "enable_auto_white_balance", redness)


def read_wish(table: TomlTable, control: Control) -> Wish:
    """What a rig file wants of a control; automatic where it says nothing."""
    value = table.values.get(control.word, AUTO)
    if isinstance(value, str):
        return table.choice(control.word, (AUTO, LOCK), AUTO)
    try:
        return table.number(control.word)
    except CapexError:
        raise table.wrong(control.word, f"'{AUTO}', '{LOCK}' or a number of the device") from None


class Light:
    """The controls of one colour sensor. `option` gives the vendor's option of a name."""

    def __init__(self, camera: str, sensor: Any, option: Callable[[str], Any]):
        self._camera, self._sensor, self._option = camera, sensor, option

    def set(self, control: Control, wish: Wish) -> str:
        """Automatic, or a number within the device's range; what was done, in words. A control to
        be locked is automatic until then.
        """
        automatic, value = self._option(control.automatic), self._option(control.value)
        if isinstance(wish, str):
            if self._sensor.supports(automatic):
                self._sensor.set_option(automatic, 1.0)
            elif wish == LOCK and not self._sensor.supports(value):
                raise self._lacks(control)
            return f"{control.word} {AUTO}"
        if not self._sensor.supports(value):
            raise self._lacks(control)
        span = self._sensor.get_option_range(value)
        if not span.min <= wish <= span.max:
            raise CapexError(
                f"camera {self._camera}: options.{control.word} is {wish:g}; the device takes"
                f" {span.min:g} to {span.max:g}, '{AUTO}' or '{LOCK}'",
                code=ErrorCode.BAD_SETTING,
            )
        if self._sensor.supports(automatic):
            self._sensor.set_option(automatic, 0.0)
        if control.beside and self._sensor.supports(beside := self._option(control.beside)):
            self._sensor.set_option(beside, self._sensor.get_option_range(beside).default)
        self._sensor.set_option(value, wish)
        return f"{control.word} {wish:g}"

    def lock(self, control: Control, picture: Callable[[], Image], most: float = math.inf) -> str:
        """Find the number, at most `most`, whose pictures look as the automatic's do; `picture`
        waits until a change shows and gives one.
        """
        span = self._sensor.get_option_range(self._option(control.value))
        step = span.step or 1.0
        target = control.measure(picture())

        def snapped(number: float) -> float:
            return float(min(span.max, span.min + step * round((number - span.min) / step)))

        def miss(number: float) -> float:
            self.set(control, snapped(number))
            return control.measure(picture()) - target

        number, error = _nearest(miss, max(span.min, step), min(span.max, most))
        far = f", {100 * error:+.0f} % of automatic" if abs(error) > FAR else ""
        return f"{control.word} {snapped(number):g} (locked{far})"

    def _lacks(self, control: Control) -> CapexError:
        return CapexError(
            f"camera {self._camera}: its device has no control of {control.word}; leave it out",
            code=ErrorCode.UNSUPPORTED,
        )


def _nearest(miss: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Where a monotonous function comes nearest to 0, in proportion, and its value there. The
    function is called with that place last.
    """
    at_low, at_high = miss(low), miss(high)
    tried = {low: at_low, high: at_high}
    for _ in range(STEPS):
        if at_low * at_high >= 0 or min(map(abs, tried.values())) <= CLOSE:
            break
        middle = math.sqrt(low * high)
        tried[middle] = at_middle = miss(middle)
        if at_middle * at_low > 0:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    best = min(tried, key=lambda number: abs(tried[number]))
    return best, miss(best)
