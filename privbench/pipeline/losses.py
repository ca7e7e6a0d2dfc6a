"""What a clone loses, and the lines of config that would help, from released numbers alone.

This module reads a model file, which is public, or sizes that were released or are expected; it
never reads the source.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from privbench import display
from privbench.config import Config
from privbench.encoding import (
    BoundsNeed,
    CategoriesNeed,
    Codec,
    ColumnReader,
    PartNeed,
    ReleasedDomain,
    Step,
)
from privbench.encoding.base import PLACEHOLDER
from privbench.encoding.documents import DocumentReader
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.text import TextCodec
from privbench.pipeline.model import Model
from privbench.pipeline.planned_events import least_sizes
from privbench.pipeline.prepare import FitPlan, prepare
from privbench.privacy import Event
from privbench.roles import Proposal, propose
from privbench.roles.classes import PERSON_LIKE, TableKind
from privbench.synthesizers import get as find_synthesizer
from privbench.words import own_words

#: The largest ε that is advised.
MOST_EPSILON = 10.0
#: From this many units, in noise scales, on, a histogram shows the range of a column; the range is
#: then measured, even if it equals the default.
CLEAR = 16.0
#: The largest weight in the budget that a table is advised to have.
MOST_WEIGHT = 4.0
#: A total of a table, clipped at 100 rows a unit, from which on nearly all units have more.
CUT = 80.0
TITLE = (
    "Too few units to be learned, or lost, and the line of config that would help (at the top of "
    "the TOML file; within the section that the line names, without that section's name):"
)
NOTHING = "no line helps: only more units would"
EMPTY = "empty: noise hides all of it"


@dataclass(frozen=True)
class Loss:
    """What a table or a column of a clone loses, and the line of config that helps it.

    The line is `NOTHING` if none helps.
    """

    place: str
    what: str
    remedy: str


def losses(model: Model) -> list[Loss]:
    """Return the losses of a model: tables first, then columns, in the schema's order."""
    plan = prepare(model.schema, Config.model_validate(model.config))
    codecs = {table: columns.codecs for table, columns in model.tables.items()}
    attributes = {
        t: sum(len(codec.domains) for codec in table_codecs.values())
        for t, table_codecs in codecs.items()
    }
    fitted = find_synthesizer(model.synthesizer).load(model.state, model.arrays)
    least = least_sizes(attributes, _latest(model.events), model.promise.accounting)
    tables = small_tables(plan, fitted.units, least)
    # For a table that may be public one line of config remedies all columns, and an empty table has
    # no values: the columns of both are not listed.
    explained = {i.place for i in tables if i.what == EMPTY or 'role = "public"' in i.remedy}
    noise = {event.label: event.scale / event.unit for event in model.events}
    every = (*placeholders(plan), *unmeasured(plan))
    unread = [item for item in every if item.place.rpartition(".")[0] not in explained]
    return [*tables, *_columns(plan, codecs, fitted.units, noise, explained), *unread]


def _latest(events: Sequence[Event]) -> list[Event]:
    """The events that a model rests on: after ``--since`` those of each label's last release.

    Each release of a chain begins with the same total, by which the releases are separated.
    """
    by_label: dict[str, list[Event]] = {}
    for event in events:
        if event.label == events[0].label:
            release: dict[str, list[Event]] = {}
        by_label[event.label] = release.setdefault(event.label, [])
        by_label[event.label].append(event)
    return [event for every in by_label.values() for event in every]


def small_tables(
    plan: FitPlan, units: Mapping[str, float], least: Mapping[str, float]
) -> list[Loss]:
    """Return tables whose released or expected number of units is below their least useful size."""
    result = []
    with own_words(plan.config.words):
        proposal = propose(plan.schema)
    for name, count in units.items():
        enough = least.get(name, 0.0)
        if count < max(enough, 0.5):
            size = f"about {count:,.0f} units, useful from {enough:,.0f}"
            more = enough / count if count >= 0.5 else math.inf
            remedy = _larger(plan, proposal, name, more)
            result.append(Loss(name, EMPTY if count < 0.5 else size, remedy))
    return result


def finer_units(
    plan: FitPlan,
    units: Mapping[str, float],
    rows: Mapping[str, float],
    least: Mapping[str, float],
) -> display.Lines:
    """Return owned tables that would be useful if their rows were units, and the config for it.

    Each row of a table that becomes a root lies within a unit of the fit, whose total Σ min(n, 100)
    is a lower bound of the table's `rows`; for another owner's units it is not. `units` are upper
    bounds of the numbers of units with rows. Tables owned by persons are not proposed, since
    persons are to be protected, unless most of their rows are cut off: a few persons do the work of
    many. Of a table and its owners the topmost is proposed. Elements of an array are no units, and
    a table through which a polymorphic key owns stays in its tree: else rows without an owner would
    count as rows of other units.
    """
    with own_words(plan.config.words):
        kinds = {name: item.kind for name, item in propose(plan.schema).tables.items()}
    spec, within, useful, sections = plan.spec, set[str](), [], list[str]()
    targets = {str(key.ref_table) for item in plan.private for key in item.owners}
    stays = targets.union(*map(spec.ancestors, targets))
    stays.update(name for name, table in spec.tables.items() if table.elements)
    for name in spec.order():
        own, top, enough = spec.tables[name].own, spec.top(name), least.get(name, 0.0)
        persons_cut = kinds[top] in PERSON_LIKE and rows[name] < CUT * units[top]
        if own and own.parent in within:
            within.add(name)
        elif own and name not in stays and not persons_cut and units[name] < enough <= rows[name]:
            within.add(name)
            more = f"at least {rows[name]:,.0f} rows, useful from {enough:,.0f} units"
            useful.append((name, more, f"now within {units[top]:,.0f} units of {top}"))
            sections += [f"[tables.{display.toml_key(name)}]", "own = []"]
    if not useful:
        return render_losses(())
    return display.lines(
        "Finer units, each row of a table by itself, would make it useful, by the released totals:",
        *display.table(useful),
        "If nobody stands behind the units of now who is to be protected with all of these rows,",
        "give this release up, and write in the config, in the place of 'own' where it is there:",
        *sections,
    )


def placeholders(plan: FitPlan, *, ahead: bool = False) -> Iterator[Loss]:
    """Yield columns of documents without known paths, in a fit (``ahead``) or in a model."""
    for item in plan.private:
        for name, reader in item.readers.items():
            if isinstance(reader, DocumentReader) and not reader.paths:
                _, why = reader.describe()
                place, but = f"{item.table.key}.{name}", ""
                if ahead and reader.asks:
                    but = ", but for those that enough units hold"
                yield Loss(place, f"documents without their keys{but}", why.partition(": ")[2])


def unmeasured(plan: FitPlan) -> Iterator[Loss]:
    """Yield other columns for which only the rate of NULL or the size is measured."""
    for item in plan.private:
        for name, reader in item.readers.items():
            how, why = reader.describe()
            if how.startswith(PLACEHOLDER):
                yield Loss(f"{item.table.key}.{name}", how, f"no line helps: {why}")


def render_losses(losses: Sequence[Loss], most: int = 25) -> display.Lines:
    """Return losses as a text table, empty if nothing is lost."""
    if not losses:
        return display.lines()
    rows = display.table([(item.place, item.what, item.remedy) for item in losses[:most]])
    more = [f"  and {len(losses) - most} more"] if len(losses) > most else []
    return display.lines(TITLE, *rows, *more)


def _larger(plan: FitPlan, proposal: Proposal, table: str, more: float) -> str:
    """Advice, in TOML, for a table that would need ``more`` times the units that it has.

    A table that looks like a look-up and owns nothing may be declared public. Otherwise the advice
    is a larger ε, up to `MOST_EPSILON`. If that is not enough, a table of things that owns nothing
    and refers to nothing private may be declared public, and rows that no person owns can be
    privacy units themselves. If little more is needed, a larger weight in the budget helps.
    """
    epsilon = more * (plan.config.privacy.epsilon or MOST_EPSILON)
    few, section = epsilon <= MOST_EPSILON, f"tables.{display.toml_key(table)}"
    if table not in proposal.tables:  # the elements of an array
        return f"privacy.epsilon = {epsilon:.2g}" if few else NOTHING
    item = proposal.tables[table]
    countable = item.kind in (TableKind.THING, TableKind.PLAIN) and not any(
        parent in plan.spec.tables for parent in item.parents
    )
    owners = {spec.own.parent for spec in plan.spec.tables.values() if spec.own}
    if table not in owners and (table in proposal.public() or (countable and not few)):
        secrets = "; it may hold secrets" if item.secretive else ""
        return f'{section}.role = "public" # if nothing in it is confidential{secrets}'
    if few:
        return f"privacy.epsilon = {epsilon:.2g}"
    if _belongs_to_a_thing(plan, proposal, table):
        return f"{section}.own = [] # if no person stands behind its owner; or another key"
    return f"{section}.weight = {MOST_WEIGHT:g}" if more <= MOST_WEIGHT else NOTHING


def _belongs_to_a_thing(plan: FitPlan, proposal: Proposal, table: str) -> bool:
    """Whether the tool's own proposal makes a table's rows parts of units that are not persons."""
    top, at = plan.spec.top(table), table
    while (own := plan.spec.tables[at].own) is not None:
        if own.parent != proposal.tables[at].owner:
            return False
        at = own.parent
    return top != table and proposal.tables[top].kind not in PERSON_LIKE


def _columns(
    plan: FitPlan,
    codecs: Mapping[str, Mapping[str, Codec]],
    units: Mapping[str, float],
    noise: Mapping[str, float],
    explained: set[str],
) -> Iterator[Loss]:
    """Columns whose values are surrogates although queries may compare them with constants.

    `noise` holds the noise scale of every event, in units, by label. Tables in `explained` are left
    out, since a loss of the whole table was reported.
    """
    for item in plan.private:
        table = item.table.key
        for name, reader in item.readers.items() if table not in explained else ():
            codec, place = codecs[table][name], f"{table}.{name}"
            section = f"tables.{display.toml_key(table)}.columns.{display.toml_key(name)}"
            if isinstance(codec, TextCodec):
                if _unnamed(reader, codec, f"categories {place}" in noise):
                    remedy = f'{section}.values = ["…"]'
                    yield Loss(place, "no value survived: surrogate texts", remedy)
            elif (
                isinstance(codec, OrderedCodec)
                and units[table] < CLEAR * noise.get(f"range {place}", math.inf)
                and _is_default(reader, codec)
            ):
                remedy = f'{section} = {{ min = "…", max = "…" }}'
                yield Loss(place, "hidden by noise: a default range", remedy)


def _unnamed(reader: ColumnReader, codec: TextCodec, measured: bool) -> bool:
    """Whether noise hid all labels of a column whose values are expected to repeat."""
    labels = {*(codec.labels or ())}
    return any(
        not (labels if measured else labels - {*need.default}) and not need.own
        for need in reader.needs
        if isinstance(need, CategoriesNeed)
    )


def _is_default(reader: ColumnReader, codec: OrderedCodec) -> bool:
    """Whether a column has the default range of its name and type."""
    defaults: dict[str, ReleasedDomain] = {need.attribute: () for need in reader.needs}
    for need in reader.needs:
        if isinstance(need, BoundsNeed):
            defaults[need.attribute] = need.default
        elif isinstance(need, PartNeed) and not need.cycle:
            defaults[need.attribute] = Step(codec.step)
    same = reader.finish(defaults) if defaults else codec
    if codec.settled or not isinstance(same, OrderedCodec) or same is codec:
        return False
    ends = [
        [item.recoding.edges[end] for end in item.recoding.core or ()] for item in (same, codec)
    ]
    return ends[0] == ends[1]
