"""Lets the attacks use the market of the pipeline's tests, and helpers of this folder."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "pipeline")]
