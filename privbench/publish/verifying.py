"""``verify``: whether a bundle is whole, harmless to start, and in agreement with itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from privbench.errors import GateFailed, ModelError, PrivbenchError
from privbench.postgres.ddl import Ddl
from privbench.publish import facts
from privbench.publish.accounts import require_sound
from privbench.publish.checksums import check, read, shown, walk
from privbench.publish.facts import Bundle, Certificate
from privbench.publish.judging import Made, judge_ddl, judge_workload
from privbench.publish.scripts import rendered
from privbench.publish.signing import signer
from privbench.publish.twins import compare
from privbench.workload import Workload
from privbench.workload.formats import by_name


@dataclass(frozen=True)
class Verified:
    """What holds of a bundle, and what nobody can check.

    Attributes:
        bundle: Its facts.
        certificate: Its guarantee.
        files: Number of files.
        size: Bytes of all files with a checksum.
        signed: Fingerprint of the key that signed it; None if nobody did.
        expected: Whether that key was asked for.
    """

    bundle: Bundle
    certificate: Certificate
    files: int
    size: int
    signed: str | None
    expected: bool

    def render(self) -> str:
        """Plain text for people."""
        promise = self.certificate.promise
        rows = sum(table.rows for table in self.bundle.tables)
        holds = [
            f"{self.files} files, {self.size:,} bytes: each has its checksum, and there is no other",
            f"the schema makes {len(self.bundle.tables)} tables and passes what a load allows",
            "every script, readme and metadata file is what privbench writes for these facts",
            f"CSV and Parquet hold the same {rows:,} rows",
            f"{len(self.certificate.events)} events, priced again, cost no more than the stated "
            f"ε = {promise.epsilon:g}, δ = {promise.delta:g}",
        ]
        if self.bundle.workload != "none":
            holds.append("the queries of the workload only read")
        trust = [
            f"{self.bundle.publisher}: that this release was made as its certificate says, with "
            "units and public tables declared truly; no output shows whether noise was drawn",
            f"your PostgreSQL {self.bundle.server} and psql, which run the schema; with compose, "
            f"the image postgres:{self.bundle.server} of your registry",
            "that nobody changes the folder between this check and the load",
        ]
        trust += [f"the tables copied verbatim: {name}" for name in self.certificate.public]
        if self.bundle.workload == "declared public":
            trust.append("the text of the workload, declared public")
        if self.signed is None:
            trust.insert(0, "whoever gave you these files: they are not signed")
        elif self.expected:
            holds.append(f"signed by the key you named, {self.signed}")
        else:
            trust.insert(0, f"the key {self.signed}, which signed it: compare it, or use --key")
        return "\n".join(
            ["What holds:", *(f"  {line}" for line in holds)]
            + ["What you have to trust:", *(f"  {line}" for line in trust)]
        )


def verify(bundle: str | Path, *, key: str | Path | None = None) -> Verified:
    """Check a bundle, which may be a stranger's; nothing in it is run.

    Args:
        bundle: The folder.
        key: A public key of OpenSSH that has to have signed it.

    Raises:
        GateFailed: It is not whole, or holds what no bundle may hold; the message names the file.
        UsageError: A signature cannot be checked here.
    """
    folder = Path(bundle)
    with _named(""):
        present = walk(folder)
        digests, faults = check(folder, present)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise GateFailed(f"{faults[0]}{more}.")
    signed = _signed(folder, present, Path(key) if key else None)
    with _named(facts.BUNDLE):
        about = facts.parse(Bundle, read(folder, facts.BUNDLE))
    with _named(facts.CERTIFICATE):
        certificate = facts.parse(Certificate, read(folder, facts.CERTIFICATE))
        require_sound(certificate)
    _require_files(about, set(digests))
    ddl = _schema(folder, about, certificate)
    workload = _workload(folder, about)
    rows = {path: value for path, value in digests.items() if path.startswith("data/")}
    with _named(facts.BUNDLE):
        try:
            texts = rendered(about, certificate, ddl, workload, rows)
        except (LookupError, ValueError) as error:
            raise ModelError(f"no bundle can be made of it ({type(error).__name__}).") from None
    for path, text in texts.items():
        with _named(path):
            if read(folder, path) != text:
                raise ModelError(
                    "it is not what privbench writes for this bundle"
                    f" (made with version {about.privbench})."
                )
    with _named(""):
        compare(folder, about)
    size = sum(size for _, size in digests.values())
    return Verified(about, certificate, len(present), size, signed, key is not None)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Tell of a fault in a file.

    Raises:
        GateFailed: There is one.
    """
    try:
        yield
    except GateFailed:
        raise
    except PrivbenchError as error:
        if not isinstance(error, ModelError):
            raise
        raise GateFailed(f"{path}: {error}" if path else str(error)) from None


def _signed(folder: Path, present: list[str], key: Path | None) -> str | None:
    if facts.SIGNATURE not in present:
        if key is not None:
            raise GateFailed(f"{facts.SIGNATURE}: missing, so that no key has signed the bundle.")
        return None
    with _named(facts.SIGNATURE):
        return signer(read(folder, facts.SUMS), read(folder, facts.SIGNATURE, 2**16), key)


def _require_files(bundle: Bundle, found: set[str]) -> None:
    """Refuse a file that follows from nothing, though it has a checksum, and miss none."""
    from privbench.publish import scripts

    wanted = {facts.BUNDLE, facts.CERTIFICATE, facts.BEFORE, facts.AFTER, scripts.README}
    wanted |= {scripts.START, scripts.COMPOSE, scripts.LOAD, scripts.CROISSANT, scripts.PACKAGE}
    wanted |= {scripts.STATEMENT, scripts.REGISTRY}
    if bundle.workload != "none":
        wanted |= {facts.WORKLOAD, facts.QUERIES}
    for table in bundle.tables:
        wanted |= {*table.files("csv"), *table.files("parquet")}
    if found - wanted:
        raise GateFailed(f"{shown(min(found - wanted))}: unknown: no part of a bundle.")
    if wanted - found:
        raise GateFailed(f"{min(wanted - found)}: missing.")


def _schema(folder: Path, bundle: Bundle, certificate: Certificate) -> Ddl:
    """The DDL, judged; what the facts name is what it makes."""
    texts = []
    for path in (facts.BEFORE, facts.AFTER):
        with _named(path):
            texts.append(_text(read(folder, path)))
    with _named(f"{facts.BEFORE}, {facts.AFTER}"):
        made = judge_ddl(*texts)
    with _named(facts.BUNDLE):
        _require_made(bundle, made)
        public = sorted(str(table.key) for table in bundle.tables if table.public)
        stated = {*certificate.owners, *certificate.public}
        if public != certificate.public or stated != {str(table.key) for table in bundle.tables}:
            raise ModelError("its tables are not those of the certificate.")
    return Ddl(texts[0], texts[1], tuple(bundle.extensions))


def _require_made(bundle: Bundle, made: Made) -> None:
    """Refuse rows, sequences and views of anything that the schema does not make."""
    for what, items, known in (
        ("table", bundle.tables, made.tables),
        ("sequence", bundle.sequences, made.sequences),
        ("materialised view", bundle.views, made.views),
    ):
        names = [(item.schema_, item.name) for item in items]  # type: ignore[attr-defined]
        if len(set(names)) < len(names) or not set(names) <= known:
            raise ModelError(f"a {what} is not one that the schema makes.")


def _workload(folder: Path, bundle: Bundle) -> Workload | None:
    if bundle.workload == "none":
        return None
    with _named(facts.WORKLOAD):
        _text(read(folder, facts.WORKLOAD))
        try:
            found = by_name("native").read(folder / facts.WORKLOAD)
        except PrivbenchError as error:
            raise ModelError(error.message) from None
        except RecursionError:
            raise ModelError("it is nested too deeply.") from None
        if found.confidential:
            raise ModelError("it is CONFIDENTIAL.")
        judge_workload(found)
        return found


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError("it is no text in UTF-8.") from None
