"""Parse SQL texts into trees, by PostgreSQL's own parser (libpg_query, of PostgreSQL 18).

A text from a stranger is judged by its tree and then run unchanged, so the server must read it as
this parser does. Three measures ensure that. PostgreSQL's parser cuts a text into pieces, each of
which must parse as one statement. The sender of a statement first sets and checks `SETTINGS`, the
settings that this parser assumes. And texts that servers of other versions or encodings might read
differently are refused: names longer than PostgreSQL keeps, numbers that are not plain decimals.

The parser runs in a process of its own (`privbench.pgsql.parser_process`): a text is refused if
that process ends in any way or takes too long.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from privbench.errors import PrivbenchError, UsageError

#: Settings of a session under which a server reads a text as the parser does.
SETTINGS = {
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "client_encoding": "UTF8",
}
#: The most bytes of a text; the schema of 10,000 tables takes about 20 MB.
_LONGEST = 1 << 26
#: The most seconds for parsing a text; 3,700 statements take 2 seconds.
_PATIENCE = 60.0
_SEMICOLON = "ASCII_59"
#: What the parser says of a text that is none of its language, as opposed to one that is too much.
_SYNTAX = "syntax error"
#: The most statements of a text that may be left unread.
_UNREAD = 1000
_COMMENTS = ("SQL_COMMENT", "C_COMMENT")


class SqlError(PrivbenchError):
    """A text that PostgreSQL's parser cannot read, or that is too large to be judged."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a syntax tree."""

    kind: str  # PostgreSQL's name of the kind of node: ``SelectStmt``
    # Scalars, nodes, and lists of nodes by PostgreSQL's names: ``whereClause``. A field that has
    # its default is absent; None in a list stands for an empty node.
    fields: dict[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or the default if it is absent."""
        return self.fields.get(name, default)

    def nodes(self, name: str) -> list[Node]:
        """Return the nodes of a field: several, one or none."""
        value = self.fields.get(name)
        listed = value if isinstance(value, list) else [value]
        return [item for item in listed if isinstance(item, Node)]

    def children(self) -> Iterator[Node]:
        """Yield all nodes directly below this one."""
        for name in self.fields:
            yield from self.nodes(name)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes below it, parents first; without recursion."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            for value in node.fields.values():
                if isinstance(value, Node):
                    waiting.append(value)
                elif isinstance(value, list):
                    waiting += [item for item in value if isinstance(item, Node)]

    def names(self, field: str) -> tuple[str, ...]:
        """Return the words of the qualified name in a field; ``*`` for a part that is no word."""
        words = self.nodes(field)
        return tuple(str(n.get("sval", "")) if n.kind == "String" else "*" for n in words)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text, with its tree or the reason why it cannot be parsed."""

    text: str  # the text of this statement alone, which is to be sent to a server
    tree: Node
    fault: str = ""  # why the parser cannot read it: its tree is then empty


def statements(text: str) -> list[Statement]:
    """Parse a text and return its statements, in order.

    Raises:
        SqlError: The text is not SQL that PostgreSQL takes, or is too large or too deeply nested.

    >>> [found.text for found in statements("SELECT 1; SELECT ';'")]
    ['SELECT 1', "SELECT ';'"]
    >>> statements("SELECT 1")[0].tree.kind
    'SelectStmt'
    >>> statements("SELEKT")
    Traceback (most recent call last):
    ...
    privbench.pgsql.parser.SqlError: syntax error at or near "SELEKT" (line 1, column 1).
    """
    return _PARSER.ask(_bytes(text))


def cut(text: str) -> list[Statement]:
    """Parse a text and return its statements, those that the parser does not know included.

    A later PostgreSQL has statements that this parser does not know. Nothing but their text shows
    what they do, so they must never be sent to a server. If they are cut elsewhere than a server
    would cut them, it does no harm: each piece is parsed, judged and sent by itself. To find them,
    the text is halved until what is left can be read, or is one statement.

    Raises a SqlError for a text that cannot be cut, is too large or too deeply nested, or has more
    than 1,000 such statements.

    >>> [(found.tree.kind, found.fault) for found in cut("CREATE PROPERTY GRAPH g; SELECT 1")]
    [('', 'syntax error at or near "PROPERTY" (line 1, column 8).'), ('SelectStmt', '')]
    """
    result: list[Statement] = []
    waiting, unread = [[(0, 0, len(text))]], 0
    while waiting:
        part = waiting.pop()
        piece = text[part[0][1] : part[-1][2]]
        try:
            result += statements(piece)
            continue
        except SqlError as error:
            if unread == _UNREAD or not error.message.startswith(_SYNTAX):
                raise
            fault = error.message
        if piece == text:
            part = _spans(text, nested=True)
            piece = text[part[0][1] : part[-1][2]]
        if len(part) > 1:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
        else:
            unread += 1
            result.append(Statement(piece, Node("", {}), fault))
    return result


def _bytes(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise SqlError("the text is not UTF-8.") from None
    if b"\0" in data:
        raise SqlError("the text holds a NUL byte.")
    if len(data) > _LONGEST:
        raise SqlError(f"the text is longer than {_LONGEST >> 20} MiB.")
    return data


def statement(text: str) -> Statement:
    """Parse the only statement of a text; raise a SqlError if there is not exactly one."""
    parsed = statements(text)
    if len(parsed) != 1:
        raise SqlError("it is not exactly one statement.")
    return parsed[0]


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a text, as PostgreSQL's scanner reads it."""

    kind: str  # PostgreSQL's name of its kind: ``SCONST`` is a string, ``ICONST`` an integer
    text: str  # the word as it stands, without the comments and blanks around it
    start: int  # where it begins in the text, in characters
    end: int

    @property
    def name(self) -> str:
        """The word as a name, as PostgreSQL folds its case."""
        if self.text.startswith('"'):
            return self.text[1:-1].replace('""', '"')
        return self.text.lower()


def pieces(text: str) -> list[str]:
    r"""Cut a text into statements by PostgreSQL's scanner without parsing, comments included.

    Comments before a statement stay with it: extensions read hints there. Pieces of comments alone
    are left out. Errors are those of `tokens`.

    >>> pieces("SELECT ';'; -- one; two\nSELECT $$;$$;;")
    ["SELECT ';'", '-- one; two\nSELECT $$;$$']
    """
    return [piece for _, piece in placed_pieces(text)]


def placed_pieces(text: str) -> list[tuple[int, str]]:
    """Return the statements of a text as `pieces` does, each with the offset of its first word.

    Offsets are in characters; comments before a statement are part of its text.
    """
    return [(first, text[start:end].strip()) for start, first, end in _spans(text)]


def _spans(text: str, *, nested: bool = False) -> list[tuple[int, int, int]]:
    """Where the statements of a text start with their comments, where with a word, and end.

    If ``nested``, no semicolon counts that stands in parentheses (rules) or between BEGIN ATOMIC
    and its END (bodies of functions, in which CASE has an END of its own).
    """
    spans: list[tuple[int, int, int]] = []
    start, first, depth, before = 0, -1, 0, ""
    data = _bytes(text)
    places = _characters(data)
    for kind, begin, end in _scanned(text, data):
        opens = kind == "ASCII_40" or (before == "BEGIN_P" and kind == "ATOMIC")
        opens = opens or (depth > 0 and kind == "CASE")
        depth = max(0, depth + opens - (kind in ("ASCII_41", "END_P"))) if nested else 0
        before = kind
        if kind != _SEMICOLON or depth:
            first = begin if first < 0 else first
            continue
        if first >= 0:
            spans.append((places(start), places(first), places(begin)))
        start, first = end, -1
    return [*spans, (places(start), places(first), len(text))] if first >= 0 else spans


def tokens(text: str) -> list[Token]:
    """Return the words of a text, as PostgreSQL's scanner cuts them, without comments.

    Raises:
        SqlError: A string, a name or a comment has no end; or the text is no UTF-8, or too long.

    >>> [token.text for token in tokens("SELECT 'a b' -- c")]
    ['SELECT', "'a b'"]
    >>> [token.kind for token in tokens("SELECT {")]
    ['SELECT', 'OTHER']
    """
    data = _bytes(text)
    places = _characters(data)
    return [
        Token(kind, data[start:end].decode(), places(start), places(end))
        for kind, start, end in _scanned(text, data)
    ]


def _scanned(text: str, data: bytes) -> Iterator[tuple[str, int, int]]:
    """Kind and place in bytes of each word of a text; errors are those of `tokens`."""
    # Loaded only where texts are split: most commands only use the child process.
    import postgast

    from privbench.pgsql.parser_process import placed

    try:
        scanned = postgast.scan(text).tokens
    except postgast.PgQueryError as error:
        raise SqlError(f"{placed(data, error.message, error.cursorpos)}.") from None
    kinds = _kinds()
    for token in scanned:
        # Characters that PostgreSQL has no use for, such as braces, have no name there.
        kind = kinds.get(token.token, "OTHER")
        if kind not in _COMMENTS:
            yield kind, token.start, token.end


@cache
def _kinds() -> dict[int, str]:
    """PostgreSQL's names of the kinds of tokens, by number."""
    from postgast.pg_query_pb2 import Token as Kind

    return {value.number: value.name for value in Kind.DESCRIPTOR.values}


def _characters(data: bytes) -> Callable[[int], int]:
    """A function from byte offsets of a text to character offsets."""
    if data.isascii():
        return int
    begins = ((byte & 0xC0) != 0x80 for byte in data)
    return list(accumulate(begins, initial=0)).__getitem__


class _Parser:
    """The process of the parser, started when it is needed and again after it has ended."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the process, so that the next text starts a new one."""
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None

    def ask(self, data: bytes) -> list[Statement]:
        """Have the parser's process parse a text, and return its statements.

        If the process ends or does not answer in time, the text is taken to be the cause
        (SqlError).
        """
        with self._lock:
            if self._running is None or self._running[0].poll() is not None:
                self._running = _started()
            process, pipe = self._running
            alarm = threading.Timer(_PATIENCE, process.kill)
            alarm.start()
            try:
                pipe.send_bytes(data)
                frames = [json.loads(pipe.recv_bytes())]
                while isinstance(frames[-1], list):
                    frames.append(json.loads(pipe.recv_bytes()))
            except BaseException as error:
                # Frames that arrive late must not be taken for the answer to the next text.
                _end(process, os.getpid())
                self._running = None
                if isinstance(error, (OSError, EOFError)):
                    what = "the text is too large or too deeply nested to be read."
                    raise SqlError(what) from None
                raise
            finally:
                alarm.cancel()
        if isinstance(frames[-1], str):
            raise SqlError(f"{frames[-1]}.")
        return [
            Statement(data[start : start + length].decode(), _tree(nodes))
            for frame in frames[:-1]
            for start, length, nodes in frame
        ]


def _started() -> tuple[subprocess.Popen[bytes], Connection]:
    """A new process, and the pipe to it.

    A UsageError if it cannot start, which is no fault of any text.
    """
    own_end, child_end = Pipe()
    # -P: the working directory is not searched for modules.
    command = [sys.executable, "-P", str(Path(__file__).with_name("parser_process.py"))]
    with child_end:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=child_end.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    atexit.register(_end, process, os.getpid())
    try:
        own_end.recv_bytes()
    except (OSError, EOFError):
        raise UsageError(
            "the process that parses SQL cannot start.",
            remedy="Allow it more memory (ulimit -v); it takes 4 GiB at most.",
        ) from None
    return process, own_end


_PARSER = _Parser()
# A forked process inherits the pipes of its parent, and a lock that a parent's thread may hold.
os.register_at_fork(after_in_child=_PARSER.reset)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner == os.getpid():
        with contextlib.suppress(OSError):
            process.kill()
            process.wait()


def _tree(listed: list[Any]) -> Node:
    """Build the tree from a list of nodes in which children come before their parents."""
    nodes: list[Node] = []

    def held(place: Any) -> Any:
        if isinstance(place, list):
            return [held(item) for item in place]
        return None if place is None else nodes[place]

    for kind, scalars, children in listed:
        nodes.append(Node(kind, scalars | {name: held(at) for name, at in children.items()}))
    return nodes[-1]
