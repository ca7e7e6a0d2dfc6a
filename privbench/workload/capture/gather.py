"""Gather the statements that a server executed into a workload, grouped by normalised text.

They come from the server's logs (`logs`), or from the view ``pg_stat_statements``, which has
normalised texts and the number of calls of each.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import sql

from privbench.arrays import Rng
from privbench.errors import AccessDenied, DatabaseError, UsageError
from privbench.options import CaptureOptions
from privbench.pgsql import SqlError, statement, tokens
from privbench.pgsql.judge import EXPRESSIONS, NotAllowed, judge
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.rng import generator
from privbench.workload.query import Workload, WorkloadQuery
from privbench.workload.safety import TextScope, query_tree

#: Kinds of PostgreSQL's scanner that stand for a value.
_CONSTANTS = frozenset({"SCONST", "USCONST", "ICONST", "FCONST", "BCONST", "XCONST", "PARAM"})


@lru_cache(maxsize=1024)
def normalised(text: str) -> str:
    r"""The words of a text with every constant as ``?``, without comments, case and layout.

    >>> normalised("SELECT a -- 'x'\n FROM T WHERE b = 'it''s' AND c<$1 LIMIT 5;")
    'select a from t where b = ? and c < ? limit ?'
    """
    words = (
        "?" if token.kind in _CONSTANTS
        else token.text if '"' in token.text
        else token.text.lower()
        for token in tokens(text)
    )  # fmt: skip
    return " ".join(words).rstrip("; ")


def bound(text: str, parameters: Sequence[str | None]) -> str:
    """The text with literals without a type in place of those parameters whose values are given.

    >>> bound("SELECT '$1' FROM t WHERE a = $1 AND b = $2", ["it's", None])
    "SELECT '$1' FROM t WHERE a = 'it''s' AND b = NULL"
    """
    if not parameters:
        return text
    pieces, end = list[str](), 0
    for token in tokens(text):
        # PostgreSQL's scanner takes no number of more than 32 bits.
        number = int(token.text[1:]) if token.kind == "PARAM" else 0
        if 0 < number <= len(parameters):
            pieces += text[end : token.start], sql.Literal(parameters[number - 1]).as_string()
            end = token.end
    return "".join([*pieces, text[end:]])


#: Most distinct texts that are kept; the calls of further ones are only counted, to bound memory.
MOST_TEXTS = 50_000
PLANNED = "its plan was logged, which no session is made of"
TOO_MANY = f"it came after the first {MOST_TEXTS:,} that are kept"

_PARAMETER = re.compile(r"\$\d")
_BLANKS = re.compile(r"[\s(]*+")
_ENDS = re.compile(r"/\*|\*/")
_WORD = re.compile(r"[a-z]{2,12}\b", re.IGNORECASE)
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_WRITES = frozenset({"INSERT", "UPDATE", "DELETE"})
_TRANSACTIONS = frozenset(
    {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"}
)
#: Steps of transactions within a session, as the parser names them.
_BEGINS, _ENDS_IT = frozenset({"BEGIN", "START"}), frozenset({"COMMIT", "ROLLBACK"})
_STEPS = _BEGINS | _ENDS_IT | {"SAVEPOINT", "RELEASE", "ROLLBACK_TO"}
#: Statements that write or lock rows, and the kinds of nodes that only these are made of.
_STATEMENTS = frozenset({"SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt"})
_NODES = EXPRESSIONS | _STATEMENTS | {
    "IndexElem", "InferClause", "LockingClause", "MultiAssignRef", "OnConflictClause",
    "ReturningClause", "SetToDefault",
}  # fmt: skip
#: Most characters of a statement: the parser takes no longer one.
_LONGEST = 1 << 20
#: Most parameters of a statement: the protocol counts them in 16 bits.
MOST_PARAMETERS = 1 << 16
_CATALOGS = frozenset({"pg_catalog", "information_schema"})
OURS = "privbench ran it"
_UNREADABLE = "it cannot be read"
_READ_BY_US = SELECT.as_string(None)

#: Values of ``$1``, ``$2``, … as PostgreSQL prints them, None for NULL.
Parameters = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """One statement that a server ran."""

    text: str  # its text
    parameters: Parameters = ()  # its parameters, empty where it has none or they are not known
    # Whether auto_explain logged it; the same execution may also be logged as a statement.
    planned: bool = False
    calls: int = 1  # how many times


@dataclass(frozen=True, slots=True)
class Capture:
    """A captured workload: CONFIDENTIAL, its literals are those of the server's users."""

    workload: Workload  # the queries, most called first
    calls: int  # calls that the workload stands for
    skipped: dict[str, int]  # calls that were left out, by reason


@dataclass(slots=True)
class _Text:
    """Samples and counts of one normalised text."""

    reason: str | None  # why it is left out; None if it is not
    # Numbers of calls: logged by auto_explain (True), and logged as statements (False).
    calls: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    # Texts with their parameters.
    samples: list[tuple[str, Parameters]] = field(default_factory=list)
    complete: bool = False  # whether all values of the samples are known

    @property
    def total(self) -> int:
        """The number of calls; a call logged both as a statement and with its plan counts once."""
        return max(self.calls.values())


class Gatherer:
    """Takes executions one by one and keeps a few of each text, or all in the order of sessions.

    With ``writes`` it also takes statements that write, in sessions with their transactions.
    """

    def __init__(self, options: CaptureOptions) -> None:
        self._options, self._room = options, MOST_TEXTS
        self._rng: Rng = generator(options.seed, "capture")
        self._texts: dict[bytes, _Text] = {}
        self._skipped: Counter[str] = Counter()
        self._sessions: dict[str | None, list[tuple[str, Parameters]]] = {}
        self._words = _QUERIES | _WRITES if options.writes else _QUERIES
        if options.writes and options.sessions:
            self._words |= _TRANSACTIONS

    def skip(self, reason: str, calls: int = 1) -> None:
        """Count calls that are left out."""
        self._skipped[reason] += calls

    def add(self, execution: Execution, session: str | None = None) -> None:
        """Count an execution and perhaps keep it, as a sample or as one of its session."""
        ours = execution.text.lstrip().startswith(_READ_BY_US)
        why = OURS if ours else _no_query(execution.text, self._words)
        if why is None and len(execution.text) > _LONGEST:
            why = _UNREADABLE
        if why is not None:
            self.skip(why, execution.calls)
            return
        try:
            key = hashlib.sha256(normalised(execution.text).encode()).digest()
        except SqlError:
            self.skip(_UNREADABLE, execution.calls)
            return
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) == MOST_TEXTS:
                self.skip(TOO_MANY, execution.calls)
                return
            reason = reason_against(execution.text, writes=self._options.writes)
            found = self._texts[key] = _Text(reason)
        found.calls[execution.planned] += execution.calls
        if found.reason is None and not self._options.sessions:
            self._sample(found, execution)
        elif found.reason is None and (execution.planned or not self._room):
            self.skip(PLANNED if execution.planned else TOO_MANY, execution.calls)
        elif found.reason is None:
            self._room -= 1
            run = execution.text, execution.parameters
            self._sessions.setdefault(session, []).append(run)

    def capture(self, name: str) -> Capture:
        """The workload so far, the most called queries first."""
        kept = [text for text in self._texts.values() if text.reason is None]
        kept.sort(key=lambda text: -text.total)
        queries = (
            [*_of_sessions(self._sessions)]
            if self._options.sessions
            else [query for number, text in enumerate(kept, 1) for query in _queries(number, text)]
        )
        skipped = self._skipped + Counter()
        for text in self._texts.values():
            if text.reason is not None:
                skipped[text.reason] += text.total
        return Capture(
            Workload(name, tuple(queries), confidential=True),
            round(sum(query.weight for query in queries)),
            dict(skipped.most_common()),
        )

    def _sample(self, found: _Text, execution: Execution) -> None:
        """Keep every execution with the same probability; known parameters replace unknown ones."""
        if not execution.parameters and _PARAMETER.search(execution.text):
            if found.complete:
                return
        elif not found.complete:
            found.complete = True
            found.samples.clear()
        sample = (execution.text, execution.parameters)
        if len(found.samples) < self._options.samples:
            if sample not in found.samples:
                found.samples.append(sample)
            return
        place = int(self._rng.integers(found.total))
        if place < self._options.samples and sample not in found.samples:
            found.samples[place] = sample


def _queries(number: int, text: _Text) -> list[WorkloadQuery]:
    """The samples of a text as queries, each with the same share of its calls."""
    share = text.total / len(text.samples)
    return [
        _query(f"c{number}" if place == 1 else f"c{number}.{place}", *sample, share)
        for place, sample in enumerate(text.samples, 1)
    ]


def _of_sessions(
    sessions: Mapping[str | None, Sequence[tuple[str, Parameters]]],
) -> Iterator[WorkloadQuery]:
    """Each session is a script: ids s1, s1#2, … (see `query_id`).

    Its transactions are whole: the last one ends, and of unknown sessions there are none.
    """
    for number, (session, runs) in enumerate(sessions.items(), 1):
        place, begun = 0, False
        for text, parameters in [*runs, ("COMMIT", ())]:
            if step := _step(text):
                if session is None or begun == (step in _BEGINS):
                    continue
                begun = step not in _ENDS_IT
            place += 1
            name = f"s{number}" if place == 1 else f"s{number}#{place}"
            yield _query(name, text, parameters)


def _query(name: str, text: str, parameters: Parameters, weight: float = 1) -> WorkloadQuery:
    template = text if parameters else None
    return WorkloadQuery(name, bound(text, parameters), None, weight, template, parameters)


def _no_query(text: str, words: Set[str] = _QUERIES) -> str | None:
    r"""The reason why a statement is no query, with its kind (INSERT, …); None if it may be one.

    >>> _no_query("/* /* */ */ insert into t values (1)"), _no_query("-- a\n ((SELECT 1))")
    ('it is not a query but INSERT', None)
    """
    word = _first_word(text)
    if word in words:
        return None
    # Only key words are told: users may write any others.
    known = word and tokens(word)[0].kind.removesuffix("_P") == word
    return "it is not a query" + (f" but {word}" if known else "")


def _first_word(text: str) -> str:
    """The word after blanks, parentheses and comments, in capitals; empty if no word follows."""
    place = 0
    while place >= 0:
        blanks = _BLANKS.match(text, place)
        place = blanks.end() if blanks else place
        if text.startswith("--", place):
            place = text.find("\n", place)
        elif text.startswith("/*", place):
            place = _comment_end(text, place)
        else:
            word = _WORD.match(text, place)
            return word[0].upper() if word else ""
    return ""


def _comment_end(text: str, place: int) -> int:
    """Where the comment that begins here ends; comments may be nested. -1 if it has no end."""
    deep = 0
    for mark in _ENDS.finditer(text, place):
        deep += 1 if mark[0] == "/*" else -1
        if not deep:
            return mark.end()
    return -1


def reason_against(text: str, *, writes: bool = False) -> str | None:
    """The reason why a captured workload leaves a statement out, or None if it is included.

    A workload holds only statements that read tables of users; with ``writes`` also INSERT, UPDATE,
    DELETE and locks of rows, which call no more than queries may, and the steps of transactions.
    """
    try:
        # pg_stat_statements writes parameters even where PostgreSQL's syntax allows none, so they
        # are replaced by values before the text is parsed.
        text = bound(text, ["0"] * MOST_PARAMETERS)
        if writes and _step(text) in _STEPS:
            return None
        tree = statement(text).tree if writes else query_tree(text)
        if writes and tree.kind not in _STATEMENTS:
            raise NotAllowed("it is not a query")
        # No database judges functions of users before pgbench has them called.
        judge(tree, TextScope(users=not writes), _NODES if writes else EXPRESSIONS)
    except SqlError:
        return _UNREADABLE
    except NotAllowed as reason:
        return str(reason)
    tables = [node for node in tree.walk() if node.kind == "RangeVar"]
    for table in tables:
        schema, name = table.get("schemaname"), str(table.get("relname"))
        if schema in _CATALOGS or (not schema and name.startswith("pg_")):
            return "it reads the system catalogs"
    return None if tables else "it reads no table"


@lru_cache(maxsize=1024)
def _step(text: str) -> str:
    """The step of a transaction that a statement is (BEGIN, COMMIT, …), or empty."""
    if _first_word(text) not in _TRANSACTIONS:
        return ""
    tree = statement(text).tree
    kind = str(tree.get("kind")).removeprefix("TRANS_STMT_")
    return f"{kind} AND CHAIN" if tree.get("chain") else kind


_HIDDEN = "<insufficient privilege>"
_NESTED = "it ran inside a function"
_SHOW = (
    "Add pg_stat_statements to shared_preload_libraries, restart the server,"
    " and CREATE EXTENSION pg_stat_statements in this database."
)
# The column `toplevel` exists since PostgreSQL 14.
_TEXTS = """
SELECT s.query, coalesce((pg_catalog.to_jsonb(s) ->> 'toplevel')::boolean, true),
  pg_catalog.sum(s.calls)::bigint
FROM {view} AS s
WHERE s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname
  = pg_catalog.current_database())
GROUP BY 1, 2 ORDER BY 3 DESC, 1
"""


def capture_statements(connection: Connection) -> Capture:
    """Read the statements of the current database and their numbers of calls.

    The texts have ``$1``, ``$2``, … in place of constants: they run only after re-binding.

    Raises:
        UsageError: The extension is not installed in this database, or it has no query.
        AccessDenied: The role may not see other roles' statements, and there are no others.
        DatabaseError: The server does not load the extension's library, or refused.
    """
    gatherer, seen, hidden = Gatherer(CaptureOptions()), 0, 0
    for text, top, calls in _read(connection):
        if text is None or text == _HIDDEN:
            hidden += calls
        elif not top:
            gatherer.skip(_NESTED, calls)
        else:
            seen += 1
            gatherer.add(Execution(text, calls=calls))
    grant = f"GRANT pg_read_all_stats TO {connection.info.user};"
    if hidden:
        gatherer.skip(f"its text is hidden from this role ({grant})", hidden)
    found = gatherer.capture(connection.info.dbname)
    if not found.workload.queries:
        if hidden:
            raise AccessDenied("the texts of other roles' statements are hidden.", remedy=grant)
        raise UsageError(
            f"pg_stat_statements holds no query of this database ({seen} other statements).",
            remedy="Let the applications run for a while; pg_stat_statements_reset() empties it.",
        )
    return found


def _read(connection: Connection) -> list[tuple[Any, ...]]:
    with database_errors("reading pg_stat_statements"):
        schema = connection.execute(
            "SELECT n.nspname FROM pg_catalog.pg_extension e"
            " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
            " WHERE e.extname = 'pg_stat_statements'"
        ).fetchone()
        if schema is None:
            raise UsageError("pg_stat_statements is not installed in this database.", remedy=_SHOW)
        view = sql.Identifier(schema[0], "pg_stat_statements")
        try:
            return connection.execute(sql.SQL(_TEXTS).format(view=view)).fetchall()
        except psycopg.errors.ObjectNotInPrerequisiteState:
            raise DatabaseError(
                "the server does not load the library of pg_stat_statements.", remedy=_SHOW
            ) from None
