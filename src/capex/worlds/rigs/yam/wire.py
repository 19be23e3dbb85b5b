"""The package portal, which i2rt's servers and clients speak through."""

from __future__ import annotations

import multiprocessing
from typing import Any

from capex.errors import CapexError


def load_portal() -> Any:
    """Import it. That changes how this process would start others; it is set back."""
    method = multiprocessing.get_start_method(allow_none=True)
    try:
        import portal
    except ImportError:
        raise CapexError(
            'YAM arms need portal, which is not installed: pip install "capex[yam]"'
        ) from None
    multiprocessing.set_start_method(method, force=True)
    return portal
