"""Orders of the attributes and the cliques that they give: graphs, no data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from privbench.learning.junction.budget import CLIQUE, CLIQUES

#: Two attributes by number, the smaller first.
Pair = tuple[int, int]


def star_of(numbers: Mapping[str, int], target: str) -> list[Pair]:
    """The pairs of one attribute with all others, given by name and number.

    >>> star_of({"a": 0, "b": 1, "c": 2}, "b")
    [(0, 1), (1, 2)]
    """
    center = numbers[target]
    return [(min(center, n), max(center, n)) for name, n in numbers.items() if name != target]


class Components:
    """Connected components of a growing forest; the first ``given`` attributes are one already.

    >>> forest = Components(3)
    >>> forest.join((0, 2))
    >>> forest.apart((0, 2)), forest.apart((0, 1))
    (False, True)
    """

    def __init__(self, count: int, given: int = 0) -> None:
        self._of = [0 if name < given else name for name in range(count)]

    def apart(self, pair: Pair) -> bool:
        """Whether the ends are in different components."""
        return self._of[pair[0]] != self._of[pair[1]]

    def join(self, pair: Pair) -> None:
        """Make one component of two."""
        kept, gone = self._of[pair[0]], self._of[pair[1]]
        self._of = [kept if of == gone else of for of in self._of]


@dataclass(frozen=True, slots=True)
class Layout:
    """An order of the attributes with the cliques that it gives.

    Attributes:
        order: Attributes, first drawn first.
        near: For every attribute, the earlier ones that share a table with it, ascending; for a
            given one, its family.
        family: For every attribute, the earlier ones of its clique, ascending: `near` and the
            fill-in that makes the graph chordal along the order.
        largest: Cells of the largest clique.
        total: Cells of all cliques.
    """

    order: tuple[int, ...]
    near: tuple[tuple[int, ...], ...]
    family: tuple[tuple[int, ...], ...]
    largest: int
    total: int

    @property
    def fits(self) -> bool:
        """Whether the cliques may be held as tables."""
        return self.largest <= CLIQUE and self.total <= CLIQUES

    def above(self, attribute: int) -> int | None:
        """The latest member of an attribute's family: the clique that holds all of it."""
        place = {name: position for position, name in enumerate(self.order)}
        return max(self.family[attribute], key=place.__getitem__, default=None)


def layout(
    order: Sequence[int], pairs: Iterable[Pair], sizes: Sequence[int], given: int = 0
) -> Layout:
    """Triangulate along an order, last attribute first.

    Args:
        order: All attributes; the given ones first.
        pairs: Pairs that share a table.
        sizes: Bins of every attribute.
        given: How many attributes, from number 0, are given before a row is drawn.

    >>> layout([0, 1, 2], [(0, 1), (0, 2)], [2, 3, 4]).family
    ((), (0,), (0,))
    """
    place = {name: position for position, name in enumerate(order)}
    joined: list[set[int]] = [set() for _ in sizes]
    for first, second in pairs:
        joined[first].add(second)
        joined[second].add(first)
    near = [_earlier(joined[name], place, place[name]) for name in range(len(sizes))]
    family: list[tuple[int, ...]] = [()] * len(sizes)
    largest = total = 0
    for name in reversed(order):
        family[name] = _earlier(joined[name], place, place[name])
        cells = sizes[name] * prod(sizes[other] for other in family[name])
        largest, total = max(largest, cells), total + cells
        for other in family[name]:
            joined[other] |= set(family[name]) - {other}
    near[:given] = family[:given]
    return Layout(tuple(order), tuple(near), tuple(family), largest, total)


def _earlier(joined: set[int], place: dict[int, int], before: int) -> tuple[int, ...]:
    return tuple(sorted(other for other in joined if place[other] < before))


def orders(edges: Sequence[Pair], count: int, classes: Sequence[int] = ()) -> list[tuple[int, ...]]:
    """Breadth-first and depth-first orders of a forest from its busiest roots; no order twice.

    Args:
        edges: The forest.
        count: Number of attributes.
        classes: Class of every attribute, e.g. 0 for those that come before all of class 1; missing
            means that all are alike.
    """
    beside: list[list[int]] = [[] for _ in range(count)]
    for first, second in edges:
        beside[first].append(second)
        beside[second].append(first)
    if not count:
        return [()]
    busy = sorted(range(count), key=lambda name: -len(beside[name]))
    for neighbours in beside:
        neighbours.sort(key=lambda name: -len(beside[name]))
    found: dict[tuple[int, ...], None] = {}
    for breadth in (True, False):
        for root in busy[: max(4, 448 // max(count, 1))]:
            walked = _walk([root, *busy], beside, breadth)
            found[tuple(sorted(walked, key=classes.__getitem__) if classes else walked)] = None
    return list(found)


def _walk(roots: Sequence[int], beside: Sequence[Sequence[int]], breadth: bool) -> Iterator[int]:
    seen: set[int] = set()
    for root in roots:
        waiting = [root]
        while waiting:
            name = waiting.pop(0 if breadth else -1)
            if name in seen:
                continue
            seen.add(name)
            yield name
            fresh = [other for other in beside[name] if other not in seen]
            waiting += fresh if breadth else fresh[::-1]


def best_layout(
    choices: Sequence[tuple[int, ...]],
    pairs: Sequence[Pair],
    sizes: Sequence[int],
    given: int = 0,
) -> Layout:
    """The layout of least total size among orders; one that fits, if there is one."""
    layouts = (layout(order, pairs, sizes, given) for order in choices)
    return min(layouts, key=lambda found: (not found.fits, found.total))


def thin(
    choices: Sequence[tuple[int, ...]],
    edges: Sequence[Pair],
    extras: Sequence[Pair],
    sizes: Sequence[int],
    given: int = 0,
) -> tuple[Layout, list[Pair]]:
    """The tree and all extra pairs, in their order, that keep the cliques small.

    Args:
        choices: Orders to choose from.
        edges: Edges of the tree; kept unless given attributes make them too wide together.
        extras: Further pairs.
        sizes: Bins of every attribute.
        given: How many attributes are given.

    Returns:
        The best layout, and the pairs that are in it.
    """
    kept: list[Pair] = []
    fitting = list(choices)
    for pair in [*edges, *extras]:
        still = [order for order in fitting if layout(order, [*kept, pair], sizes, given).fits]
        if still:
            kept.append(pair)
            fitting = still
    return best_layout(fitting, kept, sizes, given), kept
