"""Reads Bayesian networks in the Bayesian Interchange Format (BIF), used by public repositories.

A file may have a network, discrete variables with their values, and probability blocks. Properties
are skipped; anything else is refused.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privbench.arrays import Floats
from privbench.domain import Domain
from privbench.errors import ConfigError
from privbench_lab.literature.network import Graph, Network

#: Largest file that is read, in bytes uncompressed; the largest common network has a third of it.
_MOST = 32 * 2**20
_TOKEN = re.compile(r'"[^"]*"|[{}()\[\]|,;]|[^\s{}()\[\]|,;"]+')
#: A state of the parents, and the probabilities of a variable's values in it.
_Row = tuple[tuple[str, ...], list[float]]
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BifNetwork:
    """A network with the names of its values."""

    values: dict[str, tuple[str, ...]]  # values of every variable; a value's code is its place
    network: Network  # graph and parameters


def read_bif(path: str | Path) -> BifNetwork:
    """Read a BIF file, plain or gzip."""
    try:
        with Path(path).open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else Path(path).open("rb") as file:
            content = file.read(_MOST + 1)
    except (OSError, EOFError) as error:
        raise ConfigError(f"the network {str(path)!r} cannot be read: {error}.") from error
    if len(content) > _MOST:
        raise ConfigError(f"the network {str(path)!r} is larger than {_MOST} bytes.")
    return parse_bif(content.decode("utf-8", "replace"))


def parse_bif(text: str) -> BifNetwork:
    """The network of a text in this format; a ConfigError for anything else."""
    return _Reader(iter(_TOKEN.findall(_COMMENT.sub(" ", text)))).network()


@dataclass(slots=True)
class _Reader:
    tokens: Iterator[str]

    def network(self) -> BifNetwork:
        values: dict[str, tuple[str, ...]] = {}
        parents: dict[str, tuple[str, ...]] = {}
        rows: dict[str, list[_Row]] = {}
        for word in self.tokens:
            if word == "network":
                self._list("{")
                self._list("}")
            elif word == "variable":
                name = self._next()
                values[name] = self._variable(name)
            elif word == "probability":
                name, given = self._head()
                parents[name], rows[name] = given, self._rows(name)
            else:
                raise ConfigError(f"a network file has {word[:40]!r} where a block should begin.")
        if set(parents) != set(values):
            raise ConfigError("every variable of a network file must have one probability block.")
        graph = Graph({name: parents[name] for name in values})
        domains = {name: Domain(len(found)) for name, found in values.items()}
        tables = {name: _table(name, values, parents[name], rows[name]) for name in values}
        return BifNetwork(values, Network.of_counts(domains, graph, tables))

    def _next(self) -> str:
        word = next(self.tokens, "")
        if not word:
            raise ConfigError("a network file ends in the middle of a block.")
        return word.strip('"')

    def _expect(self, *words: str) -> None:
        for word in words:
            found = self._next()
            if found != word:
                raise ConfigError(f"a network file has {found[:40]!r} where {word!r} should be.")

    def _list(self, end: str) -> list[str]:
        """The words before the word ``end``, without commas."""
        found = []
        while (word := self._next()) != end:
            if word != ",":
                found.append(word)
        return found

    def _variable(self, name: str) -> tuple[str, ...]:
        self._expect("{", "type", "discrete", "[")
        size = self._next()
        self._expect("]", "{")
        found = tuple(self._list("}"))
        if size != str(len(found)) or not found or len(set(found)) != len(found):
            raise ConfigError("a variable's values are not as many as it says.", column=name)
        self._list("}")
        return found

    def _head(self) -> tuple[str, tuple[str, ...]]:
        self._expect("(")
        words = self._list(")")
        self._expect("{")
        if len(words) > 1 and words[1] != "|":
            raise ConfigError("a probability block must have one variable.", column=words[0])
        return words[0], tuple(words[2:])

    def _rows(self, name: str) -> list[_Row]:
        found = []
        while (word := self._next()) != "}":
            if word == "property":
                self._list(";")
                continue
            if word not in ("table", "("):
                raise ConfigError(f"{word[:40]!r} is no row of a table.", column=name)
            at = tuple(self._list(")")) if word == "(" else ()
            try:
                numbers = [float(number) for number in self._list(";")]
            except ValueError:
                raise ConfigError("a probability is no number.", column=name) from None
            found.append((at, numbers))
        return found


def _table(
    name: str, values: dict[str, tuple[str, ...]], parents: tuple[str, ...], rows: list[_Row]
) -> Floats:
    if any(parent not in values for parent in parents):
        raise ConfigError("a parent is no variable of the network.", column=name)
    table = np.full((*(len(values[p]) for p in parents), len(values[name])), np.nan)
    for at, numbers in rows:
        if len(numbers) != len(values[name]) or len(at) != len(parents):
            raise ConfigError("a row of its table has another length.", column=name)
        try:
            place = tuple(values[p].index(value) for p, value in zip(parents, at, strict=True))
        except ValueError:
            raise ConfigError("a row of its table names an unknown value.", column=name) from None
        table[place] = numbers
    if not (table >= 0).all():
        raise ConfigError("its table is not complete, or has negative numbers.", column=name)
    return table
