"""Lets the tests of encoders import the helpers of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
