"""LeRobot v3 folders: many episodes in a file, found by the rows of meta/episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capex.dataset.inspect import lerobot
from capex.dataset.inspect.lerobot_extras import check_extras
from capex.dataset.inspect.lerobot_tables import open_table, read_groups, reading
from capex.dataset.inspect.model import Entry, Findings, Frames, FrameShot
from capex.dataset.inspect.pictures import Videos
from capex.dataset.statistics import Stats
from capex.errors import CapexError, DamagedFile, ErrorCode

EPISODES, TASKS, STATS = "meta/episodes", "meta/tasks.parquet", "meta/stats.json"
OURS = "capex/"


class LeRobotV3:
    """An opened v3 folder."""

    def __init__(self, path: Path, findings: Findings):
        self.path, self._findings, self._info = path, findings, lerobot.read_info(path)
        self._rows = self._episode_rows()
        ours = any(f"{OURS}certified" in row for row in self._rows)
        self.claims = lerobot.make_claims(self._info, self._stats(), self._tasks(), ours, findings)
        self.entries = tuple(self._entry(n, row) for n, row in enumerate(self._rows))
        self._data = list(dict.fromkeys(entry.file for entry in self.entries))
        named = {path / file for file in self._data}
        for extra in sorted(set((path / "data").rglob("*.parquet")) - named):
            name = extra.relative_to(path).as_posix()
            findings.warn("files", f"{name} is named by no episode of {EPISODES}")
        self._videos = Videos(path, float(self._info["fps"]), findings)

    @property
    def files(self) -> int:
        """Files that hold the dataset."""
        return sum(
            path.is_file()
            for folder in ("meta", "data", "videos", "depth")
            for path in (self.path / folder).rglob("*")
        )

    def frames(self) -> Iterator[Frames]:
        """Every episode in the order of the data files."""
        for file in self._data:
            try:
                for index, table in self._tables(file):
                    at = (self.path, file, index)
                    features = self.claims.features
                    videos = self._filmed(index, self._videos)
                    yield lerobot.frames_of(table, features, at, videos, self._findings)
            except DamagedFile as damage:
                self._findings.add("files", f"{file} cannot be read: {damage.reason}")

    def episode(self, index: int, first: int = 0) -> Frames:
        """One episode alone; its pictures begin with the `first` frame. DamagedFile where its file
        cannot be read, CapexError where there is none.
        """
        if not 0 <= index < len(self.entries):
            raise CapexError(
                f"{self.path} has {len(self.entries)} episodes; there is no {index}",
                code=ErrorCode.NOT_FOUND,
            )
        file = self.entries[index].file
        table = _rows_of(self.path / file, index)
        at, features = (self.path, file, index), self.claims.features
        looking = Videos(self.path, float(self._info["fps"]), self._findings, enters=True)
        later = {n: f for n, f in features.items() if f.kind != "number"}
        filmed = self._filmed(index, looking, first)
        pictures = lerobot.frames_of(table.slice(first), later, at, filmed, self._findings).pictures
        whole = lerobot.frames_of(table, features, at, {}, self._findings)
        return Frames(index, file, table.num_rows, whole.numbers, pictures)

    def finish(self) -> None:
        """What our datasets hold besides."""
        self._videos.close()
        check_extras(self.path, self.claims, self.entries, self._findings)

    def _tables(self, file: str) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each episode in a file; one row group at a time is in memory."""
        path = self.path / file
        opened = open_table(path)
        groups = opened.num_row_groups
        lerobot.check_columns(opened.schema_arrow, file, self.claims.features, self._findings)
        pending: list[pa.Table] = []
        current = -1
        for group in range(groups):
            table = read_groups(opened, path, groups=[group])
            with reading(path):
                indices = table["episode_index"].to_numpy()
                indices = np.asarray(indices).astype(np.int64)
            cuts = [0, *(np.flatnonzero(np.diff(indices)) + 1), len(indices)]
            for begin, end in pairwise(cuts):
                if begin == end:
                    continue
                if pending and int(indices[begin]) != current:
                    yield current, pa.concat_tables(pending)
                    pending = []
                current = int(indices[begin])
                pending.append(table.slice(begin, end - begin))
        if pending:
            yield current, pa.concat_tables(pending)

    def _filmed(self, index: int, videos: Videos, first: int = 0) -> dict[str, Iterator[FrameShot]]:
        if not 0 <= index < len(self._rows):
            return {}
        row, shots = self._rows[index], {}
        for key, feature in self.claims.features.items():
            if feature.stored_as != "video":
                continue
            chunk, file, begin_s, end_s = (
                row.get(f"videos/{key}/{name}")
                for name in ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
            )
            if chunk is None or file is None or begin_s is None or end_s is None:
                wrong = f"{EPISODES} does not say where the video of {key} is"
                self._findings.add("pictures", f"episode {index}: {wrong}")
                continue
            path = lerobot.place(
                self.path,
                self._info,
                "video_path",
                video_key=key,
                chunk_index=chunk,
                file_index=file,
            )
            span_s = (float(begin_s) + first / float(self._info["fps"]), float(end_s))
            shots[key] = videos.shots(key, path, span_s, depth=feature.kind == "depth")
        return shots

    def _episode_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        paths = sorted((self.path / EPISODES).rglob("*.parquet"))
        if not paths:
            self._findings.add(
                "files", f"{EPISODES} holds no Parquet file, so no episode is listed"
            )
        for path in paths:
            try:
                rows += lerobot.read_rows(path)
            except DamagedFile as damage:
                name = path.relative_to(self.path).as_posix()
                self._findings.add("files", f"{name} cannot be read: {damage.reason}")
        return rows

    def _entry(self, number: int, row: Mapping[str, Any]) -> Entry:
        index = lerobot.integer(row.get("episode_index"))
        if index != number:
            self._findings.add(
                "order",
                f"{EPISODES}: row {number} is episode {index}; LeRobot finds episodes by their row",
            )
        places = [lerobot.integer(row.get(f"data/{n}_index")) for n in ("chunk", "file")]
        if None in places:
            self._findings.add(
                "files", f"{EPISODES}: episode {number} does not say which data file holds it"
            )
        chunk, file = (n or 0 for n in places)
        path = lerobot.place(self.path, self._info, "data_path", chunk_index=chunk, file_index=file)
        stats: dict[str, Stats] = {}
        for name, value in row.items():
            if name.startswith("stats/") and value is not None:
                feature, _, kind = name.removeprefix("stats/").rpartition("/")
                stats.setdefault(feature, {})[kind] = value
        return Entry(
            number if index is None else index,
            f"episode {number}",
            lerobot.integer(row.get("length")) or 0,
            path.relative_to(self.path).as_posix(),
            tuple(map(str, row.get("tasks") or ())),
            lerobot.integer(row.get("dataset_from_index")),
            stats,
            {n.removeprefix(OURS): v for n, v in row.items() if n.startswith(OURS)},
        )

    def _tasks(self) -> tuple[str, ...]:
        """The texts in the order of their numbers, by which LeRobot finds them."""
        try:
            rows = lerobot.read_rows(self.path / TASKS)
        except DamagedFile as damage:
            self._findings.add("files", f"{TASKS} cannot be read: {damage.reason}")
            return ()
        texts = []
        for number, row in enumerate(rows):
            if row.get("task_index") != number:
                said = row.get("task_index")
                self._findings.add("order", f"{TASKS}: row {number} has the task_index {said}")
            texts.append(next((v for k, v in row.items() if k != "task_index"), ""))
        return tuple(map(str, texts))

    def _stats(self) -> dict[str, Stats]:
        if not (self.path / STATS).is_file():
            self._findings.add("files", f"{STATS} is missing, which LeRobot normalizes by")
            return {}
        return lerobot.read_stats(self.path / STATS, self._findings)


def _rows_of(path: Path, index: int) -> pa.Table:
    """The rows of one episode; of the other row groups only the episodes' numbers are read."""
    opened, tables = open_table(path), []
    for group in range(opened.num_row_groups):
        numbers = read_groups(opened, path, ["episode_index"], [group])["episode_index"]
        with reading(path):
            mine = pc.equal(numbers, index)
            found = pc.any(mine).as_py()
        if found:
            tables.append(read_groups(opened, path, groups=[group]).filter(mine))
    return pa.concat_tables(tables) if tables else read_groups(opened, path, groups=[])
