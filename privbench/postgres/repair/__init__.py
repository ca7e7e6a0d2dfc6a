"""Repair synthetic rows that break the schema's rules, while they are loaded.

PostgreSQL itself finds and judges the rows, so any expression is supported. All of it is
post-processing of synthetic rows, in the transaction of the load. Not repaired: domains with a
CHECK within an array or a composite type.
"""

from privbench.postgres.repair.repair import Repair

__all__ = ["Repair"]
