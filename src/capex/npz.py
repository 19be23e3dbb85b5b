"""Arrays from an .npz archive of unknown origin. Sizes are read and limited before anything is
unpacked, and nothing in it is executed.

A few bytes of zip can stand for gigabytes, and a header can promise an array that is not there:
numpy's own reader allocates what it says.
"""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode


class NotReadable(CapexError):
    """An archive whose arrays are not read; the sentence says why."""

    code = ErrorCode.UNREADABLE_FILE


ReadHeader = Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]
HEADERS: dict[tuple[int, int], ReadHeader] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy's own; these unpack piece by piece
DAMAGED_ZIP = (
    *(zlib.error, zipfile.BadZipFile, struct.error, EOFError, OSError, RuntimeError),
    MemoryError,
)
DAMAGED_HEADER = (ValueError, TypeError, KeyError, OverflowError, SyntaxError, tokenize.TokenError)


def read_npz(source: IO[bytes] | Path, most_bytes: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays by name, at most `most_bytes` in all; anything else is refused."""
    try:
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
            total = sum(entry.file_size for entry in entries)
            if total > most_bytes:
                raise NotReadable(f"it unpacks to {total} bytes; at most {most_bytes} are read")
            return {e.filename.removesuffix(".npy"): _array(archive, e) for e in entries}
    except (*DAMAGED_ZIP, *DAMAGED_HEADER) as error:
        raise NotReadable(f"it is no .npz archive ({error or type(error).__name__})") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    if entry.compress_type not in PLAIN:
        raise ValueError(f"{entry.filename} is packed in a way that numpy does not use")
    # Reads no more than the size that the archive's directory gives.
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
        if version not in HEADERS:
            raise ValueError(f"{entry.filename} is of an unknown version")
        shape, fortran, dtype = HEADERS[version](stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or any(n < 0 for n in shape) or size != entry.file_size - stream.tell():
            raise ValueError(f"{entry.filename} does not hold the array that it names")
        values = np.frombuffer(bytearray(stream.read(size)), dtype=dtype)  # may be changed
        return values.reshape(shape, order="F" if fortran else "C")
