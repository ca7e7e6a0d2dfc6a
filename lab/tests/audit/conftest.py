"""The small database."""

import broken
import pytest


@pytest.fixture(autouse=True)
def _ledgers_in_memory(monkeypatch, tmp_path):
    """Ledgers of an audit's own wait for the disk, unless they lie where the tests' files do."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture(scope="session")
def people(make_database):
    """DSN of the small database."""
    return make_database(statements=broken.SCHEMA)
