"""Demonstrations for learners: certificates, LeRobot datasets, robomimic files. `certify_run` and `export_run` are what others call."""

from __future__ import annotations

from capex.export.certify import Certificate, Certified, certify_run, read_certificate

__all__ = ["Certificate", "Certified", "certify_run", "read_certificate"]
