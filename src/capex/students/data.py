"""Demonstrations for training: every frame unpacked once into one memory-mapped file.

A pack is a folder: pack.json (cameras, names, episodes), images.npy (N, cameras, H, W, 3) uint8,
table.npz (state, action). A LeRobot v3 dataset is unpacked on first use into DATASET/.frames; the
pack there is used again while the dataset's files have not changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.run.files import read_json, write_json
from capex.run.steps import read_arrays
from capex.untrusted import damage, opened, picture, require_plain_tree

FORMAT = 1
FRAMES_FOLDER = ".frames"
IMAGES = "images.npy"
# Actions that command a state; the others are speeds.
COMMANDS = ("gripper", "mode")
# A waiting demonstrator commands and measures less than these.
STILL_ACTION, STILL_STATE = 0.02, 1e-3
PROGRESS = 32  # moments at which motions are compared
# Where the robot stands on the floor is not an input: the paper's students see the arm only
HIDDEN_STATE = "base_"


@dataclass(frozen=True)
class Demonstration:
    """One demonstration: its frames [begin, end) and where it came from."""

    begin: int
    end: int
    instruction: str
    world: str = ""
    task: str = ""
    start: int = -1
    seed: int = 0
    source: str = ""  # the method that made it
    stand_in: bool = False  # its demonstrator stands in for a model or a human
    certified: bool = False
    judge: str = ""  # who judged it, where no certificate can be had

    @property
    def trusted(self) -> bool:
        """Whether its success was certified, or judged by a person."""
        return self.certified or bool(self.judge)


@dataclass(frozen=True)
class Demonstrations:
    """Frames of one or more datasets with the same cameras, sizes and orders."""

    cameras: tuple[str, ...]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    fps: float
    images: tuple[npt.NDArray[np.uint8], ...]  # one memory map per dataset, (n, cameras, H, W, 3)
    states: npt.NDArray[np.float32]  # (N, S)
    actions: npt.NDArray[np.float32]  # (N, A)
    episodes: tuple[Demonstration, ...]
    names: tuple[str, ...]
    rows: npt.NDArray[np.int64]  # (N,) where each frame's images are, counted through all datasets

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the images."""
        _, _, height, width, _ = self.images[0].shape
        return width, height

    @property
    def instructions(self) -> tuple[str, ...]:
        """Different instructions, in order of appearance."""
        return tuple(dict.fromkeys(e.instruction for e in self.episodes))

    def numbers(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """States and actions of all episodes, one after the other."""
        rows = np.concatenate([np.arange(e.begin, e.end) for e in self.episodes])
        return self.states[rows], self.actions[rows]


def load(
    datasets: Sequence[Path],
    *,
    window: int,
    uncertified: bool = False,
    task: str = "",
    only: Sequence[int] = (),
    drop_still: bool = False,
    agree: int = 0,
) -> Demonstrations:
    """Open datasets for training; anything unfit is refused with a sentence before it begins.

    `task` (WORLD:TASK) and `only` take the demonstrations of one task and of some starts, one for
    each start. `drop_still` leaves out frames in which a demonstrator only waits: a policy without
    memory that has learned to wait goes on waiting. `agree` takes so many demonstrations of each
    dataset whose motions are most alike.
    """
    if not datasets:
        raise CapexError(
            "no dataset was given; name one folder or several", code=ErrorCode.MISSING_SETTING
        )
    packs = [open_pack(path) for path in datasets]
    packs = [replace(p, episodes=_chosen(p, task, only)) for p in packs]
    if drop_still:
        packs = [_moving(p) for p in packs]
    if agree:
        packs = [replace(p, episodes=most_alike(p, agree)) for p in packs]
    first = packs[0]
    for path, pack in zip(datasets, packs, strict=True):
        _check(path, pack, window, uncertified)
        for what in ("cameras", "state_names", "action_names", "fps"):
            mine, theirs = getattr(pack, what), getattr(first, what)
            if mine != theirs:
                raise CapexError(
                    f"{path} has {what} {_short(mine)} and {datasets[0]} {_short(theirs)}; datasets"
                    " trained together must agree",
                    code=ErrorCode.MISMATCH,
                )
        if pack.images[0].shape[1:] != first.images[0].shape[1:]:
            mine, theirs = pack.images[0].shape[2:4], first.images[0].shape[2:4]
            raise CapexError(
                f"{path} has images {mine[1]}x{mine[0]} and {datasets[0]} {theirs[1]}x{theirs[0]};"
                " export both at one size",
                code=ErrorCode.MISMATCH,
            )
    return _joined(packs)


def open_pack(path: Path) -> Demonstrations:
    """A pack, or a LeRobot dataset with its pack made when needed. DamagedFile where it holds
    something else than this version writes.
    """
    with damage(path):
        return _open_pack(path)


def _open_pack(path: Path) -> Demonstrations:
    if path.is_dir():
        require_plain_tree(path)
    if (path / "pack.json").is_file():
        return _read_pack(path)
    if not (path / "meta" / "info.json").is_file():
        raise CapexError(
            f"{path} is no dataset: it has no meta/info.json; give a folder that `capex export"
            " --format lerobot` wrote",
            code=ErrorCode.WRONG_CONTENT,
        )
    pack, of = path / FRAMES_FOLDER, _fingerprint(path)
    if (pack / "pack.json").is_file() and read_json(pack / "pack.json").get("of") == of:
        return _read_pack(pack)
    from capex.students import lerobot_reader

    source = lerobot_reader.open_dataset(path)
    numbers = (source.states, source.actions)
    write_pack(pack, source.head | {"of": of}, source.frames(), *numbers, source.episodes)
    return _read_pack(pack)


def write_pack(
    folder: Path,
    head: Mapping[str, Any],
    frames: Iterator[npt.NDArray[np.uint8]],
    states: npt.NDArray[np.float32],
    actions: npt.NDArray[np.float32],
    episodes: Sequence[Demonstration],
) -> None:
    """Write a pack whole: into a neighbour, then renamed. A frame is (cameras, H, W, 3)."""
    neighbour = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        images: np.memmap[Any, np.dtype[np.uint8]] | None = None
        count = 0
        for count, frame in enumerate(frames, start=1):
            if images is None:
                shape = (len(states), *frame.shape)
                images = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
                    neighbour / IMAGES, "w+", np.uint8, shape
                )
            if frame.shape != images.shape[1:]:
                raise CapexError(
                    f"frame {count - 1} has images {frame.shape} and the ones before"
                    f" {images.shape[1:]}; one size is needed",
                    code=ErrorCode.DAMAGED_FILE,
                )
            images[count - 1] = frame
        if images is None or count != len(states):
            raise CapexError(
                f"{folder.parent} holds {count} frames of images and {len(states)} rows of numbers;"
                " they must agree",
                code=ErrorCode.DAMAGED_FILE,
            )
        images.flush()
        finish_pack(neighbour, head, states, actions, episodes)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(neighbour, folder)
    except BaseException:
        shutil.rmtree(neighbour, ignore_errors=True)
        raise


def finish_pack(
    folder: Path,
    head: Mapping[str, Any],
    states: npt.NDArray[np.float32],
    actions: npt.NDArray[np.float32],
    episodes: Sequence[Demonstration],
) -> None:
    """Write what a pack holds besides its images."""
    np.savez(folder / "table.npz", states=states, actions=actions)
    rows = [asdict(e) for e in episodes]
    write_json(folder / "pack.json", {"format": FORMAT, **head, "episodes": rows})


def _read_pack(folder: Path) -> Demonstrations:
    head = read_json(folder / "pack.json")
    if head.get("format") != FORMAT:
        raise CapexError(
            f"{folder} is a pack of format {head.get('format')}; this version reads {FORMAT}:"
            " delete it and it is made again",
            code=ErrorCode.WRONG_CONTENT,
        )
    table = read_arrays(folder / "table.npz")
    states, actions = table["states"], table["actions"]
    images = _mapped(folder / IMAGES, len(states))
    episodes = tuple(Demonstration(**e) for e in head["episodes"])
    names = {name: head[name] for name in ("cameras", "state_names", "action_names")}
    if not all(isinstance(n, str) for given in names.values() for n in given):
        raise ValueError("a name of a camera or a number is no text")
    sizes = {"cameras": images.shape[1], "state_names": states.shape[1]}
    sizes |= {"action_names": actions.shape[1]}
    for name, size in sizes.items():
        if len(names[name]) != size:
            raise ValueError(f"it has {len(names[name])} {name} for {size} columns")
    if len(actions) != len(states) or images.shape[-1] != 3 or not 0 < head["fps"] < 1e6:
        raise ValueError("its states, actions and pictures do not fit each other")
    for episode in episodes:
        _require_sound(episode, len(states))
    keep = [k for k, name in enumerate(head["state_names"]) if not name.startswith(HIDDEN_STATE)]
    return Demonstrations(
        tuple(head["cameras"]),
        tuple(head["state_names"][k] for k in keep),
        tuple(head["action_names"]),
        float(head["fps"]),
        (images,),
        np.ascontiguousarray(states[:, keep]),
        actions,
        episodes,
        (folder.parent.name if folder.name == FRAMES_FOLDER else folder.name,),
        np.arange(len(states)),
    )


def _require_sound(episode: Demonstration, frames: int) -> None:
    """ValueError unless every field has its type, and the frames are there."""
    for f in fields(Demonstration):
        if type(value := getattr(episode, f.name)).__name__ != f.type:
            raise ValueError(f"the {f.name} of an episode is {value!r}; {f.type} is right")
    if not 0 <= episode.begin < episode.end <= frames:
        raise ValueError(f"an episode has frames {episode.begin} to {episode.end} of {frames}")


def _mapped(path: Path, frames: int) -> np.memmap[Any, np.dtype[np.uint8]]:
    """The pictures of a pack, mapped; DamagedFile where the file does not hold them."""
    try:
        opened(path).close()
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise DamagedFile(path, f"it cannot be read ({error})") from None
    if not isinstance(images, np.memmap) or images.dtype != np.uint8 or images.ndim != 5:
        raise DamagedFile(path, "it holds no frames (frame, camera, height, width, 3)")
    if len(images) != frames:
        raise DamagedFile(path, f"it holds {len(images)} frames, and there are {frames} states")
    return images


def of_task(pack: Demonstrations, task: str) -> tuple[Demonstration, ...]:
    """The demonstrations of one WORLD:TASK; all of them when it is empty."""
    return tuple(e for e in pack.episodes if task in ("", f"{e.world}:{e.task}"))


def _chosen(pack: Demonstrations, task: str, only: Sequence[int]) -> tuple[Demonstration, ...]:
    candidates = of_task(pack, task)
    first = {e.start: e for e in reversed(candidates)}
    return tuple(first[start] for start in only if start in first) if only else candidates


def _joined(packs: Sequence[Demonstrations]) -> Demonstrations:
    episodes, rows, offset, images = [], [], 0, 0
    for pack in packs:
        episodes += [replace(e, begin=e.begin + offset, end=e.end + offset) for e in pack.episodes]
        rows.append(pack.rows + images)
        offset += len(pack.states)
        images += len(pack.images[0])
    return replace(
        packs[0],
        images=tuple(p.images[0] for p in packs),
        states=np.concatenate([p.states for p in packs]),
        actions=np.concatenate([p.actions for p in packs]),
        episodes=tuple(episodes),
        names=tuple(name for p in packs for name in p.names),
        rows=np.concatenate(rows),
    )


def _moving(pack: Demonstrations) -> Demonstrations:
    """Each episode's first frame, and those in which something moves or is newly commanded."""
    is_command = np.array([name.endswith(COMMANDS) for name in pack.action_names])
    motions, commands = np.flatnonzero(~is_command), np.flatnonzero(is_command)
    kept, episodes, count = [], [], 0
    for e in pack.episodes:
        states, actions = pack.states[e.begin : e.end], pack.actions[e.begin : e.end]
        still = np.abs(actions[:, motions]).max(axis=1) < STILL_ACTION
        still[1:] &= (actions[1:, commands] == actions[:-1, commands]).all(axis=1)
        still[1:] &= np.abs(np.diff(states, axis=0)).max(axis=1) < STILL_STATE
        still[0] = False
        mine = e.begin + np.flatnonzero(~still)
        kept.append(mine)
        episodes.append(replace(e, begin=count, end=count + len(mine)))
        count += len(mine)
    frames = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
    numbers = {name: getattr(pack, name)[frames] for name in ("states", "actions", "rows")}
    return replace(pack, episodes=tuple(episodes), **numbers)


def most_alike(pack: Demonstrations, count: int) -> tuple[Demonstration, ...]:
    """The demonstrations of each task whose motions are nearest to all others', in their order.

    A motion is what was commanded up to each of PROGRESS moments, summed; the distance of two is
    the root mean square over moments and actions, each in its deviations.
    """
    kept: set[int] = set()
    for task in dict.fromkeys((e.world, e.task) for e in pack.episodes):
        mine = [k for k, e in enumerate(pack.episodes) if (e.world, e.task) == task]
        paths = []
        for e in (pack.episodes[k] for k in mine):
            summed = np.cumsum(pack.actions[e.begin : e.end], axis=0, dtype=np.float64)
            at = np.linspace(0, len(summed) - 1, PROGRESS).round().astype(int)
            paths.append(summed[at])
        motions = np.stack(paths)  # (n, PROGRESS, A)
        motions /= np.maximum(motions.std(axis=(0, 1)), 1e-6)
        apart = np.sqrt(((motions[:, None] - motions[None]) ** 2).mean(axis=(2, 3)))
        nearest = np.argsort(apart.mean(axis=1), kind="stable")[:count]
        kept |= {mine[k] for k in nearest}
    return tuple(e for k, e in enumerate(pack.episodes) if k in kept)


def _check(path: Path, pack: Demonstrations, window: int, uncertified: bool) -> None:
    if not pack.episodes:
        raise CapexError(
            f"{path} holds no episode that was asked for; export at least one success",
            code=ErrorCode.NO_DATA,
        )
    for what in ("state", "action"):
        values, names = getattr(pack, f"{what}s"), getattr(pack, f"{what}_names")
        for row, column in np.argwhere(~np.isfinite(values)):
            raise CapexError(
                f"{path}: {what} '{names[column]}' of frame {pack.rows[row]} is"
                f" {values[row, column]}; every number must be finite",
                code=ErrorCode.DAMAGED_FILE,
            )
    for k, e in enumerate(pack.episodes):
        if e.end - e.begin < window:
            raise CapexError(
                f"{path}: episode {k} has {e.end - e.begin} frames and the policy looks {window}"
                " ahead; leave it out",
                code=ErrorCode.NO_DATA,
            )
    missing = [k for k, e in enumerate(pack.episodes) if not (e.trusted or uncertified)]
    if missing:
        raise CapexError(
            f"{path}: {len(missing)} of {len(pack.episodes)} episodes have no certificate (first:"
            f" episode {missing[0]}); run `capex certify` and export again, or allow them with"
            " --uncertified",
            code=ErrorCode.NOT_PERMITTED,
        )


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _fingerprint(path: Path) -> str:
    """Changes when any file of the dataset does."""
    digest = hashlib.sha256()
    for folder in ("meta", "data"):
        for file in sorted(p for p in (path / folder).rglob("*") if p.is_file()):
            stat = file.stat()
            digest.update(f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def decode_pngs(cells: Sequence[bytes]) -> Iterator[npt.NDArray[np.uint8]]:
    """Decoded RGB images in order, on a few threads; a few at a time, for they may be large."""

    def decode(cell: bytes) -> npt.NDArray[np.uint8]:
        return np.asarray(picture(cell).convert("RGB"), dtype=np.uint8)

    threads = min(16, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(cells), threads):
            yield from pool.map(decode, cells[first : first + threads])
