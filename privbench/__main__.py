"""``python -m privbench``."""

from privbench.cli import main

main()
