"""A short wait for locks."""

import pytest

from privbench.postgres.reading import WAIT


@pytest.fixture
def impatient():
    """Locks are waited for a fifth of a second."""
    token = WAIT.set(0.2)
    yield
    WAIT.reset(token)
