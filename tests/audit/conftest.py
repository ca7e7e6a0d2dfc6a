"""Lets the tests of this folder import their helpers by name, and makes the small database."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "zoo")]


@pytest.fixture(scope="session")
def people(make_database):
    """DSN of the small database."""
    import broken

    return make_database(statements=broken.SCHEMA)
