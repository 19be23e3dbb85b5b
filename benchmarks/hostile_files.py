"""Runs, datasets, checkpoints and reports by somebody who means harm, opened with every command.

    python benchmarks/hostile_files.py [CASES [SEED]] [--keep FOLDER]      default 200 0

Each case is a copy of a good run, dataset, checkpoint or report with one forgery: a name that leads
to a module or a program, a link or a path that leads outside, a pipe, a size, a depth, a format
string, markup. Canaries tell what happened: a module and programs that write a file when they run,
a folder outside whose files have a secret text. A process per case runs the commands, and the
studio's pages, with a limit of time; without torch it has 1 GiB of address space besides what the
good files need. Prints a table by family; exit status 1 where anything got through.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

SECRET = "not-for-strangers-7f3a"
COMMAND_S = 300.0  # a command over a good case takes a few; beside many other programs more
RSS_MOST_MB = 1000
SPACE = 2**30  # of address space, beyond what the process has before the first command
CHAIN, EPISODE = "kitchen--TurnOnMicrowave--capex", "0000"
MODULE = """import os, pathlib
pathlib.Path(os.environ["CANARY"], "module-NAME").touch()
TASKS = {}
def make(*a, **k): raise SystemExit
Arm = Camera = make
"""
PROGRAM = '#!/bin/sh\ntouch "$CANARY/program"\nexec python3 "$@"\n'
MARKUP = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>[red]{0.__class__}%s\x1b[2J\u202e$\\frac"
)
TEXTS = (MARKUP, "{x:9999999999d}", "{0.__init__.__globals__}", "../" * 9 + "etc/passwd", "$^_{$")
NUMBERS = ("NaN", "Infinity", "-1", "1e308", "1" + "0" * 400, "9" * 4200, "1e999", "-0.0", "1" * 18)
DEEP = b"[" * 200_000


@dataclass(frozen=True)
class Case:
    """One forgery: the thing lies in `place`, the current folder of its commands."""

    number: int
    kind: str  # run, dataset, hdf5, checkpoint, lerobot, report
    family: str
    place: Path
    outside: Path

    @property
    def thing(self) -> Path:
        return self.place / "runs" / "thing" if self.kind == "run" else self.place / "thing"

    @property
    def chain(self) -> Path:
        return self.thing / "chains" / CHAIN

    @property
    def episode(self) -> Path:
        return self.chain / "episodes" / EPISODE

    def read(self, name: str, folder: Path | None = None) -> dict[str, Any]:
        return json.loads(((folder or self.thing) / name).read_text())

    def write(self, path: Path, content: bytes | str | dict[str, Any]) -> None:
        """Replace a file: others share the one that was there."""
        text = json.dumps(content) if isinstance(content, dict) else content
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def record(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the record, and forge a certificate that says nothing was changed."""
        record = self.read("record.json", self.episode)
        change(record)
        self.write(self.episode / "record.json", record)
        self.certify()

    def certify(self) -> None:
        certificate = self.read("certificate.json", self.episode)
        names = ("record.json", "steps.npz")
        with contextlib.suppress(OSError):
            certificate["digests"] = {
                n: hashlib.sha256((self.episode / n).read_bytes()).hexdigest() for n in names
            }
        self.write(self.episode / "certificate.json", certificate)

    def world(self, world: str) -> None:
        """Let everything in the run name a world."""

        def change(record: dict[str, Any]) -> None:
            record["world"] = world

        self.record(change)
        manifest = self.read("manifest.json")
        settings = manifest.setdefault("settings", {})
        settings["tasks"] = [f"{world}:TurnOnMicrowave"]
        self.write(self.thing / "manifest.json", manifest)


Forge = Callable[[Case, random.Random], None]
FORGERIES: dict[str, dict[str, Forge]] = {
    kind: {} for kind in ("run", "dataset", "hdf5", "checkpoint", "lerobot", "report")
}


def forgery(kind: str, family: str) -> Callable[[Forge], Forge]:
    def keep(forge: Forge) -> Forge:
        FORGERIES[kind][family] = forge
        return forge

    return keep


# --- runs -------------------------------------------------------------------------------------


@forgery("run", "a module as world")
def _(case: Case, rng: random.Random) -> None:
    case.world(rng.choice(("canary.world", "canary", "capex.cli.__main__", "antigravity.x")))


@forgery("run", "a rig with a program as world")
def _(case: Case, rng: random.Random) -> None:
    rig = rng.choice((case.thing / "rig.toml", case.outside / "rig.toml"))
    case.write(case.thing / "rig.toml", RIG)
    program = case.thing / "bin" / "python3"
    case.write(program, PROGRAM)
    program.chmod(0o755)
    named = rng.choice((str(rig), "runs/thing/rig.toml", "~/rig.toml", f"{rig}/../rig.toml"))
    case.world(f"rig:{named}")


@forgery("run", "a rig in the place of a packaged one")
def _(case: Case, rng: random.Random) -> None:
    name = rng.choice(("franka-twin", "room", "yam-twin"))
    case.write(case.place / name, RIG)
    case.write(case.place / "bin" / "python3", PROGRAM)
    (case.place / "bin" / "python3").chmod(0o755)
    case.world(f"rig:{name}" if rng.random() < 0.5 else name)


@forgery("run", "a model that is a module or a server")
def _(case: Case, rng: random.Random) -> None:
    name = rng.choice(
        ("canary.world:x", f"script:{case.outside}/secret.json", f"cassette:{case.outside}")
    )
    manifest = case.read("manifest.json")
    settings = {"model": name, "sampling": {}, "arms": {"capex": {}}, "command": "collect"}
    manifest["settings"] = {**manifest.get("settings", {}), **settings}
    case.write(case.thing / "manifest.json", manifest)
    case.record(lambda record: record.update(model=name))


@forgery("run", "modules in the current folder")
def _(case: Case, rng: random.Random) -> None:
    for name in ("multiprocessing", "json", "numpy", "struct", "selectors", "capex"):
        case.write(case.thing / f"{name}.py", MODULE.replace("NAME", name))


@forgery("run", "links that lead outside")
def _(case: Case, rng: random.Random) -> None:
    e, secret = case.episode, case.outside / "secret.json"
    place, target = rng.choice(
        [
            *((e / n, secret) for n in ("record.json", "timing.json", "exchanges.jsonl")),
            *((case.thing / n, secret) for n in ("spend.jsonl", "prompt.txt", "manifest.json")),
            *((e / n, case.outside / "new") for n in ("verdicts.jsonl", "certificate.json")),
            *((e / n, case.outside) for n in ("images", "frames", "match")),
            (e, case.outside / "episode"),
            (case.chain / "episodes", case.outside),
            (case.chain / "unfinished", case.outside),
            (case.chain / ".owner", case.outside / "new"),
            (case.thing / "requests", case.outside),
            (case.chain, case.outside / "chain"),
            (case.thing / "chains", case.outside),
        ]
    )
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


@forgery("run", "pipes")
def _(case: Case, rng: random.Random) -> None:
    e = case.episode
    names = [e / n for n in ("record.json", "timing.json", "steps.npz", "exchanges.jsonl")]
    names += [e / n for n in ("verdicts.jsonl", "certificate.json", "counterfactual.json")]
    names += [case.thing / n for n in ("manifest.json", "spend.jsonl", "pace.json", "prompt.txt")]
    names += [case.chain / "asked.json", case.chain / "unfinished" / "0007.jsonl"]
    place = rng.choice([*names, next((e / "images").iterdir())])
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)


@forgery("run", "depth")
def _(case: Case, rng: random.Random) -> None:
    e = case.episode
    names = [e / n for n in ("record.json", "timing.json", "exchanges.jsonl", "verdicts.jsonl")]
    names += [e / n for n in ("certificate.json", "counterfactual.json", "exchange_times.jsonl")]
    names += [case.thing / n for n in ("manifest.json", "spend.jsonl", "pace.json", "live.json")]
    names += [case.thing / "allocation.json", case.chain / "asked.json"]
    names += [case.thing / "requests" / "pause.json", case.chain / "unfinished" / "0007.jsonl"]
    closed = DEEP + b"]" * len(DEEP)
    deep = rng.choice((DEEP, closed, b'{"a":' * 900 + b"1" + b"}" * 900, b"[" * 500 + b"]" * 500))
    case.write(rng.choice(names), deep + b"\n")


@forgery("run", "sizes")
def _(case: Case, rng: random.Random) -> None:
    e = case.episode
    how = rng.choice(("sparse", "npz shape", "npz packed", "picture", "program picture", "lists"))
    if how == "sparse":
        names = [e / n for n in ("record.json", "exchanges.jsonl", "steps.npz", "timing.json")]
        path = rng.choice([*names, case.thing / "manifest.json", case.thing / "spend.jsonl"])
        case.write(path, b"")
        os.truncate(path, 8 * 2**30)
    elif how == "npz shape":
        case.write(e / "steps.npz", _npz({"actions": _header((10**12, 7)), "states": b""}))
    elif how == "npz packed":
        case.write(e / "steps.npz", _npz({"actions": bytes(300 * 2**20)}))
    elif how == "lists":
        case.write(rng.choice((e, case.thing)) / "record.json", b'{"a":[' + b"{}," * 2**23 + b"0]}")
    else:
        for image in (e / "images").iterdir():
            case.write(image, _picture() if how == "picture" else b"%!PS-Adobe-3.0 EPSF-3.0\n")
        shutil.rmtree(e / "frames", ignore_errors=True)
        case.record(lambda record: record.update(world="gone.world"))
    case.certify()


@forgery("run", "recorded frames")
def _(case: Case, rng: random.Random) -> None:
    frames = case.episode / "frames"
    count = len(np.load(case.episode / "steps.npz")["proprio"])
    row = {"size": [64, 36], "form": "images", "file": "left", "count": count, "kind": "exterior"}
    row |= rng.choice(
        (
            {"file": f"{case.outside}"},
            {"file": "../../../../../../outside"},
            {"size": [10**6, 10**6]},
            {"size": [0, -3]},
            {"form": "video", "file": "/dev/zero"},
            {"form": "video", "file": "left.mp4"},
            {"count": 10**12},
            {"intrinsics": [[1]], "position_m": [1]},
        )
    )
    case.write(frames / "cameras.json", {"left": row})
    (frames / "left").mkdir()
    case.write(frames / "left.mp4", _playlist(case))
    out = io.BytesIO()
    np.savez(out, **{"left.frame": np.zeros(count, np.int64)})
    case.write(frames / "index.npz", out.getvalue())
    case.world(rng.choice(("canary.world", "kitchen", "rig:gone.toml")))


@forgery("run", "texts")
def _(case: Case, rng: random.Random) -> None:
    text = rng.choice(TEXTS)
    where = rng.choice(("instruction", "task", "arm", "model", "end", "world", "turns", "images"))

    def change(record: dict[str, Any]) -> None:
        if where == "turns":
            for turn in record["turns"]:
                turn["reasoning"] = turn["note"] = text
        elif where == "images":
            record["images"] = dict.fromkeys(record.get("images") or {"left": ""}, text)
        else:
            record[where] = text

    case.record(change)
    lines = (case.episode / "exchanges.jsonl").read_text().replace("press", json.dumps(text)[1:-1])
    case.write(case.episode / "exchanges.jsonl", lines)
    with contextlib.suppress(OSError):
        case.chain.rename(case.chain.with_name(f"{text.replace('/', '-')[:60]}--x--<b>{{0}}"))


@forgery("run", "numbers and types")
def _(case: Case, rng: random.Random) -> None:
    e, name = case.episode, rng.choice(("record.json", "timing.json", "certificate.json"))
    case.write(e / name, _mutated((e / name).read_text(), rng))
    if name != "certificate.json" and rng.random() < 0.5:
        case.certify()


@forgery("run", "exchanges")
def _(case: Case, rng: random.Random) -> None:
    path = case.episode / "exchanges.jsonl"
    lines = path.read_text().splitlines()
    number = rng.randrange(len(lines))
    lines[number] = _mutated(lines[number], rng).replace("\n", " ")
    text = "\n".join(lines).replace('"sha256": "', '"sha256": "../../../../../../outside/', 1)
    case.write(path, text + "\n")


@forgery("run", "spend")
def _(case: Case, rng: random.Random) -> None:
    usd = rng.choice(("1E+999999999", "NaN", "-5", "9" * 5000, 10**400, "[]", True))
    rows = [{"reserve": "a", "usd": usd, "chain": CHAIN, "episode": 0}]
    rows += [{"settle": rng.choice(("a", "b")), "usd": "1", "tokens": {"fresh": 10**300}}]
    case.write(case.thing / "spend.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


# --- datasets ---------------------------------------------------------------------------------


@forgery("dataset", "templates and paths")
def _(case: Case, rng: random.Random) -> None:
    info = case.read("meta/info.json")
    name = rng.choice(("data_path", "video_path"))
    info[name] = rng.choice(
        (
            "{chunk_index:9999999999d}",
            "{chunk_index!r:>9999999999}",
            "{chunk_index.__class__.__mro__}",
            "../../outside/{file_index}.parquet",
            f"{case.outside}/secret.json",
            "data/{video_key:>999999999}/x",
            "\0",
            "{{}}" * 1000,
            *TEXTS,
        )
    )
    case.write(case.thing / "meta" / "info.json", info)


@forgery("dataset", "numbers and types")
def _(case: Case, rng: random.Random) -> None:
    names = ("info.json", "stats.json")
    path = case.thing / "meta" / rng.choice(names)
    case.write(path, _mutated(path.read_text(), rng))


@forgery("dataset", "depth")
def _(case: Case, rng: random.Random) -> None:
    name = rng.choice(("info.json", "stats.json"))
    case.write(case.thing / "meta" / name, rng.choice((DEEP, b'{"a":' * 500 + b"1" + b"}" * 500)))


@forgery("dataset", "links and pipes")
def _(case: Case, rng: random.Random) -> None:
    place = rng.choice([p for p in case.thing.rglob("*") if p.is_file()])
    place.unlink()
    if rng.random() < 0.5:
        place.symlink_to(case.outside / "secret.json")
    else:
        os.mkfifo(place)


@forgery("dataset", "tables that unpack")
def _(case: Case, rng: random.Random) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = rng.choice(sorted(case.thing.rglob("*.parquet")))
    schema = pq.read_schema(path)
    name = rng.choice(schema.names)
    path.unlink()
    if rng.random() < 0.5:
        column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**5, np.int32)), ["x" * 10**5])
        pq.write_table(pa.table({name: column.cast(pa.large_string())[:0]}), path)
        path.unlink()
        _write_repeated(path, name, column)
    else:
        rows = pa.chunked_array([pa.nulls(2**24, pa.int64())] * 40)
        pq.write_table(pa.table({name: rows}), path, row_group_size=2**30)


@forgery("dataset", "pictures in cells")
def _(case: Case, rng: random.Random) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = next((case.thing / "data").rglob("*.parquet"))
    table = pq.read_table(path)
    (name,) = [n for n in table.column_names if "left" in n][:1]
    cell = rng.choice(
        (
            {"bytes": None, "path": f"{case.outside}/secret.png"},
            {"bytes": None, "path": "../outside/secret.png"},
            {"bytes": None, "path": "/dev/zero"},
            {"bytes": _picture(), "path": "x"},
            {"bytes": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "path": "x.eps"},
        )
    )
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([cell] * table.num_rows, kind)
    path.unlink()
    pq.write_table(table.set_column(table.column_names.index(name), name, cells), path)


@forgery("hdf5", "other files, sizes, texts")
def _(case: Case, rng: random.Random) -> None:
    import h5py

    path = next(case.thing.glob("*.hdf5"))
    copied = path.read_bytes()
    path.unlink()
    path.write_bytes(copied)
    with h5py.File(path, "r+") as file:
        demo = file["data"]["demo_0"]
        how = rng.randrange(7)
        if how == 0:
            demo["more"] = h5py.ExternalLink(str(case.outside / "secret.h5"), "/data")
        elif how == 1:
            secret = [(str(case.outside / "secret.json"), 0, 16)]
            demo.create_dataset("more", (16,), "u1", external=secret)
        elif how == 2:
            layout = h5py.VirtualLayout((4,), "f8")
            layout[:] = h5py.VirtualSource(str(case.outside / "secret.h5"), "x", (4,))
            demo.create_virtual_dataset("more", layout)
        elif how == 3:
            demo.create_dataset("more", (10**11, 8), "f8", chunks=(1024, 8))
        elif how == 4:
            demo["obs"].create_dataset("x_image", (10**12, 8, 8, 3), "u1", chunks=(16, 8, 8, 3))
        elif how == 5:
            demo.attrs["num_samples"] = 10**15
            demo.attrs["ep_meta"] = "[" * 20_000
        else:
            file["data"].attrs["env_args"] = "[" * 20_000
            file["data"]["demo_1"] = h5py.ExternalLink("/dev/zero", "/")


# --- checkpoints ------------------------------------------------------------------------------


@forgery("checkpoint", "numbers and types")
def _(case: Case, rng: random.Random) -> None:
    path = case.thing / "policy.json"
    case.write(path, _mutated(path.read_text(), rng))


@forgery("checkpoint", "sizes")
def _(case: Case, rng: random.Random) -> None:
    policy = case.read("policy.json")
    name = rng.choice(("dim", "encoder_layers", "feedforward", "chunk", "width", "image_size"))
    if name == "image_size":
        policy[name] = [10**6, 10**6]
    else:
        policy["settings"][name] = 2 ** rng.choice((20, 30, 40))
    case.write(case.thing / "policy.json", policy)


@forgery("checkpoint", "depth")
def _(case: Case, rng: random.Random) -> None:
    case.write(case.thing / "policy.json", rng.choice((DEEP, b'{"format":' * 600)))


@forgery("checkpoint", "weights")
def _(case: Case, rng: random.Random) -> None:
    weights = rng.choice(
        (
            b"\x80\x04cposix\nsystem\n(Vtouch $CANARY/pickle\ntR.",
            (2**60).to_bytes(8, "little") + b"{}",
            (400_000).to_bytes(8, "little") + b'{"a":' * 80_000,
            b"",
        )
    )
    case.write(case.thing / "model.safetensors", weights)


@forgery("checkpoint", "links and pipes")
def _(case: Case, rng: random.Random) -> None:
    place = case.thing / rng.choice(("policy.json", "model.safetensors", "training.json"))
    place.unlink(missing_ok=True)
    if rng.random() < 0.5:
        place.symlink_to(case.outside / "secret.json")
    else:
        os.mkfifo(place)


@forgery("lerobot", "classes and paths")
def _(case: Case, rng: random.Random) -> None:
    folder = case.thing
    steps = [{"class": "canary.world.Arm"}]
    if rng.random() < 0.5:
        steps = [{"registry_name": "x", "state_file": "../../outside/secret.json"}]
    case.write(folder / "config.json", {"type": "canary.world", "input_features": {}})
    case.write(folder / "model.safetensors", (2).to_bytes(8, "little") + b"{}")
    root = rng.choice((str(case.outside), "../outside", "/dev/zero"))
    case.write(folder / "train_config.json", {"dataset": {"root": root}})
    for name in ("policy_preprocessor.json", "policy_postprocessor.json"):
        case.write(folder / name, {"steps": steps if rng.random() < 0.7 else []})


# --- reports ----------------------------------------------------------------------------------


@forgery("report", "what the index lists, and links")
def _(case: Case, rng: random.Random) -> None:
    out = case.thing
    how = rng.randrange(3)
    if how == 0:
        outside = f"tables/{case.outside}/secret.json"
        listed = ["tables/../../outside/secret.json", outside, "/etc/x", 7, None, "tables/\0"]
        case.write(out / "report.json", {"files": listed})
    elif how == 1:
        case.write(out / "report.json", rng.choice((DEEP, b'{"files": {"a": 1}}')))
    else:
        place = out / rng.choice(("tables", "figures", "report.html", "report.json"))
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        place.symlink_to(case.outside if place.suffix == "" else case.outside / "secret.json")


# --- what they are made of --------------------------------------------------------------------

RIG = """python = "bin/python3"
[[arms]]
name = "arm"
driver = "canary.world:Arm"
home = {position_m = [0.4, 0.0, 0.3], rotation_rad = [3.14159, 0.0, 0.0]}
max_opening_m = 0.08
[[cameras]]
name = "front"
driver = "canary.world:Camera"
kind = "exterior"
size = [64, 48]
[guard.workspace]
lower_m = [0.0, -0.5, 0.0]
upper_m = [0.9, 0.5, 0.9]
[tasks.TurnOnMicrowave]
instruction = "x"
success = "x"
steps = 9
"""


def _header(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, described)
    return out.getvalue()


def _npz(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def _picture() -> bytes:
    """A PNG of 30,000 x 30,000 pixels in a hundred kilobytes."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(3751 * 30_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _playlist(case: Case) -> bytes:
    """A list of other files, which FFmpeg would open."""
    return f"#EXTM3U\n#EXTINF:1,\nfile://{case.outside}/secret.mp4\n#EXT-X-ENDLIST\n".encode()


def _write_repeated(path: Path, name: str, column: Any) -> None:
    """A text once, named by every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: column})
    pq.write_table(table, path, use_dictionary=True, row_group_size=10**5, store_schema=False)


def _mutated(text: str, rng: random.Random) -> str:
    """JSON with a few of its values replaced."""
    value = json.loads(text)
    spots: list[tuple[Any, Any]] = []

    def gather(held: Any) -> None:
        for key in held if isinstance(held, dict) else range(len(held)):
            spots.append((held, key))
            if isinstance(held[key], dict | list):
                gather(held[key])

    gather(value)
    marks = {}
    for number in range(rng.randint(1, 3)):
        held, key = rng.choice(spots)
        junk = rng.choice((None, [], {}, True, "x", rng.choice(TEXTS), [[]], {"": {}}, "LITERAL"))
        if junk == "LITERAL":
            marks[junk := f"LITERAL{number}LITERAL"] = rng.choice(NUMBERS)
        held[key] = junk
        if rng.random() < 0.15 and isinstance(held, dict):
            del held[key]
    text = json.dumps(value)
    for mark, literal in marks.items():
        text = text.replace(f'"{mark}"', literal)
    return text


# --- the good ones ----------------------------------------------------------------------------


def make_good(folder: Path) -> None:
    """A run with a certified success, its datasets, a checkpoint, a report."""
    from capex import report
    from capex.campaign.api import collect
    from capex.dataset import Pipeline, certify_run, export_run

    replies = ROOT / "tests" / "golden" / "microwave_replies.json"
    run = folder / "run"
    collect("kitchen:TurnOnMicrowave", arm="capex", model=f"script:{replies}", starts="0", out=run)
    (result,) = certify_run(run)
    assert result.certificate.certified
    export_run(run, folder / "dataset", pipeline=Pipeline((64, 64)))
    export_run(run, folder / "hdf5", format="hdf5", pipeline=Pipeline((64, 64)))
    report.write([run], folder / "report", strips=1)
    (folder / "lerobot").mkdir()
    with contextlib.suppress(ImportError):
        import student_data
        from capex.students.settings import make_settings
        from capex.students.train import TrainingJob, train

        settings = make_settings("act", student_data.SMALL["act"])
        job = TrainingJob((folder / "dataset",), settings, 1, folder / "trained", device="cpu")
        shutil.copytree(train(job, lambda _: None, lambda _: None), folder / "checkpoint")


def make_case(good: Path, folder: Path, number: int, kind: str, family: str, seed: int) -> Case:
    """A copy of a good one, forged."""
    case = Case(number, kind, family, folder / "here", folder / "outside")
    case.thing.parent.mkdir(parents=True)
    shutil.copytree(good / kind, case.thing, copy_function=os.link)
    outside = case.outside
    for path in (outside, outside / "chain" / "episodes"):
        path.mkdir(parents=True)
    (outside / "secret.json").write_text(json.dumps({"secret": SECRET}) + "\n")
    (outside / "secret.png").write_bytes(SECRET.encode())
    (outside / "rig.toml").write_text(RIG)
    (outside / "meta").mkdir()
    (outside / "meta" / "info.json").write_text(json.dumps({"features": {SECRET: {}}, "fps": 20}))
    shutil.copytree(good / "run" / "chains" / CHAIN / "episodes" / EPISODE, outside / "episode")
    for name in ("__init__", "world"):
        case.write(case.place / "canary" / f"{name}.py", MODULE.replace("NAME", name))
    for name in ("canaries", "home"):
        (folder / name).mkdir()
    FORGERIES[kind][family](case, random.Random(f"{seed}-{number}-{family}"))
    return case


# --- one case, in a process of its own --------------------------------------------------------

NAMING = ("a module as", "a rig", "a model", "current folder", "recorded")
FRESH = ("a module as", "current folder")  # in a process that has imported nothing yet


def commands(case: Case) -> Iterator[list[str]]:
    """The command lines of a case. What takes long is tried in turn, two of it a case; where a name
    may be loaded all of it, in the first case of a family.
    """
    thing, out = str(case.thing), case.place / "out"
    good = case.place.parent.parent / "good"
    once = ["--steps", "1", "--device", "cpu"]
    if case.kind == "run":
        yield from (["status", thing], ["status", thing, "--json"], ["forecast", thing])
        yield ["judge", thing, "--csv-template", f"{out}-judge.csv"]
        yield ["repair", thing, "--dry-run"]
        small = ["--size", "32", "32"]
        brief = ["--starts", "3", "--horizon", "2", "--policies", "act", "--size", "64", "64"]
        forks = ["--out", f"{out}/forks", "--decisions", "1", "--yes"]
        slow = [
            ["report", thing, "--out", f"{out}/report", "--strips", "2"],
            ["film", str(case.episode), "--out", f"{out}/film"],
            ["certify", thing],
            ["export", thing, "--out", f"{out}/dataset", *small],
            ["export", thing, "--uncertified", "--out", f"{out}/open", *small],
            ["replay", thing],
            ["counterfactual", thing],
            ["calibrate", thing],
            ["fork", thing, f"{CHAIN}/0@1", *forks],
            ["learn", thing, "--out", f"{out}/learn", "--seeds", "0", *once, *brief],
        ]
        kinds = sum(map(len, FORGERIES.values()))
        every = case.number < kinds and any(word in case.family for word in NAMING)
        yield from slow if every else (slow[case.number % 9], slow[(case.number + 4) % 9])
    elif case.kind in ("dataset", "hdf5"):
        yield ["dataset", "check", thing]
        yield ["dataset", "diff", thing, thing]
        if case.kind == "dataset":
            net = ["--set", "dim=32", "width=16", "heads=2", "feedforward=64", "chunk=8"]
            yield ["train", thing, "--out", f"{out}/trained", *once, *net]
    elif case.kind in ("checkpoint", "lerobot"):
        named = thing if case.kind == "checkpoint" else f"lerobot:{thing}"
        rollouts = ["--starts", "3", "--horizon", "2", "--parallel", "1", "--device", "cpu"]
        yield ["evaluate", named, "kitchen:TurnOnMicrowave", *rollouts, "--out", f"{out}/rollouts"]
        if case.kind == "checkpoint":
            yield ["train", str(good / "dataset"), "--init", thing, "--out", f"{out}/t", *once]
    else:
        yield ["report", str(good / "run"), "--out", thing, "--strips", "1"]


def pages(case: Case) -> Iterator[str]:
    """Addresses of the studio for a case."""
    q = urllib.parse.quote
    yield from ("api/studio", "api/campaigns", "api/live", "api/judge", "api/dataset", "api/drive")
    chain = next((p.name for p in (case.thing / "chains").glob("*")), CHAIN)
    at = f"run={q('thing')}&chain={q(chain)}"
    if case.kind == "run":
        yield f"api/campaigns/run?run={q('thing')}"
        yield f"api/calibration?{at}"
        yield f"api/judge/queue?run={q('thing')}"
        for name in ("", "/stage", "/exchanges", "/others"):
            yield f"api/episode{name}?{at}&episode=0&decision=1&start=0"
        yield f"api/episode/frame?{at}&episode=0&camera=left&tick=0"
        yield f"api/live/picture?{at}&start=0&sha={'0' * 64}"
        yield f"api/live/requests?{at}&start=0"
    else:
        for name in ("about", "episode", "frame", "diff"):
            more = "&episode=0&camera=left&frame=0&tick=0&other=thing"
            yield f"api/dataset/{name}?dataset={q('thing')}{more}"


@dataclass
class Tried:
    """What came of one case."""

    seconds: dict[str, float] = field(default_factory=dict)
    statuses: dict[str, Any] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict)
    waited: list[str] = field(default_factory=list)


class TooLong(BaseException):
    """A command did not end."""


def one(folder: Path, number: int, kind: str, family: str) -> None:
    """Run the commands of a case in this process; what came of it goes to a file."""
    case = Case(number, kind, family, folder / "here", folder / "outside")
    tried = Tried()
    # What a user's shell does: `python -m capex`, in the folder where the thing lies.
    here = case.thing if "current folder" in family else case.place
    os.chdir(here)
    if "current folder" not in family:
        sys.path.insert(0, str(here))
    from capex import cli

    with_torch = any(words[0] in ("learn", "train", "evaluate") for words in commands(case))
    if not with_torch:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2 * SPACE, used + 2 * SPACE))

    def late(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, late)
    for words in commands(case):
        name = " ".join(w for w in words[:2] if "/" not in w)
        began = time.monotonic()
        sys.argv = ["capex", *words]
        print(f"\n$ {' '.join(words)}", flush=True)
        signal.setitimer(signal.ITIMER_REAL, COMMAND_S)
        try:
            cli.main()
        except SystemExit as end:
            tried.statuses[name] = end.code
        except TooLong:
            tried.waited.append(name)
            traceback.print_exc()
        except BaseException:
            tried.tracebacks[name] = traceback.format_exc()
            print(tried.tracebacks[name], flush=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        tried.seconds[name] = round(time.monotonic() - began, 1)
    if kind in ("run", "dataset"):
        signal.setitimer(signal.ITIMER_REAL, COMMAND_S)
        try:
            visit(case, tried)
        except TooLong:
            tried.waited.append("studio")
            traceback.print_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    (folder / "tried.json").write_text(json.dumps(asdict(tried)))
    sys.stdout.flush()
    os._exit(0)


def visit(case: Case, tried: Tried) -> None:
    """Ask the studio for its pages. Status 500 is a traceback, which Starlette hides."""
    from capex.studio.serve import studio_server

    folder = case.place / "runs" if case.kind == "run" else case.place
    studio = studio_server((folder,))
    threading.Thread(target=studio.run, daemon=True).start()
    for page in pages(case):
        try:
            with urllib.request.urlopen(studio.address.url + page, timeout=COMMAND_S) as answer:
                content = answer.read()
                print(f"GET {page}: {content[:2000]!r}", flush=True)
                if SECRET.encode() in content:
                    print(SECRET)
        except urllib.error.HTTPError as refused:
            said = refused.read().decode(errors="replace")
            print(f"GET {page}: {refused.code} {said[:300]}", flush=True)
            if refused.code == 500:
                tried.tracebacks[f"studio {page}"] = said
        except (TimeoutError, urllib.error.URLError):
            tried.waited.append(f"studio {page}")


# --- all of them ------------------------------------------------------------------------------


@dataclass
class Row:
    """What came of a family."""

    cases: int = 0
    started: int = 0
    outside: int = 0
    tracebacks: int = 0
    rss_mb: float = 0.0
    waited: int = 0

    @property
    def withstood(self) -> bool:
        return not (self.started or self.outside or self.tracebacks or self.waited)


def digest(folder: Path) -> str:
    """Of every name and content below a folder."""
    summed = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        summed.update(str(path.relative_to(folder)).encode())
        if path.is_file() and not path.is_symlink():
            summed.update(path.read_bytes())
    return summed.hexdigest()


class Opener:
    """Opens cases, each in a process of its own: forked from one that has imported the package, or
    one that has imported nothing.
    """

    def __init__(self) -> None:
        words = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        self._server = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def open(self, case: Case, folder: Path) -> tuple[int, float]:
        """The exit code of a case's process and its greatest resident size in MB."""
        asked = [str(folder), case.number, case.kind, case.family]
        if any(word in case.family for word in FRESH):
            return opened(
                lambda: os.execve(sys.executable, fresh(asked), environment(folder)), asked
            )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        code, rss_mb = json.loads(self._server.stdout.readline())
        return int(code), float(rss_mb)

    def close(self) -> None:
        """End the process that the others are forked from."""
        self._server.communicate()


def environment(folder: Path | None = None) -> dict[str, str]:
    """What the processes of cases see of this machine."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LP_NUM_THREADS"), "1")
    known = {**os.environ, **threads, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    known |= {"OPENAI_API_KEY": "none"}
    if folder is not None:
        known |= {"CANARY": str(folder / "canaries"), "HOME": str(folder / "home")}
    return known


def fresh(asked: list[Any]) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--one", *map(str, asked)]


def opened(run: Callable[[], object], asked: list[Any]) -> tuple[int, float]:
    """Run something in a fork; its exit code and its greatest resident size in MB."""
    folder = Path(asked[0])
    process = os.fork()
    if process == 0:
        os.setsid()
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(target, number)
        os.environ.update(environment(folder))
        try:
            run()
        finally:
            traceback.print_exc()
            os._exit(1)
    ended = threading.Timer(8 * COMMAND_S, lambda: os.killpg(process, signal.SIGKILL))
    ended.start()
    _, status, usage = os.wait4(process, 0)
    ended.cancel()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024


def serve() -> None:
    """Open the cases that stdin names, one after another."""
    import h5py  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    import capex.analysis.forecast
    import capex.cli
    import capex.report
    import capex.studio.serve  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        done = opened(lambda asked=asked: one(Path(asked[0]), *asked[1:]), asked)
        print(json.dumps(done), flush=True)


def attempt(case: Case, folder: Path, row: Row, opener: Opener) -> list[str]:
    """Open a case and count what happened; returns it in words, too."""
    before = digest(case.outside)
    code, rss_mb = opener.open(case, folder)
    said = (folder / "log.txt").read_text(errors="replace")
    tried = folder / "tried.json"
    found = json.loads(tried.read_text()) if tried.is_file() else {}
    canaries = sorted(p.name for p in (folder / "canaries").iterdir())
    written = [p for p in (case.place / "out").rglob("*") if p.is_file()]
    told = SECRET in said or any(SECRET.encode() in p.read_bytes() for p in written)
    outside = told or digest(case.outside) != before
    broke = dict(found.get("tracebacks", {}))
    waited = list(found.get("waited", []))
    if not found:
        broke |= {"process": said[-1500:]} if code >= 0 else {}
        waited += ["killed"] if code < 0 else []
    elif "Traceback (most recent" in said and not broke and not waited:
        broke["worker"] = said[said.index("Traceback (most recent") :][:1500]
    row.cases += 1
    row.rss_mb = max(row.rss_mb, rss_mb)
    row.started += bool(canaries)
    row.outside += outside
    row.tracebacks += bool(broke)
    row.waited += bool(waited)
    where = f"case {case.number}, {case.kind}, {case.family}"
    faults = [f"{where}: started {canaries}"] if canaries else []
    faults += [f"{where}: a file outside was told or changed"] if outside else []
    faults += [f"{where}: {name}\n{text}" for name, text in broke.items()]
    return faults + ([f"{where}: waited in {waited}"] if waited else [])


def storm(
    count: int, seed: int, folder: Path, only: str = "", first: int = 0
) -> tuple[dict[tuple[str, str], Row], list[str]]:
    """Make the cases, open each, and count. `first` numbers them: a high number tries two of the
    commands that take long.
    """
    good = folder / "good"
    if not good.is_dir():
        shutil.rmtree(folder / "making", ignore_errors=True)
        make_good(folder / "making")
        (folder / "making").rename(good)
    kinds = [(kind, family) for kind, families in FORGERIES.items() for family in families]
    weights = {"run": 4, "dataset": 3, "hdf5": 4, "checkpoint": 2, "lerobot": 2, "report": 2}
    plan = [pair for k in range(4) for pair in kinds if k < weights[pair[0]]]
    plan = [pair for pair in plan if (good / pair[0]).is_dir() and only in " ".join(pair)]
    rows: dict[tuple[str, str], Row] = {}
    faults: list[str] = []
    opener = Opener()
    try:
        for number in range(first, first + count):
            kind, family = plan[(number - first) % len(plan)]
            place = folder / f"case-{number:03d}"
            shutil.rmtree(place, ignore_errors=True)
            case = make_case(good, place, number, kind, family, seed)
            row = rows.setdefault((kind, family), Row())
            found = attempt(case, place, row, opener)
            for fault in found:
                print(fault, file=sys.stderr, flush=True)
            faults += found
            if not found:
                shutil.rmtree(place)
    finally:
        opener.close()
    return rows, faults


def main() -> int:
    """Open every case and print the table."""
    if sys.argv[1:2] == ["--one"]:
        one(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
    if sys.argv[1:2] == ["--serve"]:
        serve()
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--only", default="", help="families that have this in their name")
    parser.add_argument("--keep", type=Path, help="work in this folder, and keep it")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        rows, _ = storm(given.cases, given.seed, folder.resolve(), given.only)
    head = ("kind, family", "cases", "program started", "outside touched", "tracebacks")
    print(f"| {' | '.join((*head, 'max RSS', 'waited'))} |")
    print("|---|---|---|---|---|---|---|")
    for (kind, family), r in sorted(rows.items()):
        print(
            f"| {kind}: {family} | {r.cases} | {r.started} | {r.outside} | {r.tracebacks}"
            f" | {r.rss_mb:.0f} MB | {r.waited} |"
        )
    total = sum(r.cases for r in rows.values())
    print(f"{total} cases, at most {max(r.rss_mb for r in rows.values()):.0f} MB in a process")
    return 0 if all(r.withstood and r.rss_mb < RSS_MOST_MB for r in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
