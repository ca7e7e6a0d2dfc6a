"""Parts of a few rows each, so that small tables have many: imported, or run as Dask's preload."""

from __future__ import annotations

from typing import Any

from privbench.pipeline import decode
from privbench.pipeline.load import load as _load

#: As attributes of `decode`.
SIZES = {"CHUNK": 24, "CHUNKS": 2}


def load(*given: Any, **named: Any) -> Any:
    """``pipeline.load`` by such parts, for a process that does nothing else."""
    vars(decode).update(SIZES)
    return _load(*given, **named)


def dask_setup(_: Any) -> None:
    """Called in a worker when it begins."""
    vars(decode).update(SIZES)
