"""SQLite's system calls in this process, counted: the process dies at the one that is chosen."""

import _sqlite3
import ctypes
import multiprocessing
import os
import signal
from contextlib import contextmanager

import pytest

#: What `sqlite3_vfs` holds before its last three methods, after the version 1 and 2 members.
_FIELDS = [
    *((name, ctypes.c_int) for name in ("version", "size", "longest")),
    *((name, ctypes.c_void_p) for name in ("next", "name", "data")),
    *((f"method{place}", ctypes.c_void_p) for place in range(13)),
]
_WRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
)
_UNLINK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_OPEN_FOLDER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))
_CALLS = {"write": _WRITE, "pwrite": _WRITE, "pwrite64": _WRITE, "unlink": _UNLINK,
          "ftruncate": _TRUNCATE}  # fmt: skip


class _Vfs(ctypes.Structure):
    _fields_ = [
        *_FIELDS,
        ("set", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("get", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    ]


_kept = []


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step, how):
    """Die at the step-th call that changes a file: before it, half-way through it, or after it.

    The calls of SQLite that write, truncate and delete are replaced by way of its own interface
    for that (`xSetSystemCall`). What lies between two of them changes no file, so that "after" is
    of interest only where a transaction ends: it counts deletions of the journal alone.
    """
    count = 0

    def counted(name, kind, real):
        def call(first, *rest):
            nonlocal count
            count += 1
            if count != step:
                return real(first, *rest)
            if how == "torn" and kind is _WRITE:
                real(first, rest[0], rest[1] // 2, *rest[2:])
            if how == "after":
                real(first, *rest)
            return die()

        return call

    _replace({name: _CALLS[name] for name in _CALLS if how != "after" or name == "unlink"}, counted)


def killed_at(step, how, act):
    """Run an action in a process that dies at a step, see `die_at`; whether it died."""

    def run():
        die_at(step, how)
        act()
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(30)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@contextmanager
def seen_calls():
    """The names of SQLite's calls that write, truncate, delete or open a folder, in order."""
    seen = []

    def noted(name, kind, real):
        def call(*arguments):
            seen.append(name)
            return real(*arguments)

        return call

    calls = {**_CALLS, "openDirectory": _OPEN_FOLDER}
    vfs = _replace(calls, noted)
    try:
        yield seen
    finally:
        for name in calls:
            vfs.contents.set(vfs, name.encode(), None)


def _replace(calls, make):
    """Put what ``make`` makes of a call in its place."""
    try:
        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        vfs = library.sqlite3_vfs_find(None)
    except AttributeError:
        pytest.skip("the SQLite of this Python hides its functions")
    for name, kind in calls.items():
        address = vfs.contents.get(vfs, name.encode())
        if not address:
            continue
        _kept.append(kind(make(name, kind, kind(address))))
        pointer = ctypes.cast(_kept[-1], ctypes.c_void_p)
        assert vfs.contents.set(vfs, name.encode(), pointer) == 0
    return vfs
