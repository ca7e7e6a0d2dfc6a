"""Run functions in threads, while a server works or compiled code releases Python's lock."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from itertools import islice
from typing import TypeVar

from privbench.limits import Element

Mapped = TypeVar("Mapped")

#: Number of parallel jobs that the user set, or None.
JOBS: ContextVar[int | None] = ContextVar("jobs", default=None)


def spread(function: Callable[[Element], Mapped], items: Sequence[Element]) -> list[Mapped]:
    """Apply a function to every item in `JOBS` threads, or one per core; return results in order.

    The error of the first item that fails is raised; calls that are still running are not waited
    for.

    >>> spread(abs, [-2, 3])
    [2, 3]
    """
    if len(items) < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(min(len(items), JOBS.get() or cores()))
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def streamed(function: Callable[[Element], Mapped], items: Iterable[Element]) -> Iterator[Mapped]:
    """Yield a function's results for all items in order; `JOBS` threads work on the next items.

    The error of an item is raised in place of its result; calls that are still running are not
    waited for.

    >>> list(streamed(abs, [-2, 3]))
    [2, 3]
    """
    jobs = JOBS.get() or cores()
    left, pool = iter(items), ThreadPoolExecutor(jobs)
    coming: deque[Future[Mapped]] = deque()
    try:
        coming.extend(pool.submit(function, item) for item in islice(left, jobs))
        while coming:
            result = coming.popleft().result()
            coming.extend(pool.submit(function, item) for item in islice(left, 1))
            yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def ahead(items: Iterator[Element]) -> Generator[Element, None, None]:
    """Yield the items, none of which may be None; while one is used, a thread makes the next.

    An error in making an item is raised in place of that item.

    >>> list(ahead(iter("ab")))
    ['a', 'b']
    """
    here = copy_context()

    def made() -> Element | None:
        return here.run(lambda: next(items, None))

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(made)
        while (item := coming.result()) is not None:
            coming = pool.submit(made)
            yield item
