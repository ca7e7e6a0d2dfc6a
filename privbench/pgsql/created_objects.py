"""The objects that a schema's statements have created so far, which later statements may name."""

import contextlib
import re
from collections.abc import Iterator

from privbench.errors import ModelError
from privbench.pgsql import names
from privbench.pgsql.judge import NotAllowed, QualifiedName, Scope, plain, shown

_IDENTIFIER = re.compile(r'(?:"((?:[^"]|"")+)"|([a-z_][a-z0-9_]*))')


class Made(Scope):
    """The objects that statements have created so far; the scope of later statements.

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
        """Return whether the text names a sequence that an earlier statement created."""
        return self.knows("sequences", qualified(name))

    def type(self, name: QualifiedName) -> bool:
        """Return whether the type is the server's, a listed extension's, or was created earlier."""
        return name[:-1] == ("information_schema",) or Scope.type(self, name)

    def offers(self, kind: str, name: QualifiedName) -> bool:
        """Return whether an object of this kind is the server's, or was created earlier."""
        return plain(name) is not None or self.knows(kind, name)

    def extend(self, extension: str, schema: str) -> None:
        """Record that an extension is created in a schema, with its objects."""
        for kind, names_of_kind in (names.extension(extension) or {}).items():
            self.found.setdefault(kind, set()).update((schema, name) for name in names_of_kind)

    def add(self, kind: str, *found: QualifiedName) -> None:
        """Record that objects of a kind are created, in any schema."""
        known = self.found.setdefault(kind, set())
        self._recent += [(kind, name) for name in found if name not in known]
        known.update(found)

    def claim(self, name: QualifiedName, *kinds: str) -> None:
        """Record an object under a name; raise a ModelError if its schema was not created here."""
        if len(name) != 2 or name[0] not in self.schemas:
            raise ModelError(
                f"the model's DDL makes {shown(name)}, which lies in no schema of its own."
            )
        for kind in kinds:
            self.add(kind, name)

    @contextlib.contextmanager
    def statement(self) -> Iterator[None]:
        """Judge one statement within this context; if it is refused, its records are undone."""
        self._recent = []
        try:
            yield
        except NotAllowed:
            for kind, name in self._recent:
                self.found[kind].discard(name)
            raise


def qualified(text: str) -> QualifiedName:
    """Return the parts of a qualified name as regclass reads it; empty if the text is no name.

    Words that regclass would fold, or fold on some servers, have to be in quotes, as in dumps.
    """
    words, at = [], 0
    while match := _IDENTIFIER.match(text, at):
        words.append(match[1].replace('""', '"') if match[1] is not None else match[2])
        at = match.end()
        if at == len(text):
            return tuple(words)
        if text[at] != ".":
            break
        at += 1
    return ()
