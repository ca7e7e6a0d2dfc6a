"""A private shop of six tables, and sessions on it."""

from shops import begin, sample, shop, table

__all__ = ["begin", "sample", "shop", "table"]
