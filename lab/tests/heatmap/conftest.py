"""A library and its clone, and private shops."""

from libraries import library, library_clone
from shops import begin, shop

__all__ = ["begin", "library", "library_clone", "shop"]
