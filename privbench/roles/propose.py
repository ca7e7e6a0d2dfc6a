"""Propose roles from the catalog, as text and as a config; never reads rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from privbench.config import Config, ReferenceConfig, TableConfig
from privbench.display import Lines, lines, paragraphs, table, toml_key
from privbench.roles.choose import Forest
from privbench.roles.classes import (
    NAMED_BY_USERS,
    PEOPLE,
    PERSON_LIKE,
    LookupScore,
    TableKind,
    called_people,
    classify,
    is_secretive,
    lookup_scores,
    person_kind,
)
from privbench.roles.facts import KeyFacts, TableFacts, gather, is_readable, refers_by_label
from privbench.roles.references import referenced, targets
from privbench.roles.undeclared import undeclared
from privbench.schema import Schema, TableName

_INDENT = "  "


@dataclass(frozen=True)
class TableProposal:
    """The proposed role of one table."""

    table: str  # ``schema.table``
    kind: TableKind  # what the table seems to hold
    own: tuple[str, ...] | None  # columns of the OWN key, or None for a root
    owner: str | None  # the owning table, or None
    # Columns and target of every foreign key to another table.
    keys: tuple[tuple[tuple[str, ...], str], ...]
    reason: str  # why the table has this owner or none, in one line
    lookup_reasons: tuple[str, ...] = ()  # reasons of its score, with points
    second_owners: tuple[str, ...] = ()  # a line per further person-like owner that its keys reach
    # A line per table that holds data of this table's people in privacy units of its own.
    spread: tuple[str, ...] = ()
    # Columns and target of keys that could own it about as well; the owner of the data is asked.
    doubts: tuple[tuple[tuple[str, ...], str], ...] = ()
    # Of a look-up with a readable key: columns of other tables whose values of it may be released.
    natural: tuple[str, ...] = ()
    secretive: bool = False  # whether it may hold secrets, so that no flag makes it public

    @property
    def parents(self) -> frozenset[str]:
        """All other tables that the table refers to."""
        return frozenset(parent for _, parent in self.keys)

    @property
    def choices(self) -> tuple[tuple[tuple[str, ...], str | None], ...]:
        """The keys that may own it, the proposed one first, as columns and target.

        () for a root.
        """
        return ((self.own or (), self.owner), *self.doubts)

    def question(self) -> tuple[str, list[str]]:
        """The question to ask the user if the owner is in doubt, and the possible answers."""
        return f"Who owns the rows of {self.table}?", [_choice(*item) for item in self.choices]


@dataclass(frozen=True)
class Proposal:
    """The roles of all tables, proposed from the catalog alone."""

    tables: Mapping[str, TableProposal]  # a proposal per table, in the schema's order
    # ``owner``, or ``row`` where no table seems to hold people, parties or organisations.
    unit: Literal["owner", "row"]
    # References by table that seem to be meant and are not declared.
    undeclared: Mapping[str, Sequence[ReferenceConfig]]

    @property
    def lookups(self) -> tuple[str, ...]:
        """The tables that look like look-ups."""
        return tuple(name for name, item in self.tables.items() if item.kind is TableKind.LOOKUP)

    @property
    def versions(self) -> tuple[str, ...]:
        """The tables of schema migrations, without which an application's tool does not start."""
        return tuple(name for name, item in self.tables.items() if item.kind is TableKind.VERSIONS)

    def roots(self) -> tuple[str, ...]:
        """The tables without an owner."""
        return tuple(name for name, item in self.tables.items() if item.own is None)

    def root(self, table: str) -> str:
        """Return the table whose rows are the units of a table's rows."""
        while (owner := self.tables[table].owner) is not None:
            table = owner
        return table

    def owned(self, table: str) -> tuple[str, ...]:
        """Return the tables that a table owns directly."""
        return tuple(name for name, item in self.tables.items() if item.owner == table)

    def public(self) -> frozenset[str]:
        """The look-ups that could be declared public, since they refer to no private table."""
        chosen = {*self.lookups, *self.versions}
        arrays = [
            (name, item.to.table)
            for name, items in self.undeclared.items()
            for item in items
            if item.each and item.to
        ]
        while True:
            bad = {name for name in chosen if not self.tables[name].parents <= chosen}
            bad |= {name for name, parent in arrays if parent not in chosen} & chosen
            if not bad:
                return frozenset(chosen)
            chosen -= bad

    def to_config(self, base: Config, lookups: Literal["private", "public"] = "private") -> Config:
        """Return the base config with every open decision filled in, ``roles = "proposed"``.

        Decisions of the base config stay: role, ``own`` and ``unit = "row"``. Look-up candidates
        are declared public if ``lookups`` says so and they refer to no private table.
        """
        unit = "row" if "row" in (base.privacy.unit, self.unit) else "owner"
        spelled = {str(TableName.parse(name)): name for name in base.tables}
        sections = {
            name: base.tables.get(spelled.get(name, ""), TableConfig()) for name in self.tables
        }
        if lookups == "public":
            opened = {
                name: sections[name].model_copy(update={"role": "public"})
                for name in self.public()
                if "role" not in sections[name].model_fields_set
            }
            sections |= opened
        for name, items in self.undeclared.items():
            section = sections[name]
            if section.role == "private":
                more = {"references": [*section.references, *items]}
                sections[name] = section.model_copy(update=more)
        own = self._own(sections, unit)
        owners = {self._owner(name, tuple(columns)) for name, columns in own.items()}
        sections |= {
            name: sections[name].model_copy(update={"natural": True})
            for name, item in self.tables.items()
            if item.natural
            and sections[name].role == "private"
            and "natural" not in sections[name].model_fields_set
            and not own[name]
            and name not in owners
        }
        filled = {
            spelled.get(name, name): section
            if section.role == "public"
            else section.model_copy(update={"own": own[name]})
            for name, section in sections.items()
        }
        rest = {name: base.tables[name] for key, name in spelled.items() if key not in self.tables}
        return base.model_copy(update={"tables": {**filled, **rest}}).with_privacy(
            roles="proposed", unit=unit
        )

    def _own(self, sections: Mapping[str, TableConfig], unit: str) -> dict[str, list[str]]:
        """OWN columns per table, from the base config; the proposal fills in undecided tables.

        A proposed OWN key is left out where its owner is not private, or where it would close a
        cycle of owners.
        """
        own = {name: list(section.own or ()) for name, section in sections.items()}
        owner = {name: self._owner(name, tuple(columns)) for name, columns in own.items()}
        for name, item in self.tables.items():
            undecided = sections[name].own is None and sections[name].role == "private"
            if not undecided or unit == "row" or item.own is None or item.owner is None:
                continue
            if sections[item.owner].role == "private" and name not in _line(item.owner, owner):
                own[name], owner[name] = list(item.own), item.owner
        return own

    def _owner(self, table: str, columns: tuple[str, ...]) -> str | None:
        """The table that a key on these columns points to."""
        keys = self.tables[table].keys
        return next((parent for cols, parent in keys if set(cols) == set(columns)), None)


def _line(table: str, owner: Mapping[str, str | None]) -> set[str]:
    """The table and its owners up to the root."""
    line: set[str] = set()
    current: str | None = table
    while current is not None and current not in line:
        line.add(current)
        current = owner[current]
    return line


def render(proposal: Proposal, opened: frozenset[str] = frozenset()) -> Lines:
    """Return the proposal as text; ``opened`` are the look-ups that are declared public."""
    tables = {_without_public(name): item for name, item in proposal.tables.items()}
    second = [f"{name}: {line}" for name, item in tables.items() for line in item.second_owners]
    spread = [f"{name}: {line}" for name, item in tables.items() for line in item.spread]
    doubts = [
        f"{name}: {' or '.join(_choice(*choice) for choice in item.choices)}"
        for name, item in tables.items()
        if item.doubts
    ]
    secretive = [
        f'{_without_public(name)}: tables.{toml_key(item.table)}.role = "public"'
        for name, item in tables.items()
        if item.secretive
    ]
    natural = [
        f"{_without_public(name)}: natural = true: "
        f"values of {', '.join(item.natural)} may be released"
        for name, item in proposal.tables.items()
        if item.natural and item.kind is not TableKind.LOOKUP
    ]
    implied = [
        f"{_without_public(name)}.{item.columns[0]} → "
        f"{_without_public(', '.join(to.table for _, to in targets(item)))}: {item.reason}"
        for name, items in proposal.undeclared.items()
        for item in items
    ]
    sections = [
        _unit(proposal),
        _forest(proposal),
        _lookups(proposal, opened),
        _block("May hold secrets: never copied but by a line of its own", secretive),
        _block("Keys that are names (private; only their values are kept)", natural),
        _block("Owners in doubt (asked about on a terminal; else as above)", doubts),
        _block("Tables that reach a second owner (one owns, the others are REF)", second),
        _block("A person's data in several units: ε does not hold per person", spread),
        _block("References without a constraint, by names and types (in the config)", implied),
    ]
    return paragraphs(*(lines(*section) for section in sections if section))


def render_sizes(proposal: Proposal, sizes: Mapping[str, float]) -> Lines:
    """Return the estimated rows of every table, and their numbers of units by each of its keys.

    The numbers are for the owner's eyes: they are statistics of rows without noise.
    """
    rows = [("table", "rows", "units by the owner that is proposed, or by another key")]
    for name, item in proposal.tables.items():
        choices = [(columns, parent) for columns, parent in item.keys if parent in sizes]
        choices.sort(key=lambda choice: choice[0] != item.own)
        units = [
            f"{'' if columns == item.own else 'or '}{sizes.get(proposal.root(parent), 0):,.0f} of "
            f"{_without_public(proposal.root(parent))} by {', '.join(columns)}"
            for columns, parent in choices
            if proposal.tables[parent].kind is not TableKind.LOOKUP
        ]
        own = [] if item.own else ["each row by itself"]
        rows.append((_without_public(name), f"{sizes.get(name, 0):,.0f}", "; ".join(own + units)))
    return lines(
        "CONFIDENTIAL: sizes by the planner's estimates, statistics of rows without noise. Roles",
        "that are chosen by them reveal something that ε does not cover; the config, the ledger",
        "and the promise say that they were shown. No role is proposed by them:",
        *table(rows, "1"),
    )


def _unit(proposal: Proposal) -> list[str]:
    if proposal.unit == "row":
        return [
            "Privacy unit: a single row.",
            "No table seems to hold people, parties or organisations, so nothing owns anything.",
            'If one does, name the OWN keys in the config and set unit = "owner".',
        ]
    trees = [root for root in proposal.roots() if proposal.owned(root)]
    named = ", ".join(_without_public(root) for root in trees) or "each table's own row"
    return [f"Privacy unit: a row of a root table and all that it owns. Trees: {named}."]


def _forest(proposal: Proposal) -> list[str]:
    roots = sorted(proposal.roots(), key=lambda root: not proposal.owned(root))
    rows = [row for root in roots for row in _tree(proposal, root, 0)]
    return ["Forest:", *table(rows, indent=len(_INDENT))]


def _tree(proposal: Proposal, table: str, depth: int) -> Iterator[tuple[str, str]]:
    item = proposal.tables[table]
    branch = _INDENT * depth + ("└ " if depth else "")
    yield f"{branch}{_without_public(table)}", item.reason
    for child in proposal.owned(table):
        yield from _tree(proposal, child, depth + 1)


def _lookups(proposal: Proposal, opened: frozenset[str]) -> list[str]:
    names = proposal.lookups + proposal.versions
    if not names:
        return []
    listed = ", ".join(_without_public(name) for name in names)
    if opened & {*names}:
        lines = [f"Look-ups ({listed}); those that are PUBLIC are COPIED VERBATIM:"]
    else:
        noun, remain = f"{len(names)} tables look like look-ups", "They are"
        if len(names) == 1:
            noun, remain = "1 table looks like a look-up", "It is"
        lines = [
            f"{noun} ({listed}). {remain} PRIVATE: labels will",
            "be synthetic and filters on them will not match, but for natural keys. If nothing in",
            "such a table is confidential, use --lookups public (COPIED VERBATIM).",
        ]
    public = proposal.public()
    for name in names:
        lines.append(_INDENT + _lookup(proposal.tables[name], public, opened))
        values = ", ".join(proposal.tables[name].natural)
        if values and name not in opened:
            lines.append(f"{_INDENT * 2}natural = true: values of {values} may be released")
        tables = proposal.tables.items()
        if hanging := [_without_public(other) for other, item in tables if name in item.parents]:
            lines.append(f"{_INDENT * 2}{', '.join(hanging)} refer to it")
    return lines


def _lookup(item: TableProposal, public: frozenset[str], opened: frozenset[str]) -> str:
    barred = "" if item.table in public else "; stays private: it points to private tables"
    barred = "; PUBLIC" if item.table in opened else barred
    why = ", ".join(item.lookup_reasons) if item.kind is TableKind.LOOKUP else item.kind.label
    return f"{_without_public(item.table)}: {why}{barred}"


def _block(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(_INDENT + line for line in lines)] if lines else []


def _choice(columns: tuple[str, ...], parent: str | None) -> str:
    """An owner of a table's rows, as text."""
    return f"{_without_public(parent)} by {', '.join(columns)}" if parent else "each row by itself"


def _without_public(table: str) -> str:
    """A table's name without the schema ``public``."""
    return table.removeprefix("public.")


#: Kinds of tables that may hold part of a person's data although the person refers to them.
_HOLDERS = frozenset({TableKind.SATELLITE, TableKind.PROXY, TableKind.GUEST, TableKind.SUBJECT})


def propose(schema: Schema, settled: Collection[str] = ()) -> Proposal:
    """Propose an owner, or none, for every table of a schema; comments are read for hints.

    Where no table seems to hold people, parties or organisations, the unit is ``row`` and nothing
    owns anything. No references are proposed for tables in ``settled``, which the config decides.
    """
    references = undeclared(schema, settled)
    more = {name: TableConfig(references=items) for name, items in references.items()}
    tables = gather(referenced(schema, Config(tables=more)))
    people = called_people(tables) | {
        name for name, facts in tables.items() if person_kind(facts) is not None
    }
    scores = lookup_scores(tables, people)
    kinds = classify(tables, scores)
    forest = Forest(tables, kinds)
    has_people = any(kind in PERSON_LIKE for kind in kinds.values()) or any(
        "person" in facts.personal for facts in tables.values()
    )
    return Proposal(
        {
            name: _propose_table(forest, facts, scores[name], references.get(name, ()), has_people)
            for name, facts in tables.items()
        },
        "owner" if has_people else "row",
        references,
    )


def _propose_table(
    forest: Forest,
    facts: TableFacts,
    score: LookupScore,
    references: Sequence[ReferenceConfig],
    has_people: bool,
) -> TableProposal:
    place = forest.places[facts.name]
    own = place.own if has_people else None
    named = [tuple(item.columns) for item in references]
    if own and own.key.columns in named:
        # A name alone makes an owner of people and of what is theirs.
        own = own if forest.kinds[place.root] in PERSON_LIKE else None
    return TableProposal(
        table=facts.name,
        kind=forest.kinds[facts.name],
        own=own.key.columns if own else None,
        owner=own.parent if own else None,
        keys=tuple((key.key.columns, key.parent) for key in facts.keys),
        reason=_reason(forest, facts, own),
        lookup_reasons=score.reasons,
        doubts=tuple((key.key.columns, key.parent) for key in place.near) if has_people else (),
        natural=_natural(forest, facts, score),
        secretive=is_secretive(facts, forest.kinds[facts.name]),
        second_owners=_second_owners(forest, facts) if has_people else (),
        spread=_spread(forest, facts) if has_people else (),
    )


def _natural(forest: Forest, facts: TableFacts, score: LookupScore) -> tuple[str, ...]:
    """Columns that refer to a look-up with a readable key, whose values may be released.

    What has the shape of a look-up, whatever it is called, counts as one: nothing is copied.
    """
    kind, places = forest.kinds[facts.name], forest.places
    owners = {place.own.parent for place in places.values() if place.own}
    apart = facts.name not in owners and not places[facts.name].own
    shaped = score.shaped and kind in NAMED_BY_USERS and apart
    if not (kind is TableKind.LOOKUP or shaped) or not is_readable(facts.table):
        return ()
    return tuple(
        f"{_without_public(other.name)}.{key.key.columns[0]}"
        for other in forest.tables.values()
        for key in other.keys
        if key.parent == facts.name and refers_by_label(other.table, key.key, facts.table)
    )


def _reason(forest: Forest, facts: TableFacts, own: KeyFacts | None) -> str:
    kind, place = forest.kinds[facts.name], forest.places[facts.name]
    label = kind.label
    if kind is TableKind.GUEST or (kind in PEOPLE and facts.personal):
        label += f" ({', '.join(sorted(facts.personal))})"
    if own is not None:
        because = f": {', '.join(place.reasons)}" if place.reasons else ""
        return f"{label}, owned through {own.columns}{because}"
    if place.own is not None or not place.reasons:
        return f"{label}, a root"
    return f"{label}, a root ({'; '.join(place.reasons)})"


def _second_owners(forest: Forest, facts: TableFacts) -> tuple[str, ...]:
    place = forest.places[facts.name]
    owner = (
        f"owned by {place.own.parent} through {place.own.columns}"
        if place.own is not None
        else "a root"
    )
    return tuple(
        f"{owner}, but {key.columns} reaches {key.parent}"
        + ("" if forest.places[key.parent].own is None else f" of {forest.places[key.parent].root}")
        for key in forest.rivals(facts.name)
    )


def _spread(forest: Forest, facts: TableFacts) -> tuple[str, ...]:
    """References from a person to personal data in other units, one line each.

    Such a person's data lies in several units, and is protected per unit only.
    """
    if forest.kinds[facts.name] not in PERSON_LIKE - {TableKind.ORG}:
        return ()
    root = forest.places[facts.name].root
    return tuple(
        f"{key.columns} points to {key.parent}, whose rows are in units of "
        f"{forest.places[key.parent].root}"
        for key in facts.keys
        if not key.deputy
        and _holds_personal_data(forest, key.parent)
        and forest.places[key.parent].root != root
    )


def _holds_personal_data(forest: Forest, table: str) -> bool:
    kind, facts = forest.kinds[table], forest.tables[table]
    return kind in _HOLDERS or (kind in (TableKind.THING, TableKind.EVENT) and bool(facts.personal))
