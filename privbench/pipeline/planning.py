"""The command ``plan``: the events that a fit would have, found from the catalog alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from privbench import display
from privbench.config import Config
from privbench.errors import UsageError
from privbench.pipeline.fit import begin
from privbench.pipeline.losses import Loss, placeholders, small_tables, unmeasured
from privbench.pipeline.planned_events import PlannedEvent, foresee
from privbench.pipeline.progress import Reporter
from privbench.postgres.connect import Identity
from privbench.privacy import PART
from privbench.schema import TableName
from privbench.sources import staged

#: Rows of a table that a plan assumes if the user states no number.
ASSUMED = 10_000.0
#: JSON names of the fields of an event whose names differ from the attributes.
_KEYS = {
    "noises": "noise_sd_instead",
    "needed": "units_per_label",
    "needs": "units_per_label_instead",
}


@dataclass(frozen=True)
class PlanReport:
    """The measurements that a fit would make, and for which tables the budget is enough."""

    events: list[PlannedEvent]  # planned events; adaptive ones with the largest possible amount
    total: float  # ε or ρ of the fit
    epsilon: float  # ε of the release
    accounting: str
    least: Mapping[str, float]  # units per table below which little beyond totals can be learned
    given: Mapping[str, float]  # rows per table that the user expects
    units: Mapping[str, float]  # units assumed per table
    identity: Identity  # the database's identity for the ledger, and what it is made of
    losses: Sequence[Loss] = ()  # tables with fewer units than `least`, and what would help

    def to_json(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "accounting": self.accounting,
            "total": self.total,
            "identity": {"name": self.identity.name, "basis": self.identity.basis},
            "events": [
                {_KEYS.get(name, name): value for name, value in asdict(event).items()}
                | {"roots": sorted(event.roots)}
                for event in self.events
            ],
            "least_useful_units": dict(self.least),
            "expected_rows": dict(self.given),
            "assumed_units": dict(self.units),
            "losses": [vars(item) for item in self.losses],
        }

    def render(self, *, whole: bool = False) -> display.Lines:
        """Return the report as plain text: a line per table, and if ``whole`` all events."""
        few = [table for table, least in self.least.items() if self.units[table] < least]
        rows = [
            (
                table,
                f"{least:,.0f} units needed",
                f"{self.units[table]:,.0f} {'given' if table in self.given else 'assumed'}",
                "too few: little beyond totals" if table in few else "enough",
            )
            for table, least in self.least.items()
        ]
        answer = f"ε = {self.epsilon:g} is enough for {len(rows) - len(few)} of {len(rows)} tables"
        return display.lines(
            f"{answer}; too few units: {', '.join(few)}." if few else f"{answer}.",
            *display.table(rows, "12"),
            "Say what you expect by --rows TABLE=N; privbench -v shows the events.",
            f"Identity of the database, for the ledger: {self.identity}.",
            *(self._events() if whole else ()),
        )

    def _events(self) -> list[str]:
        """A line on all, then one an event."""
        unit = "ε" if self.accounting == "pure" else "ρ"
        rows = [
            (
                event.label.replace(PART, " "),
                event.kind,
                "×".join(map(str, event.shape)) or "–",
                f"{unit} {event.amount:.4g}",
                f"{100 * event.share:.1f} %",
                _noise(event),
            )
            for event in self.events
        ]
        total = f"{unit} = {self.total:.4g} per root table:"
        head = f"{len(self.events)} events, {self.accounting} accounting, {total}"
        return [head, *display.table(_counted(rows), "24")]


def plan(
    config: Config, source: str, rows: Mapping[str, float] | None = None, *, whole: bool = True
) -> PlanReport:
    """Plan a fit from the catalog, for the expected numbers of rows; see `fit` for errors.

    Unless ``whole``, events lack the number of units that a label needs, and noise that depends on
    other results.
    """
    with staged(source, config, rows=False) as here:
        draft = begin(here, config, Reporter(), dump=False)
    spec = draft.plan.spec
    expected = dict(rows or {})
    unknown = sorted(set(expected) - set(spec.tables))
    if unknown:
        raise UsageError(
            f"--rows names {unknown[0]}, which is not a private table.",
            remedy=f"Name one of: {', '.join(sorted(spec.tables))}.",
        )
    # The number that the user states for a table; else that of its root; else `ASSUMED`.
    guessed = {
        name: expected.get(name, expected.get(spec.top(name), ASSUMED)) for name in spec.tables
    }
    first, rest, least = foresee(
        draft.plan, draft.synthesizer, draft.accountant, guessed, ranges=whole
    )
    documents = placeholders(draft.plan, ahead=True)
    return PlanReport(
        events=[*first, *rest],
        total=draft.accountant.total,
        epsilon=draft.config.privacy.epsilon or 0.0,
        accounting=draft.accountant.accounting,
        least=least,
        given=expected,
        units=guessed,
        identity=draft.catalog.identity,
        losses=[*small_tables(draft.plan, expected, least), *documents, *unmeasured(draft.plan)],
    )


def _noise(event: PlannedEvent) -> str:
    """An event's noise; for a list also the number of units that a label must have."""
    noise = f"noise ±{_span(event.noise_sd, *event.noises)}"
    labels = _span(event.needed, *event.needs) if event.needed is not None else ""
    return f"{noise}, labels of {labels} units" if labels else noise


def _counted(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Join equal rows that follow each other into one, whose last cell says their number.

    >>> _counted([("pair", "2"), ("pair", "2"), ("total", "1")])
    [('pair', '2, 2 times'), ('total', '1')]
    """
    runs = [(row, len([*same])) for row, same in groupby(rows)]
    return [(*row[:-1], f"{row[-1]}, {count} times") if count > 1 else row for row, count in runs]


def _span(*numbers: float) -> str:
    """The least and the largest of some numbers.

    >>> _span(29.61, 7.5, 9.0), _span(119.6)
    ('7.5 to 29.6', '120')
    """
    ends = min(numbers), max(numbers)
    return " to ".join(dict.fromkeys(f"{n:,.0f}" if n >= 100 else f"{n:.3g}" for n in ends))


def parse_rows(pairs: Iterable[str], option: str = "--rows") -> dict[str, float]:
    """Read ``TABLE=N`` arguments into a mapping.

    >>> parse_rows(["public.users=1000"])
    {'public.users': 1000.0}
    """
    rows = {}
    for pair in pairs:
        table, _, count = pair.rpartition("=")
        try:
            number = float(count)
        except ValueError:
            number = -1.0
        if not table or not 0 <= number < 1e18:
            raise UsageError(f"{option} takes TABLE=N, not {pair!r}.")
        rows[str(TableName.parse(table))] = number
    return rows
