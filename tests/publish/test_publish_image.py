"""A bundle's Dockerfile puts the rows into an image, which starts as fast as an empty server.

Where no container engine answers, its steps are run on this machine's PostgreSQL.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import market
import psycopg
import pytest

from privbench.postgres import binaries
from privbench.postgres.embedded import own

_SECRET = 'it\'s "a" $(secret) $names$'
_DATABASE = "te'st"
_VARIABLES = {"POSTGRES_PASSWORD": _SECRET, "POSTGRES_USER": "test", "POSTGRES_DB": _DATABASE}


@pytest.fixture
def folder(place):
    """A folder that the server's account owns."""
    folder = place / "image"
    own(folder)
    yield folder
    shutil.rmtree(folder)


def _counts(**where):
    """Rows of each table, as soon as the server answers to the names and the password given."""
    deadline = time.monotonic() + 60
    conninfo = psycopg.conninfo.make_conninfo(
        user="test", dbname=_DATABASE, password=_SECRET, **where
    )
    while True:
        try:
            return market.counts(conninfo)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _stated(bundle):
    tables = json.loads((bundle / "bundle.json").read_text())["tables"]
    return {table["name"]: table["rows"] for table in tables}


def test_its_steps_make_a_server_that_has_the_rows(original, folder):
    text = (original / "Dockerfile").read_text().replace("\\\n", " ")
    bundle = shutil.copytree(original, folder / "bundle")
    directories = binaries.package_directories() + binaries.machine_directories()
    programs = binaries.find("initdb", directories)[0].path.parent
    owner, port, log = folder.stat(), _free_port(), (folder / "stderr").open("w+")

    def started(*command, **variables):
        return subprocess.Popen(
            command,
            env={"PATH": f"{programs}:/usr/bin:/bin", "LANG": "C", **variables},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            user=owner.st_uid,
            group=owner.st_gid,
            extra_groups=[] if os.geteuid() == 0 else None,
        )

    def moved(step):
        return step.replace("/srv/postgres", f"{folder}").replace("/bundle", f"{bundle}")

    _as_root, *steps = re.findall(r"^RUN (.*)", text, re.M)
    for step in steps:
        assert started("sh", "-c", moved(step)).wait() == 0, step
    (data,) = re.findall(r"^ENV PGDATA=(\S+)", text, re.M)
    command = ("sh", f"{bundle}/start.sh", "container", "postgres", "-p", f"{port}", "-k", "")
    variables = {"PGDATA": moved(data), **_VARIABLES}
    for wrong in ({"POSTGRES_USER": "pg_reserved"}, {"POSTGRES_PASSWORD": f"a;\n\n{_SECRET}"}):
        assert started(*command, **(variables | wrong)).wait()
    server = started(*command, **variables)
    try:
        assert _counts(host="127.0.0.1", port=port) == _stated(bundle)
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            psycopg.connect(host="127.0.0.1", port=port, user="test", password="wrong")
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0
    log.seek(0)
    said = log.read()
    assert "is reserved" in said
    assert "one line each" in said
    assert "secret" not in said


@pytest.mark.slow
def test_an_engine_builds_and_starts_it(original):
    docker = ["docker", "run", "--rm", "--detach", "--publish", "127.0.0.1::5432"]
    if (
        not shutil.which("docker")
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.skip("no container engine answers")
    image = subprocess.check_output(["docker", "build", "--quiet", original], text=True).strip()
    variables = [f"--env={name}={value}" for name, value in _VARIABLES.items()]
    container = subprocess.check_output([*docker, *variables, image], text=True).strip()
    try:
        address = subprocess.check_output(["docker", "port", container, "5432"], text=True)
        assert _counts(host="127.0.0.1", port=address.strip().rpartition(":")[2]) == _stated(
            original
        )
    finally:
        subprocess.run(["docker", "rm", "--force", container], check=True)
        subprocess.run(["docker", "rmi", "--force", image], check=True)
