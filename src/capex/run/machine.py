"""What bits depend on besides settings: versions, the code's revision, this machine."""

from __future__ import annotations

import contextlib
import ctypes.util
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import CapexError, ErrorCode

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]


def versions() -> dict[str, str]:
    """Versions of this package and of what its results depend on."""
    versions = {"python": platform.python_version()}
    for package in ("capex", "mujoco", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def fingerprint(gl_backend: str = "") -> dict[str, Any]:
    """What bit-exactness depends on besides the code: two runs are comparable bit for bit only
    where these agree.
    """
    build: Any = np.show_config(mode="dicts")
    blas = build.get("Build Dependencies", {}).get("blas", {})
    features = build.get("SIMD Extensions", {}).get("found", [])
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "mujoco": metadata.version("mujoco"),
        "numpy": np.__version__,
        "blas": f"{blas.get('name', '?')} {blas.get('version', '?')}",
        "cpu_features": list(features),
        "libm": ctypes.util.find_library("m") or "",
        "gl": gl_backend,
    }


def revision() -> str | None:
    """The git revision of the code, when it runs from a checkout."""
    try:
        here = Path(__file__).resolve().parent
        git = ["git", "-C", str(here)]
        tracked = subprocess.run(
            [*git, "ls-files", "--error-unmatch", "machine.py"],
            capture_output=True,
            timeout=10,
            check=False,
        )
        if tracked.returncode != 0:  # installed somewhere inside another repository
            return None
        out = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return out.stdout.strip() or None


def allow_handles(needed: int) -> None:
    """Let this process and those that it starts open so many files. What a shell allows at first is
    often 1,024; where the system's own limit is lower than needed, a sentence says so.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard == resource.RLIM_INFINITY or hard >= needed
    if allowed and soft != resource.RLIM_INFINITY and soft < needed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        except (ValueError, OSError):  # a kernel's limit below the one that it names
            allowed, hard = False, soft
    if not allowed:
        raise CapexError(
            f"so many chains and slots need about {needed:,} open files, and this system allows"
            f" {hard:,}; take fewer --slots or tasks, or raise the limit (ulimit -Hn)",
            code=ErrorCode.NOT_AVAILABLE,
        )
