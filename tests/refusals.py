"""Refusals, as tests ask for them: by the code of the error, and by the facts in its sentence."""

from contextlib import contextmanager

import pytest

from capex.errors import CapexError


@contextmanager
def refuses(code, *facts):
    """The block raises a CapexError with this code. The facts (the value that was given, the valid
    ones, the flag to use) are in its sentence, in this order.
    """
    with pytest.raises(CapexError) as caught:
        yield caught
    require(caught.value, code, *facts)


def require(error, code, *facts):
    """The error has this code, and its sentence holds the facts in this order."""
    assert error.code is code, f"{error.code!r} is not {code!r}: {error}"
    rest = str(error)
    for fact in facts:
        assert fact in rest, f"'{fact}' is not in its place in: {error}"
        rest = rest.partition(fact)[2]
