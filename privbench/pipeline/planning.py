"""``plan``: the events of a fit, before it; reads the catalog only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privbench.config import Config
from privbench.encoding import Bounds, BoundsNeed, Decimals, DecimalsNeed, Released
from privbench.errors import UsageError
from privbench.pipeline.domain_budget import total_amounts, totals_share
from privbench.pipeline.domain_error import Noise, believed
from privbench.pipeline.domains import Rounds
from privbench.pipeline.fit import begin
from privbench.pipeline.prepare import FitPlan
from privbench.pipeline.progress import Reporter
from privbench.postgres.connect import Identity
from privbench.privacy import PART, DatabaseSpec, Measurement, Question, root_sums
from privbench.privacy.queries import Total
from privbench.schema import TableName
from privbench.synthesizers import PlanInput, PlannedEvent, roots_of, spare_amounts

#: Units that a table must have before a table is worth learning: 90·d/ε (see docs/privacy.md).
LEAST = 90.0
#: Rows that a plan reckons with where the user expects none in particular.
ASSUMED = 10_000.0


@dataclass(frozen=True)
class PlanReport:
    """What a fit would measure.

    Attributes:
        events: Planned events; adaptive ones at their largest.
        total: ε or ρ of the fit.
        accounting: ``pure`` or ``zcdp``.
        least: Units per table below which little beyond totals can be learned.
        given: Rows per table that the user expects.
        identity: The database's identity for the ledger, and what it is made of.
        maybe: Columns of whose values a list is asked for only if largest counts say that many
            units share one.
    """

    events: list[PlannedEvent]
    total: float
    accounting: str
    least: Mapping[str, float]
    given: Mapping[str, float]
    identity: Identity
    maybe: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """A plain object."""
        return {
            "accounting": self.accounting,
            "total": self.total,
            "identity": {"name": self.identity.name, "basis": self.identity.basis},
            "events": [
                {
                    "label": event.label,
                    "table": event.table,
                    "kind": event.kind,
                    "shape": list(event.shape),
                    "amount": event.amount,
                    "share": event.share,
                    "noise_sd": event.noise_sd,
                    "units_per_label": event.needed,
                    "roots": sorted(event.roots),
                }
                for event in self.events
            ],
            "least_useful_units": dict(self.least),
            "expected_rows": dict(self.given),
            "maybe_listed": list(self.maybe),
        }

    def render(self) -> str:
        """Plain text for people."""
        unit = "ε" if self.accounting == "pure" else "ρ"
        labels = [event.label.replace(PART, " ") for event in self.events]
        width = max(map(len, labels), default=0)
        lines = [
            f"  {label:<{width}}  {event.kind:<16} {_shape(event.shape):>12}  "
            f"{unit} {event.amount:<9.4g} {100 * event.share:5.1f} %  noise ±{event.noise_sd:.3g}"
            f"{_needed(event)}"
            for label, event in zip(labels, self.events, strict=True)
        ]
        sizes = [
            f"  {table}: about {least:,.0f} units{self._verdict(table, least)}"
            for table, least in self.least.items()
        ]
        return "\n".join(
            [
                f"Identity of the database, for the ledger: {self.identity}.",
                f"{len(self.events)} events, {self.accounting} accounting, {unit} = "
                f"{self.total:.4g} per root table",
                "(10,000 rows are assumed where --rows names none):",
                *lines,
                *self._may_be_listed(),
                "",
                "Least useful size (below it little beyond totals can be learned):",
                *sizes,
            ]
        )

    def _may_be_listed(self) -> list[str]:
        if not self.maybe:
            return []
        columns = ", ".join(self.maybe)
        return ["", f"Listed under δ too, if many units share a value: {columns}."]

    def _verdict(self, table: str, least: float) -> str:
        if table not in self.given:
            return ""
        enough = self.given[table] >= least
        return f"; you expect {self.given[table]:,.0f}: {'enough' if enough else 'TOO FEW'}"


def plan(config: Config, source: str, rows: Mapping[str, float] | None = None) -> PlanReport:
    """Plan a fit.

    Args:
        config: With ε.
        source: DSN; only its catalog is read.
        rows: Rows that the user expects, by table.

    Raises:
        UsageError: A table in ``rows`` does not exist.
        PrivbenchError: Whatever a fit would refuse.
    """
    draft = begin(source, config, Reporter())
    spec = settled(draft.plan)
    given = {str(TableName.parse(name)): count for name, count in (rows or {}).items()}
    unknown = sorted(set(given) - set(spec.tables))
    if unknown:
        raise UsageError(f"--rows names {unknown[0]}, which is not a private table.")
    guessed = _guess(spec, given)
    total = draft.accountant.total
    accounting, delta = draft.accountant.accounting, draft.accountant.threshold_delta
    first = planned(draft.plan, PlanInput(total, accounting, guessed), delta)
    spent = root_sums((event.roots, event.amount) for event in first)
    left = {root: total - spent.get(root, 0.0) for root in roots_of(spec)}
    least = min(left.values(), default=total)
    part = PlanInput(least, accounting, guessed, spare=spare_amounts(left, least))
    learned = draft.synthesizer.plan(spec, part)
    return PlanReport(
        events=[*first, *(_of_whole(event, total) for event in learned)],
        total=total,
        accounting=accounting,
        least=_least(spec, learned, accounting),
        given=given,
        identity=draft.catalog.identity,
        maybe=_maybe(draft.plan, first),
    )


def planned(plan: FitPlan, source: PlanInput, delta: float) -> list[PlannedEvent]:
    """The events before the synthesizer's, without data.

    Columns are taken to hold what is usual, and all units to have rows in owned tables.

    Args:
        plan: The fit's plan.
        source: The whole budget and the rows that are guessed.
        delta: δ for threshold releases, per root table: the accountant's, as in the fit.
    """
    spec, noise = plan.spec, Noise(source.accounting)
    rows = {name: source.rows(name) for name in spec.tables}
    rounds = Rounds(plan, noise, source.total, delta, rows)
    totals = total_amounts(spec, totals_share(plan) * source.total)
    sizes = rounds.sizes({})
    ranked, lists = rounds.laws(sizes), plan.lists()
    laws = {name: believed(lists[name][1], sizes[lists[name][0]].units) for name in ranked}
    asked = [
        *(Measurement(Total(name), amount, f"total {name}") for name, amount in totals.items()),
        *rounds.units(),
        *ranked.values(),
        *(question for group in rounds.last(sizes, laws).values() for _, question in group),
    ]
    return [_described(item, spec, source) for item in asked]


def _described(item: Question, spec: DatabaseSpec, source: PlanInput) -> PlannedEvent:
    """A question as an event; of a list, with the units that a label needs.

    The statistic leaves one unit out, which the threshold does not count.
    """
    event = PlannedEvent.of(item.label, item.query, spec, item.amount, source)
    threshold = item.method(spec, source.accounting).threshold
    return event if threshold is None else replace(event, needed=1 + threshold / item.query.unit)


def _needed(event: PlannedEvent) -> str:
    return "" if event.needed is None else f", labels of {event.needed:,.0f} units"


def settled(plan: FitPlan) -> DatabaseSpec:
    """The spec with the domains that are known before any release, for ``plan``.

    Attributes whose domain must be released are given the size that they are likely to get.
    """
    spec = plan.spec
    for item in plan.private:
        domains = {}
        for reader in item.readers.values():
            guess: dict[str, Released] = {}
            for need in reader.needs:
                if isinstance(need, BoundsNeed):
                    quarter = len(need.candidates) // 4
                    guess[need.attribute] = Bounds(
                        int(need.candidates[quarter]), int(need.candidates[3 * quarter])
                    )
                elif isinstance(need, DecimalsNeed):
                    guess[need.attribute] = Decimals(need.usual)
                elif need.grid is None:
                    guess[need.attribute] = tuple(f"value {i}" for i in range(20))
            domains.update(reader.finish(guess).domains)
        spec = spec.with_attributes(item.table.key, domains)
    return spec


def _maybe(plan: FitPlan, events: Sequence[PlannedEvent]) -> list[str]:
    """Columns that may be listed and for which no event is planned."""
    planned_labels = {event.label for event in events}
    columns = [f"{table}.{need.source}" for table, need in plan.lists().values()]
    return [column for column in columns if f"categories {column}" not in planned_labels]


def _guess(spec: DatabaseSpec, given: Mapping[str, float]) -> dict[str, float]:
    """Rows per table: what the user expects, else what is expected of the root, else `ASSUMED`."""
    return {name: given.get(name, given.get(spec.top(name), ASSUMED)) for name in spec.tables}


def parse_rows(pairs: Iterable[str]) -> dict[str, float]:
    """``TABLE=N`` as a mapping.

    Raises:
        UsageError: Not of that form.

    >>> parse_rows(["public.users=1000"])
    {'public.users': 1000.0}
    """
    rows = {}
    for pair in pairs:
        table, _, count = pair.rpartition("=")
        try:
            rows[table] = float(count)
        except ValueError:
            rows[table] = -1.0
        if not table or rows[table] < 0:
            raise UsageError(f"--rows takes TABLE=N, not {pair!r}.")
    return rows


def _of_whole(event: PlannedEvent, total: float) -> PlannedEvent:
    return replace(event, share=event.amount / total)


def _least(spec: DatabaseSpec, events: Iterable[PlannedEvent], accounting: str) -> dict[str, float]:
    """90·d/ε per table with what is planned for its rows (ROLES, small tables)."""
    spent: dict[str, float] = {}
    for event in events:
        if event.kind not in ("fan-out", "fan-in"):
            spent[event.table] = spent.get(event.table, 0.0) + event.amount
    least = {}
    for name, table in spec.tables.items():
        if table.attributes and spent.get(name):
            epsilon = spent[name] if accounting == "pure" else (2 * spent[name]) ** 0.5
            least[name] = LEAST * len(table.attributes) / epsilon
    return least


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in shape) or "–"
