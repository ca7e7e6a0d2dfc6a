"""Do the queries of TPC-H say of a clone what they say of its source?

    pip install tpchgen-cli && tpchgen-cli csv -s 0.1 -o ROWS       anywhere: privbench needs no part of it
    python benchmarks/tpch.py "host=/tmp user=postgres" ROWS        makes tpch_source and tpch_clone there
    python benchmarks/tpch.py ... --releases 3 --only 4 5 12

Orders and their lines are private, the unit is an order, all other tables are public; ε is 3.2 and δ is 1e-6. One line
a query: the sums of its figures, source and clone, and the relative error of the worst of its figures,
Σ |clone - source| / Σ |source| over the groups whose names are public (over one group where keys of orders name them).
Of several releases it is the median. CONFIDENTIAL: it reads both databases.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

SCHEMA = """
CREATE TABLE region (r_regionkey integer PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152));
CREATE TABLE nation (n_nationkey integer PRIMARY KEY, n_name char(25) NOT NULL,
    n_regionkey integer NOT NULL REFERENCES region, n_comment varchar(152));
CREATE TABLE part (p_partkey integer PRIMARY KEY, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL,
    p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size integer NOT NULL, p_container char(10) NOT NULL,
    p_retailprice numeric(15, 2) NOT NULL, p_comment varchar(23) NOT NULL);
CREATE TABLE supplier (s_suppkey integer PRIMARY KEY, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL,
    s_nationkey integer NOT NULL REFERENCES nation, s_phone char(15) NOT NULL, s_acctbal numeric(15, 2) NOT NULL,
    s_comment varchar(101) NOT NULL);
CREATE TABLE partsupp (ps_partkey integer REFERENCES part, ps_suppkey integer REFERENCES supplier,
    ps_availqty integer NOT NULL, ps_supplycost numeric(15, 2) NOT NULL, ps_comment varchar(199) NOT NULL,
    PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey integer PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL,
    c_nationkey integer NOT NULL REFERENCES nation, c_phone char(15) NOT NULL, c_acctbal numeric(15, 2) NOT NULL,
    c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL);
CREATE TABLE orders (o_orderkey bigint PRIMARY KEY, o_custkey integer NOT NULL REFERENCES customer,
    o_orderstatus char(1) NOT NULL, o_totalprice numeric(15, 2) NOT NULL, o_orderdate date NOT NULL,
    o_orderpriority char(15) NOT NULL, o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL,
    o_comment varchar(79) NOT NULL);
CREATE TABLE lineitem (l_orderkey bigint REFERENCES orders, l_partkey integer NOT NULL, l_suppkey integer NOT NULL,
    l_linenumber integer, l_quantity numeric(15, 2) NOT NULL, l_extendedprice numeric(15, 2) NOT NULL,
    l_discount numeric(15, 2) NOT NULL, l_tax numeric(15, 2) NOT NULL, l_returnflag char(1) NOT NULL,
    l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL,
    l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL,
    PRIMARY KEY (l_orderkey, l_linenumber), FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp);
"""
TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
CONFIG = """
[database]
identity = "tpch"
[privacy]
epsilon = 3.2
delta = 1e-6
[tables."public.orders"]
own = []
[tables."public.lineitem"]
own = ["l_orderkey"]
""" + "".join(f'[tables."public.{name}"]\nrole = "public"\n' for name in TABLES[:-2])

_REVENUE = "sum(l_extendedprice * (1 - l_discount))"
#: The queries, with the parameters by which the standard checks them: how many of the first columns name a group that
#: is public, and the text without ORDER BY and LIMIT.
QUERIES: dict[int, tuple[int, str]] = {
    1: (2, "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
        f"{_REVENUE}, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(*) "
        "FROM lineitem WHERE l_shipdate <= date '1998-09-02' GROUP BY 1, 2"),
    2: (0, "SELECT count(*), sum(s_acctbal) FROM part JOIN partsupp ON p_partkey = ps_partkey "
        "JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON s_nationkey = n_nationkey "
        "JOIN region ON n_regionkey = r_regionkey WHERE p_size = 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE' "
        "AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey "
        "JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey "
        "WHERE p_partkey = ps_partkey AND r_name = 'EUROPE')"),
    3: (0, f"SELECT count(DISTINCT o_orderkey), {_REVENUE} FROM customer JOIN orders ON c_custkey = o_custkey "
        "JOIN lineitem ON l_orderkey = o_orderkey WHERE c_mktsegment = 'BUILDING' "
        "AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'"),
    4: (1, "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= date '1993-07-01' "
        "AND o_orderdate < date '1993-10-01' AND EXISTS (SELECT FROM lineitem WHERE l_orderkey = o_orderkey "
        "AND l_commitdate < l_receiptdate) GROUP BY 1"),
    5: (1, f"SELECT n_name, {_REVENUE} FROM customer JOIN orders ON c_custkey = o_custkey "
        "JOIN lineitem ON l_orderkey = o_orderkey JOIN supplier ON l_suppkey = s_suppkey "
        "AND c_nationkey = s_nationkey JOIN nation ON s_nationkey = n_nationkey "
        "JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'ASIA' AND o_orderdate >= date '1994-01-01' "
        "AND o_orderdate < date '1995-01-01' GROUP BY 1"),
    6: (0, "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= date '1994-01-01' "
        "AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"),
    7: (3, f"SELECT n1.n_name, n2.n_name, extract(year FROM l_shipdate), {_REVENUE} FROM supplier "
        "JOIN lineitem ON s_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey "
        "JOIN customer ON c_custkey = o_custkey JOIN nation n1 ON s_nationkey = n1.n_nationkey "
        "JOIN nation n2 ON c_nationkey = n2.n_nationkey WHERE l_shipdate BETWEEN date '1995-01-01' "
        "AND date '1996-12-31' AND (n1.n_name, n2.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE')) "
        "GROUP BY 1, 2, 3"),
    8: (1, "SELECT extract(year FROM o_orderdate), sum(CASE WHEN n2.n_name = 'BRAZIL' THEN l_extendedprice "
        f"* (1 - l_discount) ELSE 0 END), {_REVENUE} FROM part JOIN lineitem ON p_partkey = l_partkey "
        "JOIN supplier ON s_suppkey = l_suppkey JOIN orders ON l_orderkey = o_orderkey "
        "JOIN customer ON o_custkey = c_custkey JOIN nation n1 ON c_nationkey = n1.n_nationkey "
        "JOIN region ON n1.n_regionkey = r_regionkey JOIN nation n2 ON s_nationkey = n2.n_nationkey "
        "WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31' "
        "AND p_type = 'ECONOMY ANODIZED STEEL' GROUP BY 1"),
    9: (2, "SELECT n_name, extract(year FROM o_orderdate), sum(l_extendedprice * (1 - l_discount) "
        "- ps_supplycost * l_quantity) FROM part JOIN lineitem ON p_partkey = l_partkey "
        "JOIN supplier ON s_suppkey = l_suppkey JOIN partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey "
        "JOIN orders ON o_orderkey = l_orderkey JOIN nation ON s_nationkey = n_nationkey "
        "WHERE p_name LIKE '%green%' GROUP BY 1, 2"),
    10: (1, f"SELECT n_name, count(DISTINCT c_custkey), {_REVENUE} FROM customer "
         "JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey "
         "JOIN nation ON c_nationkey = n_nationkey WHERE o_orderdate >= date '1993-10-01' "
         "AND o_orderdate < date '1994-01-01' AND l_returnflag = 'R' GROUP BY 1"),
    11: (0, "SELECT count(*), sum(value) FROM (SELECT sum(ps_supplycost * ps_availqty) AS value FROM partsupp "
         "JOIN supplier ON ps_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey "
         "WHERE n_name = 'GERMANY' GROUP BY ps_partkey) AS parts"),
    12: (1, "SELECT l_shipmode, count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')), "
         "count(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) FROM orders "
         "JOIN lineitem ON o_orderkey = l_orderkey WHERE l_shipmode IN ('MAIL', 'SHIP') "
         "AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
         "AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date '1995-01-01' GROUP BY 1"),
    13: (1, "SELECT number, count(*) FROM (SELECT c_custkey, count(o_orderkey) AS number FROM customer "
         "LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY 1) "
         "AS customers GROUP BY 1"),
    14: (0, "SELECT sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE p_type LIKE 'PROMO%'), "
         f"{_REVENUE} FROM lineitem JOIN part ON l_partkey = p_partkey WHERE l_shipdate >= date '1995-09-01' "
         "AND l_shipdate < date '1995-10-01'"),
    15: (0, "SELECT max(total), sum(total) FROM (SELECT l_suppkey, "
         f"{_REVENUE} AS total FROM lineitem WHERE l_shipdate >= date '1996-01-01' "
         "AND l_shipdate < date '1996-04-01' GROUP BY 1) AS revenue"),
    16: (0, "SELECT count(*), sum(suppliers) FROM (SELECT count(DISTINCT ps_suppkey) AS suppliers FROM partsupp "
         "JOIN part ON p_partkey = ps_partkey WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' "
         "AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier "
         "WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_type, p_size) AS groups"),
    17: (0, "WITH quantity AS (SELECT l_partkey AS key, avg(l_quantity) AS mean FROM lineitem GROUP BY 1) "
         "SELECT sum(l_extendedprice) / 7.0, count(*) FROM lineitem JOIN part ON p_partkey = l_partkey "
         "JOIN quantity ON key = l_partkey WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX' "
         "AND l_quantity < 0.2 * mean"),
    18: (0, "SELECT count(*), sum(total) FROM (SELECT sum(l_quantity) AS total FROM lineitem GROUP BY l_orderkey "
         "HAVING sum(l_quantity) > 300) AS large"),
    19: (0, f"SELECT {_REVENUE} FROM lineitem JOIN part ON p_partkey = l_partkey "
         "WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND (p_brand = 'Brand#12' "
         "AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity BETWEEN 1 AND 11 "
         "AND p_size BETWEEN 1 AND 5 OR p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', "
         "'MED PACK') AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10 OR p_brand = 'Brand#34' "
         "AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity BETWEEN 20 AND 30 "
         "AND p_size BETWEEN 1 AND 15)"),
    20: (0, "WITH sold AS (SELECT l_partkey, l_suppkey, 0.5 * sum(l_quantity) AS half FROM lineitem "
         "WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' GROUP BY 1, 2) "
         "SELECT count(DISTINCT s_suppkey) FROM supplier JOIN nation ON s_nationkey = n_nationkey "
         "JOIN partsupp ON ps_suppkey = s_suppkey JOIN part ON p_partkey = ps_partkey "
         "JOIN sold ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey "
         "WHERE n_name = 'CANADA' AND p_name LIKE 'forest%' AND ps_availqty > half"),
    21: (0, "WITH late AS (SELECT l_orderkey, count(DISTINCT l_suppkey) AS suppliers, count(DISTINCT l_suppkey) "
         "FILTER (WHERE l_receiptdate > l_commitdate) AS late FROM lineitem GROUP BY 1) "
         "SELECT count(*), count(DISTINCT s_suppkey) FROM lineitem JOIN late USING (l_orderkey) "
         "JOIN orders ON o_orderkey = l_orderkey JOIN supplier ON s_suppkey = l_suppkey "
         "JOIN nation ON s_nationkey = n_nationkey WHERE n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F' "
         "AND l_receiptdate > l_commitdate AND suppliers > 1 AND late = 1"),
    22: (1, "SELECT substring(c_phone FROM 1 FOR 2), count(*), sum(c_acctbal) FROM customer "
         "WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal > "
         "(SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0 AND substring(c_phone FROM 1 FOR 2) "
         "IN ('13', '31', '23', '29', '30', '18', '17')) "
         "AND NOT EXISTS (SELECT FROM orders WHERE o_custkey = c_custkey) GROUP BY 1"),
}  # fmt: skip


def _recreate(server: str, name: str) -> str:
    """An empty database, without one of that name that was there."""
    with psycopg.connect(server, autocommit=True) as connection:
        for command in ("DROP DATABASE IF EXISTS {} WITH (FORCE)", "CREATE DATABASE {}"):
            connection.execute(sql.SQL(command).format(sql.Identifier(name)))
    return make_conninfo(server, dbname=name)


def load(server: str, rows: Path) -> str:
    """The source: the rows of a folder of CSV files, with their keys."""
    source = _recreate(server, "tpch_source")
    with psycopg.connect(source) as connection:
        connection.execute(SCHEMA)
        for table in TABLES:
            command = sql.SQL("COPY {} FROM STDIN (FORMAT csv, HEADER)").format(
                sql.Identifier(table)
            )
            with connection.cursor().copy(command) as copy:
                copy.write((rows / f"{table}.csv").read_bytes())
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return source


def clone(server: str, source: str, folder: Path) -> str:
    """A clone, by the command that people use."""
    target = _recreate(server, "tpch_clone")
    config = folder / "tpch.toml"
    config.write_text(CONFIG, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "privbench",
        "clone",
        source,
        target,
        "-c",
        str(config),
        "--yes",
    ]
    subprocess.run(
        [*command, "--ledger", str(folder / "ledger")], check=True, stdout=subprocess.DEVNULL
    )
    return target


Answer = dict[tuple[str, ...], list[float]]


def answers(database: str, numbers: list[int]) -> dict[int, Answer]:
    """What the queries say: the figures of every group."""
    with psycopg.connect(database) as connection:
        return {
            number: {
                tuple(str(name).strip() for name in row[: QUERIES[number][0]]): [
                    float(figure or 0) for figure in row[QUERIES[number][0] :]
                ]
                for row in connection.execute(QUERIES[number][1].encode()).fetchall()
            }
            for number in numbers
        }


def sums(answer: Answer) -> list[float]:
    """The sum of each figure over the groups."""
    return [sum(figures) for figures in zip(*answer.values(), strict=True)]


def relative_error(source: Answer, clone: Answer) -> float:
    """That of the worst figure: Σ |clone - source| / Σ |source| over the groups."""
    figures = len(next(iter({**clone, **source}.values()), []))
    none = [0.0] * figures
    return max(
        sum(
            abs(clone.get(group, none)[k] - source.get(group, none)[k])
            for group in source.keys() | clone.keys()
        )
        / max(sum(abs(row[k]) for row in source.values()), 1)
        for k in range(figures)
    )


def main() -> None:
    """Load, clone and print a line a query."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="connection string of a server, without a database")
    parser.add_argument("rows", type=Path, help="folder of the CSV files")
    parser.add_argument("--only", type=int, nargs="+", default=sorted(QUERIES))
    parser.add_argument("--releases", type=int, default=1)
    given = parser.parse_args()
    source = load(given.server, given.rows)
    exact = answers(source, given.only)
    clones = []
    for _ in range(given.releases):
        with tempfile.TemporaryDirectory() as folder:
            clones.append(answers(clone(given.server, source, Path(folder)), given.only))
    print(
        f"{'query':>5} {'error':>7}  sums of its figures: source, and the clone of the last release"
    )
    for number in given.only:
        errors = [relative_error(exact[number], release[number]) for release in clones]
        last = clones[-1][number]
        figures = " ".join(
            f"{one:,.0f}→{two:,.0f}"
            for one, two in zip(sums(exact[number]), sums(last), strict=False)
        )
        print(f"{number:5} {median(errors):7.3f}  {figures}" + ("" if last else "no row"))


if __name__ == "__main__":
    main()
