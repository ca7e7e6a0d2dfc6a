"""Texts that no release may name: a clone has as many, each as often, and none of the source's."""

from collections import Counter

import psycopg
import pytest

from privbench.config import Config
from privbench.pipeline.clone import clone

ROWS, NAMES = 4000, 500


def _counts(dsn: str, column: str) -> Counter[str]:
    with psycopg.connect(dsn) as connection:
        query = f"SELECT {column}, pg_catalog.count(*) FROM people GROUP BY 1"
        return Counter(dict(connection.execute(query.encode()).fetchall()))


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
def test_clone_of_names_keeps_their_law(make_database, tmp_path, accounting):
    source = make_database(
        "CREATE TABLE people (id int PRIMARY KEY, region text NOT NULL, flavour text NOT NULL);"
        f"INSERT INTO people SELECT i, 'Q' || i * 7919 % {NAMES} || 'x', (ARRAY['low', 'mid'])"
        f"[1 + i % 2] FROM generate_series(1, {ROWS}) i"
    )
    target = make_database()
    privacy = {"epsilon": 3.2, "delta": 1e-9, "accounting": accounting, "seed": 4}
    config = Config.model_validate(
        {"privacy": privacy, "ledger": {"path": str(tmp_path / "ledger")}}
    )
    clone(source, target, config)
    old, new = _counts(source, "region"), _counts(target, "region")
    assert not old.keys() & new.keys()
    assert len(new) == pytest.approx(NAMES, rel=0.25)
    top = [sum(n for _, n in side.most_common(100)) / side.total() for side in (old, new)]
    assert top[1] == pytest.approx(top[0], rel=0.5)
    flavours = _counts(target, "flavour")
    # Noise alone makes a public candidate look present in one column of fifty.
    assert flavours["low"] + flavours["mid"] > 0.95 * flavours.total()
