"""LeRobot v2.0 and v2.1 folders: one data file, and one video per camera, for each episode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capex.dataset.inspect import lerobot
from capex.dataset.inspect.lerobot_extras import check_extras
from capex.dataset.inspect.lerobot_tables import read_table
from capex.dataset.inspect.model import Entry, Findings, Frames
from capex.dataset.inspect.pictures import Videos
from capex.dataset.statistics import Stats
from capex.errors import DamagedFile
from capex.untrusted import lines, loads, read_json

EPISODES, TASKS, STATS = "meta/episodes.jsonl", "meta/tasks.jsonl", "meta/stats.json"
EPISODE_STATS = "meta/episodes_stats.jsonl"  # from v2.1 on, instead of meta/stats.json
PROVENANCE = "meta/provenance.parquet"  # of ours


class LeRobotV2:
    """An opened v2.0 or v2.1 folder."""

    def __init__(self, path: Path, findings: Findings):
        self.path, self._findings, self._info = path, findings, lerobot.read_info(path)
        rows, tasks = self._lines(EPISODES), self._lines(TASKS)
        of_episode = {
            row.get("episode_index"): row.get("stats")
            for row in self._lines(EPISODE_STATS, missing_is_fine=True)
        }
        stats: dict[str, Stats] = {}
        if (path / STATS).is_file():
            stats = lerobot.read_stats(path / STATS, findings)
        elif not of_episode:
            findings.add("files", f"there is neither {EPISODE_STATS} nor {STATS}")
        texts = tuple(str(row.get("task", "")) for row in tasks)
        self._origins = self._provenance()
        ours = bool(self._origins)
        self.claims = lerobot.make_claims(self._info, stats, texts, ours, findings)
        self._per_chunk = max(1, lerobot.integer(self._info.get("chunks_size")) or 1000)
        self.entries = tuple(self._entry(n, row, of_episode) for n, row in enumerate(rows))
        named = {path / entry.file for entry in self.entries}
        for extra in sorted(set((path / "data").rglob("*.parquet")) - named):
            name = extra.relative_to(path).as_posix()
            findings.warn("files", f"{name} is named by no episode of {EPISODES}")
        self._videos = Videos(path, float(self._info["fps"]), findings)

    @property
    def files(self) -> int:
        """Files that hold the dataset."""
        folders = (self.path / name for name in ("meta", "data", "videos"))
        return sum(path.is_file() for folder in folders for path in folder.rglob("*"))

    def frames(self) -> Iterator[Frames]:
        """Every episode in order."""
        for entry in self.entries:
            path = self.path / entry.file
            try:
                table = read_table(path)
            except DamagedFile as damage:
                self._findings.add("files", f"{entry.file} cannot be read: {damage.reason}")
                continue
            features = self.claims.features
            lerobot.check_columns(table.schema, entry.file, features, self._findings)
            videos = {}
            for key, feature in features.items():
                if feature.stored_as == "video":
                    film = self._place("video_path", entry.index, video_key=key)
                    deep = feature.kind == "depth"
                    videos[key] = self._videos.shots(key, film, (0.0, math.inf), depth=deep)
            at = (self.path, entry.file, entry.index)
            yield lerobot.frames_of(table, features, at, videos, self._findings)

    def finish(self) -> None:
        """What our datasets hold besides; meta/modality.json names numbers and cameras that
        exist.
        """
        self._videos.close()
        check_extras(self.path, self.claims, self.entries, self._findings)
        path = self.path / "meta/modality.json"
        if not path.is_file():
            return
        try:
            modality = read_json(path)
        except DamagedFile as damage:
            self._findings.add("files", f"meta/modality.json cannot be read: {damage.reason}")
            return
        defaults = {"state": "observation.state", "action": "action"}
        for group, default in defaults.items():
            parts = modality.get(group)
            for name, part in parts.items() if isinstance(parts, dict) else ():
                self._check_part(f"{group}.{name}", part, default)
        cameras = modality.get("video")
        for name, camera in cameras.items() if isinstance(cameras, dict) else ():
            key = camera.get("original_key") if isinstance(camera, dict) else None
            if key not in self.claims.features:
                said = f"meta/modality.json: video.{name} is {key}, which is no feature"
                self._findings.add("features", said)

    def _check_part(self, name: str, part: Any, default: str) -> None:
        part = part if isinstance(part, dict) else {}
        key = str(part.get("original_key") or default)
        begin, end = (lerobot.integer(part.get(n)) for n in ("start", "end"))
        feature = self.claims.features.get(key)
        width = feature.width if feature is not None else 0
        if begin is None or end is None or not 0 <= begin < end <= width:
            said = f"{name} is {begin} to {end} of {key}, which has {width} numbers"
            self._findings.add("features", f"meta/modality.json: {said}")

    def _entry(self, number: int, row: dict[str, Any], of_episode: dict[Any, Any]) -> Entry:
        index = lerobot.integer(row.get("episode_index"))
        if index != number:
            self._findings.add("order", f"{EPISODES}: line {number} is episode {index}")
        index = number if index is None else index
        stats, tasks = of_episode.get(index), row.get("tasks")
        return Entry(
            index,
            f"episode {index}",
            lerobot.integer(row.get("length")) or 0,
            self._place("data_path", index).relative_to(self.path).as_posix(),
            tuple(map(str, tasks)) if isinstance(tasks, list) else (),
            None,
            stats if isinstance(stats, dict) else {},
            self._origins.get(index, {}),
        )

    def _provenance(self) -> dict[int, dict[str, Any]]:
        if not (self.path / PROVENANCE).is_file():
            return {}
        try:
            rows = lerobot.read_rows(self.path / PROVENANCE)
        except DamagedFile as damage:
            self._findings.add("files", f"{PROVENANCE} cannot be read: {damage.reason}")
            return {}
        return {row["episode_index"]: row for row in rows if "episode_index" in row}

    def _place(self, template: str, index: int, **more: Any) -> Path:
        numbers = {"episode_index": index, "episode_chunk": index // self._per_chunk}
        return lerobot.place(self.path, self._info, template, **numbers, **more)

    def _lines(self, name: str, *, missing_is_fine: bool = False) -> list[dict[str, Any]]:
        path, rows = self.path / name, []
        if not path.is_file():
            if not missing_is_fine:
                self._findings.add("files", f"{name} is missing")
            return []
        for number, line in enumerate(lines(path), start=1):
            try:
                row = loads(line) if line.strip() else None
            except ValueError as error:
                self._findings.add("files", f"{name}, line {number} is no JSON: {error}")
                continue
            if isinstance(row, dict):
                rows.append(row)
        return rows
