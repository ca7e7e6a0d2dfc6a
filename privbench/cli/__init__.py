"""The command line; its commands call functions of `privbench.pipeline`."""

from privbench.cli.main import main

__all__ = ["main"]
