"""Rules that the owner declares in the config: judged as strictly as a stranger's expressions."""

from __future__ import annotations

from privbench.limits import expression
from privbench.pgsql.judge import NotAllowed, shown
from privbench.pgsql.written import canonical, judged
from privbench.schema import Check, Table


def declared_check(text: str, name: str, table: Table) -> Check:
    """The CHECK that a rule becomes.

    Raises:
        NotAllowed: It does more than compute, or reads something else than the table's columns.
        SqlError: It cannot be read.
        ValueError: It is too long.
    """
    judged(expression(text))
    # The brackets keep readers of CHECKs from taking the first word for a keyword.
    whole = expression(f"({canonical(text)})")
    read = {node.names("fields") for node in judged(whole).walk() if node.kind == "ColumnRef"}
    known = [column.name for column in table.columns]
    unknown = sorted(read - {(column,) for column in known})
    if unknown or not read:
        what = f"{shown(unknown[0])}, which is no column of the table" if unknown else "no column"
        raise NotAllowed(f"it reads {what}")
    columns = tuple(column for column in known if (column,) in read)
    return Check(name, whole, columns, declared=True)
