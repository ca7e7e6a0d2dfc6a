"""The bundle's metadata for programs that find and read data, in Croissant 1.0.

Source: https://docs.mlcommons.org/croissant/docs/croissant-spec.html.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from privbench.display import json_visible
from privbench.publish.records import Bundle, BundleTable

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
#: Croissant's types, by the kind of a column.
_TYPES = {
    "bool": "sc:Boolean",
    **{kind: "sc:Integer" for kind in ("int16", "int32", "int64")},
    **{kind: "sc:Float" for kind in ("float32", "float64", "decimal")},
    **{kind: "sc:Date" for kind in ("date", "timestamp", "timestamptz")},
    "text": "sc:Text",
}
_PARQUET = "application/x-parquet"


def croissant(bundle: Bundle, digests: Mapping[str, tuple[str, int]]) -> str:
    """Return Croissant metadata of the Parquet files, with digests and a record set per table."""
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
    data = {
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
    return json_visible(json.dumps(data, indent=1, ensure_ascii=False)) + "\n"


def _records(table: BundleTable) -> dict[str, Any]:
    """The record set of a table, without foreign keys.

    mlcroissant joins the tables of ``references``, and cannot read one that refers to itself.
    """
    name = _id(table.key)
    fields = [
        _node(
            "Field",
            f"{name}/{_id(column.name)}",
            description=f"{column.name}, {column.type}",
            dataType=_TYPES[column.kind.partition("(")[0]],
            source={"fileSet": {"@id": f"files-{name}"}, "extract": {"column": column.name}},
        )
        for column in table.columns
    ]
    key = [{"@id": f"{name}/{_id(column)}"} for column in table.primary_key]
    return _node("RecordSet", name, key=key, field=fields)


def _node(kind: str, name: str, **items: Any) -> dict[str, Any]:
    return {"@type": f"cr:{kind}", "@id": name, "name": name, **_given(**items)}


def _given(**items: Any) -> dict[str, Any]:
    """The items whose values are not empty."""
    return {name: value for name, value in items.items() if value}


def _id(text: str) -> str:
    """A name for an ``@id``; blanks and signs, which are not allowed, become their code numbers."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"-{ord(found[0]):x}-", text)


def _slug(text: str) -> str:
    """A name in lower case, of letters, digits and signs that need no quotes in a path."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "benchmark"
