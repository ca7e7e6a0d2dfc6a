"""The ready configurations fit the tables that their SQL makes and the data sets' own headers."""

from pathlib import Path

import psycopg
import pytest

from privbench.config import Config
from privbench.postgres.introspect import introspect
from privbench.roles import resolve

SCHEMAS = Path(__file__).parents[1] / "schemas"
HEADERS = {
    "adult/coded": {
        "adult_coded": "age,workclass,fnlwgt,education-num,marital-status,occupation,relationship,"
        "race,sex,capital-gain,capital-loss,hours-per-week,native-country,income>50K"
    },
    "adult/raw": {
        "census": "id,age,workclass,fnlwgt,education,education_num,marital_status,occupation,"
        "relationship,race,sex,capital_gain,capital_loss,hours_per_week,native_country,income"
    },
    "imdb/imdb": {
        "title": "id,kind_id,production_year",
        "movie_companies": "id,movie_id,company_id,company_type_id",
        "cast_info": "id,movie_id,person_id,role_id",
        "movie_info": "id,movie_id,info_type_id",
        "movie_info_idx": "id,movie_id,info_type_id",
        "movie_keyword": "id,movie_id,keyword_id",
    },
    "stats/stats5": {
        "users": "Id,Reputation,CreationDate,Views,UpVotes,DownVotes",
        "posts": "Id,PostTypeId,CreationDate,Score,ViewCount,OwnerUserId,AnswerCount,CommentCount,"
        "FavoriteCount,LastEditorUserId",
        "badges": "Id,UserId,Date",
        "postlinks": "Id,CreationDate,PostId,RelatedPostId,LinkTypeId",
        "tags": "Id,Count,ExcerptPostId",
    },
}


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
