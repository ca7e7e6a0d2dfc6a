"""Choose the foreign key that owns a table's rows: score the candidates, break cycles, choose."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from privbench.roles.classes import (
    NEVER_OWN,
    PEOPLE,
    PERSON_LIKE,
    ROOT_KINDS,
    TableKind,
    is_catalogue,
)
from privbench.roles.facts import KeyFacts, TableFacts, is_calendar

_PERSON_OR_PROXY = PEOPLE | {TableKind.PROXY}
_PERSON_ROOTS = _PERSON_OR_PROXY | {TableKind.ROLE}
#: The least score of an OWN key by the kind of the root that it leads to; `_LEAST` for other kinds.
_LEAST_BY_ROOT = {
    **dict.fromkeys(_PERSON_ROOTS, -2.5),
    **dict.fromkeys((TableKind.ORG, TableKind.FIGURE, TableKind.GUEST), 1.0),
}
_LEAST = 2.6
#: Claims that differ by less are in doubt.
_NEAR = 1.0
#: By how much a key's score falls with every step away from the person.
_STEP = 0.5


@dataclass(frozen=True)
class Placement:
    """The place of a table in the ownership forest: its owner, with the alternatives."""

    own: KeyFacts | None  # the OWN key, or None for a root
    root: str  # the root table of its tree
    worth: float  # how good an owner the table is in this place
    reasons: tuple[str, ...]  # why its OWN key was chosen, or why it has none
    # Keys that could own it about as well, or, for a root, if its rows were no persons.
    near: tuple[KeyFacts, ...] = ()


def barred(
    tables: Mapping[str, TableFacts], key: KeyFacts, kinds: Mapping[str, TableKind]
) -> str | None:
    """Return why a key can never own its table's rows, or None."""
    facts = tables[str(key.key.table)]
    own, parent = kinds[facts.name], kinds[key.parent]
    if own in NEVER_OWN:
        return f"{own.article} {own.label} has no owner"
    if parent in NEVER_OWN and not (key.is_primary and not is_calendar(tables[key.parent].table)):
        return f"{parent.label}s own nothing"
    if is_catalogue(tables[key.parent], parent):
        return "a list of codes owns nothing"
    if key.maker and not key.cascades:
        return "who touched a row does not own it"
    rivals = [other for other in facts.keys if other.parent == key.parent and not other.deputy]
    several = key.paired or (len(rivals) > 1 and key in rivals)
    if several and parent not in _PERSON_ROOTS | {TableKind.GUEST}:
        return "one of two into the same table"
    if key.deputy and not key.not_null and not key.cascades:
        return "optional second party"
    if key.deputy and own is TableKind.STRUCTURE and not key.cascades:
        return "a second party does not own a part of the house"
    if key.released and parent not in _PERSON_OR_PROXY:
        return "the catalog keeps the row when its target goes"
    part = key.not_null and parent is TableKind.PROXY and _named_after(tables, key)
    if own in ROOT_KINDS and not part and not _may_own_root(key, parent):
        return f"{own.article} {own.label} is a root"
    return None


def _may_own_root(key: KeyFacts, parent: TableKind) -> bool:
    if key.is_primary:
        return parent in ROOT_KINDS | {TableKind.PROXY}
    return (key.in_primary or key.cascades) and parent in _PERSON_OR_PROXY


def _named_after(tables: Mapping[str, TableFacts], key: KeyFacts) -> bool:
    """Whether a table's name begins with that of the table a key points to."""
    noun, parent = tables[str(key.key.table)].noun, tables[key.parent].noun
    return len(noun) > len(parent) and noun[: len(parent)] == parent


class Forest:
    """The tables of a schema, and the chosen place of each in the ownership forest."""

    def __init__(self, tables: Mapping[str, TableFacts], kinds: Mapping[str, TableKind]) -> None:
        self.tables = tables
        self.kinds = kinds
        # Sorted by name: the result depends on which cycle is broken first, and must not depend on
        # the order of tables.
        self.candidates = {
            name: [key for key in facts.keys if barred(tables, key, kinds) is None]
            for name, facts in sorted(tables.items())
        }
        self.places: dict[str, Placement] = {}
        self.break_cycles()
        for name in tables:
            self.place(name)

    def score(self, key: KeyFacts) -> float:
        """Return the points of a key as an owner."""
        return sum(points for _, points in self.reasons(key))

    def reasons(self, key: KeyFacts) -> Iterator[tuple[str, float]]:
        """Return the points for and against a key, each with its reason."""
        if key.cascades:
            yield "ON DELETE CASCADE", 3.0
        elif key.released:
            yield "ON DELETE SET NULL", -2.0
        if key.is_primary:
            yield "is the primary key", 4.0
        elif key.in_primary:
            yield "in the primary key", 1.6 if key.first_of_primary else 1.5
        elif key.first_of_primary:
            yield "holds the primary key's first column", 1.6
        if key.not_null:
            yield "NOT NULL", 1.0
        if _named_after(self.tables, key):
            yield "named after its parent", 1.5
        if self.kinds[key.parent] in PEOPLE and not key.deputy:
            yield "straight to people", 2.0
        if key.owner:
            yield "named as an owner", 0.5
        if key.deputy:
            yield "named as a second party", -3.0

    def break_cycles(self) -> None:
        """Remove the weakest key of every cycle, nullable keys first."""
        while cycle := find_cycle(self.candidates):
            weakest = min(cycle, key=lambda key: (key.not_null, self.score(key), -key.position))
            self.candidates[str(weakest.key.table)].remove(weakest)

    def place(self, name: str) -> Placement:
        """Choose the owner of a table; the places of its possible owners are chosen first.

        The recursion is as deep as the longest chain of foreign keys in the schema.
        """
        if name in self.places:
            return self.places[name]
        keys = [key for key in self.candidates[name] if self._allowed(name, key)]
        claims = [(self.place(key.parent).worth + self.score(key), key) for key in keys]
        refused = tuple(key for _, key in claims if self._refused(name, key))
        # Of equal claims the first one owns: keys are in the order of their columns.
        claims = sorted((claim for claim in claims if claim[1] not in refused), key=lambda c: -c[0])
        if claims:
            near = tuple(key for worth, key in claims[1:] if worth > claims[0][0] - _NEAR)
            self.places[name] = replace(self._owned(name, claims[0][1]), near=near)
        else:
            self.places[name] = replace(self._root(name), near=refused)
        return self.places[name]

    def _allowed(self, name: str, key: KeyFacts) -> bool:
        root, parent = self.kinds[self.place(key.parent).root], self.kinds[key.parent]
        if self.score(key) < _LEAST_BY_ROOT.get(root, _LEAST):
            return False
        if self.kinds[name] is TableKind.PROXY and root not in _PERSON_ROOTS:
            return False
        if parent is TableKind.STRUCTURE:
            return key.is_primary or key.cascades or root in _PERSON_ROOTS | {TableKind.ORG}
        return True

    def _refused(self, name: str, key: KeyFacts) -> str | None:
        """Why an owner that is no person's cannot own a table with identifying columns, or None."""
        # A key that was taken out of a cycle may lead to a table without a place yet.
        root = self.places[key.parent].root if key.parent in self.places else key.parent
        if key.is_primary or not self.tables[name].identifying:
            return None
        if self.kinds[root] in PERSON_LIKE or self.tables[root].identifying:
            return None
        return "it has personal columns of its own"

    def _why_not(self, name: str, key: KeyFacts) -> str:
        never = barred(self.tables, key, self.kinds)
        return never or self._refused(name, key) or "too weak a claim"

    def _root(self, name: str) -> Placement:
        kind, facts = self.kinds[name], self.tables[name]
        why = [f"{key.columns}: {self._why_not(name, key)}" for key in facts.keys]
        return Placement(None, name, kind.worth, tuple(why))

    def _owned(self, name: str, key: KeyFacts) -> Placement:
        owner = self.places[key.parent]
        worth = owner.worth - _STEP
        if self.kinds[owner.root] is not TableKind.PLAIN:
            worth = max(worth, self.kinds[name].worth)
        why = [reason for reason, _ in self.reasons(key)]
        if self.kinds[owner.root] not in PERSON_LIKE:
            why += [
                f"{other.columns} leads to a plain thing, whose rows may be few"
                for other in self.candidates[name]
                if other != key and self.kinds[other.parent] is TableKind.PLAIN
            ]
        return Placement(key, owner.root, worth, tuple(why))

    def rivals(self, table: str) -> list[KeyFacts]:
        """Return other keys by which a table reaches a second owner that looks like a person.

        A key counts if it leads to another root table that is person-like, or directly to a table
        of people in the same tree. Keys of a table without an owner count if they lead to several
        owners.
        """
        place, keys = self.places[table], self.tables[table].keys
        roots = {key: self.places[key.parent].root for key in keys}
        personal = [key for key in keys if self.kinds[roots[key]] in PERSON_LIKE]
        personal = [key for key in personal if key != place.own]
        if place.own is not None:
            return [k for k in personal if roots[k] != place.root or self._second_person(k)]
        several = len({roots[key] for key in personal}) > 1
        return personal if several and self.kinds[table] not in PERSON_LIKE | NEVER_OWN else []

    def _second_person(self, key: KeyFacts) -> bool:
        """Whether a key names a person beside the owner, and not just an optional deputy.

        The key may name the owner again (``order_items.customer_id``): the catalog cannot
        distinguish that from another person (``comments.author_id`` under another user's post).
        """
        return self.kinds[key.parent] in PERSON_LIKE and (key.not_null or not key.deputy)


def find_cycle(candidates: Mapping[str, list[KeyFacts]]) -> list[KeyFacts]:
    """Return the keys of one cycle, or nothing if there is none."""
    left: Mapping[str, list[KeyFacts]] = {}
    inner = candidates
    # Tables from which no cycle can be reached are removed until none is left.
    while len(inner) != len(left):
        left = inner
        within = ((name, [key for key in left[name] if key.parent in left]) for name in left)
        inner = {name: keys for name, keys in within if keys}
    path: list[KeyFacts] = []
    steps: dict[str, int] = {}
    name = next(iter(inner), None)
    while name is not None and name not in steps:
        steps[name] = len(path)
        path.append(inner[name][0])
        name = path[-1].parent
    return [] if name is None else path[steps[name] :]
