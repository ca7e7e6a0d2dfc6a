"""Lets these tests use the market of the pipeline's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))

from market import model, source  # noqa: F401 - fixtures
