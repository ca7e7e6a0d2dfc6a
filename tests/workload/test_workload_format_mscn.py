"""MSCN's lines: golden texts, what is written is read again, what is beyond them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench.errors import UsageError
from privbench.workload import Query, Workload, read, write
from privbench.workload.formats.conjunctive import Condition, Conjunction, Value, conjunction

GOLDEN = Path(__file__).parent / "golden"

_names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"is", "as", "in", "or", "on", "to", "do", "by", "if", "and", "not"}
)
_columns = st.builds("x{}.y{}".format, _names, _names)
_strings = st.text(st.characters(exclude_characters=",#\n\r\x00", codec="utf-8"), max_size=12)
_values = st.one_of(
    st.integers().map(lambda n: Value(str(n), quoted=False)),
    st.decimals(-999, 999, places=2).map(lambda n: Value(f"{n:f}", quoted=False)),
    st.builds(Value, _strings, st.just(True)),
    st.builds(Value, st.dates().map(str), st.just(True), st.just("date")),
)
_conjunctions = st.builds(
    Conjunction,
    st.lists(
        st.tuples(_names.map("t_{}".format), _names.map("x{}".format)), min_size=1, max_size=4
    ).map(tuple),
    st.lists(st.tuples(_columns, _columns), max_size=3).map(tuple),
    st.lists(
        st.builds(Condition, _columns, st.sampled_from(["=", "<", ">", "<=", ">=", "<>"]), _values),
        max_size=5,
    ).map(tuple),
)


def test_lines_are_read_as_the_golden_texts() -> None:
    found = read(GOLDEN / "parts.csv")
    texts = (GOLDEN / "parts.sql").read_text().splitlines()
    assert [query.sql for query in found] == texts
    assert [query.card for query in found] == [117, 4052, 31, 9]
    assert [query.id for query in found] == ["q1", "q2", "q3", "q4"]


def test_the_golden_texts_are_written_as_the_lines(tmp_path: Path) -> None:
    plain = read(GOLDEN / "parts.sql")
    cards = (117, 4052, 31, 9)
    queries = (Query(q.id, q.sql, card) for q, card in zip(plain, cards, strict=True))
    write(Workload("parts", tuple(queries)), tmp_path / "parts.csv", "mscn")
    golden = (GOLDEN / "parts.csv").read_text().replace("=,sent", "=,'sent'")
    assert (tmp_path / "parts.csv").read_text() == golden


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_conjunctions, st.none() | st.integers(0, 10**12))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, parts: Conjunction, card: int | None
) -> None:
    path = tmp_path_factory.mktemp("mscn") / "w.csv"
    workload = Workload("w", (Query("q1", parts.sql, card),))
    write(workload, path, "mscn")
    assert read(path) == workload
    assert conjunction(workload.queries[0], "mscn") == parts


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        (
            'SELECT COUNT(*) FROM "public"."title" AS "t" WHERE "t"."year" BETWEEN 1 AND 2;',
            "title t##t.year,>=,1,t.year,<=,2#",
        ),
        (
            "select count(*) from a JOIN b x ON (a.i = x.j AND a.k > -2) WHERE 'u' = x.Name",
            "a,b x#a.i=x.j#a.k,>,-2,x.Name,=,'u'#",
        ),
        ("SELECT COUNT(*) FROM shop.a CROSS JOIN b", "shop.a,b###"),
        ("SELECT COUNT(*) FROM a WHERE 5 > a.x", "a##a.x,<,5#"),
    ],
)
def test_other_ways_to_write_a_conjunction(sql: str, parts: str, tmp_path: Path) -> None:
    write(Workload("w", (Query("a", sql),)), tmp_path / "w.csv", "mscn")
    assert (tmp_path / "w.csv").read_text() == parts + "\n"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) FROM a GROUP BY x", "GROUP"),
        ("SELECT COUNT(*) FROM a LIMIT 1", "LIMIT"),
        ("SELECT DISTINCT COUNT(*) FROM a", "DISTINCT"),
        ("WITH w AS (SELECT 1) SELECT COUNT(*) FROM w", "WITH"),
        ("SELECT SUM(x) FROM a", "else than COUNT"),
        ("SELECT COUNT(DISTINCT x) FROM a", "else than COUNT"),
        ("SELECT COUNT(*) FROM a LEFT JOIN b ON a.i = b.i", "inner one"),
        ("SELECT COUNT(*) FROM a JOIN b USING (i)", "inner one"),
        ("SELECT COUNT(*) FROM (SELECT 1) a", "than tables"),
        ("SELECT COUNT(*) FROM a WHERE x = 1 OR y = 2", "than a comparison"),
        ("SELECT COUNT(*) FROM a WHERE x IN (1, 2)", "than a comparison"),
        ("SELECT COUNT(*) FROM a WHERE x IS NULL", "than a comparison"),
        ("SELECT COUNT(*) FROM a WHERE x LIKE 'u%'", "than a comparison"),
        ("SELECT COUNT(*) FROM a WHERE x < y", "than a literal"),
        ("SELECT COUNT(*) FROM a WHERE lower(x) = 'u'", "columns and literals"),
        ("SELECT COUNT(*) FROM a WHERE x = 1 + 1", "than a literal"),
        ("SELECT COUNT(*) FROM a WHERE x = 'u,v'", "comma"),
        ("SELECT COUNT(*) FROM a WHERE x = 'u#v'", "comma"),
        ("SELECT COUNT(*) FROM a WHERE x >= 'M' COLLATE \"C\"", "COLLATE"),
        ("SELECT COUNT(*) FROM a WHERE x >= 'M' COLLATE \"de\"", "collation"),
        ('SELECT COUNT(*) FROM "Order Items"', "quotes"),
        ('SELECT COUNT(*) FROM a WHERE "X" = 1', "quotes"),
        ("SELECT COUNT(*)", "no table"),
        ("DELETE FROM a", "plain SELECT"),
        ("SELECT ((((", "plain SELECT"),
    ],
)
def test_what_is_beyond_the_format_is_refused(sql: str, reason: str, tmp_path: Path) -> None:
    workload = Workload("w", (Query("fine", "SELECT COUNT(*) FROM a"), Query("odd", sql)))
    with pytest.raises(UsageError, match=f"mscn cannot hold query odd: .*{reason}"):
        write(workload, tmp_path / "w.csv", "mscn")
    assert not (tmp_path / "w.csv").exists()


@pytest.mark.parametrize("line", ["a##x,=#1", "a##x,~,1#1", "a#x#y,=,1#1", "a b c###1", "a###x"])
def test_a_broken_line_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text(f"a###1\n{line}\n")
    with pytest.raises(UsageError, match="query 2 of"):
        read(tmp_path / "w.csv")
