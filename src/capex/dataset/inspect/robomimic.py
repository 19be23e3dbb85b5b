"""robomimic and RoboCasa HDF5 files: one group per demonstration under /data."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from capex.dataset.inspect.model import Claims, DatasetFeature, Entry, Findings, Frames, FrameShot
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.untrusted import FAULTS, FILE_MOST, PIXELS_MOST, damage, loads, opened

PACKED_MOST = 1100  # bytes that one stored byte can stand for: deflate's limit


class Robomimic:
    """An opened HDF5 file."""

    def __init__(self, path: Path, findings: Findings):
        self.path, self._findings, self.files = path.parent, findings, 1
        self._name = path.name
        with damage(path):
            opened(path).close()
            self._file = h5py.File(path, "r")
            _require_own(self._file, path)
            if "data" not in self._file or not isinstance(self._file["data"], h5py.Group):
                raise CapexError(
                    f"{path} has no group /data; robomimic's demonstrations are /data/demo_0 ..",
                    code=ErrorCode.WRONG_CONTENT,
                )
            self._data = self._file["data"]
            names = sorted((n for n in self._data if n.startswith("demo")), key=_number)
        self._features: dict[str, DatasetFeature] = {}
        entries = []
        for number, name in enumerate(names):
            try:
                with damage(path):
                    entries.append(self._entry(number, name))
            except DamagedFile as damaged:
                findings.add("files", f"{self._name}: {name} cannot be read: {damaged.reason}")
        self.entries = tuple(entries)
        total = self._data.attrs.get("total")
        texts = tuple(dict.fromkeys(t for e in entries for t in e.tasks))
        ours = any(e.provenance for e in entries)
        self.claims = Claims(
            "robomimic HDF5",
            None,
            {} if total is None else {"frames": int(total)},
            self._features,
            {},
            texts,
            ours,
        )
        if not entries:
            findings.add("counts", f"{self._name} holds no demonstration (/data/demo_0 ..)")

    def frames(self) -> Iterator[Frames]:
        """Every demonstration in the order of their numbers."""
        for entry in self.entries:
            try:
                with damage(self.path / self._name):
                    frames = self._frames(entry)
            except DamagedFile as damaged:
                said = f"{self._name}: {entry.name} cannot be read: {damaged.reason}"
                self._findings.add("files", said)
                continue
            yield frames

    def finish(self) -> None:
        """Masks name demonstrations that exist; env_args is JSON."""
        known, groups = {e.name for e in self.entries}, {}
        masks = self._file.get("mask")
        for mask in masks if isinstance(masks, h5py.Group) else ():
            with contextlib.suppress(*FAULTS):
                members = {m.decode() if isinstance(m, bytes) else str(m) for m in masks[mask][:]}
                groups[mask] = members
                for name in sorted(members - known):
                    self._findings.add(
                        "order", f"{self._name}: mask/{mask} names {name}, which is not there"
                    )
        for name in sorted(groups.get("train", set()) & groups.get("valid", set())):
            self._findings.add("order", f"{self._name}: {name} is in mask/train and mask/valid")
        try:
            loads(str(self._data.attrs["env_args"]))
        except FAULTS:
            self._findings.warn(
                "files", f"{self._name}: /data has no env_args in JSON, which robomimic reads"
            )
        self._file.close()

    def _entry(self, number: int, name: str) -> Entry:
        demo = self._data[name]
        for key, values in _datasets(demo):
            feature = _feature(key, values)
            known = self._features.setdefault(key, feature)
            if known != feature:
                self._findings.add(
                    "features",
                    f"{self._name}: {name} has {key} as {feature.dtype} {feature.shape}; the ones"
                    f" before have {known.dtype} {known.shape}",
                )
        for key in ("actions", "obs"):
            if key not in demo:
                self._findings.add("features", f"{self._name}: {name} has no {key}")
        length = demo.attrs.get("num_samples")
        if length is None:
            self._findings.add("counts", f"{self._name}: {name} has no attribute num_samples")
            length = len(demo["actions"]) if "actions" in demo else 0
        meta, provenance = _json(demo, "ep_meta"), _json(demo, "capex")
        tasks = (str(meta["lang"]),) if "lang" in meta else ()
        return Entry(number, name, int(length), self._name, tasks, provenance=provenance)

    def _frames(self, entry: Entry) -> Frames:
        demo, numbers, pictures = self._data[entry.name], {}, {}
        for key, values in _datasets(demo):
            if len(values) != entry.length:
                self._findings.add(
                    "counts",
                    f"{self._name}: {entry.name} has {len(values)} rows of {key} and num_samples"
                    f" {entry.length}",
                )
            feature = self._features[key]
            if _feature(key, values) != feature:
                continue  # told when the file was opened
            if feature.kind == "number":
                numbers[key] = np.asarray(values[:]).reshape(len(values), -1)
            else:
                pictures[key] = _shots(values)
        for key in sorted(set(self._features) - {k for k, _ in _datasets(demo)}):
            self._findings.add("features", f"{self._name}: {entry.name} has no {key}")
        return Frames(entry.index, self._name, entry.length, numbers, pictures)


def _require_own(file: h5py.File, path: Path) -> None:
    """DamagedFile where a file takes in another one: by a link, or as the numbers of an array; or
    where an array is larger than what is read.
    """
    groups, seen, held = [file["/"]], set(), 0
    while groups:
        group = groups.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise DamagedFile(path, f"{group.name} links to another file, {link.filename}")
            if isinstance(link, h5py.SoftLink):
                continue
            item = group[name]
            if isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise DamagedFile(path, f"{item.name} takes its numbers from another file")
                whole = math.prod(item.shape or ()) * item.dtype.itemsize
                stored = item.id.get_storage_size()
                by_frame = _feature(item.name, item).kind != "number"
                size = whole // max(1, item.shape[0]) if by_frame and item.shape else whole
                most = 4 * PIXELS_MOST if by_frame else FILE_MOST
                # What was never written takes no place in the file, and all of it in memory.
                held += max(0, whole - PACKED_MOST * stored)
                if size > most or held > FILE_MOST:
                    raise DamagedFile(path, f"{item.name} has {whole:,} bytes; too many to be read")
            elif isinstance(item, h5py.Group) and item.id.__hash__() not in seen:
                seen.add(item.id.__hash__())
                groups.append(item)


def _number(name: str) -> tuple[int, str]:
    digits = re.findall(r"\d+", name)
    return (int(digits[-1]) if digits else -1, name)


def _json(demo: h5py.Group, attribute: str) -> dict[str, Any]:
    try:
        loaded = loads(str(demo.attrs.get(attribute, "{}")))
    except ValueError:
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _datasets(demo: h5py.Group) -> list[tuple[str, h5py.Dataset]]:
    """Every array with a row per frame, by its path below the demonstration."""
    found: list[tuple[str, h5py.Dataset]] = []
    demo.visititems(
        lambda name, item: (
            found.append((name, item)) if isinstance(item, h5py.Dataset) and item.shape else None
        )
    )
    return [(k, v) for k, v in found if not k.startswith("next_obs/") and v.dtype.kind in "biuf"]


def _feature(key: str, values: h5py.Dataset) -> DatasetFeature:
    shape, dtype = tuple(values.shape[1:]), str(values.dtype)
    if len(shape) == 3 and key.endswith("_depth"):
        return DatasetFeature("depth", dtype, shape)
    picture = len(shape) == 3 and dtype == "uint8"
    return DatasetFeature("picture" if picture else "number", dtype, shape)


def _shots(values: h5py.Dataset) -> Iterator[FrameShot]:
    for frame in range(len(values)):
        try:
            yield FrameShot(np.asarray(values[frame]))
        except FAULTS as error:
            yield FrameShot(None, f"the picture cannot be read ({error})")
