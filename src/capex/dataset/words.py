"""Texts in LeRobot's columns: rows of `language_persistent`, or numbers that point into a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capex.dataset.features import LANGUAGE_COLUMNS
from capex.dataset.language import Span


class Texts:
    """Texts by number, in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, a new one if need be."""
        return self._numbers.setdefault(text, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def numbered_columns(
    words: Sequence[Span], frames: int, columns: Mapping[str, str], texts: Texts
) -> dict[str, pa.Array]:
    """For each style in `columns` the column of that name: the number of the text that holds."""
    numbers = {style: np.full(frames, -1, dtype=np.int64) for style in columns}
    for span in words:
        if span.style in columns:
            numbers[span.style][span.from_frame : span.to_frame] = texts.number(span.text)
    return {columns[style]: pa.array(values) for style, values in numbers.items()}


def language_columns(words: Sequence[Span], timestamps_s: pa.ChunkedArray) -> dict[str, pa.Array]:
    """LeRobot's language columns: in every frame all texts of the episode with the time from which
    they hold, by time and style; no events.
    """
    times, frames = timestamps_s.to_pylist(), len(timestamps_s)
    rows = [
        {
            "role": "assistant",
            "content": span.text,
            "style": span.style,
            "timestamp": times[span.from_frame],
            "camera": None,
            "tool_calls": None,
        }
        for span in sorted(words, key=lambda span: (span.from_frame, span.style))
    ]
    every_frame = pa.array(np.zeros(frames, dtype=np.int64))
    persistent, events = LANGUAGE_COLUMNS.values()
    return {
        name: pa.array([content], type=kind).take(every_frame)
        for name, kind, content in zip(
            LANGUAGE_COLUMNS, (persistent, events), (rows, []), strict=True
        )
    }


def write_texts(path: Path, column: str, texts: Texts) -> None:
    """meta/tasks.parquet or meta/subtasks.parquet as pandas reads it: the text is the index, the
    number the only column.
    """
    index = "__index_level_0__"
    numbers = pa.array(range(len(texts)), pa.int64())
    table = pa.table({column: numbers, index: pa.array(list(texts), pa.string())})
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    columns = [
        dict(zip(keys, (column, column, "int64", "int64", None), strict=True)),
        dict(zip(keys, (None, index, "unicode", "object", None), strict=True)),
    ]
    pandas = {"index_columns": [index], "column_indexes": [], "columns": columns}
    pandas["pandas_version"] = "2.0.0"
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
