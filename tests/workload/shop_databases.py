"""A small shop, and a clone of it that is a little off."""

import pytest
from sql_files import sql_of


@pytest.fixture(scope="session")
def shop(make_database):
    """DSN of the source."""
    return make_database(sql_of(__file__, "shop", step=1))


@pytest.fixture(scope="session")
def shop_clone(make_database):
    """DSN of a database of the same schema with orders spread otherwise."""
    return make_database(sql_of(__file__, "shop", step=7))
