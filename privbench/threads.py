"""Work beside a waiting server, or beside compiled kernels that leave Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")

#: How many things the user wants done at once; None where nobody said.
JOBS: ContextVar[int | None] = ContextVar("jobs", default=None)


def spread(function: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """What a function makes of every item, in order, by `JOBS` threads, or one for every core.

    Raises:
        Exception: What the function raises for the first item that fails; others that have begun
            are not waited for.

    >>> spread(abs, [-2, 3])
    [2, 3]
    """
    if len(items) < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(min(len(items), JOBS.get() or _cores()))
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, none of them None; while one is used, a thread makes the next.

    Raises:
        Exception: What making an item raises, where that item would have come.

    >>> list(ahead(iter("ab")))
    ['a', 'b']
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
