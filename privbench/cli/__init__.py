"""The command line: calls of `privbench.pipeline`."""

from privbench.cli.main import main

__all__ = ["main"]
