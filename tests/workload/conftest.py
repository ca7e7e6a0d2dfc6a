"""A small shop, and a clone of it that is a little off."""

import psycopg
import pytest
from sql_files import sql_of

SHOP = sql_of(__file__, "shop")


def _filled(dsn: str, step: int) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SHOP.replace("{step}", str(step)).encode())
    return dsn


@pytest.fixture(scope="session")
def shop(make_database):
    """DSN of the source."""
    return _filled(make_database(), 1)


@pytest.fixture(scope="session")
def shop_clone(make_database):
    """DSN of a database of the same schema with orders spread otherwise."""
    return _filled(make_database(), 7)
