"""SyntheRela's metrics of relational data, by its own package in an environment of its own.

Source and clone are written as CSV files that only the package reads. Its classifiers (C2ST) try
to distinguish rows of the source from rows of the clone: .5 is a guess, 1 is certain.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
from psycopg import sql

from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.reading import reading
from privbench.schema import Schema, Table
from privbench_lab.bench.peers import call, environment

_PYTHONS = ("3.10", "3.12")
_NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8"})
_TIMES = frozenset({"date", "timestamp", "timestamptz"})
_TEXTS = frozenset({"text", "varchar", "bpchar"})
#: Of the package, with the versions of its own time: later ones refuse its calls.
_PINS = ("syntherela==0.0.4", "sdv==1.19.0", "sdmetrics==0.19.0", "torch==2.13.0")
#: Most values of a text column that is compared, by its source. Texts of more values are names and
#: remarks, of which a clone keeps the form alone. In the protocol, half of it leaves out names of
#: districts (77) and of suppliers (100), twice as many add the types of parts (150).
_VALUES = 100
_SCRIPT = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import pandas as pd
from xgboost import XGBClassifier
from syntherela.data import load_tables
from syntherela.metadata import Metadata
from syntherela.metrics.multi_table.detection import AggregationDetection
from syntherela.report import Report

job = json.loads(sys.stdin.read())
metadata = Metadata.load_from_dict(job["metadata"])
real, clone = (load_tables(job[side], metadata) for side in ("source", "clone"))
chosen = {"seed": 0, "tree_method": "hist"}
metric = AggregationDetection(classifier_cls=XGBClassifier, classifier_args=chosen, random_state=42)
report = Report(real, clone, metadata, "", "", "", "", [], [], [metric], validate_metadata=False)
results = report.generate()["multi_table_metrics"]
results["C2ST"] = results.pop(metric.name)
report.compute_trends(multi_table=False, verbose=False)
results |= {k: report.results[f"single_{k}_metrics"]["Trends"] for k in ("column", "table")}
json.dump(results, open(job["said"], "w"), default=float)
"""


def syntherela_figures(
    source: str, clone: str, schema: Schema, known: Collection[str], folder: Path, limit: float
) -> dict[str, float]:
    """SyntheRela's metrics of a clone; of single tables those count that ``known`` names.

    ``syntherela.c2st`` is the accuracy of a classifier of rows with aggregates of the rows that
    refer to them (C2ST-Agg), in the mean of the tables and (``.max``) in the worst;
    ``syntherela.shapes``, ``.pairs``, ``.cardinality`` and ``.hop1`` … are similarities of columns,
    of pairs of columns, of the numbers of referring rows and of pairs of columns over one or more
    references, from 0 to 1. ``limit`` is the seconds that the package may take. The classifier is
    XGBoost, as in the package's own runs, but on histograms, which takes a tenth of the time.

    Keys are the columns of primary keys and references. References of several columns and those
    that close a circle, on which the package does not end, are left out, and so are texts of many
    values and types without an order.
    """
    python = environment(_PYTHONS, _PINS)
    with reading(source) as first, reading(clone) as second:
        sides = {"source": first, "clone": second}
        columns = {table.key: _columns(first, table) for table in schema}
        for side, connection in sides.items():
            (folder / side).mkdir()
            for table in schema:
                rows = _rows(connection, table, list(columns[table.key]))
                rows.to_csv(folder / side / f"{_plain(table)}.csv", index=False)
    said = folder / "syntherela.json"
    job = {
        **{side: str(folder / side) for side in sides},
        "metadata": _metadata(schema, columns),
        "said": str(said),
    }
    call(python, _SCRIPT, job, str(folder), limit)
    tables = {_plain(table) for table in schema if table.key in known}
    return _figures(json.loads(said.read_text()), tables)


def _plain(table: Table) -> str:
    """A name without a dot, as names of files and of SyntheRela's tables have none."""
    return f"{table.name.schema}-{table.name.name}".replace(".", "-")


def _columns(connection: Connection, table: Table) -> dict[str, str]:
    """The kinds of the columns that are compared, in SyntheRela's words, by name."""
    keys = set(table.primary_key.columns if table.primary_key else ())
    keys |= {name for key in table.foreign_keys for name in key.columns}
    kinds = {}
    for column in table.columns:
        base = column.type.base
        if column.name in keys:
            kinds[column.name] = "id"
        elif base == "bool" or (base in _TEXTS and _few(connection, table, column.name)):
            kinds[column.name] = "categorical"
        elif base in _NUMBERS | _TIMES:
            kinds[column.name] = "datetime" if base in _TIMES else "numerical"
    return kinds


def _few(connection: Connection, table: Table, column: str) -> bool:
    query = SELECT + sql.SQL("pg_catalog.count(DISTINCT {}) FROM {}").format(
        sql.Identifier(column), sql.Identifier(table.name.schema, table.name.name)
    )
    ((values,),) = connection.execute(query).fetchall()
    return bool(values <= _VALUES)


def _rows(connection: Connection, table: Table, columns: list[str]) -> pd.DataFrame:
    query = SELECT + sql.SQL("{} FROM {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.Identifier(table.name.schema, table.name.name),
    )
    return pd.DataFrame(connection.execute(query).fetchall(), columns=columns, dtype=object)


def _metadata(schema: Schema, columns: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The schema in the form of SDV's metadata of several tables."""
    tables: dict[str, Any] = {}
    for table in schema:
        kinds = columns[table.key].items()
        forms = {"datetime": {"datetime_format": "%Y-%m-%d %H:%M:%S"}}
        described = {name: {"sdtype": kind, **forms.get(kind, {})} for name, kind in kinds}
        tables[_plain(table)] = {"columns": described}
        if table.primary_key and len(table.primary_key.columns) == 1:
            tables[_plain(table)]["primary_key"] = table.primary_key.columns[0]
    return {
        "METADATA_SPEC_VERSION": "MULTI_TABLE_V1",
        "tables": tables,
        "relationships": _relationships(schema, tables),
    }


def _relationships(schema: Schema, tables: Mapping[str, Any]) -> list[dict[str, str]]:
    """The references, those of tables that refer to nothing first.

    The package takes the last that it reads for a table's distance from the tables that refer to
    nothing, and needs the longest.
    """
    references: list[dict[str, str]] = []
    above: dict[str, set[str]] = {name: {name} for name in tables}  # tables that lead to each
    for table in schema:
        child = _plain(table)
        for key in table.foreign_keys:
            parent = _plain(schema.table(key.ref_table))
            single = [tables[parent].get("primary_key")] == list(key.ref_columns)
            if not single or child in above[parent]:
                continue
            for name, others in above.items():
                if child in others:
                    above[name] = others | above[parent]
            references.append(
                {
                    "parent_table_name": parent,
                    "child_table_name": child,
                    "parent_primary_key": key.ref_columns[0],
                    "child_foreign_key": key.columns[0],
                }
            )
    depths = dict.fromkeys(tables, 0)
    for _ in tables:
        for each in references:
            deeper = depths[each["parent_table_name"]] + 1
            depths[each["child_table_name"]] = max(depths[each["child_table_name"]], deeper)
    return sorted(references, key=lambda each: depths[each["parent_table_name"]])


def _figures(results: Mapping[str, Any], known: Collection[str]) -> dict[str, float]:
    """The figures of `syntherela_figures`, from what the script wrote; ``known`` are tables."""
    detection = {}
    scores = [part["accuracy"] for table, part in results["C2ST"].items() if table in known]
    if scores:
        detection = {"syntherela.c2st": mean(scores), "syntherela.c2st.max": max(scores)}
    trends = {
        "shapes": results["column"]["shapes"]["mean"],
        "pairs": results["table"].get("pairs", {}).get("mean"),
        "cardinality": results["Trends"]["cardinality"],
        **{f"hop{k}": part["mean"] for k, part in results["Trends"]["k_hop_similarity"].items()},
    }
    named = {f"syntherela.{name}": value for name, value in trends.items() if value is not None}
    return detection | named
