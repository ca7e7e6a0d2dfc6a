"""Capture a workload from a running system: CONFIDENTIAL until its literals are re-bound."""

from privbench.workload.capture.gather import Capture, capture_statements
from privbench.workload.capture.logs import capture_logs

__all__ = ["Capture", "capture_logs", "capture_statements"]
