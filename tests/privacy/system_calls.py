"""SQLite's system calls in this process, counted: the process dies at the one that is chosen."""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import signal

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
_CALLS = {"write": _WRITE, "pwrite": _WRITE, "pwrite64": _WRITE, "unlink": _UNLINK,
          "ftruncate": _TRUNCATE}  # fmt: skip


class _Vfs(ctypes.Structure):
    _fields_ = [
        *_FIELDS,
        ("set", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("get", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    ]


_kept = []


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: int, how: str) -> None:
    """Die at the step-th call that changes a file: before it, half-way through it, or after it.

    The calls of SQLite that write, truncate and delete are replaced by way of its own interface
    for that (`xSetSystemCall`). What lies between two of them changes no file, so that "after" is
    of interest only where a transaction ends: it counts deletions of the journal alone.
    """
    try:
        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        vfs = library.sqlite3_vfs_find(None)
    except AttributeError:
        pytest.skip("the SQLite of this Python hides its functions")
    count = 0

    def replaced(name, kind):
        address = vfs.contents.get(vfs, name.encode())
        if not address:
            return
        real = kind(address)

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

        _kept.append(kind(call))
        pointer = ctypes.cast(_kept[-1], ctypes.c_void_p)
        assert vfs.contents.set(vfs, name.encode(), pointer) == 0

    for name, kind in _CALLS.items():
        if how != "after" or name == "unlink":
            replaced(name, kind)
