"""Work beside a waiting server, or beside compiled kernels that leave Python's lock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


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
