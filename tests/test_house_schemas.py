"""The ready configurations fit the tables that their SQL makes and the data sets' own headers."""

from pathlib import Path

import psycopg
import pytest
from sql_files import cases

from privbench.config import Config
from privbench.postgres.introspect import introspect
from privbench.roles import resolve

SCHEMAS = Path(__file__).parents[1] / "schemas"
HEADERS: dict[str, dict[str, str]] = {}
for _title, _header in cases(__file__, "headers.txt"):
    _file, _table = _title.split()
    HEADERS.setdefault(_file, {})[_table] = _header


def _ddl(name: str) -> bytes:
    text = (SCHEMAS / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("\\")).encode()


def test_every_configuration_is_listed():
    found = {str(path.relative_to(SCHEMAS).with_suffix("")) for path in SCHEMAS.rglob("*.toml")}
    assert found == set(HEADERS)


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_config_fits_tables_and_header(name, make_database):
    config = Config.load(SCHEMAS / f"{name}.toml")
    with psycopg.connect(make_database()) as connection:
        connection.execute(_ddl(name))
        connection.commit()
        schema = introspect(connection, None, ())
    assert {table.name.name for table in schema} == set(HEADERS[name])
    assert {table.key for table in schema} == set(config.tables)
    for table in schema:
        columns = {column.name for column in table.columns}
        header = HEADERS[name][table.name.name].split(",")
        assert columns == {item if ">" in item else item.lower() for item in header}
        declared = config.tables[table.key]
        assert set(declared.columns) <= columns
    owners = resolve(schema, config)
    owned = {key: list(own or ()) for key, own in owners.items()}
    assert owned == {key: section.own for key, section in config.tables.items()}
    if name == "stats/stats5":  # whose unit is the user
        assert {key: own for key, own in owned.items() if own} == {
            "public.posts": ["owneruserid"], "public.badges": ["userid"],
            "public.postlinks": ["postid"],
        }  # fmt: skip
