"""Hides `privbench-lab` from every Python that has this folder on PYTHONPATH.

The core's tests run so in `scripts/test`, with all processes that they start: neither the lab's
modules nor its entry points are there, as if it had never been installed. Programs that a worker of
the tests starts have no pandas either: privbench needs none, and pyarrow would load it each time.
"""

import os
import sys
from importlib import metadata
from importlib.abc import MetaPathFinder

_HIDDEN = {"privbench_lab"} | ({"pandas"} if "PYTEST_XDIST_WORKER" in os.environ else set())


class _NoLab(MetaPathFinder):
    """Finds nothing that is hidden, before anything else may."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in _HIDDEN:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


_discover = metadata.Distribution.discover.__func__


def _without_lab(kind, **about):
    return (d for d in _discover(kind, **about) if d._normalized_name != "privbench_lab")


sys.meta_path.insert(0, _NoLab())
metadata.Distribution.discover = classmethod(_without_lab)
