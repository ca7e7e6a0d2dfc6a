"""Over TLS, with a certificate that is checked, against a server that takes nothing else."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from plans import free_port

from privbench import pipeline
from privbench.config import Config
from privbench.errors import ConnectionFailed
from privbench.postgres import embedded
from privbench.postgres.connect import connect


def _certificate(folder, name):
    """A self-signed certificate for localhost, and its key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    words = "openssl req -new -x509 -days 2 -nodes -newkey rsa:2048 -subj /CN=localhost"
    extra = ["-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key]
    subprocess.run([*words.split(), *extra], check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """DSN of a server that takes TLS alone, without its certificate."""
    programs = [*embedded.machine_programs(), *embedded.embedded_programs()]
    if not programs or shutil.which("openssl") is None:
        pytest.skip("no server program, or no openssl to make a certificate")
    folder = Path(tempfile.mkdtemp(prefix="pb-tls-"))
    certificate, key = _certificate(tmp_path_factory.mktemp("certificate"), "server")
    program = programs[0]
    server = embedded.start(program, folder)
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SHOW ssl_library").fetchone()
    server.stop()
    if not row[0]:
        shutil.rmtree(folder)
        pytest.skip("the server was built without TLS")
    data, port = folder / "data", free_port()
    owner = data.stat()
    for path in (certificate, key):
        shutil.copy(path, data / path.name)
        os.chown(data / path.name, owner.st_uid, owner.st_gid)
        (data / path.name).chmod(0o600)
    (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
    settings = {"ssl": "on", "ssl_cert_file": certificate.name, "ssl_key_file": key.name}
    settings |= {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""}
    server = embedded.start(program, folder, settings=settings)
    dsn = f"host=localhost hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres"
    yield dsn, certificate
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_clone_over_tls_speaks_nothing_else(secure, tmp_path):
    dsn, certificate = secure
    checked = f"{dsn} sslmode=verify-full sslrootcert={certificate}"
    with connect(checked, autocommit=True) as connection:
        row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert row.fetchone() == (True,)
        connection.execute("CREATE TABLE t (id serial PRIMARY KEY, n int, word text)")
        connection.execute(
            "INSERT INTO t (n, word) SELECT i % 5, 'w' FROM generate_series(1, 90) i"
        )
        connection.execute("CREATE DATABASE twin")
    base = Config.loads(f"[privacy]\nepsilon = 5\n[ledger]\npath = '{tmp_path}'")
    config = pipeline.inspect(checked, base=base).config
    # Catalog, pg_dump, bulk reads and the load, each by its own connection.
    report = pipeline.clone(checked, checked.replace("dbname=postgres", "dbname=twin"), config)
    assert 40 < report.loaded.rows["public.t"] < 140


def test_connect_with_another_certificate_is_refused(secure, tmp_path):
    dsn, _ = secure
    other, _ = _certificate(tmp_path, "other")
    with pytest.raises(ConnectionFailed, match="certificate"):
        connect(f"{dsn} sslmode=verify-full sslrootcert={other}").close()
    with pytest.raises(ConnectionFailed):
        connect(f"{dsn} sslmode=disable").close()
