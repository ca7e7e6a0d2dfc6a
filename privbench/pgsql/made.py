"""What the statements of a schema have made so far: all that those after them may name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from privbench.errors import ModelError
from privbench.pgsql import names
from privbench.pgsql.judge import Name, plain, shown

_IDENTIFIER = re.compile(r'(?:"((?:[^"]|"")+)"|([a-z_\u0080-\uffff][\w$]*))')


@dataclass(slots=True)
class Made:
    """What statements so far have made; the scope of what follows (`judge.Scope`)."""

    schemas: set[str] = field(default_factory=lambda: {"public"})
    relations: set[Name] = field(default_factory=set)
    sequences: set[Name] = field(default_factory=set)
    types: set[Name] = field(default_factory=set)
    collations: set[Name] = field(default_factory=set)
    others: set[Name] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    #: What extensions bring, by kind.
    brought: dict[str, set[Name]] = field(default_factory=dict)

    def function(self, name: Name) -> bool:
        """Functions that only compute: the server's, and those of listed extensions."""
        return plain(name) in names.functions() or self.brings("functions", name)

    def sequence(self, name: str) -> bool:
        """Sequences made here."""
        return _qualified(name) in self.sequences

    def operator(self, name: Name) -> bool:
        """The server's operators, and those of listed extensions."""
        return plain(name) is not None or self.brings("operators", name)

    def type(self, name: Name) -> bool:
        """The server's types, those made here, and those of listed extensions."""
        system = plain(name) is not None or name[:-1] == ("information_schema",)
        return system or name in self.types or self.brings("types", name)

    def collation(self, name: Name) -> bool:
        """The server's collations and those made here."""
        return plain(name) is not None or name in self.collations

    def relation(self, name: Name) -> bool:
        """Tables, views, sequences and indexes made here."""
        return name in self.relations

    def column(self, name: str) -> bool:
        """Columns of what was made here."""
        return name in self.columns

    def calls(self, field: str) -> bool:
        """Under an empty search path a field can only call a function of `pg_catalog`."""
        return names.may_call(field)

    def brings(self, kind: str, name: Name) -> bool:
        """Whether an extension made here brings this."""
        return name in self.brought.get(kind, ())

    def extend(self, extension: str, schema: str) -> None:
        """An extension is made in a schema."""
        for kind, found in (names.extension(extension) or {}).items():
            self.brought.setdefault(kind, set()).update((schema, name) for name in found)

    def claim(self, name: Name, *kinds: set[Name]) -> None:
        """Something is made under a name.

        Raises:
            ModelError: Its schema is not one that is made here.
        """
        if len(name) != 2 or name[0] not in self.schemas:
            raise ModelError(
                f"the model's DDL makes {shown(name)}, which lies in no schema of its own."
            )
        for kind in kinds:
            kind.add(name)


def _qualified(text: str) -> Name:
    """The words of a qualified name as regclass reads it; empty where it is none."""
    words, at = [], 0
    while found := _IDENTIFIER.match(text, at):
        words.append(found[1].replace('""', '"') if found[1] is not None else found[2])
        at = found.end()
        if at == len(text):
            return tuple(words)
        if text[at] != ".":
            break
        at += 1
    return ()
