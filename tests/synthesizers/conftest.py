"""A private shop of six tables, and sessions on it."""

from shops import begin, shop, table

__all__ = ["begin", "shop", "table"]
