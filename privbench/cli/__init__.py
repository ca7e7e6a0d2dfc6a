"""The command line: a thin skin over `privbench.pipeline`."""

from privbench.cli.main import main

__all__ = ["main"]
