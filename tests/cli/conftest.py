"""Lets these tests use the market of the pipeline's tests."""

from market import model, source  # noqa: F401 - fixtures
