"""CHECKs that a text matches a pattern, has a case or lies between two others."""

import psycopg
import pyarrow as pa
import pytest
from columns import TEXT, char, col, copy_in, fill, table
from psycopg import sql
from sql_files import sql_of

from privbench.encoding.registry import table_coverage
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.rng import generator
from privbench.rules.texts import MOST, Unknown, column_pattern, parse
from privbench.schema import Check

PATTERNS = [*sql_of(__file__, "made_patterns.txt").splitlines(), ""]


@pytest.mark.parametrize("text", PATTERNS)
def test_texts_of_a_pattern_match_in_postgresql(server, make_database, text):
    made = parse(text).make(200, 5, generator(3)).to_pylist()
    short = parse(text).make(20, 0, generator(4)).to_pylist()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT bool_and(t ~ %s), count(*) FROM unnest(%s::text[]) t", [text, made + short]
        ).fetchone()
    assert row == (True, 220)


@pytest.mark.parametrize(
    "text",
    [r"(a)\1", r"(?=a)b", r"\yword\y", "a{3,1}", "[b-a]", "(a", "a)", "*", "[", "[[:no:]]", "a^b",
     "(" * 40 + "a" + ")" * 40, "((a{99}){99}){99}", f"a{{{MOST + 1}}}", "a$b", "\\",
     "a{,3}", "(?i)a", "[a-z]++", "[[.a.]]"],
)  # fmt: skip
def test_patterns_that_are_not_understood_are_refused(text):
    with pytest.raises(Unknown):
        parse(text)


@pytest.fixture(scope="module")
def loaded(make_database):
    dsn = make_database(sql_of(__file__, "patterns"))
    with connect(dsn) as connection:
        return dsn, introspect(connection).table("t")


def test_patterns_are_read_from_checks_and_replace_only_what_does_not_match(loaded):
    item = loaded[1]
    found = {column.name for column in item.columns if column_pattern(item, column)}
    assert found == {"code", "z", "sku", "lk"}
    lines = table_coverage(item, {}, 1e-9)
    assert {line.column for line in lines if "repaired in the load" in line.how} == {"odd", "nope"}
    # Only what does not match is made anew.
    pattern = column_pattern(loaded[1], loaded[1].column("sku"))
    texts = pa.array(["AB-7", None, "no", "", "ab-12"])
    made = pattern.replace_bad(texts, generator(1)).to_pylist()
    assert [made[0], made[1], made[4]] == ["AB-7", None, "ab-12"]
    assert pattern.replace_bad(pa.array(["AB-7", None]), generator(1)).to_pylist() == ["AB-7", None]
    assert pattern.replace_bad(pa.array(made), generator(2)).to_pylist() == made


def test_keys_and_texts_of_patterns_are_loaded(loaded):
    dsn, item = loaded
    texts = {
        name: column_pattern(item, item.column(name)).make(300, generator(5))
        for name in ("sku", "z", "lk")
    }
    made = fill(item, 300, texts, seed=2)
    assert made.rows > 250
    with psycopg.connect(dsn) as connection:
        copy_in(connection, sql.Identifier("t"), made.columns)
        counts = connection.execute("SELECT count(*), count(DISTINCT code) FROM t").fetchone()
    assert counts == (made.rows, made.rows)


SPANS = [
    ("text", "BETWEEN 'A' AND 'Z'", 30),
    ("char(1)", ">= 'b' AND {c} <= 'f'", 5),
    ("varchar(3)", "BETWEEN 'AAA' AND 'ZZZ'", 300),
    ("varchar(4)", "> '1000' AND {c} < '4000'", 300),
    ("text", "BETWEEN 'AB' AND 'AD'", 60),
]


@pytest.mark.parametrize(("type_", "check", "rows"), SPANS)
def test_texts_between_two_others_are_kept_and_made(server, make_database, type_, check, rows):
    """As keys and as columns, under the rules of ASCII and under those of a language."""
    with psycopg.connect(make_database(), autocommit=True) as connection:
        text = check.format(c="k")
        connection.execute(f"CREATE TABLE t (k {type_} PRIMARY KEY CHECK (k {text}))")
        table = introspect(connection).table("t")
        keys = fill(table, rows).columns["k"].to_pylist()
        assert len(keys) == rows
        pattern = column_pattern(table, table.column("k"))
        texts = pa.array(["0", "m", "B", "~", "2345", keys[0], None])
        repaired = pattern.replace_bad(texts, generator(1)).to_pylist()
        assert repaired[5:] == [keys[0], None]
        listed = [*keys, *repaired[:6]]
        known = connection.execute(
            "SELECT collname FROM pg_collation WHERE collname IN ('C', 'en-x-icu', 'en_US.utf8')"
        )
        for (order,) in known.fetchall():
            beyond = (
                f'SELECT k FROM unnest(%s::text[]) AS t(k) WHERE NOT (k COLLATE "{order}" {text})'
            )
            assert connection.execute(beyond, [listed]).fetchall() == []


def coded(*checks, type_=TEXT):
    """A table of one column, `code`, of which all CHECKs speak, and what it must match."""
    found = [Check(f"k{i}", text, ("code",)) for i, text in enumerate(checks)]
    item = table("t", col("code", type_, null=True), checks=found)
    return item, column_pattern(item, item.columns[0])


@pytest.mark.parametrize("case", ["upper", "lower"])
def test_texts_of_one_case_keep_it(case):
    text = f"(((code)::text = {case}((code)::text)) AND (code <> ''::bpchar))"
    _, found = coded(text, type_=char(15))
    keys = found.distinct(3000, generator(1, "keys")).to_pylist()
    assert len(set(keys)) == 3000
    assert all(key and key == getattr(key, case)() and len(key) <= 15 for key in keys)
    texts = pa.array(["Ab c", None, "", "X1"])
    other = [None if text is None else getattr(text, case)() for text in texts.to_pylist()]
    assert found.replace_bad(texts, generator(2, "texts")).to_pylist() == other


def test_an_expression_of_a_case_is_no_pattern():
    for check in ("left(code, 1) = upper(code)", "code = upper(other)", "code <> upper(code)"):
        assert coded(f"({check})")[1] is None
