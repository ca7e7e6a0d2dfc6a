"""The public description of the private database: tables, attributes, keys and neighbours.

A `DatabaseSpec` holds nothing that was read from rows. It determines, for every table, which root
tables have units that can hold its rows, and so to which root tables an event is charged
(`DatabaseSpec.roots`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from privbench.domain import Domain
from privbench.errors import SchemaError

#: Part of an attribute's name that follows its column's name, e.g. ``name␟length``.
PART = "\x1f"


@dataclass(frozen=True, slots=True)
class Relation:
    """Which databases are neighbours: those that differ in one unit added, removed or replaced."""

    # One unit added or removed, or one replaced by another of its root table.
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    # ``owner``: a root record and all it owns. ``row``: a single row.
    unit: Literal["owner", "row"] = "owner"


@dataclass(frozen=True, slots=True)
class KeySpec:
    """One foreign key between tables of the database."""

    name: str  # constraint name, unique within its table
    table: str  # the referencing table
    parent: str  # the referenced table
    # ``own``: rows are removed with their parent. ``ref``: if the parent is removed, rows stay and
    # the edge becomes ⊥. ``public``: the parent is a public table.
    role: Literal["own", "ref", "public"]
    # What constraints say; rows may violate them, so it serves plans, and no claim rests on it.
    nullable: bool = False  # whether a row may have no reference
    unique: bool = False  # whether at most one row refers to each parent row (one-to-one)
    loose: bool = False  # whether no constraint binds it: values without a parent are made as such
    ordered: bool = False  # whether the rows of its public parent follow one another in time


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One private table."""

    name: str  # ``schema.table``
    attributes: Mapping[str, Domain]  # coded attributes whose domain is settled, in column order
    keys: tuple[KeySpec, ...] = ()  # foreign keys, by column number
    bound: Literal["weights", "truncation"] = "weights"  # how a unit's rows are bounded
    tau: int = 2  # τ, the parameter of the contribution bound
    weight: float = 1.0  # relative share of the budget that the user asked for
    # Whether the rows are the elements of an array in the owner's row: without it there are none.
    elements: bool = False
    # Attributes, each "" without one: the date since when a row is there, and the surrogate key
    # that may number rows in its order.
    created: str = ""
    serial: str = ""

    @property
    def own(self) -> KeySpec | None:
        """The foreign key to the row that owns a row (OWN key), or None for a root table."""
        return next((key for key in self.keys if key.role == "own"), None)

    def key(self, name: str) -> KeySpec:
        """Return the key with this name."""
        return next(key for key in self.keys if key.name == name)


@dataclass(frozen=True, slots=True)
class DatabaseSpec:
    """All private tables and the neighbour relation.

    A table has one OWN key at most, and under ``unit = "row"`` none but elements of arrays; OWN
    keys form no cycle.
    """

    tables: Mapping[str, TableSpec]
    relation: Relation = Relation()

    def __post_init__(self) -> None:
        owned = [table for table in self.tables.values() if table.own is not None]
        for table in owned:
            own = [key for key in table.keys if key.role == "own"]
            if len(own) > 1:
                raise SchemaError(
                    f"two OWN keys ({', '.join(key.name for key in own)}).",
                    table=table.name,
                    remedy="Declare one of them REF: leave it out of 'own'.",
                )
            if self.relation.unit == "row" and not table.elements:
                raise SchemaError(
                    "unit = 'row' has no OWN keys.", table=table.name, remedy="Set own = []."
                )
        for table in owned:
            self.ancestors(table.name)

    def ancestors(self, table: str) -> tuple[str, ...]:
        """Return the owners of a table's rows, nearest first.

        The last one is the root of the tree.
        """
        chain: list[str] = []
        own = self.tables[table].own
        while own is not None:
            if own.parent in chain or own.parent == table:
                raise SchemaError(
                    "the OWN keys form a cycle.",
                    table=table,
                    remedy="Declare one of its keys REF: leave it out of 'own'.",
                )
            chain.append(own.parent)
            own = self.tables[own.parent].own
        return tuple(chain)

    def top(self, table: str) -> str:
        """Return the root of a table's ownership tree: its last ancestor, or the table itself."""
        return (table, *self.ancestors(table))[-1]

    def is_apart(self, key: KeySpec) -> bool:
        """Return whether no unit can hold rows of both ends of a key."""
        return not self.roots(key.table) & self.roots(key.parent)

    def roots(self, table: str) -> frozenset[str]:
        """Return the tables whose rows can be the root of a unit that holds a row of ``table``.

        These are the table and all of its ancestors: a row without an owner is a root of its own,
        and no constraint is relied on to exclude such rows. Elements of an array stand in their
        owner's row, so none is a root.
        """
        itself = () if self.tables[table].elements else (table,)
        return frozenset((*itself, *self.ancestors(table)))

    def order(self) -> tuple[str, ...]:
        """Return the tables, every owner before the tables it owns, and otherwise by name."""
        return tuple(sorted(self.tables, key=lambda name: (len(self.ancestors(name)), name)))

    def with_attributes(self, table: str, attributes: Mapping[str, Domain]) -> Self:
        """Return a copy in which one table has other attributes."""
        changed = replace(self.tables[table], attributes=dict(attributes))
        return replace(self, tables={**self.tables, table: changed})
