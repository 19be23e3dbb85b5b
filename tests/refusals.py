"""Refusals, as tests ask for them: by the code of the error, and by facts in its sentence."""

from contextlib import contextmanager

import pytest

from capex.errors import CapexError


@contextmanager
def refuses(code, facts=""):
    """The block raises a CapexError with this code. `facts` is a regular expression for what a user
    needs from the sentence: the value that was given, the valid ones, what would be right.
    """
    with pytest.raises(CapexError, match=facts) as caught:
        yield caught
    assert caught.value.code is code, f"{caught.value.code!r}: {caught.value}"
