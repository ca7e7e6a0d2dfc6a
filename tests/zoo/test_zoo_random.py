"""Schemas at random, filled and cloned: none may fail, and every rule holds on the clone."""

import contextlib
import os

import faithful
import market
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from market import execute
from psycopg import conninfo
from schemas_at_random import databases

from privbench import pipeline

QUIET = dict(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@contextlib.contextmanager
def _scratch(server):
    """DSNs of two empty databases that go again."""
    names = (f"zoo_source_{os.getpid()}", f"zoo_target_{os.getpid()}")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        yield tuple(conninfo.make_conninfo(server.dsn, dbname=name) for name in names)
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def clone_whole(server, folder, ddl: str) -> None:
    """Make the schema, clone it, and hold the clone against all its rules."""
    with _scratch(server) as (source, target):
        execute(source, ddl)
        base = market.config(folder, "", "independent", epsilon=3.0)
        pipeline.clone(source, target, pipeline.inspect(source, base=base).config)
        faithful.require_sound(target)
        assert faithful.unvalidated(target) == []
        before, after = faithful.dump(source), faithful.dump(target)
        assert before.schema == after.schema


@pytest.mark.parametrize("count", [2, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.timeout(3600)
def test_generate_keys_of_random_schemas_keeps_every_constraint(server, tmp_path, count):
    @settings(max_examples=count, **QUIET)
    @given(databases())
    def run(ddl):
        clone_whole(server, tmp_path, ddl)

    run()
