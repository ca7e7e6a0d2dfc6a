"""``serve``: the clone of a model or of a bundle on a throwaway server, for tests."""

import hashlib
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from privbench import __version__, pipeline, publish
from privbench.errors import DatabaseError, UsageError
from privbench.files import file_errors
from privbench.options import LoadOptions, with_fields_of
from privbench.postgres import embedded
from privbench.postgres.throwaway import throwaway


@with_fields_of(LoadOptions, "scale", "seed", "trust_programs")
def serve(
    model: str | Path,
    *,
    on: str = "auto",
    port: int | None = None,
    reporter: pipeline.Reporter | None = None,
    options: LoadOptions,
) -> AbstractContextManager[str]:
    """The connection URI of a server with the clone, while the block lasts; see `throwaway`.

    A model is loaded as by `privbench.pipeline.load`, and a bundle's script is run once `verify`
    has passed it; either by a role without attributes. Without `port` a free one is taken, and
    without `seed` rows are the same in every call.
    """
    path, seed = Path(model), options.seed or 0
    # It is `records.SUMS`, of which a start from the cache need not know more.
    bundle = path / "SHA256SUMS" if path.is_dir() else None
    if bundle and (options.scale != 1 or options.trust_programs):
        raise UsageError("a bundle has the rows that it has.", remedy="Name a model.")
    programs = embedded.programs(on)
    with file_errors(f"{path} cannot be read"), (bundle or path).open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    servers = [(str(item.path), item.path.stat().st_mtime_ns) for _, item in programs]
    about = (__version__, content, servers, options.scale, seed, options.trust_programs)

    def choose() -> tuple[int, Callable[[str], str]]:
        if bundle:
            number = _nearest(programs, publish.verify(path).bundle.server)
            return number, lambda dsn: _run(path, dsn, programs[number][1].path)
        found = pipeline.Model.load(path)
        version = found.schema.server_version // 10000
        more = {"seed": seed, "scale": options.scale, "trust_programs": options.trust_programs}

        def fill(dsn: str) -> str:
            report = pipeline.load(found, dsn, reporter=reporter, **more).render()
            return f"{report}\nThe source was PostgreSQL {version}: plans may differ on another."

        return _nearest(programs, version), fill

    return throwaway(hashlib.sha256(repr(about).encode()).hexdigest(), programs, choose, port)


def _nearest(programs: list[embedded.Labelled], version: int) -> int:
    """The number of a program of that version, of the next later, or of an earlier one."""
    majors = [program.major for _, program in programs]
    return majors.index(min(majors, key=lambda major: (major < version, abs(major - version))))


def _run(folder: Path, dsn: str, postgres: Path) -> str:
    """Load a bundle that was verified, by the psql of a server."""
    psql = [str(postgres.with_name("psql")), "-XqvON_ERROR_STOP=1", "-f", "load.sql", "-d", dsn]
    done = subprocess.run(psql, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise DatabaseError(f"the bundle was not loaded: {done.stderr[-300:]}")
    return f"loaded: {folder}"
