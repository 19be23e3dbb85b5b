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
import ctypes
import hashlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import socket
import struct
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

SECRET = "not-for-strangers-7f3a"
COMMAND_S = 300.0  # a command over a good case takes a few; beside many other programs more
RSS_MOST_MB = 1000
TAKEN = 1  # a port that is in use: what would be served is loaded, and nothing waits
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
    rows = [{"line": "reserve", "ticket": "a", "usd": usd, "chain": CHAIN, "episode": 0}]
    rows += [
        {
            "line": "settle",
            "ticket": rng.choice(("a", "b")),
            "usd": "1",
            "tokens": {"fresh": 10**300},
        }
    ]
    case.write(case.thing / "spend.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


@forgery("run", "links to another run")
def _(case: Case, rng: random.Random) -> None:
    _add_notes(case)
    _link_into(case, rng, _copy_with_secret(case))


@forgery("run", "notes")
def _(case: Case, rng: random.Random) -> None:
    _add_notes(case)
    notes = [p for p in case.thing.rglob("*.json*") if p.is_file()]
    path = rng.choice([p for p in notes if p.name not in ("record.json", "timing.json")])
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    number = rng.randrange(len(lines))
    changed = _mutated(lines[number], rng).replace("\n", " ")
    case.write(path, "\n".join([*lines[:number], changed, *lines[number + 1 :]]) + "\n")


@forgery("run", "many")
def _(case: Case, rng: random.Random) -> None:
    e = case.episode
    logs = [e / n for n in ("exchanges.jsonl", "exchange_times.jsonl", "verdicts.jsonl")]
    logs += [case.thing / "spend.jsonl", case.chain / "unfinished" / "0007.jsonl"]
    objects = [e / n for n in ("record.json", "timing.json", "counterfactual.json")]
    objects += [case.thing / n for n in ("manifest.json", "live.json", "allocation.json")]
    if rng.random() < 0.5:
        row = rng.choice(
            (
                b"\n",
                b"{}\n",
                b'{"":{}}\n',
                b'{"line":"settle","ticket":"a","usd":"1","reply":true}\n',
            )
        )
        case.write(rng.choice(logs), row * (64 * 2**20 // len(row)))
    else:
        row = rng.choice((b"[],", b'{"":{}},', b'"a",', b"1,"))
        body = b'{"a":[' + row * (30 * 2**20 // len(row)) + b"0]}"
        case.write(rng.choice(objects), body)


@forgery("run", "videos and pictures")
def _(case: Case, rng: random.Random) -> None:
    import av

    how = rng.choice(("concat", "playlist", "large", "noise", "wide", "odd"))
    if how in ("concat", "playlist", "large"):
        frames = case.episode / "frames"
        count = len(np.load(case.episode / "steps.npz")["proprio"])
        row = {"size": [64, 36], "form": "video", "file": "left.mp4", "count": count}
        case.write(frames / "cameras.json", {"left": row | {"kind": "exterior"}})
        case.write(frames / "left.mp4", b"ffconcat version 1.0\nfile beside.mp4\n" * 2)
        with av.open(str(case.place / "beside.mp4"), "w") as film:
            stream = film.add_stream("libx264", rate=20, options={"preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
            for _ in range(count):
                shot = av.VideoFrame.from_ndarray(np.full((36, 64, 3), 9, np.uint8))
                film.mux(stream.encode(shot))
            film.mux(stream.encode(None))
        if how == "large":
            shutil.copy(case.place / "beside.mp4", frames / "left.mp4")
            case.write(frames / "cameras.json", {"left": row | {"size": [5000, 6000]}})
        elif how == "playlist":
            case.write(frames / "left.mp4", _playlist(case))
        else:
            shutil.move(case.place / "beside.mp4", case.outside / "beside.mp4")
            (case.place / "beside.mp4").symlink_to(case.outside / "beside.mp4")
        out = io.BytesIO()
        np.savez(out, **{"left.frame": np.arange(count)})
        case.write(frames / "index.npz", out.getvalue())
        case.world("gone.world")
    for image in (
        () if how in ("concat", "playlist", "large") else (case.episode / "images").iterdir()
    ):
        case.write(image, _odd_picture(how, rng))


@forgery("run", "names that are no text")
def _(case: Case, rng: random.Random) -> None:
    raw = rng.choice((b"\xff\xfe", b"a\x1b[2Jb", b"line\nbreak", b"\xe2\x80\xa8", b"x" * 200))
    chain = os.fsencode(case.chain.parent) + b"/kitchen--TurnOnMicrowave--" + raw
    target = rng.choice((chain, os.fsencode(case.thing) + b"/" + raw))
    if target == chain:
        os.rename(os.fsencode(case.chain), target)
    else:
        os.mkdir(target)
    for name in ("invalid", "episodes", "unfinished"):
        os.makedirs(os.path.join(target, os.fsencode(name), b"9" * 17 + b"-9"), exist_ok=True)


# --- datasets ---------------------------------------------------------------------------------


@forgery("dataset", "columns of another type")
def _(case: Case, rng: random.Random) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = rng.choice(sorted(case.thing.rglob("*.parquet")))
    table = pq.read_table(path)
    for _ in range(rng.randint(1, 3)):
        number, rows = rng.randrange(table.num_columns), table.num_rows
        name = table.column_names[number]
        values = rng.choice(
            (
                pa.array([rng.choice(TEXTS)] * rows, pa.string()),
                pa.array([[1, [2]][:1] * k for k in range(rows)], pa.list_(pa.int64())),
                pa.array([{"a": 1}] * rows, pa.struct([("a", pa.int64())])),
                pa.nulls(rows, pa.int64()),
                pa.array([float("nan")] * rows),
                pa.array([-(2**62)] * rows),
                pa.array([True] * rows),
                pa.array([b"\xff"] * rows, pa.binary()),
                pa.array([1] * rows, pa.timestamp("s")),
                pa.array([None if k % 2 else 10**9 for k in range(rows)], pa.int64()),
            )
        )
        table = table.set_column(number, name, values)
        if rng.random() < 0.2:
            table = table.drop_columns([name])
        if rng.random() < 0.1:
            table = table.slice(0, rng.choice((0, 1)))
    path.unlink()
    pq.write_table(table, path)


@forgery("dataset", "many rows, deep columns")
def _(case: Case, rng: random.Random) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = rng.choice(sorted(case.thing.rglob("*.parquet")))
    schema = pq.read_schema(path)
    path.unlink()
    if rng.random() < 0.7:
        rows = 12 * 2**20
        values = pa.array(np.zeros(rows, rng.choice((np.int8, np.int64, np.float32))))
        names = schema.names if rng.random() < 0.3 else rng.sample(schema.names, 1)
        pq.write_table(pa.table(dict.fromkeys(names, values)), path)
    else:
        kind = pa.int64()
        for _ in range(rng.choice((100, 400))):
            kind = pa.list_(kind)
        pq.write_table(pa.table({schema.names[0]: pa.nulls(3, kind)}), path)


@forgery("dataset", "links to another dataset")
def _(case: Case, rng: random.Random) -> None:
    _link_into(case, rng, _copy_with_secret(case))


@forgery("dataset", "videos and large pictures")
def _(case: Case, rng: random.Random) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = next((case.thing / "data").rglob("*.parquet"))
    table = pq.read_table(path)
    (name,) = [n for n in table.column_names if "left" in n][:1]
    how = rng.choice(("large", "noise", "wide", "odd"))
    cell = {"bytes": _odd_picture(how, rng), "path": "x"}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([cell, *table[name].to_pylist()[1:]], kind)
    path.unlink()
    pq.write_table(table.set_column(table.column_names.index(name), name, cells), path)


@forgery("dataset", "a pack of frames")
def _(case: Case, rng: random.Random) -> None:
    pack = case.thing / ".frames"
    how = rng.choice(("head", "table", "images", "header"))
    if how == "head":
        text = json.dumps(json.loads((pack / "pack.json").read_text()))
        kept = json.loads(text).get("of")
        changed = _mutated(text, rng)
        with contextlib.suppress(ValueError):
            value = json.loads(changed)
            if isinstance(value, dict):
                changed = json.dumps({**value, "of": kept})
        case.write(pack / "pack.json", changed)
    elif how == "table":
        held = dict(np.load(pack / "table.npz"))
        name = rng.choice(sorted(held))
        odd = (np.zeros(3), np.zeros((2, 2, 2)), np.array("x"), held[name][:, :1], held[name][:5])
        held[name] = rng.choice(odd)
        out = io.BytesIO()
        np.savez(out, **held)
        case.write(pack / "table.npz", out.getvalue())
    elif how == "images":
        out = io.BytesIO()
        shape = np.load(pack / "images.npy", mmap_mode="r").shape
        odd = ((shape[0], 0, 1, 1, 3), (shape[0], 9, 4, 4, 3), (shape[0], 2, 4, 4, 1), (3, 3))
        np.save(out, np.zeros(rng.choice(odd), np.uint8))
        case.write(pack / "images.npy", out.getvalue())
    else:
        case.write(pack / "images.npy", _header((10**9, 3, 10**4, 10**4, 3)))


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


@forgery("hdf5", "types and sums")
def _(case: Case, rng: random.Random) -> None:
    import h5py

    path = next(case.thing.glob("*.hdf5"))
    copied = path.read_bytes()
    path.unlink()
    path.write_bytes(copied)
    odd = (b"\xff\xfe", "x", np.zeros(3), np.array([1.5]), h5py.Empty("f8"), -5, 2.5, "1" * 5000)
    with h5py.File(path, "r+") as file:
        data, demo = file["data"], file["data"]["demo_0"]
        how = rng.randrange(9)
        if how == 0:
            data.attrs[rng.choice(("total", "env_args"))] = rng.choice(odd)
        elif how == 1:
            demo.attrs[rng.choice(("num_samples", "ep_meta", "capex"))] = rng.choice(odd)
        elif how == 2:
            data["demo_1"] = rng.choice((np.zeros(4), 3.0))
        elif how == 3:
            file.pop("mask", None)
            file["mask"] = rng.choice((np.zeros((3, 3)), 7, np.array([b"demo_9"])))
        elif how == 4:
            for k in range(24):
                demo.create_dataset(f"more_{k}", (2**22, 8), "f8", chunks=(1024, 8))
        elif how == 5:
            demo.create_dataset("obs/large_image", (40, 8000, 8000, 3), "u1", chunks=(1, 8, 8, 3))
        elif how == 6:
            del demo["actions"]
            demo["actions"] = rng.choice((np.float64(3), np.array([b"text"] * 4), h5py.Empty("f8")))
        elif how == 7:
            demo["obs"].create_group(b"\xff\xfe\x1b[2J")["x"] = np.zeros((3, 2))
            data.create_group(b"demo_\xff")
        else:
            demo["loop"] = h5py.SoftLink("/data")
            demo["self"] = file["data"]
            demo["gone"] = h5py.SoftLink("/nowhere")


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


@forgery("lerobot", "links to another checkpoint")
def _(case: Case, rng: random.Random) -> None:
    _lerobot(case.thing)
    _link_into(case, rng, _copy_with_secret(case))


@forgery("lerobot", "numbers and types")
def _(case: Case, rng: random.Random) -> None:
    _lerobot(case.thing)
    path = rng.choice(sorted(case.thing.rglob("*.json")))
    case.write(path, _mutated(path.read_text(), rng))


@forgery("lerobot", "weights")
def _(case: Case, rng: random.Random) -> None:
    _lerobot(case.thing)
    path = rng.choice(sorted(case.thing.rglob("*.safetensors")))
    how = rng.choice(("pickle", "length", "deep", "empty", "pipe", "sparse"))
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    else:
        contents = {
            "pickle": b"\x80\x04cposix\nsystem\n(Vtouch $CANARY/pickle\ntR.",
            "length": (2**60).to_bytes(8, "little") + b"{}",
            "deep": (400_000).to_bytes(8, "little") + b'{"a":' * 80_000,
        }
        case.write(path, contents.get(how, b""))
        if how == "sparse":
            os.truncate(path, 8 * 2**30)


@forgery("checkpoint", "training state")
def _(case: Case, rng: random.Random) -> None:
    text = (case.thing / "training.json").read_text()
    case.write(case.thing / "training.json", _mutated(text, rng))
    if rng.random() < 0.3:
        case.write(case.thing / "training.safetensors", (2).to_bytes(8, "little") + b"{}")


# --- reports ----------------------------------------------------------------------------------


@forgery("report", "links to another report")
def _(case: Case, rng: random.Random) -> None:
    _link_into(case, rng, _copy_with_secret(case))


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


def _add_notes(case: Case) -> None:
    """What a campaign leaves in a run besides episodes: requests, an attempt under way, scenes."""
    thing, chain, e = case.thing, case.chain, case.episode
    plan = {"decision": 1, "committed": 1, "waypoints": [], "difference": ""}
    digests = case.read("certificate.json", e)["digests"]
    verdict = {"verdict": "success", "by": "a", "at": "2026-01-01", "reason": "", "words": "x"}
    scene = {"scene": "s", "cameras": {"front": True}, "chain": CHAIN, "start": 0, "score": 0.1}
    said = {"text": "x", "by": "a", "at": "2026-01-01"}
    wish = {"by": "a", "device": "keyboard", "port": 9, "key": "k", "host": "h"}
    driven = {"decision": 1, "by": "a", "device": "keyboard", "moves": []}
    match = {"by": "a", "stand_in": False, "score": 0.5, "arrangement": "0000"}
    under_way = chain / "episodes" / ".writing-1-0001"
    picture = _odd_picture("plain", random.Random(0))
    line = dict.fromkeys(("wanted", "until", "paused_until", "per_dollar"), 2) | {"state": "x"}
    messages, takeover = (thing / "requests" / n / CHAIN for n in ("messages", "takeover"))
    files: dict[Path, Any] = {
        e / "counterfactual.json": {"rule": "r", "plans": [plan], "digests": digests},
        e / "verdicts.jsonl": verdict,
        e / "opinions.jsonl": {**verdict, "by": "b"},
        e / "arrangement" / "match.json": match,
        e / "arrangement" / "front.png": picture,
        chain / "asked.json": {"starts": [0, 1]},
        chain / "unfinished" / "0007.jsonl": (e / "exchanges.jsonl").read_bytes(),
        chain / "unfinished" / "0007.times": (e / "exchange_times.jsonl").read_bytes(),
        chain / "invalid" / "0003-1" / "record.json": {
            **case.read("record.json", e),
            "start": 3,
            "seed": 0,
            "error": "x",
        },
        chain / "invalid" / "0003-1" / "timing.json": (e / "timing.json").read_bytes(),
        chain / "invalid" / "0003-1" / "steps.npz": (e / "steps.npz").read_bytes(),
        under_way / "begun.json": {**case.read("record.json", e), "timing": {}},
        under_way / "exchanges.jsonl": (e / "exchanges.jsonl").read_bytes(),
        under_way / "live" / "events.jsonl": {"event": "moving", "tips": {}},
        under_way / "live" / "front.jpg": picture,
        under_way / "images" / f"{'0' * 64}.png": picture,
        thing / "allocation.json": {"batches": [{"chain": CHAIN, "starts": [0]}]},
        thing / "live.json": {
            **{"unix_time": 4e9, "process": 1, "host": "h", "hours_left": 1.0},
            "chains": {CHAIN: {**line, "now": [{"start": 1, "phase": "x"}]}},
        },
        thing / "pace.json": "[[1.0, 1, 1]]",
        thing / "prompt.txt": "prompt",
        thing / "arranging" / "scene.json": scene,
        thing / "arranging" / "front.jpg": picture,
        thing / "arrangements" / CHAIN.rpartition("--")[0] / "0000" / "arrangement.json": said,
        thing / "arrangements" / CHAIN.rpartition("--")[0] / "0000" / "front.png": picture,
        thing / "origins" / CHAIN / "0000.json": case.read("record.json", e),
        thing / "requests" / "pause.json": {"by": "a", "at": ""},
        thing / "requests" / "rig.json": {"rig": "r", "process": 1, "host": "h", "user": 0},
        thing / "requests" / "arranged.json": {"scene": "s", "by": "a", "notes": "", "at": ""},
        messages / "0001.jsonl": said,
        messages / "0001.delivered": "[1]",
        takeover / "0001.json": wish,
        takeover / "0001.driven": driven,
    }
    for path, content in files.items():
        ending = {".jsonl": "\n"}.get(path.suffix, "")
        case.write(path, json.dumps(content) + ending if isinstance(content, dict) else content)


def _copy_with_secret(case: Case) -> Path:
    """A copy of the thing outside, in which every text has the secret."""
    copy = case.outside / "copy"
    shutil.copytree(case.thing, copy)
    for path in copy.rglob("*"):
        if path.suffix in (".json", ".jsonl", ".html", ".csv", ".md", ".txt", ".driven"):
            text = path.read_text(errors="replace")
            path.write_text(
                text.replace("icrowave", f"icrowave{SECRET}").replace('"x"', f'"{SECRET}"')
            )
    return copy


def _link_into(case: Case, rng: random.Random, copy: Path) -> None:
    """One file or folder of the thing, or a few, become links to the same outside."""
    for _ in range(rng.choice((1, 1, 3))):
        inside = [p for p in case.thing.rglob("*") if not p.is_symlink()]
        path = rng.choice(inside)
        if rng.random() < 0.6:  # folders are fewer, and lead to more
            path = rng.choice([p for p in inside if p.is_dir()] or inside)
        target = copy / path.relative_to(case.thing)
        if any(p.is_symlink() for p in path.parents):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        path.symlink_to(target)


def _lerobot(folder: Path) -> None:
    """A checkpoint as LeRobot writes it, without weights, and the dataset that it learned from."""
    checkpoint = folder / "checkpoints" / "000001" / "pretrained_model"
    checkpoint.mkdir(parents=True)
    good = folder.parent.parent.parent / "good" / "dataset"
    shutil.copytree(good, folder / "data", copy_function=os.link)
    features = json.loads((good / "meta" / "info.json").read_text())["features"]
    shown = {n: f for n, f in features.items() if n.startswith("observation.")}
    kinds = {n: "VISUAL" if "image" in n else "STATE" for n in shown}
    inputs = {
        n: {"type": kinds[n], "shape": f["shape"][-1:] + f["shape"][:-1]} for n, f in shown.items()
    }
    action = {"type": "ACTION", "shape": features["action"]["shape"]}
    config = {"type": "act", "input_features": inputs, "output_features": {"action": action}}
    processor = {"steps": [{"registry_name": "x", "state_file": "state.safetensors", "config": {}}]}
    trained = {"dataset": {"root": "thing/data"}, "steps": 1, "seed": 0, "policy": {}}
    named = {"config": config, "train_config": trained}
    named |= {"policy_preprocessor": processor, "policy_postprocessor": processor}
    for name, content in named.items():
        (checkpoint / f"{name}.json").write_text(json.dumps(content))
    for name in ("model", "state"):
        (checkpoint / f"{name}.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")


def _odd_picture(how: str, rng: random.Random) -> bytes:
    """A picture that is as large as may be, longer than wide, of another mode, or noise."""
    from PIL import Image

    out = io.BytesIO()
    form = rng.choice(("PNG", "JPEG", "WEBP", "TIFF"))
    if how == "large":
        Image.new("L", (5600, 5600)).save(out, "PNG")
    elif how == "wide":
        Image.new("RGB", rng.choice(((16_000, 1), (1, 16_000)))).save(out, form)
    elif how == "odd":
        modes = {
            "PNG": "1 L LA P RGBA I I;16",
            "JPEG": "L CMYK",
            "WEBP": "RGBA",
            "TIFF": "F I CMYK",
        }
        Image.new(rng.choice(modes[form].split()), (64, 64)).save(out, form)
    else:
        Image.new("RGB", (64, 64), (9, 9, 9)).save(out, form)
    content = bytearray(out.getvalue())
    for _ in range(rng.randint(1, 30) if how == "noise" else 0):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


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
        model = f"script:{ROOT / 'tests' / 'golden' / 'microwave_replies.json'}"
        cheap = ["--yes", "--out"]
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
            ["repair", thing],
            [
                "collect",
                "kitchen:TurnOnMicrowave",
                "--model",
                model,
                "--starts",
                "0",
                *cheap,
                thing,
            ],
            ["certify", thing, "--again"],
            ["judge", thing, "--by", "me"],
        ]
        kinds = sum(map(len, FORGERIES.values()))
        every = case.number < kinds and any(word in case.family for word in NAMING)
        yield from (
            slow if every else (slow[case.number % len(slow)], slow[(case.number + 5) % len(slow)])
        )
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
            yield ["policy", "serve", thing, "--port", str(TAKEN), "--device", "cpu"]
            yield ["train", str(good / "dataset"), "--init", thing, "--out", f"{out}/t", *once]
    else:
        yield ["report", str(good / "run"), "--out", thing, "--strips", "1"]


def chain_of(case: Case) -> str:
    """The name of the chain, which a forgery may have changed."""
    chains = case.thing / "chains"
    names = [] if chains.is_symlink() or not chains.is_dir() else os.listdir(chains)
    return next(iter(sorted(names)), CHAIN).encode(errors="replace").decode()


def pages(case: Case) -> Iterator[str]:
    """Addresses of the studio for a case."""
    q = urllib.parse.quote
    yield from ("api/studio", "api/campaigns", "api/live", "api/judge", "api/dataset", "api/drive")
    chain = chain_of(case)
    at = f"run={q('thing')}&chain={q(chain)}"
    if case.kind == "run":
        yield f"api/campaigns/run?run={q('thing')}"
        yield f"api/calibration?{at}"
        yield f"api/judge/queue?run={q('thing')}"
        for name in ("", "/stage", "/exchanges", "/others"):
            yield f"api/episode{name}?{at}&episode=0&decision=1&start=0"
        yield f"api/episode/frame?{at}&episode=0&camera=left&tick=0"
        yield f"api/episode/apart?{at}&episode=0&run2=thing&chain2={q(chain)}&episode2=0"
        for start in (0, 1):
            yield f"api/live/picture?{at}&start={start}&sha={'0' * 64}"
            yield f"api/live/frame?{at}&start={start}&camera=front"
            yield f"api/live/requests?{at}&start={start}"
        yield f"api/live/events?{at}&start=1"
        for kind in ("live", "stored", "edges"):
            yield f"api/arrange/picture?run={q('thing')}&camera=front&kind={kind}"
        yield f"api/arrange/events?run={q('thing')}"
        yield "api/arrange/scenes"
        yield f"api/judge/queue?run={q('thing')}&by=me&second=1"
    else:
        for name in ("about", "episode", "frame", "diff"):
            more = "&episode=0&camera=observation.images.left&frame=0&tick=0&other=thing"
            yield f"api/dataset/{name}?name={q('thing')}{more}"


def posts(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a page of the studio writes into a run."""
    chain = chain_of(case)
    at = {"run": "thing", "chain": chain, "start": 1, "by": "me"}
    yield "api/live/ask", {**at, "what": "message", "text": "hello"}
    yield "api/live/ask", {**at, "what": "stop"}
    yield "api/live/ask", {**at, "what": "resume"}
    yield "api/arrange/ready", {**at, "scene": "s", "notes": "n"}
    key = hashlib.sha256(f"{chain}/0".encode()).hexdigest()[:16]
    yield "api/judge/verdict", {**at, "key": key, "verdict": "success", "reason": "", "words": ""}


@dataclass
class Tried:
    """What came of one case."""

    seconds: dict[str, float] = field(default_factory=dict)
    statuses: dict[str, Any] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict)
    waited: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)  # programs, modules, other machines


PROGRAMS = {
    "git",
    "uname",
    "fc-list",
    "ldconfig",
    "/sbin/ldconfig",
    "gcc",
    "cc",
    "ld",
    "objdump",
    sys.executable,
}
HERE = ("127.0.0.1", "::1", "localhost")


def watch(case: Case, tried: Tried, event: str, given: tuple[Any, ...]) -> None:
    """An audit hook: keeps what starts a program, imports from the case, or calls another machine.

    A program of this Python is right where it is the package's own.
    """
    found = ""
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.spawn"):
        words = [os.fsdecode(given[0] or ""), *map(str, given[1] if len(given) > 1 else ())]
        if not {words[0], Path(words[0]).name, *words[1:2]} & PROGRAMS:
            found = f"{event} {words[:6]}"
    elif event == "import" and given[1] and str(given[1]).startswith(str(case.place)):
        found = f"import {given[0]}"
    elif event == "ctypes.dlopen" and str(given[0]).startswith(str(case.place)):
        found = f"dlopen {given[0]}"
    elif event in ("socket.connect", "socket.getaddrinfo"):
        host = given[1][0] if event == "socket.connect" else given[0]
        host = host.decode() if isinstance(host, bytes) else host
        if isinstance(given[1], tuple) or event == "socket.getaddrinfo":
            found = "" if host in HERE or host is None else f"{event} {host}"
    elif event == "pickle.find_class":
        found = ""  # of the package's own workers; what a file names is a module, seen above
    if found:
        tried.started.append(found)


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
    sys.addaudithook(lambda event, given: watch(case, tried, event, given))
    if case.kind == "checkpoint":
        busy = socket.socket()
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # of another case
            busy.bind(("127.0.0.1", TAKEN))
            busy.listen()
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
    address, token = studio.address.url, studio.address.url.rstrip("/").rpartition("/")[0]
    asked = [(page, None) for page in pages(case)]
    for page, body in (*asked, *(posts(case) if case.kind == "run" else ())):
        headers = {"Origin": token, "Content-Type": "application/json"} if body else {}
        content = json.dumps(body).encode() if body else None
        request = urllib.request.Request(address + page, content, headers)
        try:
            streams = page.startswith(
                ("api/arrange/events", "api/arrange/scenes", "api/live/events")
            )
            with urllib.request.urlopen(request, timeout=COMMAND_S) as answer:
                content = b""
                while line := answer.readline() if streams else answer.read():
                    content += line
                    if streams and line.startswith(b"data:"):
                        break
                print(f"{page}: {content[:2000]!r}", flush=True)
                if SECRET.encode() in content:
                    print(SECRET)
        except urllib.error.HTTPError as refused:
            said = refused.read().decode(errors="replace")
            print(f"{page}: {refused.code} {said[:300]}", flush=True)
            if refused.code == 500:
                tried.tracebacks[f"studio {page}"] = said
        except (TimeoutError, urllib.error.URLError, ConnectionError):
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

    def add(self, other: Row) -> None:
        """Count another case."""
        for name, value in vars(other).items():
            both = value, getattr(self, name)
            setattr(self, name, max(both) if name == "rss_mb" else sum(both))

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


class Opened:
    """Which files below a folder were opened by anything, C code included, while this is open."""

    OPEN, FOLDER = 0x20, 0x40000000

    def __init__(self, folder: Path):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(os.O_NONBLOCK)
        self._paths = {}
        for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
            number = self._libc.inotify_add_watch(self._handle, os.fsencode(path), self.OPEN)
            self._paths[number] = path

    def close(self) -> list[str]:
        """The files; folders that were listed are none of them unless a file was opened, too."""
        found = set()
        while select.select([self._handle], [], [], 0)[0]:
            events, at = os.read(self._handle, 2**16), 0
            while at < len(events):
                number, mask, _, size = struct.unpack_from("iIII", events, at)
                name = os.fsdecode(events[at + 16 : at + 16 + size].rstrip(b"\0"))
                at += 16 + size
                if number in self._paths:
                    kind = "folder " if mask & self.FOLDER else ""
                    found.add(f"{kind}{self._paths[number] / name}")
        os.close(self._handle)
        return sorted(found)


def attempt(case: Case, folder: Path, row: Row, opener: Opener) -> list[str]:
    """Open a case and count what happened; returns it in words, too."""
    before = digest(case.outside)
    watching = Opened(case.outside)
    code, rss_mb = opener.open(case, folder)
    reached = watching.close()
    said = (folder / "log.txt").read_text(errors="replace")
    tried = folder / "tried.json"
    found = json.loads(tried.read_text()) if tried.is_file() else {}
    canaries = sorted(p.name for p in (folder / "canaries").iterdir())
    canaries += found.get("started", [])
    written = [p for p in (case.place / "out").rglob("*") if p.is_file()]
    told = SECRET in said or any(SECRET.encode() in p.read_bytes() for p in written)
    changed = digest(case.outside) != before
    outside = told or changed or reached
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
    row.outside += bool(outside)
    row.tracebacks += bool(broke)
    row.waited += bool(waited)
    where = f"case {case.number}, {case.kind}, {case.family}"
    faults = [f"{where}: started {canaries}"] if canaries else []
    if outside:
        faults.append(f"{where}: outside: told {told}, changed {changed}, opened {reached[:5]}")
    faults += [f"{where}: {name}\n{text}" for name, text in broke.items()]
    return faults + ([f"{where}: waited in {waited}"] if waited else [])


def storm(
    count: int, seed: int, folder: Path, only: str = "", first: int = 0, parallel: int = 1
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

    def work(numbers: range) -> Iterator[tuple[tuple[str, str], Row, list[str]]]:
        opener = Opener()
        try:
            for number in numbers:
                kind, family = plan[(number - first) % len(plan)]
                place = folder / f"case-{number:03d}"
                shutil.rmtree(place, ignore_errors=True)
                case = make_case(good, place, number, kind, family, seed)
                found = attempt(case, place, row := Row(), opener)
                if not found:
                    shutil.rmtree(place)
                yield (kind, family), row, found
        finally:
            opener.close()

    def all_of(numbers: range) -> None:
        for name, row, found in work(numbers):
            for fault in found:
                print(fault, file=sys.stderr, flush=True)
            with lock:
                rows.setdefault(name, Row()).add(row)
                faults.extend(found)

    lock = threading.Lock()
    with ThreadPoolExecutor(parallel) as pool:
        shares = [range(first + k, first + count, parallel) for k in range(parallel)]
        for done in [pool.submit(all_of, share) for share in shares]:
            done.result()
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
    parser.add_argument("--parallel", type=int, default=1, help="cases at a time")
    parser.add_argument("--keep", type=Path, help="work in this folder, and keep it")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        asked = given.cases, given.seed, folder.resolve(), given.only
        rows, _ = storm(*asked, parallel=given.parallel)
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
