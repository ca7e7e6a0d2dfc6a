"""Rows that are drawn part by part while others are used."""

import threading

import numpy as np
import pytest

from privbench.learning.draw import CHUNK_ROWS
from privbench.learning.synthetic import Parts, windows
from privbench.rng import generator
from privbench.threads import JOBS, streamed

ROWS = 2 * CHUNK_ROWS + 1000


def made(some):
    numbers = generator(3, "part", some.start)
    return {name: numbers.integers(0, 200, some.stop - some.start, np.uint8) for name in "ab"}


@pytest.mark.parametrize("jobs", [1, 3])
def test_parts_are_the_same_whoever_draws_them(jobs):
    token = JOBS.set(jobs)
    try:
        whole = Parts("ab", ROWS, made)
        assert len(whole["a"]) == len(whole["b"]) == ROWS
        for rows, part in Parts("ab", ROWS, made).parts():
            assert (part["b"] == whole["b"][rows]).all()
        assert "c" not in whole
    finally:
        JOBS.reset(token)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_window_gives_the_rows_that_are_asked_for(drawn):
    """Rows that were dropped leave gaps: pieces of equal length then lie across parts."""
    codes = Parts("ab", ROWS, made)
    expected = dict(codes) if drawn else dict(Parts("ab", ROWS, made))
    kept = np.flatnonzero(generator(4, "kept").random(ROWS) < 0.3)
    kept = kept[(kept < 100) | (kept > CHUNK_ROWS + 70_000)]
    pieces = np.array_split(kept, 9)
    for rows, found in zip(pieces, windows(codes, pieces), strict=True):
        assert all((found[name] == expected[name][rows]).all() for name in "ab")


def test_a_stream_is_ahead_by_no_more_than_its_threads_and_fails_in_place():
    begun = threading.Semaphore(0)

    def function(item):
        begun.release()
        if item == 3:
            raise ValueError("three")
        return 10 * item

    token = JOBS.set(2)
    try:
        found = streamed(function, range(100))
        assert [next(found), next(found), next(found)] == [0, 10, 20]
        with pytest.raises(ValueError, match="three"):
            next(found)
        count = 0
        while begun.acquire(blocking=False):
            count += 1
        assert count <= 6
    finally:
        JOBS.reset(token)


def test_streamed_with_a_failure_does_not_wait_for_others():
    """An item that waits for a server may take minutes; whoever closes the connection ends it."""
    closed, ended = threading.Event(), list[int]()

    def function(item):
        if item == 0:
            raise ValueError("none")
        closed.wait(60)
        ended.append(item)

    token = JOBS.set(2)
    try:
        with pytest.raises(ValueError, match="none"):
            next(streamed(function, range(5)))
        assert not ended
    finally:
        closed.set()
        JOBS.reset(token)
