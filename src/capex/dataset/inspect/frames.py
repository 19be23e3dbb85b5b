"""One episode's frames, looked at once: digests for comparing, histograms for statistics."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from capex.dataset.inspect.model import DatasetFeature, Entry, Findings, Frames, Numbers
from capex.dataset.statistics import Histogram, empty_histogram

TOLERANCE_S = 1e-4  # LeRobot refuses frames that are farther from their time
# Where an episode stands in its dataset, which says nothing about what it holds.
POSITIONS = ("index", "episode_index", "task_index", "frame_index", "timestamp")

ANNOTATIONS = ("capex", "annotation")  # what was meant by a frame, and not what happened


@dataclass(frozen=True)
class Seen:
    """An episode after a look at all of it."""

    index: int
    file: str
    length: int
    numbers: Mapping[str, Numbers]
    pictures: Mapping[str, tuple[str, ...]]  # by camera: a digest of each frame's pixels
    histograms: Mapping[str, Histogram]  # of RGB pictures

    @property
    def motion(self) -> str:
        """A digest of what happened: numbers and pictures, without annotations and positions."""
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(self.numbers):
            if name not in POSITIONS and not name.startswith(ANNOTATIONS):
                digest.update(name.encode() + np.ascontiguousarray(self.numbers[name]).tobytes())
        for name in sorted(self.pictures):
            digest.update(name.encode() + "".join(self.pictures[name]).encode())
        return digest.hexdigest()


def look(
    frames: Frames, entry: Entry | None, features: Mapping[str, DatasetFeature], findings: Findings
) -> Seen:
    """Decode every picture of an episode; what cannot be decoded, has another size or stands at
    another time goes to the findings.
    """
    name = entry.name if entry is not None else f"episode {frames.index}"
    pictures: dict[str, tuple[str, ...]] = {}
    histograms: dict[str, Histogram] = {}
    for key, shots in frames.pictures.items():
        feature, digests, counts = features[key], [], empty_histogram()
        broken = False
        for number, shot in enumerate(shots):
            where = f"{name}, frame {number}, {key}"
            if shot.pixels is None:
                findings.add("pictures", f"{where}: {shot.wrong}")
                digests.append("")
                broken = True
                continue
            size = (shot.pixels.shape[1], shot.pixels.shape[0])
            if feature.size is not None and size != feature.size:
                said = "{}x{}; {}x{} is declared".format(*size, *feature.size)
                findings.add("pictures", f"{where}: the picture is {said}")
            if shot.off_s > TOLERANCE_S:
                off = f"{shot.off_s:.4f} s from its time in the video"
                findings.add("timestamps", f"{where}: the picture is {off}")
            content = np.ascontiguousarray(shot.pixels)
            digests.append(hashlib.blake2b(content.tobytes(), digest_size=8).hexdigest())
            if (
                feature.kind == "picture"
                and content.dtype == np.uint8
                and content.shape[2:] == (3,)
            ):
                for channel in range(3):
                    counts[channel] += np.bincount(content[..., channel].ravel(), minlength=256)
        if len(digests) != frames.length and not broken:
            count = f"{len(digests)} pictures and {frames.length} frames"
            findings.add("pictures", f"{name}, {key}: there are {count}")
        pictures[key] = tuple(digests)
        if counts.any() and not broken:
            histograms[key] = counts
    return Seen(frames.index, frames.file, frames.length, frames.numbers, pictures, histograms)
