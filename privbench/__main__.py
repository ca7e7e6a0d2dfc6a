"""Run the command line as ``python -m privbench``."""

from privbench.cli import main

main()
