"""Datasets looked at, ours and anyone's: `check_dataset` and `diff_datasets` are what others call.

Students have a reader of their own (`capex.students.lerobot_reader`), which takes what training
needs from a dataset that is in order and refuses the rest; this one must survive every defect.
"""

from __future__ import annotations

from capex.dataset.inspect.check import check_dataset
from capex.dataset.inspect.diff import DatasetDiff, Difference, diff_datasets
from capex.dataset.inspect.report import DatasetFinding, DatasetReport

__all__ = [
    "DatasetDiff",
    "DatasetFinding",
    "DatasetReport",
    "Difference",
    "check_dataset",
    "diff_datasets",
]
