"""The objects that statements of a schema have made so far, which later ones may name."""

import contextlib
import re
from collections.abc import Iterator

from privbench.errors import ModelError
from privbench.pgsql import names
from privbench.pgsql.judge import NotAllowed, QualifiedName, Scope, plain, shown

_IDENTIFIER = re.compile(r'(?:"((?:[^"]|"")+)"|([a-z_][a-z0-9_]*))')


class Made(Scope):
    """The objects that statements have made so far; the scope of later statements.

    Attributes:
        schemas: Names of schemas.
        found: Names of all other objects by kind, those of made extensions included.
    """

    def __init__(self) -> None:
        self.schemas = {"public"}
        self.found: dict[str, set[QualifiedName]] = {}
        super().__init__(self.found)
        self._recent: list[tuple[str, QualifiedName]] = []

    def sequence(self, name: str) -> bool:
        """Whether the text names a sequence that was made here."""
        return self.knows("sequences", qualified(name))

    def type(self, name: QualifiedName) -> bool:
        """Whether the type is the server's, was made here, or is a listed extension's."""
        return name[:-1] == ("information_schema",) or Scope.type(self, name)

    def offers(self, kind: str, name: QualifiedName) -> bool:
        """Whether an object of this kind and name is the server's, or was made here."""
        return plain(name) is not None or self.knows(kind, name)

    def extend(self, extension: str, schema: str) -> None:
        """Record that an extension is made in a schema, with its objects."""
        for kind, found in (names.extension(extension) or {}).items():
            self.found.setdefault(kind, set()).update((schema, name) for name in found)

    def add(self, kind: str, *found: QualifiedName) -> None:
        """Record that objects of a kind are made, in any schema."""
        known = self.found.setdefault(kind, set())
        self._recent += [(kind, name) for name in found if name not in known]
        known.update(found)

    def claim(self, name: QualifiedName, *kinds: str) -> None:
        """Record an object under a name; a ModelError if its schema was not made here."""
        if len(name) != 2 or name[0] not in self.schemas:
            raise ModelError(
                f"the model's DDL makes {shown(name)}, which lies in no schema of its own."
            )
        for kind in kinds:
            self.add(kind, name)

    @contextlib.contextmanager
    def statement(self) -> Iterator[None]:
        """A context in which one statement is judged; if it is refused, its claims are undone."""
        self._recent = []
        try:
            yield
        except NotAllowed:
            for kind, name in self._recent:
                self.found[kind].discard(name)
            raise


def qualified(text: str) -> QualifiedName:
    """The parts of a qualified name as regclass reads it; empty if the text is no such name.

    Words that regclass would fold, or fold on some servers, have to be in quotes, as in dumps.
    """
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
