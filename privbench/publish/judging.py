"""Judge the parts of a bundle that psql and the reader's server would run: DDL and queries.

Every statement of the DDL has to be on the allow-list of a load (`privbench.pgsql.ddl`). psql runs
it, and interprets backslashes and colons: a backslash outside of quotes never parses as SQL, and a
colon before a name, which psql may take for a variable, is refused. The text may consist of its
statements alone, so that no comment can deceive a reader.
"""

from collections.abc import Iterable, Set
from itertools import pairwise

from privbench.errors import ModelError, UsageError
from privbench.pgsql import SqlError, Statement, statements, tokens
from privbench.pgsql.ddl import Allowed, allowed
from privbench.pgsql.judge import judge
from privbench.workload import Workload, WorkloadQuery
from privbench.workload.safety import TextScope, check


def joined(statements: Iterable[Statement | str]) -> str:
    """Return statements as the text of a file, one after the other."""
    return "".join(f"{item if isinstance(item, str) else item.text};\n" for item in statements)


def judge_ddl(before: str, after: str) -> Allowed:
    """Refuse DDL that is not on the allow-list, or that psql may parse differently."""
    judged = allowed(before, after)
    if judged.left_out:
        raise ModelError(f"the schema holds what a load leaves out ({judged.left_out[0]}).")
    for text, part in zip((before, after), judged.parts, strict=True):
        if text != joined(part):
            raise ModelError("the schema holds more than its statements.")
        _refuse_variables(text)
    return judged


def _refuse_variables(text: str) -> None:
    for colon, after in pairwise(tokens(text)):
        if colon.text == ":" and colon.end == after.start:
            raise ModelError(f"psql would take :{after.text[:63]} for a variable.")


def judge_workload(workload: Workload, columns: Set[str]) -> None:
    """Refuse a workload that does more than read, or that psql may parse differently.

    A field that is neither in ``columns``, those of the bundle, nor defined by the query may be a
    call.
    """
    scope = TextScope(columns=columns)
    try:
        check(workload, {"": lambda tree: judge(tree, scope)})
        text = queries_text(workload.queries)
        # Splitting the file that psql gets has to give the same statements.
        if joined(statements(text)) != text:
            raise ModelError("psql would split the queries at other places.")
        _refuse_variables(text)
    except (UsageError, SqlError) as error:
        raise ModelError(str(error)) from None


def queries_text(queries: Iterable[WorkloadQuery]) -> str:
    """Return the queries as a file for psql, one statement for each."""
    return joined(statements(query.sql)[0] for query in queries)
