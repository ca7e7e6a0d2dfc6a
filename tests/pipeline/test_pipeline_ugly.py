"""Schemas as they grow in real houses: every clone is loaded whole, whatever their rules."""

from __future__ import annotations

import market
import pytest
from integrity import schema_of
from sql_files import sql_of

from privbench import pipeline

SHOP = sql_of(__file__, "ugly_shop")

ODD = sql_of(__file__, "ugly_odd")


@pytest.mark.parametrize("name", market.BY_NAME)
@pytest.mark.parametrize("ddl", [SHOP, ODD], ids=["shop", "odd"])
def test_clone_of_ugly_schemas_is_whole(each_server, make_database_on, tmp_path, ddl, name):
    source, target = make_database_on(each_server, statements=ddl), make_database_on(each_server)
    config = pipeline.inspect(source, base=market.config(tmp_path, "", epsilon=20)).config
    report = pipeline.clone(source, target, market.learner(config, name))
    assert report.loaded.loose == ()
    assert schema_of(target) == schema_of(source)
    assert all(report.loaded.rows.values())


def test_clone_of_no_tables_works(make_database, tmp_path):
    config = market.config(tmp_path, "", epsilon=1)
    report = pipeline.clone(make_database(), make_database(), config)
    assert report.loaded.rows == {}
