"""Numbered files that grow until they are large, as in LeRobot v3: 1,000 files per chunk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from capex.dataset.video import Joined

FILES_PER_CHUNK = 1000
DATA_FILE_MB, VIDEO_FILE_MB = 100, 200
FileNumber = tuple[int, int]  # chunk, file


class Numbering:
    """Which file comes next."""

    def __init__(self, root: Path, pattern: str):
        self._root, self._pattern, self.number = root, pattern, (0, -1)

    def next(self) -> Path:
        """The path of the next file; its folder exists."""
        chunk, file = self.number
        chunk, file = (chunk, file + 1) if file + 1 < FILES_PER_CHUNK else (chunk + 1, 0)
        self.number = chunk, file
        path = self._root / self._pattern.format(chunk_index=chunk, file_index=file)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class ParquetFiles:
    """Tables one after another, each a row group of its own."""

    def __init__(self, root: Path, pattern: str, schema: pa.Schema, compression: str = "snappy"):
        self._numbering = Numbering(root, pattern)
        self._schema, self._compression = schema, compression
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def append(
        self, table: pa.Table | Callable[[FileNumber], pa.Table], size_bytes: int
    ) -> FileNumber:
        """Write a table, or one that depends on where it goes; returns the file it went to."""
        if self._file is not None and self._file.tell() + size_bytes > DATA_FILE_MB * 2**20:
            self.close()
        if self._file is None:
            self._file = open(self._numbering.next(), "wb")  # noqa: SIM115 - closed by `close`
            self._writer = pq.ParquetWriter(self._file, self._schema, compression=self._compression)
        rows = table(self._numbering.number) if callable(table) else table
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        return self._numbering.number

    def close(self) -> None:
        """Finish the file that is open."""
        if self._file is not None:
            self._writer.close()
            self._file.close()
            self._file = None


class VideoFiles:
    """Segments one after another."""

    def __init__(self, root: Path, pattern: str, fps: int):
        self._numbering, self._fps = Numbering(root, pattern), fps
        self._open: Joined | None = None

    def append(self, segment: Path, frames: int) -> tuple[FileNumber, tuple[float, float]]:
        """Join a segment; returns its file and the seconds it spans there."""
        size_bytes = segment.stat().st_size
        if self._open is not None and self._open.size_bytes + size_bytes > VIDEO_FILE_MB * 2**20:
            self.close()
        if self._open is None:
            self._open = Joined(self._numbering.next(), self._fps)
        return self._numbering.number, self._open.append(segment, frames)

    def close(self) -> None:
        """Finish the file that is open."""
        if self._open is not None:
            self._open.close()
            self._open = None
