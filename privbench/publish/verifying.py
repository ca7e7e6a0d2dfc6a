"""The command ``verify``: check that a bundle is complete, harmless to start, and consistent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jinja2 import TemplateError

from privbench.display import Lines
from privbench.errors import GateFailed, ModelError, UsageError
from privbench.postgres.ddl import Ddl
from privbench.publish import records
from privbench.publish.accounts import require_sound
from privbench.publish.checksums import check, read, walk
from privbench.publish.judging import judge_ddl, judge_workload
from privbench.publish.parquet_check import compare
from privbench.publish.records import Bundle, Certificate, PublishedStatistics
from privbench.publish.scripts import fill, rendered
from privbench.publish.signing import signer
from privbench.workload import Workload
from privbench.workload import read as read_workload


@dataclass(frozen=True)
class Verified:
    """The contents of a bundle that was checked."""

    bundle: Bundle
    certificate: Certificate
    files: int  # number of files with a checksum
    size: int  # size of these files in bytes
    signed: str | None  # fingerprint of the key that signed the bundle; None if nobody did
    expected: bool  # whether the user named that key
    pages: int = 0  # pages that tables and indexes take on the disk, in a database without rows

    def render(self) -> Lines:
        """Return the result as plain text."""
        about = {"bundle": self.bundle, "certificate": self.certificate, "found": self}
        return Lines(fill("verified.txt", **about).rstrip("\n"))


def verify(bundle: str | Path, *, key: str | Path | None = None) -> Verified:
    """Check a bundle, which may be a stranger's; nothing in it is run.

    Args:
        bundle: The folder.
        key: A public key of OpenSSH; the bundle has to be signed with it.

    Raises:
        GateFailed: The bundle is incomplete, or holds what none may hold; the message names the
            file.
        UsageError: A signature cannot be checked here.
    """
    folder = Path(bundle)
    with _naming_file():
        present = walk(folder)
        digests, faults = check(folder, present)
    _refuse(faults)
    signed = _signed(folder, present, Path(key) if key else None)
    about = _facts(Bundle, folder, records.BUNDLE)
    certificate = _facts(Certificate, folder, records.CERTIFICATE)
    with _naming_file(records.CERTIFICATE):
        require_sound(certificate)
    files = {f for table in about.tables for f in (*table.files("csv"), *table.files("parquet"))}
    primary = {records.BUNDLE, records.CERTIFICATE, records.BEFORE, records.AFTER, *files}
    primary |= {records.WORKLOAD} if about.workload != "none" else set()
    primary |= {records.STATISTICS} if about.statistics else set()
    _refuse(f"{path}: missing" for path in primary - digests.keys())
    statistics = (
        _facts(PublishedStatistics, folder, records.STATISTICS) if about.statistics else None
    )
    ddl, columns = _schema(folder, about, certificate, statistics)
    workload = _workload(folder, columns) if about.workload != "none" else None
    with _naming_file(records.BUNDLE):
        rows = {path: value for path, value in digests.items() if path in files}
        try:
            texts = rendered(about, certificate, ddl, workload, statistics, rows)
        except (LookupError, ValueError, ArithmeticError, TemplateError) as error:
            raise ModelError(f"no bundle can be made of it ({type(error).__name__}).") from None
    _refuse(f"{path}: missing" for path in texts.keys() - digests.keys())
    _refuse(
        f"{path}: unknown: no part of this bundle"
        for path in digests.keys() - texts.keys() - primary
    )
    _refuse(
        f"{path}: not what privbench writes for this bundle, which version {about.privbench} made"
        for path, text in texts.items()
        if read(folder, path) != text
    )
    with _naming_file():
        compare(folder, about)
    size = sum(size for _, size in digests.values())
    tables = statistics.tables if statistics else ()
    pages = sum(max(n, 0) for t in tables for n in (t.pages, *t.index_pages.values()))
    return Verified(about, certificate, len(present), size, signed, key is not None, pages)


@contextmanager
def _naming_file(path: str = "") -> Iterator[None]:
    """Turn errors about a file into a GateFailed that names it."""
    try:
        yield
    except ModelError as error:
        raise GateFailed(f"{path}: {error}" if path else str(error)) from None


def _facts(kind: type[records.RecordType], folder: Path, path: str) -> records.RecordType:
    with _naming_file(path):
        return records.parse(kind, read(folder, path, records.MAX_FACTS))


def _refuse(faults: Iterator[str] | list[str]) -> None:
    """Raise GateFailed with the first fault, and how many more there are."""
    ordered = sorted(faults)
    if ordered:
        more = f" (and {len(ordered) - 1} more)" if len(ordered) > 1 else ""
        raise GateFailed(f"{ordered[0]}{more}.")


def _signed(folder: Path, present: list[str], key: Path | None) -> str | None:
    if records.SIGNATURE not in present:
        _refuse([f"{records.SIGNATURE}: missing: no key has signed the bundle"] if key else [])
        return None
    with _naming_file(records.SIGNATURE):
        return signer(read(folder, records.SUMS), read(folder, records.SIGNATURE, 2**16), key)


def _schema(
    folder: Path, bundle: Bundle, certificate: Certificate, statistics: PublishedStatistics | None
) -> tuple[Ddl, frozenset[str]]:
    """The DDL, judged safe and found to make just what the other files name, and its columns."""
    texts: list[str] = []
    for path in (records.BEFORE, records.AFTER):
        with _naming_file(path):
            texts.append(_utf8_text(read(folder, path)))
    with _naming_file(f"{records.BEFORE}, {records.AFTER}"):
        judged = judge_ddl(*texts)
        created = judged.made()
    with _naming_file(records.STATISTICS):
        for table in statistics.tables if statistics else ():
            if (table.schema_, table.name) not in created["tables"]:
                raise ModelError(f"the schema does not make {table.key}.")
    with _naming_file(records.BUNDLE):
        for part, known in created.items():
            for item in getattr(bundle, part):
                if (item.schema_, item.name) not in known:
                    raise ModelError(f"the schema does not make {item.key}.")
                known.discard((item.schema_, item.name))
        stated = dict.fromkeys(certificate.owners, False) | dict.fromkeys(certificate.public, True)
        if stated != {table.key: table.public for table in bundle.tables}:
            raise ModelError("its tables are not those of the certificate.")
    return Ddl(texts[0], texts[1]), judged.columns


def _workload(folder: Path, columns: frozenset[str]) -> Workload:
    with _naming_file(records.WORKLOAD):
        _utf8_text(read(folder, records.WORKLOAD))
        try:
            workload = read_workload(folder / records.WORKLOAD, "native")
        except (UsageError, RecursionError) as error:
            raise ModelError(f"it is no workload ({error}).") from None
        if workload.confidential:
            raise ModelError("the workload is CONFIDENTIAL.")
        judge_workload(workload, columns)
        return workload


def _utf8_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError("it is no text in UTF-8.") from None
