"""robosuite and RoboCasa as packages, imported quietly when the first environment is made."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import mujoco

from capex.errors import CapexError, ErrorCode, UnknownName
from capex.worlds import ROBOSUITE_INSTALL

ROBOSUITE_VERSION = "1.5.2"
# What its worlds really import, as in the extra `robosuite` of pyproject.toml.
_NUMERIC = ("mujoco>=3.3.1,<3.10", "numba>=0.60")
ROBOSUITE_IMPORTS = (*_NUMERIC, "opencv-python-headless>=4.9", "termcolor>=2")


def import_robosuite() -> Any:
    """robosuite, without its start-up messages and its change of MUJOCO_GL."""
    major, minor = (int(number) for number in mujoco.__version__.split(".")[:2])
    if (major, minor) >= (3, 10):
        needs = f"robosuite 1.5.2 needs mujoco 3.3 to 3.9, and {mujoco.__version__} is installed"
        raise CapexError(f"{needs}; install: {ROBOSUITE_INSTALL}", code=ErrorCode.MISSING_PACKAGE)
    return import_quietly("robosuite", ROBOSUITE_INSTALL)


def import_quietly(package: str, install: str) -> Any:
    """A package of that family; one that is missing or refuses becomes a sentence with its fix."""
    logger = logging.getLogger("robosuite_logs")
    if _errors_only not in logger.filters:
        logger.addFilter(_errors_only)
    asked = os.environ.get("MUJOCO_GL")
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise CapexError(
            f"the world '{package}' needs the package '{error.name}', which is not installed;"
            f" install: {install}",
            code=ErrorCode.MISSING_PACKAGE,
        ) from error
    except AssertionError as error:  # robocasa asserts the versions of what it needs
        raise CapexError(
            f"the package '{package}' refuses to start: {error}; install: {install}",
            code=ErrorCode.MISSING_PACKAGE,
        ) from error
    finally:
        if asked is None:
            os.environ.pop("MUJOCO_GL", None)
        else:
            os.environ["MUJOCO_GL"] = asked


def install_commands(extra: str, constraint: Path | None = None) -> list[list[str]]:
    """The pip commands that bring an extra: what it really imports, then the package itself without
    its own requirements.

    robosuite asks for mink 0.0.5, which needs numpy below 2 and serves one controller that is not
    used here, and leaves mujoco open to versions on which its controllers fail.
    """
    if extra != "robosuite":
        raise UnknownName("extra", extra, ["robosuite"], where=" that needs this command")
    constraints = [] if constraint is None else ["-c", str(constraint)]
    pip = [sys.executable, "-m", "pip", "install", *constraints]
    return [[*pip, *ROBOSUITE_IMPORTS], [*pip, "--no-deps", f"robosuite=={ROBOSUITE_VERSION}"]]


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
