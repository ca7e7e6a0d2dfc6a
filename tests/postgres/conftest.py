"""Lets the tests of this folder import their helpers by name; and a short wait for locks."""

import sys
from pathlib import Path

import pytest

from privbench.postgres.locks import WAIT

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def impatient():
    """Locks are waited for a fifth of a second."""
    token = WAIT.set(0.2)
    yield
    WAIT.reset(token)
