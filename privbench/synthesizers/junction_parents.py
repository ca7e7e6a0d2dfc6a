"""Measuring attributes of rows that own rows among themselves (`learning.junction.parents`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from privbench.learning.denoise import Floats, by_precision, scale_of
from privbench.learning.junction.budget import is_made_up, table_parts
from privbench.learning.junction.context import Variable
from privbench.learning.junction.learner import Learner
from privbench.learning.junction.numbered import Numbered
from privbench.learning.junction.parents import Known, telling_most, with_children
from privbench.learning.junction.planning import largest_axes
from privbench.learning.junction.structure import Pair
from privbench.learning.keys import own_keys
from privbench.privacy import DatabaseSpec, KeySpec, Measurement
from privbench.privacy.queries import Axis, Histogram
from privbench.privacy.queries.regions import Region
from privbench.privacy.units import single
from privbench.synthesizers.common import Fitting

#: Part of a table's amount for each OWN key into it, and for all of them at most.
_EACH, _ALL = 0.08, 0.2
#: Units with rows that own some are told from none if they are this many standard deviations.
_CLEAR = 4.0
#: Most tables of one number of children. Where attributes are many, nearly all tables are noise,
#: and numbers of children that all of them hang on would not come out as they were measured.
_MOST = 12
#: Part of the rows up to which few own any.
_FEW = 0.3


def parents_part(spec: DatabaseSpec, table: str) -> float:
    """Part of a table's amount for its rows that own rows.

    Nothing where a unit has one row, which weighs as much among all rows as among these.
    """
    domains = spec.tables[table].attributes
    if single(spec, table) or all(is_made_up(name, domain) for name, domain in domains.items()):
        return 0.0
    return min(_EACH * len(own_keys(spec, table)), _ALL)


def measure_parents(
    fitting: Fitting, learner: Learner, table: str, amount: float
) -> dict[Pair, Floats]:
    """Tables of every attribute with every number of children that few rows have.

    What is not asked for goes to other pairs.

    Args:
        fitting: Asks the session.
        learner: Gives variables and what is known of them.
        table: The table.
        amount: What may be spent.
    """
    own = [(place, key) for place, key in _children(learner) if _few(learner.variables[place])]
    each = amount / max(len(own_keys(fitting.spec, table)), 1)
    learner.grant(amount - each * len(own))
    if amount <= 0 or not own:
        return {}
    asked = [place for place, item in enumerate(learner.variables) if _tells(item)]
    parts = table_parts([learner.variables[place].bins.size for place in asked])
    questions = [
        Measurement(
            _query(table, learner.variables[place].axis, key), each * part, _label(key, number)
        )
        for _, key in own
        for number, (place, part) in enumerate(zip(asked, parts, strict=True))
    ]
    answers = fitting.measure_all(questions)
    found: dict[Pair, Floats] = {}
    for number, (child, _) in enumerate(own):
        some = answers[number * len(asked) : (number + 1) * len(asked)]
        found |= _tables(learner, child, asked, [(a.ravel(), sd) for a, sd in some])
    return found


def _children(learner: Learner) -> Iterator[tuple[int, KeySpec]]:
    """Numbers of children by their places among the variables, and the keys they are counted by."""
    for place, item in enumerate(learner.variables):
        if item.early and item.key is not None:
            yield place, item.key


def _few(children: Variable) -> bool:
    """Whether few rows own any.

    Where many do, a pair table of all rows says nearly as well which of them, and it says how many
    they own as well: such pairs are chosen and measured like all others.
    """
    counts = children.bins.counts
    return bool(counts[1:].sum() < _FEW * counts.sum())


def _tables(
    learner: Learner, child: int, asked: Sequence[int], answers: Sequence[tuple[Floats, float]]
) -> dict[Pair, Floats]:
    """What is made of the answers for one number of children; nothing if they are only noise."""
    sums = [(float(a.sum()), max(sd * sd * len(a), 1e-18)) for a, sd in answers]
    owning, variance = by_precision(sums)
    if owning < _CLEAR * variance**0.5:
        return {}
    numbered = Numbered(learner.context, learner.variables)
    shares, found = numbered.shares, {}
    two = numbered.fixed + child
    for place, (noisy, sd) in zip(asked, answers, strict=True):
        one = numbered.fixed + place
        known = Known(
            learner.rows * shares[one],
            learner.rows * shares[two],
            numbered.blocks((one, two))[0],
            numbered.ordered((one, two))[0],
        )
        scale = scale_of(sd, learner.noise)
        table = with_children(known, noisy, owning, scale, learner.noise)
        found[min(one, two), max(one, two)] = table if one < two else table.T
    return telling_most(found, _MOST)


def planned_parents(
    spec: DatabaseSpec, table: str, axes: Sequence[Axis]
) -> Iterator[tuple[str, Histogram, float]]:
    """The events of `measure_parents`, at most: label, query, part of their amount.

    Where many rows turn out to own some, they are not asked for.

    Args:
        spec: What is public.
        table: The table.
        axes: Axes of its attributes, at their largest, and of its references.
    """
    keys = own_keys(spec, table)
    parts = table_parts([axis.size for axis in axes])
    for key in keys:
        for number, (axis, part) in enumerate(zip(axes, parts, strict=True)):
            yield _label(key, number), _query(table, axis, key), part / len(keys)


def _query(table: str, axis: Axis, key: KeySpec) -> Histogram:
    """Rows of a unit that own some weigh 1 together, however few they are."""
    return Histogram(table, (axis,), Region.of_parents(key), tau=1)


def parents_axes(spec: DatabaseSpec, table: str, most: int) -> list[Axis]:
    """Axes of a table's attributes that may say which rows own others, at their largest."""
    domains, largest = spec.tables[table].attributes, largest_axes(spec, table, most)
    named = zip(domains.items(), largest, strict=True)
    return [axis for (name, domain), axis in named if not is_made_up(name, domain)]


def _tells(variable: Variable) -> bool:
    """Whether a variable may say which rows own others."""
    made_up = variable.key is None and is_made_up(variable.name, variable.domain)
    return not variable.early and not made_up


def _label(key: KeySpec, number: int) -> str:
    return f"parents {number + 1} of {key.table}.{key.name}"
