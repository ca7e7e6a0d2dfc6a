"""The process of the parser: it reads SQL texts and writes their trees.

libpg_query is PostgreSQL's parser in C. It recurses, and a text of a hundred thousand terms crashes
the process that it runs in. So it runs in a process of its own; if that crashes, the text is only
refused.

Both directions of its pipe carry frames of bytes. A request is one text in UTF-8. The answer is a
frame of JSON for every statement, ``[start, length, nodes]``, with positions in bytes of the text,
and a last frame: ``null``, or a message on what is wrong. Nodes are listed children first, each as
``[kind, scalars, children]``: children are indices in this list, by field; None stands for an empty
node. The list is flat, so that its reader need not recurse. A statement that is no SQL of this
parser has a message in the place of its nodes.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from google.protobuf.descriptor import Descriptor
from postgast import PgQueryError, pg_query_pb2, scan
from postgast.native import lib

#: The most bytes, and the most tokens, of a statement. The largest of 3,700 real statements has
#: 9,000 bytes and 2,500 tokens.
_LONGEST, _TOKENS = 1 << 20, 100_000
#: The bytes of a stack for trees of that many tokens, and a recursion limit of Python within it.
_STACK, _DEPTH = 1 << 29, 500_000
#: The most bytes of memory of the process; a text of 64 MiB takes 2 GiB.
_MEMORY = 1 << 32
_MESSAGE = 11  # FieldDescriptor.TYPE_MESSAGE
_TYPES: dict[str, Descriptor] = pg_query_pb2.DESCRIPTOR.message_types_by_name
_FIELDS = {
    name: {
        field.json_name: field.message_type.name for field in kind.fields if field.type == _MESSAGE
    }
    for name, kind in _TYPES.items()
}
#: A number in a form that every version of PostgreSQL reads as one number.
_DECIMAL = re.compile(rb"\d+|(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_KEPT = 63
_NUMBERS = (pg_query_pb2.ICONST, pg_query_pb2.FCONST)
_NAMES = (pg_query_pb2.IDENT, pg_query_pb2.UIDENT)
_COMMENTS = (pg_query_pb2.SQL_COMMENT, pg_query_pb2.C_COMMENT)
_SEMICOLON, _OPEN = pg_query_pb2.ASCII_59, pg_query_pb2.ASCII_40
_CLOSE = (pg_query_pb2.ASCII_41, pg_query_pb2.END_P)
#: What the parser says of a text that is none of its language, as opposed to one that is too much.
_SYNTAX = "syntax error"


def answers(text: bytes) -> Iterator[Any]:
    """The frames of one answer, as the module's docstring describes them."""
    split = lib.pg_query_split_with_parser(text)
    try:
        error = _fault_text(text, split.error.contents) if split.error else None
        found = [split.stmts[place].contents for place in range(split.n_stmts)]
        pieces = [(piece.stmt_location, piece.stmt_len) for piece in found]
    finally:
        lib.pg_query_free_split_result(split)
    if error is not None and not error.startswith(_SYNTAX):
        yield error
        return
    if error is not None:
        try:
            pieces = _cut(text)
        except PgQueryError as broken:
            yield placed(text, broken.message, broken.cursorpos)
            return
    for start, length in pieces:
        piece = text[start : start + length]
        fault = _fault(piece)
        if fault:
            yield fault
            return
        said = _parsed(text, start, length)
        if isinstance(said, str) and not said.startswith(_SYNTAX):
            yield said
            return
        yield [[start, length, said]] if isinstance(said, str) else said
    yield None


def _cut(text: bytes) -> list[tuple[int, int]]:
    """Positions and lengths of the statements of a text that the parser cannot read as a whole.

    A semicolon ends a statement unless it stands in parentheses (rules) or between BEGIN ATOMIC
    and its END (bodies of functions, in which CASE has an END of its own). A text that is cut at
    other places than a server would cut it does no harm: each piece is parsed, judged and sent by
    itself.
    """
    found = []
    first, end, depth, before = -1, 0, 0, 0
    for token in scan(text.decode()).tokens:
        kind = token.token
        if kind in _COMMENTS:
            continue
        opens = kind == _OPEN or (depth and kind == pg_query_pb2.CASE)
        opens = opens or (before, kind) == (pg_query_pb2.BEGIN_P, pg_query_pb2.ATOMIC)
        depth = max(0, depth + bool(opens) - (kind in _CLOSE))
        before = kind
        if kind != _SEMICOLON or depth:
            first, end = token.start if first < 0 else first, token.end
        elif first >= 0:
            found.append((first, end - first))
            first = -1
    return [*found, (first, end - first)] if first >= 0 else found


def placed(text: bytes, message: str, position: int) -> str:
    """The parser's message with the line and column of the character that it points at."""
    if position < 1:
        return message
    before = text.decode()[: position - 1]
    line, column = before.count("\n") + 1, position - before.rfind("\n") - 1
    return f"{message} (line {line}, column {column})"


def _fault_text(text: bytes, error: Any, before: int = 0) -> str:
    """The parser's message on a part of a text, with ``before`` characters before that part."""
    place = error.cursorpos and before + error.cursorpos
    return placed(text, error.message.decode(errors="replace"), place)


def _fault(piece: bytes) -> str | None:
    """Why a statement is refused (too large, or servers may read it differently); else None."""
    if len(piece) > _LONGEST:
        return f"a statement is longer than {_LONGEST >> 10} KiB"
    try:
        tokens = scan(piece.decode()).tokens
    except PgQueryError as error:
        return str(error.message)
    if len(tokens) > _TOKENS:
        return f"a statement has more than {_TOKENS:,} tokens"
    for token in tokens:
        word = piece[token.start : token.end]
        if token.token in _NUMBERS and not _DECIMAL.fullmatch(word):
            return f"{word.decode(errors='replace')} is a number that not all servers know"
        if token.token in _NAMES and len(word.strip(b'"').replace(b'""', b'"')) > _KEPT:
            return f"a name is longer than {_KEPT} bytes"
    return None


def _parsed(text: bytes, begin: int, length: int) -> str | list[tuple[int, int, list[Any]]]:
    """Position, length and nodes of the statements of a piece; or what is wrong with it."""
    piece = text[begin : begin + length]
    result = lib.pg_query_parse(piece)
    try:
        if result.error:
            return _fault_text(text, result.error.contents, len(text[:begin].decode()))
        tree = json.loads(result.parse_tree)
    except RecursionError:
        return "a statement is nested too deeply"
    finally:
        lib.pg_query_free_parse_result(result)
    raws = tree.get("stmts", [])
    if len(raws) > 1:
        return "a statement is cut in two ways"
    found = []
    for raw in raws:
        nodes: list[list[Any]] = []
        _flatten("Node", raw["stmt"], nodes)
        start = raw.get("stmt_location", 0)
        found.append((begin + start, raw.get("stmt_len", 0) or len(piece) - start, nodes))
    return found


def _flatten(kind: str, value: dict[str, Any], nodes: list[list[Any]]) -> int | None:
    """Append a message after its children; return its index, or None for an empty ``Node``."""
    if kind == "Node":
        if not value:
            return None
        ((kind, value),) = value.items()
    scalars: dict[str, Any] = {}
    children: dict[str, Any] = {}
    for name, held in value.items():
        inner = _FIELDS[kind].get(name)
        if inner is None:
            scalars[name] = held
        elif isinstance(held, list):
            children[name] = [_flatten(inner, item, nodes) for item in held]
        else:
            children[name] = _flatten(inner, held, nodes)
    nodes.append([kind, scalars, children])
    return len(nodes) - 1


def _serve() -> None:
    pipe = Connection(0)
    with contextlib.suppress(EOFError):
        while True:
            for frame in answers(pipe.recv_bytes()):
                pipe.send_bytes(json.dumps(frame).encode())


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.setrecursionlimit(_DEPTH)
    threading.stack_size(_STACK)
    worker = threading.Thread(target=_serve)
    worker.start()
    worker.join()
