"""The bundle's files for programs that find and read data: Croissant and a Frictionless package.

Croissant 1.0: https://docs.mlcommons.org/croissant/docs/croissant-spec.html. Data Package 1.0:
https://specs.frictionlessdata.io/tabular-data-package/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from privbench.publish.facts import Bundle, Column, Table

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "personalSensitiveInformation": "cr:personalSensitiveInformation",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
#: By the kind of a column: Croissant's type, Frictionless's type and how it is written.
_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "bool": ("sc:Boolean", {"type": "boolean", "trueValues": ["t"], "falseValues": ["f"]}),
    "int16": ("sc:Integer", {"type": "integer"}),
    "int32": ("sc:Integer", {"type": "integer"}),
    "int64": ("sc:Integer", {"type": "integer"}),
    "float32": ("sc:Float", {"type": "number"}),
    "float64": ("sc:Float", {"type": "number"}),
    "decimal": ("sc:Float", {"type": "number"}),
    "date": ("sc:Date", {"type": "date"}),
    "timestamp": ("sc:Date", {"type": "datetime", "format": "any"}),
    "timestamptz": ("sc:Date", {"type": "datetime", "format": "any"}),
    "text": ("sc:Text", {"type": "string"}),
}

Digests = Mapping[str, tuple[str, int]]


def croissant(bundle: Bundle, digests: Digests) -> str:
    """Croissant metadata: every file with its digest, a record set a table."""
    files = [path for table in bundle.tables for path in table.files("parquet")]
    found = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": _slug(bundle.title),
        "description": f"{bundle.title}: a synthetic database under differential privacy.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "creator": {"@type": "sc:Organization", "name": bundle.publisher},
        "license": bundle.licence,
        "url": ".",
        "version": "1.0.0",
        "datePublished": bundle.published,
        "distribution": [
            *(
                {
                    "@type": "cr:FileObject",
                    "@id": path,
                    "name": path,
                    "contentUrl": path,
                    "contentSize": f"{digests[path][1]} B",
                    "encodingFormat": "application/x-parquet",
                    "sha256": digests[path][0],
                }
                for path in files
            ),
            *(
                {
                    "@type": "cr:FileSet",
                    "@id": _set(table),
                    "name": _set(table),
                    "encodingFormat": "application/x-parquet",
                    "includes": f"data/{table.folder}/*.parquet",
                }
                for table in bundle.tables
                if table.columns
            ),
        ],
        "recordSet": [_records(table, bundle) for table in bundle.tables if table.columns],
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _records(table: Table, bundle: Bundle) -> dict[str, Any]:
    name = str(table.key)
    leads = {
        key.columns[0]: f"{_key(key.schema_, key.table, bundle)}/{key.ref_columns[0]}"
        for key in table.foreign_keys
        if len(key.columns) == 1 and _key(key.schema_, key.table, bundle)
    }
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        **({"key": [{"@id": f"{name}/{part}"} for part in table.primary_key]}
           if table.primary_key else {}),
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column.name}",
                "name": f"{name}/{column.name}",
                "description": column.type,
                "dataType": _TYPES[_family(column)][0],
                "source": {"fileSet": {"@id": _set(table)}, "extract": {"column": column.name}},
                **({"references": {"field": {"@id": leads[column.name]}}}
                   if column.name in leads else {}),
            }
            for column in table.columns
        ],
    }  # fmt: skip


def data_package(bundle: Bundle, digests: Digests) -> str:
    """A Frictionless data package over the CSV files, a resource a table."""
    names = {str(table.key): _slug(table.folder) for table in bundle.tables}
    found = {
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
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _resource(table: Table, names: Mapping[str, str], digests: Digests) -> dict[str, Any]:
    paths = table.files("csv")
    one = len(paths) == 1
    keys = [
        {
            "fields": key.columns,
            "reference": {
                # A table's key into itself names no resource.
                "resource": "" if other == str(table.key) else names[other],
                "fields": key.ref_columns,
            },
        }
        for key in table.foreign_keys
        if (other := _name(key.schema_, key.table)) in names
    ]
    return {
        "profile": "tabular-data-resource",
        "name": names[str(table.key)],
        "title": str(table.key),
        "path": paths[0] if one else paths,
        "format": "csv",
        "encoding": "utf-8",
        **({"hash": f"sha256:{digests[paths[0]][0]}", "bytes": digests[paths[0]][1]} if one else {}),
        "schema": {
            "fields": [_field(column) for column in table.columns],
            "missingValues": [""],
            **({"primaryKey": table.primary_key} if table.primary_key else {}),
            **({"foreignKeys": keys} if keys else {}),
        },
    }


def _field(column: Column) -> dict[str, Any]:
    # An empty text and NULL look alike here, so that only other columns are called required.
    required = column.required and _family(column) != "text"
    return {
        "name": column.name,
        "description": column.type,
        **_TYPES[_family(column)][1],
        **({"constraints": {"required": True}} if required else {}),
    }


def _family(column: Column) -> str:
    return column.kind.partition("(")[0]


def _set(table: Table) -> str:
    return f"files of {table.key}"


def _name(schema: str, table: str) -> str:
    from privbench.schema import TableName

    return str(TableName(schema, table))


def _key(schema: str, table: str, bundle: Bundle) -> str | None:
    """The record set of a table that has one."""
    name = _name(schema, table)
    return next((name for item in bundle.tables if item.columns and str(item.key) == name), None)


def _slug(text: str) -> str:
    """A name in the letters that both formats take."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "benchmark"
