"""Helpers of this folder, and databases that are emptied instead of made anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from privbench.postgres.embedded import Server

sys.path.insert(0, str(Path(__file__).parent))

_SCHEMAS = """
SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
"""
_PUBLIC = """
CREATE SCHEMA public AUTHORIZATION pg_database_owner; GRANT USAGE ON SCHEMA public TO PUBLIC;
COMMENT ON SCHEMA public IS 'standard public schema'
"""


@pytest.fixture(scope="module")
def emptied_on(make_database_on: Callable[..., str]) -> Callable[[Server], tuple[str, str]]:
    """``emptied_on(server)``: a source and a target without any object, the same two each time.

    For tests that make nothing outside of schemas: no extensions, roles or settings.
    """
    made: dict[str, tuple[str, str]] = {}

    def give(server: Server) -> tuple[str, str]:
        if server.dsn not in made:
            made[server.dsn] = (make_database_on(server), make_database_on(server))
        for dsn in made[server.dsn]:
            with psycopg.connect(dsn, autocommit=True) as connection:
                for name in connection.execute(_SCHEMAS).fetchall():
                    connection.execute(
                        sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(*name))
                    )
                connection.execute(_PUBLIC)
        return made[server.dsn]

    return give
