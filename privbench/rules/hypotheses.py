"""Rules that rows may satisfy, to be tested in groups by names and types; they become CHECKs.

What lies within what (a city in a state) follows PostalAddress and Product of schema.org, which
number is the lesser its QuantitativeValue and AggregateOffer (min, low) and PostgreSQL's ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, permutations

from privbench.rules.facts import SHOWN, checked_orders
from privbench.rules.named import DATES, creation_date, named_orders, packaged, whole
from privbench.schema import Check, Table, literal, quoted
from privbench.words import snake

#: Most pairs of dates, and columns of labels; and most columns that count by NULL.
_MOST, _FEW = 32, 6
#: What decides which columns are NULL: states, and kinds (Jakarta Persistence names them dtype).
_STATUS = [
    whole(rf"(\w+_)?({n})") for n in ("status|state|stage|phase", "d?type|kind|method|category")
]
#: Stands in a CHECK before the share of rows that break it.
_BUT = " OR (random() < "


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are tested together: orders, short distances, or combinations of columns."""

    table: str
    orders: tuple[tuple[str, ...], ...] = ()  # pairs of dates or numbers, the lesser first
    labels: tuple[str, ...] = ()  # columns that count by their values
    nulls: tuple[str, ...] = ()  # columns that count by whether they are NULL
    said: bool = False  # whether names say the orders, or that the labels decide
    near: bool = False  # whether distances from the first date are tested, not orders

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the group."""
        dates = (name for pair in self.orders for name in pair)
        return tuple(dict.fromkeys((*dates, *self.labels, *self.nulls)))

    def part(self, names: Collection[str]) -> RuleGroup:
        """Return the combinations of some columns alone."""
        labels, nulls = ([*filter(names.__contains__, each)] for each in (self.labels, self.nulls))
        return replace(self, labels=tuple(labels), nulls=tuple(nulls))

    @property
    def halves(self) -> tuple[RuleGroup, ...]:
        """Return two groups to test if this one fails."""
        half = max(len(self.orders), len(self.nulls)) // 2
        parts = (slice(half), slice(half, None)) if half else ()
        return tuple(replace(self, orders=self.orders[p], nulls=self.nulls[p]) for p in parts)


def groups(
    table: Table, grids: Collection[str], columns: Collection[str], references: Collection[str]
) -> Iterator[RuleGroup]:
    """Yield rules to test on a table; ``grids`` are those ``columns`` that are read as points."""
    known = [column for column in table.columns if column.name in columns]
    checked = checked_orders(table)
    named = [pair for pair in named_orders(table, "spans") if pair not in checked]
    created = creation_date(table)
    for base in dict.fromkeys(c.type.base for c in known):
        points = [c for c in known if c.name in grids and c.type.base == base]
        ordered = [pair for pair in named if {*pair} <= {point.name for point in points}]
        dates = points if base in DATES else []
        more = [(one.name, other.name) for one, other in pairwise(dates)]
        more += [(dates[0].name, b.name) for a, b in pairwise(dates[1:]) if not a.not_null]
        more = [pair for pair in more if pair not in (*ordered, *checked)]
        # Few rows may have both dates of a pair: these are not hidden among pairs that all have.
        sure = {date.name for date in dates if date.not_null}
        whole_pairs = [pair for pair in more if sure.issuperset(pair)]
        parts = (ordered, whole_pairs, [pair for pair in more if pair not in whole_pairs])
        for some in filter(None, parts):
            yield RuleGroup(table.key, tuple(some[:_MOST]), said=some is ordered)
        dates.sort(key=lambda date: (date.name != created, not date.not_null))
        pairs = [(dates[0].name, date.name) for date in dates[1:] if dates[0].not_null]
        if pairs:
            yield RuleGroup(table.key, tuple(pairs[:_MOST]), near=True)
    labels = [c for c in known if c.type.kind == "e" or c.type.category in "BS"][:_MOST]
    truths = [c for c in labels if c.type.base == "bool" and (c.not_null or c.default)]
    each = [[c.name for c in labels if names.match(snake(c.name))] for names in _STATUS]
    status = [name for some in each for name in some[:1]]
    rest = [c for c in table.columns if c in known or c.name in references]
    nulls = [c.name for c in rest if not (c.not_null or c.default or c.name in status)]
    for at in range(0, max(len(nulls) - 1, bool(nulls)), _FEW - 1):
        block = tuple(nulls[at : at + _FEW])
        truth = [] if each[0] else [c.name for c in truths if c.not_null][:_FEW]
        for name in (*status, *truth):
            yield RuleGroup(table.key, labels=(name,), nulls=block, said=name in status)
        if len(block) > 1 and not each[0]:
            yield RuleGroup(table.key, nulls=block)
    alike = groupby([c.name for c in truths], lambda name: snake(name).partition("_")[0])
    kinds = [tuple(names) for _, names in alike]
    for flags in (*kinds, tuple(kind[0] for kind in kinds if not kind[1:])):
        if 1 < len(flags) <= _FEW:
            yield RuleGroup(table.key, labels=flags)
    within = [whole(rf"(\w+_|)({one}) \1({other})") for one, other in packaged("names")["within"]]
    for pair in permutations([column.name for column in labels], 2):
        if any(names.match(" ".join(map(snake, pair))) for names in within):
            yield RuleGroup(table.key, labels=pair)


def order_check(pair: tuple[str, ...], broken: float) -> Check:
    """Return the CHECK that two dates are in order, which a share of the rows breaks."""
    text = f"({' <= '.join(map(quoted, pair))})"
    but = f"{_BUT}{broken:.3g})" if broken else ""
    return Check(SHOWN, text + but, pair, declared=True)


def combination_check(group: RuleGroup, combinations: Sequence[Sequence[str]]) -> Check:
    """Return the CHECK that rows have only these combinations of labels.

    A further label is allowed with the NULLs of one combination.
    """
    texts, rows = len(group.labels), [[*map(literal, row)] for row in combinations]
    columns = [*map(quoted, group.labels), *(f"({quoted(name)} IS NULL)" for name in group.nulls)]

    def within(some: slice) -> str:
        listed = dict.fromkeys(f"({', '.join(row[some])})" for row in rows)
        return f"(({', '.join(columns[some])}) IN ({', '.join(listed)}))"

    text = within(slice(None))
    if texts:
        rest = f" AND {within(slice(texts, None))}" if group.nulls else ""
        text = f"(NOT {within(slice(1))}{rest}) OR {text}"
    return Check(SHOWN, text, group.columns, declared=True)


def told(check: Check) -> str:
    """Return in words what a CHECK for an inferred rule states.

    >>> told(order_check(("opened", "closed"), 0.125))
    '("opened" <= "closed"), but for 12% of them'
    """
    text, _, share = check.expression.partition(_BUT)
    return text + (f", but for {float(share[:-1]):.0%} of them" if share else "")
