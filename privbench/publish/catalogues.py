"""The bundle's files for programs that find and read data: Croissant and a Frictionless package.

Croissant 1.0: https://docs.mlcommons.org/croissant/docs/croissant-spec.html. Data Package 1.0:
https://specs.frictionlessdata.io/tabular-data-package/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from privbench.display import json_visible
from privbench.publish.facts import Bundle, Column, Table

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{
        name: f"cr:{name}"
        for name in "citeAs column extract field fileSet includes key recordSet source".split()
    },
}
#: By the kind of a column: Croissant's type; and Frictionless's type with its format.
_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "bool": ("sc:Boolean", {"type": "boolean", "trueValues": ["t"], "falseValues": ["f"]}),
    **{kind: ("sc:Integer", {"type": "integer"}) for kind in ("int16", "int32", "int64")},
    **{kind: ("sc:Float", {"type": "number"}) for kind in ("float32", "float64", "decimal")},
    "date": ("sc:Date", {"type": "date"}),
    "timestamp": ("sc:Date", {"type": "datetime", "format": "any"}),
    "timestamptz": ("sc:Date", {"type": "datetime", "format": "any"}),
    "text": ("sc:Text", {"type": "string"}),
}
_PARQUET = "application/x-parquet"

Digests = Mapping[str, tuple[str, int]]


def croissant(bundle: Bundle, digests: Digests) -> str:
    """Croissant metadata of the Parquet files: each with its digest, a record set a table."""
    tables = [table for table in bundle.tables if table.columns]
    files = [
        _node("FileObject", path, contentUrl=path, contentSize=f"{digests[path][1]} B")
        | {"encodingFormat": _PARQUET, "sha256": digests[path][0]}
        for table in tables
        for path in table.files("parquet")
    ]
    sets = [
        _node("FileSet", f"files-{_id(table.key)}", encodingFormat=_PARQUET)
        | {"includes": f"data/{table.folder}/*.parquet"}
        for table in tables
    ]
    return _json(
        {
            "@context": _CONTEXT,
            "@type": "sc:Dataset",
            "name": _slug(bundle.title),
            "description": f"{bundle.title}: a synthetic database under differential privacy.",
            "conformsTo": "http://mlcommons.org/croissant/1.0",
            "creator": {"@type": "sc:Organization", "name": bundle.publisher},
            "license": bundle.licence,
            "citeAs": f"{bundle.publisher}: {bundle.title}, {bundle.published}",
            "url": ".",
            "version": "1.0.0",
            "datePublished": str(bundle.published),
            "distribution": [*files, *sets],
            "recordSet": [_records(table) for table in tables],
        }
    )


def _records(table: Table) -> dict[str, Any]:
    """The record set of a table, without foreign keys, which only the Frictionless package has.

    mlcroissant joins the tables of ``references``, and cannot read one that refers to itself.
    """
    name = _id(table.key)
    fields = [
        _node(
            "Field",
            f"{name}/{_id(column.name)}",
            description=f"{column.name}, {column.type}",
            dataType=_TYPES[_family(column)][0],
            source={"fileSet": {"@id": f"files-{name}"}, "extract": {"column": column.name}},
        )
        for column in table.columns
    ]
    key = [{"@id": f"{name}/{_id(column)}"} for column in table.primary_key]
    return _node("RecordSet", name, key=key, field=fields)


def _node(kind: str, name: str, **items: Any) -> dict[str, Any]:
    return {"@type": f"cr:{kind}", "@id": name, "name": name, **_given(**items)}


def data_package(bundle: Bundle, digests: Digests) -> str:
    """A Frictionless data package over the CSV files, a resource a table."""
    names = {table.key: _slug(table.folder) for table in bundle.tables if table.columns}
    return _json(
        {
            "profile": "tabular-data-package",
            "name": _slug(bundle.title),
            "title": bundle.title,
            "created": f"{bundle.published}T00:00:00Z",
            "contributors": [{"title": bundle.publisher, "role": "publisher"}],
            "licenses": [{"name": _slug(bundle.licence), "title": bundle.licence}],
            "resources": [
                _resource(table, names, digests) for table in bundle.tables if table.columns
            ],
        }
    )


def _resource(table: Table, names: Mapping[str, str], digests: Digests) -> dict[str, Any]:
    paths = table.files("csv")
    whole = {"hash": f"sha256:{digests[paths[0]][0]}", "bytes": digests[paths[0]][1]}
    keys = [
        {
            "fields": key.columns,
            "reference": {
                # In the specification a key into the same table has an empty resource.
                "resource": "" if key.table.key == table.key else names[key.table.key],
                "fields": key.ref_columns,
            },
        }
        for key in table.foreign_keys
        if key.table.key in names
    ]
    return {
        "profile": "tabular-data-resource",
        "name": names[table.key],
        "title": table.key,
        "path": paths if len(paths) > 1 else paths[0],
        "format": "csv",
        "encoding": "utf-8",
        **(whole if len(paths) == 1 else {}),
        "schema": {
            "fields": [_field(column) for column in table.columns],
            "missingValues": [""],
            **_given(primaryKey=table.primary_key, foreignKeys=keys),
        },
    }


def _field(column: Column) -> dict[str, Any]:
    # An empty text and NULL look alike in this format, so columns of texts are never required.
    required = column.required and _family(column) != "text"
    return {
        "name": column.name,
        "description": column.type,
        **_TYPES[_family(column)][1],
        **_given(constraints={"required": True} if required else None),
    }


def _family(column: Column) -> str:
    return column.kind.partition("(")[0]


def _given(**items: Any) -> dict[str, Any]:
    """The items whose values are not empty."""
    return {name: value for name, value in items.items() if value}


def _json(data: dict[str, Any]) -> str:
    return json_visible(json.dumps(data, indent=1, ensure_ascii=False)) + "\n"


def _id(text: str) -> str:
    """A name for an ``@id``; blanks and signs, which are not allowed, become their code numbers."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"-{ord(found[0]):x}-", text)


def _slug(text: str) -> str:
    """A name in the characters that both formats allow."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "benchmark"
