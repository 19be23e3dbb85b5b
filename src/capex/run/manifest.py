"""manifest.json: what a run is, as it began and as later commands extended it."""

from __future__ import annotations

import contextlib
import ctypes.util
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capex import codec
from capex.codec import Count
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.method.context import NO_LIMITS, Limits
from capex.method.presets import MethodSettings
from capex.models import ChatSettings, Sampling
from capex.models.pictures import ImageFormat
from capex.models.prices import Price
from capex.registry import RUN_KINDS, load
from capex.run.files import read_json, write_json

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


FORMAT = 2  # of a run directory
MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class RecordedSettings:
    """Settings of a run that are read one by one; `Manifest.settings` has all of them."""

    command: str = "expert"
    model: str | None = None
    seed: int = 0
    round_size: int = 1
    limits: Limits = NO_LIMITS
    sampling: Sampling | None = None  # None: no model was asked
    chat: ChatSettings | None = None
    prompt: str | None = None
    hints: str = ""
    tasks: tuple[str, ...] = ()  # WORLD:TASK
    arms: Mapping[str, MethodSettings] = field(default_factory=dict)
    world_files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by world

    @property
    def label(self) -> str:
        """The model, or the command of a run that asked none."""
        return self.model or self.command


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """Where episodes run."""

    parallel: int = 1
    ray: str | None = None
    slots: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a later command may change: how far to go, what to spend, what to keep."""

    starts: tuple[int, ...] = ()
    until_successes: int | None = None
    max_starts: int | None = None
    campaign_usd: Decimal | None = None
    campaign_hours: float | None = None
    keep_images: Literal["all", "start"] = "all"
    image_format: ImageFormat = "png"
    engine: EnginePlan = EnginePlan()
    order: Literal["interleave", "turn", "allocate"] = "interleave"
    judge: Literal["now", "later"] = "now"


@dataclass(frozen=True)
class SettingChange:
    """A setting that a branch changed, by its path, as in arms.capex.tau."""

    name: str
    before: Any = None
    now: Any = None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A run that a branch began with."""

    run: str
    changed: tuple[SettingChange, ...] = ()
    episodes: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)  # chain -> folders
    invalid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # chain -> folders
    branched_from: Origin | None = None


@dataclass(frozen=True, kw_only=True)
class WorldFile:
    """The files that the records of a world depend on, as they were written."""

    sha256: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A run's manifest. Fields in the order of manifest.json."""

    format: int = FORMAT
    settings: Mapping[str, Any] = field(default_factory=dict)  # compared as a whole
    plan: RunPlan = RunPlan()
    price: Price | None = None
    stand_in: bool = False
    world_files: Mapping[str, WorldFile] = field(default_factory=dict)  # by world
    operators: Mapping[str, bool] = field(default_factory=dict)  # by name, whether a stand-in
    branched_from: Origin | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)  # their fields, by name
    versions: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    fingerprint: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def recorded(self) -> RecordedSettings:
        """The settings with their types."""
        return recorded(self.settings)

    @property
    def origins(self) -> list[Origin]:
        """The runs that it descends from by branches, the nearest first."""
        found, origin = [], self.branched_from
        while origin is not None:
            found.append(origin)
            origin = origin.branched_from
        return found

    def as_json(self) -> dict[str, Any]:
        """manifest.json, without the optional fields that are empty."""
        data: dict[str, Any] = codec.to_json(self)
        return {k: v for k, v in data.items() if k not in _OPTIONAL or v}


_OPTIONAL = frozenset(("world_files", "operators", "branched_from", "extensions"))


def recorded(settings: Mapping[str, Any]) -> RecordedSettings:
    """The settings of a manifest with their types; ValueError where one has another."""
    return codec.from_json(settings, RecordedSettings, at="settings")


def require_format(run_dir: Path, data: Mapping[str, Any]) -> None:
    """CapexError where a manifest belongs to a run of another format."""
    found = data.get("format", 1)
    if found != FORMAT:
        raise CapexError(
            f"{run_dir} was written in format {found}; this version reads format {FORMAT}",
            code=ErrorCode.WRONG_CONTENT,
        )


def read_manifest(run_dir: Path) -> Manifest:
    """The manifest of a run; CapexError where its format is another one, DamagedFile where a field
    has another type.
    """
    path = run_dir / MANIFEST
    data = read_json(path)
    require_format(run_dir, data)
    try:
        manifest = codec.from_json(data, Manifest)
        if (kind := kind_of(manifest)) is not None:
            kind.fields(manifest)
    except ValueError as error:
        raise DamagedFile(path, str(error)) from None
    return manifest


def write_manifest(run_dir: Path, manifest: Manifest) -> None:
    """Write a manifest whole or not at all."""
    write_json(run_dir / MANIFEST, manifest.as_json())


@dataclass(frozen=True)
class RunKind:
    """A kind of run, by name in `registry.RUN_KINDS`."""

    label: str  # of its sources in a report
    fields: Callable[[Manifest], Any]  # its own, decoded; ValueError where one has another type
    sentence: Callable[[Manifest], str]  # about a run of this kind
    identity: Callable[[Manifest], Mapping[str, Any]]  # what episodes depend on besides settings
    no_replay: str  # why no such run is replayed


def kind_of(manifest: Manifest) -> RunKind | None:
    """The kind of a run that an extension made; None for every other run."""
    command = manifest.recorded.command
    if command not in RUN_KINDS:
        return None
    kind: RunKind = load(RUN_KINDS[command])
    return kind
