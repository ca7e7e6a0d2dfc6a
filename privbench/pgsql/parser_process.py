"""The process of the parser, which reads SQL texts and writes their trees.

libpg_query is PostgreSQL's parser in C. It recurses, and a text of a hundred thousand terms crashes
the process that it runs in. So it runs in a process of its own; if that crashes, the text is only
refused.

Both directions of its pipe carry frames of bytes. The first frame is empty and says that the
process has started. A request is one text in UTF-8. The answer is a frame of JSON for every
statement, ``[start, length, nodes]``, with positions in bytes of the text, and a last frame:
``null``, or a message on what is wrong. Nodes are listed children first, each as ``[kind, scalars,
children]``: children are indices in this list, by field; None stands for an empty node. The list is
flat, so that its reader need not recurse.
"""

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


def answers(text: bytes) -> Iterator[Any]:
    """Yield the frames of the answer to one text, as the module's docstring describes them."""
    split = lib.pg_query_split_with_parser(text)
    try:
        if split.error:
            yield _fault_text(text, split.error.contents)
            return
        statements = [split.stmts[place].contents for place in range(split.n_stmts)]
        pieces = [(piece.stmt_location, piece.stmt_len) for piece in statements]
    finally:
        lib.pg_query_free_split_result(split)
    for start, length in pieces:
        piece = text[start : start + length]
        fault = _fault(piece)
        if fault:
            yield fault
            return
        parsed = _parsed(piece)
        if isinstance(parsed, str):
            yield parsed
            return
        yield [[start + at, size, nodes] for at, size, nodes in parsed]
    yield None


def placed(text: bytes, message: str, position: int) -> str:
    """Return the parser's message with the line and column of the character that it points at."""
    if position < 1:
        return message
    before = text.decode()[: position - 1]
    line, column = before.count("\n") + 1, position - before.rfind("\n") - 1
    return f"{message} (line {line}, column {column})"


def _fault_text(text: bytes, error: Any) -> str:
    return placed(text, error.message.decode(errors="replace"), error.cursorpos)


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


def _parsed(piece: bytes) -> str | list[tuple[int, int, list[Any]]]:
    """Position, length and nodes of the statements of a piece; or what is wrong with it."""
    result = lib.pg_query_parse(piece)
    try:
        if result.error:
            return _fault_text(piece, result.error.contents)
        tree = json.loads(result.parse_tree)
    except RecursionError:
        return "a statement is nested too deeply"
    finally:
        lib.pg_query_free_parse_result(result)
    raws = tree.get("stmts", [])
    if len(raws) > 1:
        return "a statement is cut in two ways"
    statements = []
    for raw in raws:
        nodes: list[list[Any]] = []
        _flatten("Node", raw["stmt"], nodes)
        start = raw.get("stmt_location", 0)
        statements.append((start, raw.get("stmt_len", 0) or len(piece) - start, nodes))
    return statements


def _flatten(kind: str, value: dict[str, Any], nodes: list[list[Any]]) -> int | None:
    """Append a message after its children; return its index, or None for an empty ``Node``."""
    if kind == "Node":
        if not value:
            return None
        ((kind, value),) = value.items()
    scalars: dict[str, Any] = {}
    children: dict[str, Any] = {}
    for name, field_value in value.items():
        inner = _FIELDS[kind].get(name)
        if inner is None:
            scalars[name] = field_value
        elif isinstance(field_value, list):
            children[name] = [_flatten(inner, item, nodes) for item in field_value]
        else:
            children[name] = _flatten(inner, field_value, nodes)
    nodes.append([kind, scalars, children])
    return len(nodes) - 1


def _serve() -> None:
    pipe = Connection(0)
    pipe.send_bytes(b"")
    with contextlib.suppress(EOFError):
        while True:
            for frame in answers(pipe.recv_bytes()):
                pipe.send_bytes(json.dumps(frame).encode())


def _limited() -> int:
    """Limit the memory to `_MEMORY`, or what is allowed; returns the bytes of a stack within it."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return _STACK * memory // _MEMORY >> 16 << 16


if __name__ == "__main__":
    stack = _limited()
    sys.setrecursionlimit(_DEPTH * stack // _STACK)
    threading.stack_size(stack)
    worker = threading.Thread(target=_serve)
    worker.start()
    worker.join()
