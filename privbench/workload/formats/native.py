"""The native format: JSON with everything in a workload.

It holds query texts unchanged, answers, weights, templates and the values of their parameters.

::

    {"privbench-workload": 1, "name": "shop", "confidential": false, "queries": [
      {"id": "q1", "sql": "SELECT 1 WHERE 2 > 1", "card": 1, "weight": 3.5,
       "template": "SELECT 1 WHERE 2 > $1", "parameters": ["1"], "draws": ["x = random(0, 1)"]}]}
"""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from privbench.display import json_visible
from privbench.errors import UsageError
from privbench.files import write_text
from privbench.workload.formats.base import WorkloadFormat, read_json, read_text
from privbench.workload.query import Workload, WorkloadQuery

_MARK = "privbench-workload"


class _File(BaseModel):
    """A workload file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = Field(alias="privbench-workload")
    name: str
    confidential: bool = False
    queries: tuple[WorkloadQuery, ...]


_QUERY = TypeAdapter(WorkloadQuery)


def _detects(path: Path) -> bool:
    """Whether the file begins like JSON of this format."""
    return path.is_file() and f'"{_MARK}"' in read_text(path)[:200]


def _read_document(path: Path) -> Workload:
    """Read the workload."""
    document = read_json(path, _File)
    if len({query.id for query in document.queries}) < len(document.queries):
        raise UsageError(f"{path} has two queries of one id.")
    return Workload(document.name, document.queries, document.confidential)


def _write(workload: Workload, path: Path) -> None:
    """Write the workload, one query a line."""
    head = {_MARK: 1, "name": workload.name, "confidential": workload.confidential}
    items = (
        _QUERY.dump_python(query, mode="json", exclude_defaults=True, exclude={"place"})
        for query in workload
    )
    start, *lines = (json_visible(json.dumps(item, ensure_ascii=False)) for item in (head, *items))
    body = ",\n".join(lines)
    write_text(path, f'{start.removesuffix("}")}, "queries": [\n{body}\n]}}\n')


FORMAT = WorkloadFormat("native", _detects, _read_document, _write)
