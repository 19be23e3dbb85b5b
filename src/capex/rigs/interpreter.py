"""Which Python runs the rig's process, and what it may import of ours.

A driver may need packages that our environment cannot have. Its interpreter then has its own
numpy and everything else; of us it gets this package and the user's own folders alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import capex
from capex.errors import CapexError, ErrorCode
from capex.rigs import locks
from capex.rigs.rigfile import RigFile


def interpreter(rig: RigFile) -> str:
    """The program that runs the rig's process: ours, or the one that the rig file names, by its
    name or by a path that may be relative to the file.
    """
    if not rig.python:
        return sys.executable
    path = Path(rig.python).expanduser()
    # Not resolved: an environment's interpreter is a link, and knows by its own path where it is.
    named = str(rig.path.absolute().parent / path) if len(path.parts) > 1 else rig.python
    program = shutil.which(named)
    if program is None:
        there = "cannot be run" if Path(named).exists() else "does not exist"
        raise CapexError(
            f"{rig.path}: python is '{rig.python}', which {there}; it must be the interpreter of"
            ' the environment with the driver\'s packages, as in "/opt/franka/bin/python"',
            code=ErrorCode.BAD_SETTING,
        )
    return program


def import_path(program: str) -> str:
    """PYTHONPATH of the rig's process. For our own interpreter it is all of ours; for another one
    our folders without what is installed: two versions of numpy in one process would not do.
    """
    entries = [entry or os.getcwd() for entry in sys.path]
    if program != sys.executable:
        installed = {Path(p).resolve() for p in sysconfig.get_paths().values()}
        entries = [str(_package_folder()), *(e for e in entries if not _is_installed(e, installed))]
    return os.pathsep.join(dict.fromkeys(entries))


def _is_installed(entry: str, installed: set[Path]) -> bool:
    path = Path(entry).resolve()
    standard = path.suffix == ".zip" or path.name == "lib-dynload"
    return standard or path in installed or bool({"site-packages", "dist-packages"} & {*path.parts})


def _package_folder() -> Path:
    """A folder in which this package is and nothing else that is installed."""
    package = Path(capex.__file__).parent
    if not _is_installed(str(package.parent), set()):
        return package.parent
    folder = locks.FOLDER / hashlib.sha256(str(package).encode()).hexdigest()[:24]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    link = folder / package.name
    with contextlib.suppress(FileExistsError):  # also where another rig makes it just now
        link.symlink_to(package)
    return folder
