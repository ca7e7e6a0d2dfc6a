"""The proposal as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from privbench.roles.proposal import Proposal, TableProposal

_INDENT = "  "


def render(proposal: Proposal, opened: frozenset[str] = frozenset()) -> str:
    """The forest, look-ups, second owners, spread and undeclared keys; ``opened`` are public."""
    tables = {_short(name): item for name, item in proposal.tables.items()}
    second = [f"{name}: {line}" for name, item in tables.items() for line in item.second_owners]
    spread = [f"{name}: {line}" for name, item in tables.items() for line in item.spread]
    undeclared = [
        f"{_short(item.table)}.{item.column} → {_short(item.parent)}: {item.reason}"
        for item in proposal.undeclared
    ]
    sections = [
        _unit(proposal),
        _forest(proposal),
        _lookups(proposal, opened),
        _block("Tables that reach a second owner (one owns, the others are REF)", second),
        _block("A person's data in several units: ε does not hold per person", spread),
        _block("References that are not declared (reported only)", undeclared),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _unit(proposal: Proposal) -> list[str]:
    if proposal.unit == "row":
        return [
            "Privacy unit: a single row.",
            "No table seems to hold people, parties or organisations, so nothing owns anything.",
            'If one does, name the OWN keys in the config and set unit = "owner".',
        ]
    trees = [root for root in proposal.roots() if proposal.owned(root)]
    named = ", ".join(_short(root) for root in trees) or "each table's own row"
    return [f"Privacy unit: a row of a root table and all that it owns. Trees: {named}."]


def _forest(proposal: Proposal) -> list[str]:
    roots = sorted(proposal.roots(), key=lambda root: not proposal.owned(root))
    rows = [row for root in roots for row in _tree(proposal, root, 0)]
    width = max((len(label) for label, _ in rows), default=0)
    return ["Forest:", *(f"{_INDENT}{label:<{width}}  {why}" for label, why in rows)]


def _tree(proposal: Proposal, table: str, depth: int) -> Iterator[tuple[str, str]]:
    item = proposal.tables[table]
    branch = _INDENT * depth + ("└ " if depth else "")
    yield f"{branch}{_short(table)}", item.reason
    for child in proposal.owned(table):
        yield from _tree(proposal, child, depth + 1)


def _lookups(proposal: Proposal, opened: frozenset[str]) -> list[str]:
    names = proposal.lookups
    if not names:
        return []
    listed = ", ".join(_short(name) for name in names)
    if opened & {*names}:
        found = [f"Look-ups ({listed}); those that are PUBLIC are COPIED VERBATIM:"]
    else:
        noun, kept = f"{len(names)} tables look like look-ups", "They are"
        if len(names) == 1:
            noun, kept = "1 table looks like a look-up", "It is"
        found = [
            f"{noun} ({listed}). {kept} PRIVATE: labels will",
            "be synthetic and filters on them will not match. If nothing in such a table is",
            "confidential, use --lookups public (COPIED VERBATIM).",
        ]
    public = proposal.public()
    return [*found, *(_INDENT + _lookup(proposal.tables[name], public, opened) for name in names)]


def _lookup(item: TableProposal, public: frozenset[str], opened: frozenset[str]) -> str:
    barred = "" if item.table in public else "; stays private: it points to private tables"
    barred = "; PUBLIC" if item.table in opened else barred
    return f"{_short(item.table)}: {', '.join(item.lookup_reasons)}{barred}"


def _block(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(_INDENT + line for line in lines)] if lines else []


def _short(table: str) -> str:
    """A table's name without the schema that everybody has."""
    return table.removeprefix("public.")
