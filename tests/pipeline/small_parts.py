"""Loads of small tables in several transactions: imported, or run as Dask's preload."""

from __future__ import annotations

import sys
from typing import Any

from privbench.pipeline import decode
from privbench.pipeline.load import load as _load

#: Rows that are decoded at a time, and the least rows of a load in several transactions.
SIZES = ((decode, "CHUNK", 24), (sys.modules["privbench.pipeline.load"], "LEAST_ROWS", 1))


def load(*given: Any, **named: Any) -> Any:
    """``pipeline.load`` in several transactions, for a process that does nothing else."""
    dask_setup(None)
    return _load(*given, **named)


def dask_setup(_: Any) -> None:
    """Called in a worker when it begins."""
    for module, name, size in SIZES:
        setattr(module, name, size)
