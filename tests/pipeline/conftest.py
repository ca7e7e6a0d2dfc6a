"""The market is there for all tests of this folder."""

from market import model, source  # noqa: F401 - fixtures
