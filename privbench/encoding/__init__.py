"""Encoders: columns to coded attributes and back, minted keys, and repaired constraints."""

from privbench.encoding.assemble import mint_database
from privbench.encoding.base import (
    CategoriesNeed,
    Codec,
    ColumnReader,
    CoverageLine,
    Need,
    Released,
)
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.encoding.decimals import Decimals, DecimalsNeed
from privbench.encoding.integrity import Minted
from privbench.encoding.keys import Role, role_of, table_coverage, unkept
from privbench.encoding.registry import codec_from_json, reader

__all__ = [
    "Bounds",
    "BoundsNeed",
    "CategoriesNeed",
    "Codec",
    "ColumnReader",
    "CoverageLine",
    "Decimals",
    "DecimalsNeed",
    "Minted",
    "Need",
    "Released",
    "Role",
    "codec_from_json",
    "mint_database",
    "reader",
    "role_of",
    "table_coverage",
    "unkept",
]
