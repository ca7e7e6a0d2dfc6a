"""Read column types from the catalog, with domains resolved and modifiers decoded."""

from collections.abc import Iterable, Iterator
from typing import Any

from privbench.postgres import catalog
from privbench.postgres.connect import Connection
from privbench.schema import ColumnType, TableName

_BY_LENGTH = frozenset({"bpchar", "varchar"})
_BITS = frozenset({"bit", "varbit"})
_TIMES = frozenset({"time", "timetz", "timestamp", "timestamptz"})
_NO_INTERVAL_PRECISION = 0xFFFF


class Types:
    """The types with some OIDs, and the types that these are made of.

    Attributes:
        labels: Labels by OID of the enum.
        enums: Labels by the enum's name, of every enum in the database.
    """

    def __init__(self, connection: Connection, oids: Iterable[int]) -> None:
        self._rows: dict[int, Any] = {}
        missing = set(oids)
        while missing:
            rows = catalog.ask(connection, catalog.TYPES, {"types": sorted(missing)})
            self._rows |= {row.oid: row for row in rows}
            beneath = {o for row in rows for o in (row.base, row.element, *row.parts) if o}
            missing = beneath - self._rows.keys()
        self._casts = {row.type: row for row in catalog.ask(connection, catalog.CASTS, {})}
        self._checks: dict[int, list[str]] = {}
        for row in catalog.ask(connection, catalog.DOMAIN_CHECKS, {}):
            self._checks.setdefault(row.type, []).append(row.expression)
        self.labels: dict[int, tuple[str, ...]] = {}
        self.enums: dict[TableName, tuple[str, ...]] = {}
        for row in catalog.ask(connection, catalog.LABELS, {}):
            self.labels[row.type] = (*self.labels.get(row.type, ()), row.label)
            self.enums[TableName(row.schema, row.name)] = self.labels[row.type]

    def column_type(self, oid: int, modifier: int, sql: str) -> ColumnType:
        """Return a column's type by its ``atttypid``, ``atttypmod`` and ``format_type`` text."""
        *domains, row = self._down(oid)
        checks: list[str] = []
        for item in domains:
            checks += self._checks.get(item.oid, [])
            modifier = item.modifier if item.modifier >= 0 else modifier
        element = self._rows.get(row.element) if row.category == "A" else None
        length, precision, scale = _modifiers(element.name if element else row.name, modifier)
        return ColumnType(
            sql=sql,
            base=_base(row),
            kind=row.kind,
            category=row.category,
            labels=self.labels.get((element or row).oid, ()),
            length=length,
            precision=precision,
            scale=scale,
            domain=TableName(domains[0].schema, domains[0].name) if domains else None,
            domain_checks=tuple(checks),
            element=element.name if element else None,
            extension=row.extension,
            parts=self._parts(row, modifier),
        )

    def _parts(self, row: Any, modifier: int) -> tuple[ColumnType, ...]:
        """The types within a type; none for a type that PostgreSQL treats as a whole."""
        if row.category == "A" and row.element:
            listed = [(row.element, modifier)]
        else:
            modifiers = row.part_modifiers or [-1] * len(row.parts)
            listed = list(zip(row.parts, modifiers, strict=True))
        return tuple(self.column_type(oid, mod, self._rows[oid].sql) for oid, mod in listed)

    def cast_of_users(self, oid: int) -> str | None:
        """Return a users' function that an implicit cast of the type calls, and the target."""
        *_, row = self._down(oid)
        cast = self._casts.get(row.oid)
        return None if cast is None else f"{cast.function} makes it {cast.target}"

    def domain_not_null(self, oid: int) -> bool:
        """Return whether the type is a domain that forbids NULL, or a domain over such a domain."""
        return any(row.kind == "d" and row.not_null for row in self._down(oid))

    def _down(self, oid: int) -> Iterator[Any]:
        """A type, and the types beneath it if it is a domain."""
        row = self._rows[oid]
        yield row
        while row.kind == "d":
            row = self._rows[row.base]
            yield row


def _base(row: Any) -> str:
    """The type's name; with its schema if it is another type than the known one of that name."""
    stands_in = row.namesake and row.kind != "b"
    return str(TableName(row.schema, row.name)) if stands_in else str(row.name)


def _modifiers(base: str, modifier: int) -> tuple[int | None, int | None, int | None]:
    """Length, precision and scale that a type modifier stands for."""
    if modifier < 0:
        return None, None, None
    if base in _BY_LENGTH:
        return modifier - 4, None, None
    if base in _BITS:
        return modifier, None, None
    if base == "numeric":
        # An 11-bit signed scale in the low bits, since PostgreSQL 15 allows negative ones.
        return None, ((modifier - 4) >> 16) & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    if base in _TIMES:
        return None, modifier, None
    if base == "interval" and modifier & 0xFFFF != _NO_INTERVAL_PRECISION:
        return None, modifier & 0xFFFF, None
    return None, None, None
