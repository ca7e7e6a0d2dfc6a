"""What a clone has lost, and the line of config that would help: from released numbers alone.

Reads a model file, which is public, or sizes that were released or are expected; never the source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privbench.config import Config
from privbench.encoding import (
    BoundsNeed,
    CategoriesNeed,
    Codec,
    ColumnReader,
    Decimals,
    DecimalsNeed,
    codec_from_json,
)
from privbench.encoding.ordered_codec import OrderedCodec
from privbench.encoding.text_codec import TextCodec
from privbench.learning.assemble import expected_sizes
from privbench.pipeline.foreseen import least_sizes
from privbench.pipeline.model import Model
from privbench.pipeline.prepare import FitPlan, prepare
from privbench.privacy import Event
from privbench.roles import Proposal, propose
from privbench.roles.classes import Kind
from privbench.synthesizers import get as find_synthesizer

#: ε beyond which more of it is no advice.
MOST_EPSILON = 10.0
#: Headings: of what a clone has lost, and of what will be lost.
TITLE = "What is lost, and the line of config that would help:"
TOO_SMALL = "TOO FEW UNITS, little beyond totals can be learned; what would help:"
#: Lines of a table of losses.
LINES = 25


@dataclass(frozen=True)
class Loss:
    """One thing that a clone has lost.

    Attributes:
        place: The table, or the column.
        what: What was lost.
        remedy: The line of config that would help.
    """

    place: str
    what: str
    remedy: str


def losses(model: Model) -> list[Loss]:
    """What a model has lost: tables first, then columns, in the schema's order."""
    plan = prepare(model.schema, Config.model_validate(model.config))
    codecs = {
        table: {name: codec_from_json(item) for name, item in entry["codecs"].items()}
        for table, entry in model.tables.items()
    }
    attributes = {
        table: sum(len(codec.domains) for codec in items.values())
        for table, items in codecs.items()
    }
    events = [Event.from_json(item) for item in model.events]
    fitted = find_synthesizer(model.synthesizer).load(model.state, model.arrays)
    sizes = expected_sizes(fitted.tables)
    least = least_sizes(attributes, events, model.promise.accounting)
    empty = [name for name, (rows, _) in sizes.items() if rows < 0.5]
    small = {name: units for name, (_, units) in sizes.items() if name not in empty}
    asked = {event.label for event in events}
    none = "empty: nothing can be told from noise"
    proposal = propose(plan.schema)
    tables = [
        *(Loss(name, none, _larger(proposal, name, None)) for name in empty),
        *small_tables(plan, small, least),
    ]
    # One line mends all columns of a table that may be public, and an empty one has no values.
    done = {*empty, *(item.place for item in tables if 'role = "public"' in item.remedy)}
    return [*tables, *_columns(plan, codecs, asked, done)]


def small_tables(
    plan: FitPlan, units: Mapping[str, float], least: Mapping[str, float]
) -> list[Loss]:
    """Tables with fewer units than their least useful size.

    Args:
        plan: The plan of the fit.
        units: Released or expected units, as far as they are known.
        least: Least useful sizes.
    """
    proposal, epsilon = propose(plan.schema), plan.config.privacy.epsilon
    return [
        Loss(
            name,
            f"about {held:,.0f} units, useful from {least[name]:,.0f}",
            _larger(proposal, name, epsilon, least[name] / max(held, 1.0)),
        )
        for name, held in units.items()
        if held < least.get(name, 0.0)
    ]


def render_losses(found: Sequence[Loss], title: str = TITLE, most: int = LINES) -> str:
    """A table of losses as text, empty where nothing is lost."""
    if not found:
        return ""
    shown = found[:most]
    widths = [max(len(getattr(item, part)) for item in shown) for part in ("place", "what")]
    rows = [f"  {i.place:<{widths[0]}}  {i.what:<{widths[1]}}  {i.remedy}" for i in shown]
    more = [f"  and {len(found) - most} more"] if len(found) > most else []
    return "\n".join([title, *rows, *more])


def _larger(
    proposal: Proposal, table: str, epsilon: float | None, factor: float = float("inf")
) -> str:
    """What would help a table that is too small by a factor.

    Its units count for more with more ε. What even that does not help may be public, if it looks
    like a look-up or holds things and refers to nothing private; else it can have a larger share.
    """
    item = proposal.tables[table]
    things = item.kind is Kind.THING and not item.parents
    epsilon = (epsilon or MOST_EPSILON) * factor
    if table in proposal.public() or (things and epsilon > MOST_EPSILON):
        return f'[tables."{table}"] role = "public"  # if nothing in it is confidential'
    if epsilon <= MOST_EPSILON:
        return f"[privacy] epsilon = {epsilon:.2g}"
    return f'[tables."{table}"] weight = 4'


def _columns(
    plan: FitPlan, codecs: Mapping[str, Mapping[str, Codec]], asked: set[str], done: set[str]
) -> Iterator[Loss]:
    """Columns whose values are made up though queries may name them."""
    for item in plan.private:
        table = item.table.key
        for name, reader in item.readers.items() if table not in done else ():
            codec, place = codecs[table][name], f"{table}.{name}"
            section = f'[tables."{table}".columns.{json.dumps(name)}]'
            if isinstance(codec, TextCodec):
                if _unnamed(reader, codec, f"categories {place}" in asked):
                    yield Loss(place, "no value survived: made up", f'{section} values = ["…"]')
            elif isinstance(codec, OrderedCodec) and _unseen(reader, codec):
                yield Loss(place, "range not seen: a usual one", f"{section} min = …, max = …")


def _unnamed(reader: ColumnReader, codec: TextCodec, asked: bool) -> bool:
    """Whether a column that is no name of its rows has no label that rows told."""
    need = next((need for need in reader.needs if isinstance(need, CategoriesNeed)), None)
    if need is None or need.own:
        return False
    labels = {*(codec.labels or ())}
    return not labels or (not asked and labels <= {*need.usual})


def _unseen(reader: ColumnReader, codec: OrderedCodec) -> bool:
    """Whether a column has the range that is usual of its name and type."""
    usual: dict[str, Any] = {}
    for need in reader.needs:
        if isinstance(need, BoundsNeed):
            usual[need.attribute] = need.usual
        elif isinstance(need, DecimalsNeed):
            usual[need.attribute] = Decimals(codec.decimals)
        else:
            usual[need.attribute] = ()
    if codec.settled or not usual:
        return False
    same = reader.finish(usual)
    return isinstance(same, OrderedCodec) and _core(same) == _core(codec)


def _core(codec: OrderedCodec) -> tuple[int, int] | None:
    """First and last edge of the range."""
    core, edges = codec.recoding.core, codec.recoding.edges
    return None if core is None else (edges[core[0]], edges[core[1]])
