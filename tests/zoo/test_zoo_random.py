"""Schemas at random, filled and cloned: none may fail, and every rule holds on the clone."""

import contextlib
import os

import faithful
import market
import pytest
from databases import admin
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
    for name in names:
        admin(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
        admin(server, "CREATE DATABASE {} TEMPLATE template0", name)
    yield tuple(conninfo.make_conninfo(server.dsn, dbname=name) for name in names)
    for name in names:
        admin(server, "DROP DATABASE {} WITH (FORCE)", name)


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
