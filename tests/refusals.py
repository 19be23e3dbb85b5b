"""Refusals, as tests ask for them: by the code of the error (a model's: its kind), and by facts
in its sentence."""

from contextlib import contextmanager

import pytest

from capex.errors import CapexError, ErrorCode
from capex.models import ModelError


@contextmanager
def refuses(code, facts=None):
    """The block raises a CapexError with this code. `facts` is a regular expression for what a user
    needs from the sentence: the value that was given, the valid ones, what would be right.
    """
    with pytest.raises(CapexError, match=facts) as caught:
        yield caught
    assert caught.value.code is code, f"{caught.value.code!r}: {caught.value}"


@contextmanager
def model_fails(kind, facts=None):
    """The block raises a ModelError of this kind; `facts` as in `refuses`."""
    with pytest.raises(ModelError, match=facts) as caught:
        yield caught
    assert caught.value.code is ErrorCode.MODEL_FAILED
    assert caught.value.kind == kind, f"{caught.value.kind}: {caught.value}"
