"""Capture a workload from a running system: CONFIDENTIAL until its literals are re-bound."""

from __future__ import annotations

from privbench.workload.capture.gather import Capture
from privbench.workload.capture.logs import capture_logs
from privbench.workload.capture.statements import capture_statements

__all__ = ["Capture", "capture_logs", "capture_statements"]
