"""Parquet files of unknown origin. A few bytes can stand for billions of rows, or for one text a
million times over, so sizes are looked at before a table is read, and while it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from capex.errors import DamagedFile
from capex.untrusted import FAULTS, opened

VALUES_MOST = 32 * 2**20  # numbers or texts of one column in one row group
BYTES_MOST = 512 * 2**20  # of a table in memory
ROWS_MOST = 2 * 2**20  # values of a table that becomes Python objects: what lists episodes, tasks
BATCH_BYTES, BATCH_ROWS = 64 * 2**20, 2**16
REPEATED = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}  # encodings that keep equal values once
TEXTS = {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """DamagedFile for whatever a broken Parquet file makes pyarrow raise."""
    try:
        yield
    except FileNotFoundError:
        raise DamagedFile(path, "it is missing") from None
    except (pa.ArrowException, *FAULTS) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFile(path, said[:200]) from None


def open_table(path: Path) -> pq.ParquetFile:
    """A Parquet file whose row groups have sizes that can be read."""
    with reading(path):
        opened(path).close()
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            row_group = file.metadata.row_group(group)
            for number in range(row_group.num_columns):
                column = row_group.column(number)
                if column.num_values > VALUES_MOST or row_group.num_rows > VALUES_MOST:
                    many = max(column.num_values, row_group.num_rows)
                    said = f"{column.path_in_schema} has {many:,} values in one row group"
                    raise DamagedFile(path, f"{said}; at most {VALUES_MOST:,} are read")
        return file


def read_table(
    path: Path, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> pa.Table:
    """The rows of a file, or of some row groups; DamagedFile where they are too much."""
    return read_groups(open_table(path), path, columns, groups)


def read_groups(
    file: pq.ParquetFile,
    path: Path,
    columns: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> pa.Table:
    """The rows of some row groups of an open file."""
    wanted = list(range(file.num_row_groups) if groups is None else groups)
    held, batches = 0, []
    with reading(path):
        named = None if columns is None else list(columns)
        rows = _batch_rows(file, wanted)
        for batch in file.iter_batches(rows, row_groups=wanted, columns=named):
            held += batch.nbytes
            if held > BYTES_MOST:
                raise DamagedFile(path, f"it unpacks to more than {BYTES_MOST:,} bytes")
            batches.append(batch)
        schema = file.schema_arrow
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)


def _batch_rows(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Rows that are unpacked at a time: few where each may repeat a long text."""
    longest = 1
    for group in groups:
        row_group = file.metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if column.physical_type in TEXTS and REPEATED & set(column.encodings):
                longest = max(longest, column.total_uncompressed_size)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // longest))
