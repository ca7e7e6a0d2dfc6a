"""The files of a bundle and their checksums; nothing in a bundle is trusted.

``SHA256SUMS`` is what ``sha256sum -c`` reads. Its first line, a comment, is the checksum of the
others, so that a fault in the list itself is not taken for a fault in a file.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from privbench.errors import ModelError
from privbench.publish.records import SIGNATURE, SUMS

#: Most bytes of a file of rows; most bytes of any other file; most files of a bundle. Twice as many
#: bytes would need twice the memory for a check; files that `publish` writes have less than half as
#: many, unless a row is that large.
MAX_DATA, MAX_TEXT, MAX_FILES = 512 * 2**20, 256 * 2**20, 200_000
_HEAD = "# sha256 of the lines below: "
_LINE = re.compile(
    r"([0-9a-f]{64})  ((?:[A-Za-z0-9_%$-][A-Za-z0-9_.%$-]*/)*[A-Za-z0-9_%$-][\w.%$-]*)"
)
_DEPTH = 5


def walk(folder: Path) -> list[str]:
    """Return the relative paths of all files, sorted; refuse anything except files and folders."""
    paths, folders = list[str](), [""]
    try:
        while folders:
            prefix = folders.pop()
            with os.scandir(folder / prefix) as entries:
                for entry in entries:
                    path = f"{prefix}{entry.name}"
                    if len(paths) + len(folders) > MAX_FILES or path.count("/") > _DEPTH:
                        raise ModelError(f"{path}: the bundle has too many files.")
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{path}/")
                    elif entry.is_file(follow_symlinks=False):
                        paths.append(path)
                    else:
                        raise ModelError(f"{path} is a link or a device.")
    except OSError as error:
        raise ModelError(f"{folder} cannot be read: {error.strerror}.") from None
    return sorted(paths)


def read(folder: Path, path: str, limit: int = MAX_TEXT) -> bytes:
    """Return the bytes of a plain file that is no larger than the limit."""
    try:
        handle = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
                raise ModelError(f"{path} is no file, or has more than {limit:,} bytes.")
            return file.read(limit + 1)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from None


def digest(folder: Path, path: str) -> tuple[str, int]:
    """Return SHA-256 and size of a file."""
    data = read(folder, path, MAX_DATA if path.startswith("data/") else MAX_TEXT)
    return hashlib.sha256(data).hexdigest(), len(data)


def sums_text(digests: Mapping[str, tuple[str, int]]) -> bytes:
    """Return the content of the file of checksums."""
    lines = "".join(f"{digests[path][0]}  {path}\n" for path in sorted(digests)).encode()
    return f"{_HEAD}{hashlib.sha256(lines).hexdigest()}\n".encode() + lines


def check(folder: Path, present: Iterable[str]) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """Compare files that `walk` found with their checksums.

    Returns the digest and size of every file that exists and is listed; and a line for every fault,
    which begins with the file's name.
    """
    files = set(present) - {SUMS, SIGNATURE}
    data = read(folder, SUMS)
    lines = data.partition(b"\n")[2]
    stated = {}
    for line in lines.decode("ascii", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ModelError(f"{SUMS} is damaged: a line of it names no file of a bundle.")
        stated[match[2]] = match[1]
    if data != sums_text({path: (value, 0) for path, value in stated.items()}):
        raise ModelError(f"{SUMS} is damaged: it is not what its first line says.")
    faults = [f"{path}: unknown: {SUMS} does not list it" for path in files - stated.keys()]
    faults += [f"{path}: missing" for path in stated.keys() - files]
    digests = {}
    for path in sorted(stated.keys() & files):
        digests[path] = digest(folder, path)
        if digests[path][0] != stated[path]:
            faults.append(f"{path}: damaged: it does not match its checksum")
    return digests, sorted(faults)
