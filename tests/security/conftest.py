"""What the attacks share: honest models, forged ones, and what a burglary by one leaves behind."""

import tempfile
import uuid
from pathlib import Path

import market
import model_files
import psycopg
import pytest

from privbench import pipeline
from privbench.config import Config


@pytest.fixture(scope="session")
def honest(make_database, tmp_path_factory):
    """Honest models by synthesizer, that attacks are made of."""
    folder, source = tmp_path_factory.mktemp("honest"), market.create(make_database(), 20)
    found = {}
    for name in ("independent", "privbench"):
        config = market.learner(market.config(folder / "ledger", epsilon=50.0), name)
        pipeline.fit(source, config, folder / name)
        found[name] = folder / name
    return found


@pytest.fixture
def model(honest):
    """An honest model file."""
    return honest["independent"]


@pytest.fixture
def forge(tmp_path):
    """``forge(model, change)``: a copy with ``change(parts, header)`` made and fitting hashes."""

    def made(model, change):
        return model_files.forge(model, tmp_path / f"{uuid.uuid4().hex}.privbench", change)

    return made


class Burglary:
    """What an attack would do: SQL that does it, and whether it was done.

    Args:
        folder: Where the server may write.
        victim: Another session of the same server.

    Attributes:
        statement: Makes a file by a program.
        expression: An integer; ends the victim's session, which no rollback undoes.
    """

    def __init__(self, folder, victim):
        self._proof, self._victim = folder / "proof", victim
        self.statement = f"COPY (SELECT 'x') TO PROGRAM 'touch {self._proof}'"
        pid = victim.info.backend_pid
        self.expression = f"(SELECT pg_catalog.pg_terminate_backend({pid})::int)"

    @property
    def done(self):
        try:
            self._victim.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return self._proof.exists()


@pytest.fixture
def burglary(server):
    """A `Burglary` on the default server."""
    # Not below pytest's folders, which the server's user may not enter.
    with tempfile.TemporaryDirectory(prefix="privbench-proof-") as folder:
        Path(folder).chmod(0o777)
        with psycopg.connect(server.dsn, autocommit=True) as victim:
            yield Burglary(Path(folder), victim)


@pytest.fixture(scope="module")
def fitted(make_database, tmp_path_factory):
    """``fitted(ddl, toml="")``: the model of a small database."""

    def fit(ddl, toml=""):
        source, folder = make_database(statements=ddl), tmp_path_factory.mktemp("fitted")
        config = Config.loads(
            f"[database]\nidentity = {uuid.uuid4().hex!r}\n"
            "[privacy]\nepsilon = 50.0\nseed = 1\n"
            f"[ledger]\npath = {str(folder / 'ledger')!r}\n"
            f"[synthesizer]\nname = 'independent'\n{toml}"
        )
        pipeline.fit(source, config, folder / "m.privbench")
        return folder / "m.privbench"

    return fit
