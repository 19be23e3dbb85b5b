"""`capex dataset check`: a dataset as a program finds it. Every rule is tried, whether or not the
ones before it hold.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from capex.dataset.certify import read_certificate
from capex.dataset.inspect.frames import TOLERANCE_S, Seen, look
from capex.dataset.inspect.measured import Measured
from capex.dataset.inspect.model import Dataset, Entry, Findings
from capex.dataset.inspect.opening import open_dataset
from capex.dataset.inspect.report import DatasetReport, Status, report
from capex.run.reading import digests
from capex.untrusted import damage, within
from capex.worlds.proprioception import quaternions

Tell = Callable[[int, int], None]  # frames done, frames in all
# Confidences that were not stated, in our annotations.
MAY_BE_NAN = ("capex.stated", "capex.calibrated", "capex/stated", "capex/calibrated")
SHA256 = re.compile(r"[0-9a-f]{64}")


def check_dataset(
    path: Path, *, expected: int | None = None, runs: Path | None = None, tell: Tell | None = None
) -> DatasetReport:
    """Check a LeRobot v3, v2.1 or v2.0 folder, or robomimic's HDF5, ours or anyone's.

    `expected` is how many episodes there should be. `runs` is the folder that holds the runs our
    demonstrations came from: their digests and certificates are compared too. `tell` reports
    progress. CapexError where there is no dataset at all.
    """
    findings = Findings()
    dataset = open_dataset(path, findings)
    check = _Check(dataset, findings, runs)
    with damage(path):
        check.all(tell)
        check.whole(expected)
        return report(str(path), dataset.claims.format, findings, check.fine(expected))


class _Check:
    """The rules over episodes as they come, and over all of them at the end."""

    def __init__(self, dataset: Dataset, findings: Findings, runs: Path | None):
        self.dataset, self.findings, self.runs = dataset, findings, runs
        self.by_index = {entry.index: entry for entry in dataset.entries}
        self.seen: dict[int, int] = {}  # episode -> frames
        self.pictures: Counter[str] = Counter()
        self.columns: set[str] = set()
        self.measured = Measured(dataset.claims, findings)
        self.motions: dict[str, list[str]] = defaultdict(list)

    def episode(self, seen: Seen, entry: Entry | None) -> None:
        """Everything that can be said of one episode alone."""
        name = entry.name if entry is not None else f"episode {seen.index}"
        if entry is None:
            said = f"{seen.file} holds frames of episode {seen.index}, which is not listed"
            self.findings.add("counts", said)
        elif entry.length != seen.length:
            said = f"{seen.length} frames in {seen.file}; {entry.length} are stated"
            self.findings.add("counts", f"{name} has {said}")
        elif entry.file != seen.file:
            self.findings.add("order", f"{name} is in {seen.file} and stated to be in {entry.file}")
        if seen.index in self.seen:
            self.findings.add("order", f"{seen.file}: the frames of {name} are not in one piece")
        self._check_order(seen, entry, name)
        self._check_times(seen, name)
        self._check_numbers(seen, name)
        self.seen[seen.index] = self.seen.get(seen.index, 0) + seen.length
        for key, digests_ in seen.pictures.items():
            self.pictures[key] += len(digests_)
        counts = {key: len(digests_) for key, digests_ in seen.pictures.items()}
        self.measured.add(entry, seen.numbers, seen.histograms, counts)
        self.motions[seen.motion].append(name)

    def _check_order(self, seen: Seen, entry: Entry | None, name: str) -> None:
        first = entry.first if entry is not None else None
        first = sum(self.seen.values()) if first is None else first
        due = np.arange(seen.length)
        for column, expected in (("frame_index", due), ("index", due + first)):
            if column not in seen.numbers:
                continue
            wrong = np.flatnonzero(seen.numbers[column][:, 0] != expected)
            if len(wrong):
                frame = int(wrong[0])
                said = f"{column} is {seen.numbers[column][frame, 0]}, not {expected[frame]}"
                self.findings.add(
                    "order", f"{seen.file}, {name}, frame {frame}: {said}{_and_more(len(wrong))}"
                )
        texts = self.dataset.claims.task_texts
        if "task_index" not in seen.numbers or not texts or not len(seen.numbers["task_index"]):
            return
        for number in np.unique(seen.numbers["task_index"]):
            if not 0 <= number < len(texts):
                said = f"task_index {number:g} of {len(texts)} tasks"
                self.findings.add("order", f"{seen.file}, {name}: {said}")
            elif entry is not None and entry.tasks and texts[int(number)] not in entry.tasks:
                said = f"'{texts[int(number)]}', its row of the metadata has '{entry.tasks[0]}'"
                self.findings.add("order", f"{name}: its frames have the task {said}")

    def _check_times(self, seen: Seen, name: str) -> None:
        fps, stamps = self.dataset.claims.fps, seen.numbers.get("timestamp")
        if fps is None or stamps is None:
            return
        times_s = stamps[:, 0].astype(np.float64)
        due_s = np.arange(seen.length) / fps
        rounding_s = np.spacing(np.abs(due_s).astype(np.float32)).astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(times_s - due_s) <= TOLERANCE_S + rounding_s))
        if len(wrong):
            k = int(wrong[0])
            said = f"the timestamp is {times_s[k]:.4f} s, not {due_s[k]:.4f} s ({fps:g} per second)"
            self.findings.add(
                "timestamps", f"{seen.file}, {name}, frame {k}: {said}{_and_more(len(wrong))}"
            )

    def _check_numbers(self, seen: Seen, name: str) -> None:
        for column, values in seen.numbers.items():
            self.columns.add(column)
            if values.dtype.kind != "f":
                continue
            bad = np.isinf(values) if column in MAY_BE_NAN else ~np.isfinite(values)
            frames = np.flatnonzero(bad.any(axis=1))
            if len(frames):
                k = int(frames[0])
                number = int(np.flatnonzero(bad[k])[0])
                feature = self.dataset.claims.features[column]
                part = feature.names[number] if number < len(feature.names) else f"number {number}"
                self.findings.add(
                    "numbers",
                    f"{seen.file}, {name}, frame {k}: {column} ({part}) is {values[k, number]}"
                    f"{_and_more(len(frames))}",
                )
                continue
            for at in quaternions(self.dataset.claims.features[column].names):
                q = values[:, at : at + 4]
                turned = np.flatnonzero((q[1:] * q[:-1]).sum(axis=1) < 0) + 1
                if len(turned):
                    self.findings.warn(
                        "numbers",
                        f"{seen.file}, {name}, frame {turned[0]}: the quaternion of {column} has"
                        f" the other sign than before, which a learner sees as a jump"
                        f"{_and_more(len(turned))}",
                    )

    def all(self, tell: Tell | None) -> None:
        """Every episode, and what lies beside them."""
        total, done = sum(entry.length for entry in self.dataset.entries), 0
        for frames in self.dataset.frames():
            entry = self.by_index.get(frames.index)
            seen = look(frames, entry, self.dataset.claims.features, self.findings)
            self.episode(seen, entry)
            done += frames.length
            if tell is not None:
                tell(done, max(total, done))
        self.dataset.finish()

    def whole(self, expected: int | None) -> None:
        """What can be said of the whole dataset."""
        claims, frames = self.dataset.claims, sum(self.seen.values())
        for entry in self.dataset.entries:
            if entry.index not in self.seen:
                said = f"{entry.name} is listed, and {entry.file} has no readable frame of it"
                self.findings.add("counts", said)
        found = {"episodes": len(self.dataset.entries), "frames": frames}
        found |= {"tasks": len(claims.task_texts)}
        for what, stated in claims.totals.items():
            if stated != found[what]:
                self.findings.add("counts", f"{stated} {what} are stated, {found[what]} are there")
        if expected is not None and expected != found["episodes"]:
            said = f"{expected} episodes were expected, {found['episodes']} are there"
            self.findings.add("counts", said)
        self.measured.finish()
        for names in self.motions.values():
            for again in names[1:]:
                said = "the same numbers and pictures to the bit"
                self.findings.add("duplicates", f"{again} is {names[0]} again: {said}")
        self._check_certificates()

    def _check_certificates(self) -> None:
        for entry in self.dataset.entries if self.dataset.claims.ours else ():
            known = entry.provenance
            if not known:
                self.findings.add("certificates", f"{entry.name} does not say where it comes from")
                continue
            for name in ("record_sha256", "steps_sha256"):
                if not SHA256.fullmatch(str(known.get(name))):
                    said = f"{entry.name} has the {name} '{known.get(name)}', which is no digest"
                    self.findings.add("certificates", said)
            judged = bool(known.get("judge"))
            if known.get("certified") is not True and known.get("success") and not judged:
                why = known.get("uncertified") or "no reason is given"
                self.findings.warn("certificates", f"{entry.name} is not certified: {why}")
            if self.runs is not None:
                self._compare_run(entry, self.runs)

    def _compare_run(self, entry: Entry, runs: Path) -> None:
        named = str(entry.provenance.get("episode"))
        try:
            episode = within(runs, named)
        except ValueError as error:
            self.findings.add("certificates", f"{entry.name}: {error}")
            return
        if not (episode / "record.json").is_file() or not (episode / "steps.npz").is_file():
            said = f"{entry.name} comes from {episode}, which is not there"
            self.findings.add("certificates", said)
            return
        for file, digest in digests(episode).items():
            name = f"{file.partition('.')[0]}_sha256"
            if digest != entry.provenance.get(name):
                said = f"{episode / file} has changed since {entry.name} was exported"
                self.findings.add("certificates", said)
                return
        certificate = read_certificate(episode)
        if entry.provenance.get("certified") and not (certificate and certificate.certified):
            said = f"{entry.name} is stated to be certified, and {episode} has no valid certificate"
            self.findings.add("certificates", said)

    def fine(self, expected: int | None) -> dict[str, tuple[Status, str]]:
        """What to say of each rule that holds."""
        claims, entries = self.dataset.claims, self.dataset.entries
        frames, tasks = sum(self.seen.values()), len(claims.task_texts)
        counts = f"{_plural(len(entries), 'episode')}, {_plural(frames, 'frame')}"
        counts += f", {_plural(tasks, 'task')}" if tasks else ""
        counts += "" if expected is None else ", as expected"
        kinds = [
            (word, [n for key, n in self.pictures.items() if claims.features[key].kind == kind])
            for word, kind in (("picture", "picture"), ("depth image", "depth"))
        ]
        shown = " and ".join(
            f"{_plural(sum(counts), word)} of {_plural(len(counts), 'camera')}"
            for word, counts in kinds
            if counts
        )
        starts = Counter(
            tuple(e.provenance.get(n) for n in ("world", "task", "start", "seed"))
            for e in entries
            if e.provenance
        )
        often = sum(count > 1 for count in starts.values())
        several = f"; {_plural(often, 'start')} demonstrated more than once" if often else ""
        certified = sum(e.provenance.get("certified") is True for e in entries)
        judges = Counter(e.provenance.get("judge") for e in entries if e.provenance.get("judge"))
        known = [f"{certified} of {len(entries)} episodes certified"]
        known += [f"{count} judged by {by}" for by, count in judges.items()]
        compared = ", digests and certificates compared with the runs" if self.runs else ""
        fine: dict[str, tuple[Status, str]] = {
            "files": ("ok", f"{_plural(self.dataset.files, 'file')} read"),
            "counts": ("ok", counts),
            "features": ("ok", f"{_plural(len(claims.features), 'feature')}, as declared"),
            "order": ("ok", "no gap in the numbers of episodes, frames and tasks"),
            "timestamps": ("ok", f"every frame at its time, {claims.fps or 0:g} per second"),
            "numbers": ("ok", f"{_plural(len(self.columns), 'column')}, all finite"),
            "pictures": ("ok", f"{shown} decoded"),
            "statistics": (
                "ok",
                f"recomputed: those of {len(self.measured.compared)} features agree",
            ),
            "duplicates": ("ok", f"no episode is there twice{several}"),
            "certificates": ("ok", f"{', '.join(known)}{compared}"),
        }
        if claims.fps is None:
            fine["timestamps"] = ("not claimed", "the format has no timestamps")
        if not self.pictures:
            fine["pictures"] = ("not claimed", "there are no pictures")
        if not self.measured.compared:
            fine["statistics"] = ("not claimed", "the dataset states none")
        if not claims.ours:
            said = "capex did not write it; nothing says where it comes from"
            fine["certificates"] = ("not claimed", said)
        return fine


def _and_more(count: int) -> str:
    return f"; so in {count} frames of it" if count > 1 else ""


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
