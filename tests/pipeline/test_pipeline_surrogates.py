"""Texts that no release may name: a clone has as many, each as often, and none of the source's."""

from collections import Counter

import market
import pytest

from privbench.pipeline.clone import clone

ROWS, NAMES = 4000, 500


def counts(dsn: str, column: str) -> Counter[str]:
    return Counter(dict(market.ask(dsn, f"SELECT {column}, count(*) FROM people GROUP BY 1")))


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
def test_clone_of_names_keeps_their_law(make_database, tmp_path, accounting):
    source = make_database(
        "CREATE TABLE people (id int PRIMARY KEY, region text NOT NULL, flavour text NOT NULL);"
        f"INSERT INTO people SELECT i, 'Q' || i * 7919 % {NAMES} || 'x', (ARRAY['low', 'mid'])"
        f"[1 + i % 2] FROM generate_series(1, {ROWS}) i"
    )
    target = make_database()
    privacy = {"epsilon": 3.2, "delta": 1e-9, "accounting": accounting, "seed": 4}
    config = market.config(tmp_path / "ledger", "", **privacy)
    clone(source, target, config)
    old, new = counts(source, "region"), counts(target, "region")
    assert not old.keys() & new.keys()
    assert len(new) == pytest.approx(NAMES, rel=0.25)
    top = [sum(n for _, n in side.most_common(100)) / side.total() for side in (old, new)]
    assert top[1] == pytest.approx(top[0], rel=0.5)
    flavours = counts(target, "flavour")
    # Noise alone makes a public candidate look present in one column of fifty.
    assert flavours["low"] + flavours["mid"] > 0.95 * flavours.total()
