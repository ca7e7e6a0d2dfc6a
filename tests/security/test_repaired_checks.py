"""Values that repairs cut out of CHECKs hold the same strings, and no SQL."""

import postgast
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.rules.values import values
from privbench.schema import Column, ColumnType, Table, TableName

#: What ends strings, names and comments, escapes, or is white space to some and a letter to others.
SIGNS = ["'", '"', "\\", "$", "-", "/", "*", ";", "%", "{", "}", "(", ")", ",", "|", "\n", "\r"]
SIGNS += ["\t", "\u00a0", "\u0085", "\u2028", "U&", "E", "e", "x", "0", "$$", "--", "/*", "''"]
SIGNS += ["\\'", "\\047", ") OR pg_read_file('x') --", "'; COMMIT; --", "' || lo_import('x')"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=8).map("".join)
NAMES = TEXTS.map(lambda text: (text or "x")[:40])


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
def test_values_of_a_check_hold_its_strings_and_no_calls(one, other, name, second):
    name, second = f"a{name}", f"b{second}"
    text = ColumnType("text", "text", category="S")
    table = Table(TableName("public", "t"), (Column(name, 1, text), Column(second, 2, text)))
    check = (
        f"(({named(name)} = {printed(one)}::text) OR (({named(second)} IS NULL) AND"
        f" ({named(name)} = ANY (ARRAY[{printed(one)}::text, {printed(other)}::text]))))"
    )
    assert held(f"SELECT {check}")[1] == set()
    statements = [
        f"UPDATE t SET c = {value.text} WHERE d" for value in values(table, check, (name, second))
    ]
    read = 0
    for statement in statements:
        strings, calls = held(statement)
        read += 1
        assert strings <= {one, other, "x"}
        assert calls == set()
    assert read >= 1
