"""Demonstrations for learners: certificates, LeRobot datasets, robomimic files. `certify_run` and `export_run` are what others call."""

from __future__ import annotations

from capex.export.certify import Certificate, Certified, certify_run, read_certificate
from capex.export.datasets import Exported, Written, export_run
from capex.export.frames import Pipeline
from capex.export.selection import Filters, LeftOut

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
