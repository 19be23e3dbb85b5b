"""`capex doctor`: what works on this machine, and the line that mends what does not."""

from __future__ import annotations

import importlib.util
import platform
import time
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capex import worlds
from capex.cli.tables import FittedTable
from capex.errors import CapexError
from capex.worlds import Start

# extra -> (modules it must bring, the line that installs it, what it is for)
EXTRAS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "robosuite": (("robosuite", "numba", "cv2"), worlds.ROBOSUITE_INSTALL, "robosuite's worlds"),
    "anthropic": (("anthropic",), 'pip install "capex[anthropic]"', "models anthropic:NAME"),
    "students": (
        ("torch", "safetensors"),
        'pip install "capex[students]"',
        "ACT and Diffusion Policy: capex train, evaluate, study, policy serve",
    ),
    "ray": (("ray",), 'pip install "capex[ray]"', "campaigns on a cluster: capex collect --ray"),
    "lerobot": (
        ("lerobot",),
        'pip install "capex[lerobot]"',
        "lerobot-train on exported datasets; best in an environment of its own",
    ),
    "gymnasium": (
        ("gymnasium",),
        'pip install "capex[gymnasium]"',
        "the kitchen as Gymnasium environments: import capex.worlds.gym",
    ),
    "deoxys": (
        ("zmq", "google"),
        'pip install "capex[deoxys]"',
        "a Franka behind Deoxys, and its twin",
    ),
    "franka": (
        ("franky",),
        'pip install "capex[franka]"',
        "a Franka behind franky (docs/franky.md)",
    ),
    "yam": (
        ("portal",),
        'pip install "capex[yam]"',
        "YAM arms behind i2rt's server, and their twin",
    ),
    "realsense": (
        ("pyrealsense2",),
        'pip install "capex[realsense]"',
        "RealSense cameras of a rig; Linux on x86_64, with libusb-1.0",
    ),
    "studio": (
        ("starlette", "uvicorn", "wsproto"),
        'pip install "capex[studio]"',
        "campaigns, plans and episodes in a browser, to judge and to drive: capex studio",
    ),
    "docs": (
        ("sphinx", "myst_parser", "furo"),
        'pip install "capex[docs]"',
        "building the site of docs/",
    ),
    "dev": (("pytest", "ruff", "mypy"), 'pip install "capex[dev]"', "running the tests and checks"),
}
CORE = (
    "mujoco",
    "msgspec",
    "numpy",
    "scipy",
    "statsmodels",
    "openai",
    "httpx2",
    "pillow",
    "av",
    "pyarrow",
    "pydantic",
    "h5py",
    "matplotlib",
    "jinja2",
    "rich",
    "tyro",
)
Verdict = Literal["ok", "missing", "failed"]


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    verdict: Verdict
    detail: str
    fix: str = ""  # a line to copy into a shell


def examine() -> list[Finding]:
    """Everything `capex doctor` looks at."""
    found = [
        Finding(
            "python",
            "ok",
            f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        )
    ]
    for package in CORE:
        try:
            found.append(Finding(package, "ok", metadata.version(package)))
        except metadata.PackageNotFoundError:
            found.append(Finding(package, "missing", "pip install capex"))
    found.append(_rendering())
    for extra, (modules, line, purpose) in EXTRAS.items():
        missing = [m for m in modules if importlib.util.find_spec(m) is None]
        if missing:
            found.append(Finding(f"extra {extra}", "missing", f"{purpose}: {line}"))
        else:
            found.append(Finding(f"extra {extra}", "ok", purpose))
    return found


def examine_world(world: str) -> list[Finding]:
    """What a world needs on this machine; each thing that is missing comes with the line that
    brings it.
    """
    worlds.allow(world)
    return [
        Finding(
            f"{world}: {n.what}" if n.what else f"world {world}",
            "ok" if n.there else "missing",
            n.found,
            "" if n.there else n.fix,
        )
        for n in worlds.needs(world)
    ]


def examine_model(name: str) -> list[Finding]:
    """What a model's endpoint can do, by asking it."""
    from capex import models
    from capex.models.probe import probe

    models.allow(name)
    try:
        found = probe(models.make(name))
    except CapexError as error:
        return [Finding(f"model {name}", "failed", str(error))]
    return [
        Finding(f"model {name}: {what}", "ok" if works else "failed", detail)
        for what, works, detail in found
    ]


def _rendering() -> Finding:
    try:
        from capex.worlds import render

        env = worlds.make("kitchen:CloseFridge")
        env.reset(Start("CloseFridge", 0))
        env.observe()
        began = time.perf_counter()
        images = env.observe()
        took = 1000 * (time.perf_counter() - began)
        env.close()
    except CapexError as error:
        return Finding("rendering", "failed", str(error))
    spread = min(int(image.max()) - int(image.min()) for image in images.values())
    if spread < 30:
        return Finding(
            "rendering",
            "failed",
            f"{render.backend()} draws blank images; try MUJOCO_GL=osmesa with libosmesa6"
            " installed",
        )
    return Finding(
        "rendering",
        "ok",
        f"{render.backend()} ({render.renderer_name()}): three 512x512 images in {took:.0f} ms",
    )


def print_findings(findings: list[Finding], console: Console) -> None:
    """The report as a table."""
    table = Table(title="capex doctor")
    for column in ("what", "", "detail"):
        table.add_column(column, overflow="fold")
    colours = {"ok": "green", "missing": "yellow", "failed": "red"}
    for f in findings:
        table.add_row(f.what, f"[{colours[f.verdict]}]{f.verdict}[/]", escape(f.detail))
    console.print(FittedTable(table))
    if fixes := [f.fix for f in findings if f.fix]:
        console.print(
            "What mends it, in this order:",
            "",
            *fixes,
            sep="\n",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
