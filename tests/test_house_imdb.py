"""The IMDB-shaped source: sizes, skew and keys of the published database, at any scale."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from market import ask
from sql_files import cases

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "schemas" / "imdb"
FACTS: dict[str, Any] = json.loads((FOLDER / "facts.json").read_text(encoding="utf-8"))
SCALE = 0.02


def _generate(*arguments: str) -> Result:
    """What the script does; another test runs it as one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return CliRunner().invoke(runpy.run_path(str(FOLDER / "generate.py"))["main"], arguments)


@pytest.fixture(scope="module")
def source(make_database):
    """DSN of a source at `SCALE`."""
    dsn = make_database()
    done = _generate(dsn, "--scale", str(SCALE))
    assert done.exit_code == 0, done.output
    return dsn


def _counts(dsn: str, table: str, column: str = "movie_id") -> np.ndarray:
    rows = ask(
        dsn,
        f"SELECT coalesce(n, 0) FROM title LEFT JOIN (SELECT {column} AS id, count(*) AS n"
        f" FROM {table} GROUP BY 1) c USING (id) ORDER BY id",
    )
    return np.array(rows, dtype=float)[:, 0]


def test_tables_have_their_published_sizes_titles_and_ids(source):
    for table, published in FACTS["rows"].items():
        ((rows,),) = ask(source, f"SELECT count(*) FROM {table}")
        assert rows == pytest.approx(SCALE * published, rel=0.1), table
    for table, published in FACTS["titles_with_rows"].items():
        assert (_counts(source, table) > 0).sum() == pytest.approx(SCALE * published, rel=0.2)
    # Ids are skewed within their published range.
    for table, name in (("cast_info", "person"), ("movie_keyword", "keyword")):
        query = f"SELECT {name}_id, count(*) FROM {table} GROUP BY 1 ORDER BY 2 DESC"
        ids, counts = np.array(ask(source, query), dtype=float).T
        assert 1 <= ids.min() <= ids.max() <= FACTS["largest_id"][name]
        assert counts[: len(counts) // 100].sum() > 0.05 * counts.sum()


def test_popular_titles_have_more_of_all_and_rated_ones_three_ratings(source):
    tables = ("movie_companies", "cast_info", "movie_info", "movie_keyword")
    counts = np.stack([_counts(source, table) for table in tables])
    assert (np.corrcoef(np.log1p(counts))[np.triu_indices(4, 1)] > 0.15).all()
    assert (counts.max(axis=1) > 20 * counts.mean(axis=1))[[1, 3]].all()
    # A rated title has its three ratings.
    (found,) = ask(
        source,
        "SELECT bool_and(a = 1 AND b = 1 AND c = 1) FROM (SELECT count(*) FILTER"
        " (WHERE info_type_id = 99) AS a, count(*) FILTER (WHERE info_type_id = 100) AS b,"
        " count(*) FILTER (WHERE info_type_id = 101) AS c FROM movie_info_idx GROUP BY movie_id) x",
    )
    assert found == (True,)
    assert ask(source, "SELECT count(*) FROM movie_info_idx WHERE info_type_id = 112") == [(5,)]


@pytest.mark.parametrize(("published", "query"), cases(__file__, "imdb_answers"))
def test_published_answers_come_back(source, published, query):
    ((found,),) = ask(source, f"SELECT count(*) FROM {query}")
    assert found == pytest.approx(SCALE * int(published), rel=0.12)


@pytest.mark.slow
def test_the_same_seed_makes_the_same_rows(make_database):
    sums = []
    for seed in ("1", "1", "2"):
        dsn = make_database()
        assert _generate(dsn, "--scale", "0.0005", "--seed", seed).exit_code == 0
        sums.append(ask(dsn, "SELECT sum(hashtext(c::text)) FROM cast_info c"))
    assert sums[0] == sums[1] != sums[2]


def test_a_filled_database_is_left_alone(source):
    assert "already" in _generate(source, "--if-empty").output
    assert _generate(source, "--scale", "0.0005").exit_code != 0
