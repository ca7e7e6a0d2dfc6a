"""The image builds, runs without rights, and clones one server's database into another's.

Runs where a container engine answers; elsewhere it is skipped, and says so.
"""

from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[1]
TAG = "privbench:test"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def engine():
    """The engine's client, the image built."""
    import docker

    try:
        client = docker.from_env()
        client.ping()
    except Exception as error:
        pytest.skip(f"no container engine answers ({error})")
    client.images.build(path=str(ROOT), dockerfile="docker/Dockerfile", tag=TAG, rm=True)
    return client


@pytest.fixture(scope="module")
def servers(engine):
    """A network with an empty `source` and an empty `clone`; the clone's container."""
    from testcontainers.core.network import Network
    from testcontainers.postgres import PostgresContainer

    with Network() as network:
        source = PostgresContainer("postgres:17").with_network(network)
        clone = PostgresContainer("postgres:17").with_network(network)
        with source.with_network_aliases("source"), clone.with_network_aliases("clone") as target:
            yield network, target


@pytest.fixture
def run(engine, servers):
    """``run(*command, entrypoint=None)``: what the image prints; fails as the command fails."""

    def call(*command: str, entrypoint: list[str] | None = None) -> str:
        printed: bytes = engine.containers.run(
            TAG, list(command), entrypoint=entrypoint, network=servers[0].name, remove=True
        )
        return printed.decode()

    return call


def test_runs_without_rights_and_has_the_newest_client_programs(run):
    assert run("-u", entrypoint=["id"]).strip() == "1000"
    # It has the newest client programs.
    assert " 18" in run("--version", entrypoint=["pg_dump"])


def test_seeds_and_clones(run, servers):
    source, clone = (f"postgresql://test:test@{name}/test" for name in ("source", "clone"))
    schemas = "/opt/privbench/schemas/imdb"
    run(source, "--scale", "0.001", entrypoint=["python", f"{schemas}/generate.py"])
    again = run(source, "--if-empty", entrypoint=["python", f"{schemas}/generate.py"])
    assert "already" in again
    run("clone", source, clone, "-c", f"{schemas}/imdb.toml")
    with psycopg.connect(servers[1].get_connection_url(driver=None)) as connection:
        row = connection.execute("SELECT count(*) FROM cast_info JOIN title ON title.id = movie_id")
        assert row.fetchone()[0] > 1000
