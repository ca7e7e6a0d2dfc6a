"""Expressions of computed columns, which a stranger's config or model may hold, only compute."""

import pytest
from market import ask
from sql_files import cases

from privbench.errors import ConfigError
from privbench.pgsql.computed import computations

BILL, LINE = ("public", "bill"), ("public", "line")
TABLES = {BILL: ["id", "net", "tax", "gross"], LINE: ["bill_id", "qty"]}
HOSTILE = cases(__file__, "columns")


@pytest.mark.parametrize(("said", "text"), HOSTILE, ids=[text[:40] for _, text in HOSTILE])
def test_expression_that_does_more_than_compute_is_refused(said, text):
    with pytest.raises(ConfigError, match=said):
        computations({(BILL, "gross"): text}, TABLES)


ORDINARY = """
EXISTS (SELECT 1 FROM public.line l WHERE l.bill_id = this.id)
(SELECT l.qty FROM public.line l WHERE l.bill_id = this.id ORDER BY l.qty DESC NULLS LAST LIMIT 1)
(SELECT count(*) FILTER (WHERE l.qty > 1) FROM public.line l JOIN public.bill b ON b.id = l.bill_id)
(SELECT max(s.n) FROM (SELECT count(DISTINCT l.qty) AS n FROM public.line l GROUP BY l.bill_id) s)
(SELECT r.n FROM (SELECT b.id, rank() OVER (ORDER BY b.net) AS n FROM public.bill b) r LIMIT 1)
(SELECT sum(line.qty) FROM public.line WHERE line.bill_id IN (this.id, 7))
CASE WHEN this.net BETWEEN 1 AND 9 THEN upper('a') ELSE this.tax::text || ' ' END
extract(year FROM current_date) - this.net
round(greatest(this.net, 0)::numeric(10, 2) * 0.2, 2) -- a comment
"""


@pytest.mark.parametrize("text", ORDINARY.strip().splitlines())
def test_ordinary_expression_is_accepted_as_it_is(text):
    (found,) = computations({(BILL, "gross"): text}, TABLES)
    assert found.text == text


def test_no_function_is_called_that_is_volatile_or_returns_rows(server):
    asked = (
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
        " AND (proretset OR provolatile = 'v')"
    )
    for (name,) in ask(server.dsn, asked):
        with pytest.raises(ConfigError, match=f"it calls {name}"):
            computations({(BILL, "gross"): f'"{name}"(this.net)'}, TABLES)


def test_expressions_are_put_in_order_of_what_they_read_across_tables():
    found = computations(
        {
            (BILL, "gross"): "this.net + this.tax",
            (BILL, "tax"): "round(this.net * 0.2, 2)",
            (BILL, "net"): "(SELECT sum(l.qty) FROM public.line l WHERE l.bill_id = this.id)",
            (LINE, "qty"): "(SELECT count(*) FROM public.bill b WHERE b.id = this.bill_id)",
        },
        TABLES,
    )
    assert [(item.column, item.level) for item in found] == [
        ("qty", 0),
        ("net", 1),
        ("tax", 2),
        ("gross", 3),
    ]
    assert found[1].compared == {(LINE, "bill_id")}


def test_columns_that_depend_on_each_other_are_refused():
    circle = {
        (BILL, "net"): "(SELECT sum(l.qty) FROM public.line l)",
        (LINE, "qty"): "(SELECT count(b.net) FROM public.bill b)",
    }
    with pytest.raises(ConfigError, match="it depends on itself, or on one that does"):
        computations(circle, TABLES)
