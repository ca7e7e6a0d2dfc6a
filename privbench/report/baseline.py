"""The drift of a comparison: how its figures have changed since an earlier comparison.

Both must be of the same workload. Ratios say how much worse or better the present clone is than the
earlier one: ``drift.X`` is the figure X of this comparison divided by that of the baseline. Both
comparisons read the source: CONFIDENTIAL, and no release may depend on a drift (P2).
"""

from pathlib import Path

from pydantic import ValidationError

from privbench.errors import UsageError
from privbench.report.document import (
    SCHEMA_VERSION,
    ChangePart,
    ComparisonDocument,
    DriftPart,
    QueryPart,
    RegressionPart,
)
from privbench.report.gates import QUERY_FIGURES
from privbench.workload import Workload

#: Prefix of the name of a figure's drift.
PREFIX = "drift."
#: A Q-error counts as grown if it is more than this many times the old one.
FACTOR = 1.1
#: A discrepancy in per cent counts as grown if it grew by more than this many points.
POINTS = 10.0
_COMPARED = ("qerror", "blocks", "rows", "runtime")


def read(path: str | Path) -> ComparisonDocument:
    """Read the comparison.json of an earlier comparison of this version."""
    try:
        return ComparisonDocument.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the baseline {path}: {error.strerror}.") from error
    except (ValidationError, UnicodeDecodeError):
        raise UsageError(
            f"the baseline {path} is not a comparison that this version reads.",
            remedy="Give the comparison.json of an earlier comparison, of schema_version "
            f"{SCHEMA_VERSION}.",
        ) from None


def require_same(baseline: ComparisonDocument, workload: Workload, allowed: bool) -> None:
    """Refuse a baseline of another workload, unless that is allowed."""
    if baseline.workload.digest != workload.digest and not allowed:
        raise UsageError(
            f"the baseline ran another workload ({baseline.workload.name},"
            f" {baseline.workload.queries} queries).",
            remedy="Run the same queries, or say --other-workload: queries are then matched by id"
            " and text.",
        )


def drift(baseline: ComparisonDocument, document: ComparisonDocument) -> DriftPart:
    """Return the changes of all figures since the baseline."""
    old, new = _without_drift(baseline.figures), _without_drift(document.figures)
    names = sorted(old.keys() | new.keys())
    before = {(query.id, query.sql): query for query in baseline.queries}
    now = {(query.id, query.sql): query for query in document.queries}
    return DriftPart(
        created=baseline.created.isoformat(),
        privbench=baseline.privbench,
        same_workload=baseline.workload.digest == document.workload.digest,
        figures={name: change(old.get(name), new.get(name)) for name in names},
        regressions=_regressions(before, now, _noise(baseline, document)),
        gone=[key[0] for key in before if key not in now],
        added=[key[0] for key in now if key not in before],
    )


def names(figures: frozenset[str]) -> frozenset[str]:
    """Return what gates call the changes of these figures since a baseline."""
    return frozenset(f"{PREFIX}{name}" for name in figures)


def ratios(drift_part: DriftPart) -> dict[str, float | None]:
    """Return each figure's ratio of new to old, by the names of `names`; None where old is 0."""
    return {f"{PREFIX}{name}": part.ratio for name, part in drift_part.figures.items()}


def change(old: float | None, new: float | None) -> ChangePart:
    """Return the change of a figure since the baseline.

    >>> change(2.0, 3.0).ratio, change(0.0, 0.0).ratio, change(0.0, 1.0).ratio
    (1.5, 1.0, None)
    """
    if old is None or new is None:
        return ChangePart(old=old, new=new, ratio=None, change=None)
    ratio = new / old if old else (1.0 if new == 0 else None)
    return ChangePart(old=old, new=new, ratio=ratio, change=new - old)


def _without_drift(figures: dict[str, float | None]) -> dict[str, float | None]:
    return {name: value for name, value in figures.items() if not name.startswith(PREFIX)}


def _noise(*documents: ComparisonDocument) -> float:
    """By how many points noise alone may make a run time grow: the floors' 95th percentile."""
    floors = [document.runtime.floor for document in documents]
    return max([POINTS, *(floor.p95 for floor in floors if floor is not None)])


def _regressions(
    before: dict[tuple[str, str], QueryPart], now: dict[tuple[str, str], QueryPart], noise: float
) -> list[RegressionPart]:
    regressions: list[RegressionPart] = []
    for figure in _COMPARED:
        pick = QUERY_FIGURES[f"query.{figure}"]
        worse = []
        for key in before.keys() & now.keys():
            moved = change(pick(before[key]), pick(now[key]))
            if _grown(figure, moved, noise):
                worse.append(RegressionPart(query=key[0], figure=figure, **moved.model_dump()))
        regressions += sorted(worse, key=lambda part: (-(part.change or 0), part.query))
    return regressions


def _grown(figure: str, moved: ChangePart, noise: float) -> bool:
    if moved.new is None:
        return moved.old is not None
    if moved.old is None or moved.change is None:
        return False
    if figure == "qerror":
        return moved.new > FACTOR * moved.old
    return moved.change > (noise if figure == "runtime" else POINTS)
