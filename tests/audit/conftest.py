"""The small database."""

import broken
import pytest


@pytest.fixture(scope="session")
def people(make_database):
    """DSN of the small database."""
    return make_database(statements=broken.SCHEMA)
