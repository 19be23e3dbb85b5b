"""Reading files that strangers may have written: runs, datasets, checkpoints and reports.

Links, pipes and devices are not followed and not waited for, sizes are looked at before anything is
allocated, JSON has a limit of depth, and pictures come in the formats that this package writes.
Whatever is wrong is DamagedFile with a sentence.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image as PillowImage

from capex.errors import DamagedFile

JSON_MOST = 32 * 2**20  # bytes of one JSON text; a record of a long episode has a million
FILE_MOST = 256 * 2**20  # bytes of a file that is read whole
LINES_MOST = 2**18  # of one file; an episode has some thousands
DEPTH_MOST = 64  # levels of lists and objects; a record has nine
OPENINGS_MOST = 2**19  # brackets and quotes of one JSON text, each a value of its own in memory
PIXELS_MOST = 32 * 2**20  # of one picture or one frame of a video
PICTURES = ("PNG", "JPEG", "WEBP", "TIFF")  # TIFF: depth of LeRobot v3.1
LINK, NO_FILE = "it is a link, and links are not followed", "it is no regular file"
# What each byte of a JSON text adds to the depth; brackets within texts are counted, too.
_STEP = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1
# What values of another type than expected, and readers of damaged files, raise.
FAULTS = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError),
    *(OSError, EOFError, SyntaxError, RuntimeError, MemoryError, struct.error, zlib.error),
)
_FIELD = re.compile(r"\{([a-z_]+)(?::0?([0-9]{1,2})d)?\}")


@contextlib.contextmanager
def damage(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file or a folder, as DamagedFile."""
    try:
        yield
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror or error})") from None
    except KeyError as error:
        raise DamagedFile(path, f"it lacks {_short(error)}") from None
    except ValueError as error:
        raise DamagedFile(path, _short(error)) from None
    except FAULTS as error:
        raise DamagedFile(path, f"it garbles a field ({_short(error)})") from None


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


def opened(path: Path) -> IO[bytes]:
    """A regular file, open for reading. A link, a pipe or a device is DamagedFile."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError:
        if path.is_symlink():
            raise DamagedFile(path, LINK) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DamagedFile(path, NO_FILE)
    return open(handle, "rb")


def no_links(path: str, flags: int) -> int:
    """Opens a file for `open`, to write or to lock; a link is an OSError and leads nowhere."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def read_bytes(path: Path, most: int = FILE_MOST) -> bytes:
    """What a file holds; DamagedFile where that is more than `most` bytes."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(size + 1) if size <= most else b""  # reading takes what is asked for
    if max(size, len(content)) > most:
        raise DamagedFile(path, f"it has {size:,} bytes; at most {most:,} are read")
    return content


def lines(path: Path, most: int = JSON_MOST) -> Iterator[bytes]:
    """The lines of a file with their ends; DamagedFile at one of more than `most` bytes."""
    with opened(path) as file:
        number = 0
        while line := file.readline(most + 1):
            number += 1
            if number > LINES_MOST:
                raise DamagedFile(path, f"it has more than {LINES_MOST:,} lines")
            if len(line) > most:
                raise DamagedFile(path, f"line {number} has more than {most:,} bytes")
            yield line


def loads(text: str | bytes) -> Any:
    """What a JSON text holds; ValueError where it is none, too long, or nested too deeply."""
    if len(text) > JSON_MOST:
        raise ValueError(f"it has {len(text):,} characters; at most {JSON_MOST:,} are read")
    if _openings(text) > OPENINGS_MOST:
        raise ValueError(f"it has more than {OPENINGS_MOST:,} brackets and texts")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _may_be_deep(text) and _depth_beyond(value):
        raise ValueError("it is nested too deeply")
    return value


def _openings(text: str | bytes) -> int:
    """An upper bound on the texts, lists and objects that a text holds: each takes up to forty
    times as much memory as it has characters.
    """
    if isinstance(text, str):
        return text.count("[") + text.count("{") + text.count('"') // 2
    return text.count(b"[") + text.count(b"{") + text.count(b'"') // 2


def _may_be_deep(text: str | bytes) -> bool:
    """Whether a text may be deeper than the limit: an upper bound, without parsing."""
    whole = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if whole.count(b"[") + whole.count(b"{") <= DEPTH_MOST:
        return False
    steps = _STEP[np.frombuffer(whole, np.uint8)]
    return int(steps[steps != 0].cumsum(dtype=np.int64).max()) > DEPTH_MOST


def _depth_beyond(value: Any) -> bool:
    """Whether a value is deeper than the limit; without recursion."""
    level = [value]
    for _ in range(DEPTH_MOST):
        level = [
            inner
            for held in level
            if isinstance(held, list | dict)
            for inner in (held.values() if isinstance(held, dict) else held)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def read_json(path: Path, most: int = JSON_MOST) -> dict[str, Any]:
    """A JSON object from a file; a damaged one is refused with a sentence."""
    content = read_bytes(path, most)
    try:
        loaded = loads(content.decode("utf-8"))
    except ValueError as error:
        raise DamagedFile(path, str(error)) from None
    if not isinstance(loaded, dict):
        raise DamagedFile(path, "it holds no JSON object")
    return loaded


def require_plain(folder: Path) -> None:
    """DamagedFile where something in a folder is a link, a pipe, a socket or a device: what is
    read from the folder or written into it would reach beyond it, or wait for ever.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise DamagedFile(Path(entry.path), LINK)
            if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
                raise DamagedFile(Path(entry.path), NO_FILE)


def is_plain(folder: Path) -> bool:
    """Whether a folder is no link, and no link, pipe or device is in it or below; one that goes
    away is none.
    """
    if folder.is_symlink():
        return False
    try:
        require_plain_tree(folder)
    except (DamagedFile, OSError):
        return False
    return True


def require_plain_tree(folder: Path) -> None:
    """The same for a folder and everything below it: a dataset, whose files are many and large."""
    require_plain(folder)
    for place, folders, _ in os.walk(folder):
        for name in folders:
            require_plain(Path(place, name))


def within(folder: Path, name: str) -> Path:
    """A path that a file of a folder names, such as a camera's video; ValueError where it leads
    elsewhere.
    """
    path = folder / name
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name
    if not inside or not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"'{name[:80]}' leads outside its folder")
    return path


def fill(template: str, values: Mapping[str, str | int]) -> str:
    """A stranger's template with {name} and {name:03d} filled in. Nothing else of Python's format
    language is known: a width could ask for all memory, a field could reach into objects.
    ValueError where anything else stands there.
    """

    def value(field: re.Match[str]) -> str:
        name, width = field[1], field[2]
        if name not in values:
            raise ValueError(f"there is no '{name}'")
        if width is None:
            return str(values[name])
        if not isinstance(values[name], int):
            raise ValueError(f"'{name}' is no number")
        return f"{values[name]:0{int(width)}d}"

    filled = _FIELD.sub(value, template)
    if "{" in _FIELD.sub("", template) or "}" in _FIELD.sub("", template):
        raise ValueError("it may hold {name} and {name:03d} alone")
    return filled


def picture(content: bytes | IO[bytes]) -> PillowImage.Image:
    """A picture whose size was looked at and whose pixels are read; ValueError or OSError where it
    is none. Only the formats that this package writes: others have decoders that start programs.
    """
    source = io.BytesIO(content) if isinstance(content, bytes) else content
    try:
        opened_picture = PillowImage.open(source, formats=PICTURES)
        require_pixels(*opened_picture.size)
        opened_picture.load()
    except OSError:
        raise
    except (PillowImage.DecompressionBombError, *FAULTS) as error:
        raise ValueError(_short(error)) from None
    return opened_picture


def require_pixels(width: int, height: int) -> None:
    """ValueError for a picture that is too large to be decoded."""
    if not 0 < width * height <= PIXELS_MOST:
        raise ValueError(f"it has {width}x{height} pixels; at most {PIXELS_MOST:,} are decoded")
