"""Door: a CHECK of a model, which is on the allow-list. Attack: what repairs make of its text.

The repairs take CHECKs apart as PostgreSQL prints them, and put pieces together anew: values to
try, conditions of rows. A string that is read with another end would become SQL that nobody has
judged. Stopped by: PostgreSQL prints every text in one plain form, whose strings and names both
parsers read alike; this test compares them.
"""

from __future__ import annotations

import postgast
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.postgres.mend.arms import arms
from privbench.postgres.mend.proposals import proposals
from privbench.schema import Column, ColumnType, Table, TableName

#: What ends strings, names and comments, escapes, or is white space to some and a letter to others.
SIGNS = ["'", '"', "\\", "$", "-", "/", "*", ";", "%", "{", "}", "(", ")", ",", "|", "\n", "\r"]
SIGNS += ["\t", "\u00a0", "\u0085", "\u2028", "U&", "E", "e", "x", "0", "$$", "--", "/*", "''"]
SIGNS += ["\\'", "\\047", ") OR pg_read_file('x') --", "'; COMMIT; --", "' || lo_import('x')"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=8).map("".join)
NAMES = TEXTS.map(lambda text: (text or "x")[:40])
#: All that the repairs call by themselves on texts.
CALLED = {"upper", "lower", "initcap", "btrim", "replace", "left", "rpad"}


def printed(text):
    """A string as PostgreSQL prints it."""
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{doubled}'" if "\\" in text else f"'{doubled}'"


def named(name):
    return '"' + name.replace('"', '""') + '"'


def held(statement):
    """Strings and names of calls in a statement, by PostgreSQL's parser."""
    tree = postgast.parse(statement)
    assert len(tree.stmts) == 1
    strings, calls = set(), set()
    for _, node in postgast.walk(tree):
        kind = type(node).__name__
        if kind == "A_Const" and node.HasField("sval"):
            strings.add(node.sval.sval)
        elif kind == "FuncCall":
            calls.add(node.funcname[-1].string.sval)
    return strings, calls


@settings(max_examples=150, deadline=None)
@given(one=TEXTS, other=TEXTS, name=NAMES, second=NAMES)
def test_pieces_of_a_check_hold_its_strings_and_no_calls(one, other, name, second):
    """Strings of any signs stay strings, names stay names."""
    name, second = f"a{name}", f"b{second}"
    text = ColumnType("text", "text", category="S")
    table = Table(TableName("public", "t"), (Column(name, 1, text), Column(second, 2, text)))
    check = (
        f"(({named(name)} = {printed(one)}::text) OR (({named(second)} IS NULL) AND"
        f" ({named(name)} = ANY (ARRAY[{printed(one)}::text, {printed(other)}::text]))))"
    )
    assert held(f"SELECT {check}")[1] == set()
    columns = (name, second)
    assigned = [value for _, value in proposals(table, check, columns)]
    conditions = []
    for arm in arms(table, [check], columns):
        assigned += [change.value for change in arm.changes if change.value is not None]
        conditions += [change.condition for change in arm.changes]
    statements = [f"UPDATE t SET c = {value} WHERE d" for value in assigned]
    statements += [f"SELECT 1 WHERE ({condition}) IS TRUE" for condition in conditions]
    read = 0
    for statement in statements:
        try:
            strings, calls = held(statement)
        except postgast.PgQueryError:
            # The server refuses it likewise: `ANY (…)` is no value.
            continue
        read += 1
        assert strings <= {one, other, "x", " ", ""}
        assert calls <= CALLED
    assert read > 8
