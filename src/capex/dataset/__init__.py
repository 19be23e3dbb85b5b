"""Demonstrations for learners: certificates, LeRobot datasets, robomimic files. `certify_run` and
`export_run` are what others call.
"""

from __future__ import annotations

from capex.dataset.certify import Certificate, Certified, certify_run, read_certificate
from capex.dataset.datasets import Exported, Written, export_run
from capex.dataset.frames import Pipeline
from capex.dataset.selection import Filters, LeftOut

__all__ = [
    "Certificate",
    "Certified",
    "Exported",
    "Filters",
    "LeftOut",
    "Pipeline",
    "Written",
    "certify_run",
    "export_run",
    "read_certificate",
]
