"""The command ``run``: run a workload on one database."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from privbench.options import ReplayOptions, with_fields_of
from privbench.report.gates import parse
from privbench.workload import Replay, Workload, read, replay
from privbench.workload.replay import ReplayProgress, silent

_NAME = "database"
#: Figures of a run that a gate may compare with a limit.
FIGURES = (
    "replay.queries", "replay.ended", "replay.errors", "replay.timeouts", "replay.weight",
    "replay.seconds", "replay.weighted_seconds",
)  # fmt: skip


@with_fields_of(ReplayOptions)
def run(
    workload: str,
    dsn: str,
    *,
    gates: Sequence[str] = (),
    tell: ReplayProgress = silent,
    options: ReplayOptions,
) -> dict[str, Any]:
    """Run a workload of any known format on a database, which is only read; keep counts and times.

    Gates are conditions on `FIGURES` under which the run fails, such as ``replay.errors > 0``; a
    failed gate raises nothing here.

    Returns:
        A JSON object: the database, the settings, and for each query its weight, count and seconds;
        under ``refused`` queries that were left out, and under ``changed``, by id, words that
        were left out of the texts of others;
        under ``summary`` the sum of the medians with and without weights; and under ``gates`` the
        figure of each.
    """
    conditions = parse(gates)
    for gate in conditions:
        gate.require(FIGURES, ())
    queries = read(workload)
    replayed = replay(queries, {_NAME: dsn}, tell=tell, options=options)
    queries = replayed.workload
    summary = _summary(queries, replayed)
    figures = dict(zip(FIGURES, summary.values(), strict=True))
    return {
        "workload": queries.name,
        "database": asdict(replayed.sides[_NAME]),
        "warning": replayed.sides[_NAME].warning or None,
        "settings": replayed.settings,
        "repeats": replayed.repeats,
        "warmup": replayed.warmup,
        "timeout": replayed.timeout,
        "before": replayed.before or None,
        "refused": [asdict(item) for item in replayed.refused],
        "changed": replayed.changed,
        "results": [
            {"id": query.id, "weight": query.weight, **asdict(answers[_NAME])}
            for query, answers in zip(queries, replayed.results, strict=True)
        ],
        "summary": summary,
        "gates": [gate.check(figures).model_dump(mode="json") for gate in conditions],
    }


def _summary(queries: Workload, replayed: Replay) -> dict[str, float]:
    """How many queries ended, and the sum of their seconds, without and with weights."""
    answers = [result[_NAME] for result in replayed.results]
    statuses = [answer.status for answer in answers]
    medians = [
        (query.weight, answer.median)
        for query, answer in zip(queries, answers, strict=True)
        if answer.status == "ok" and answer.median is not None
    ]
    return {
        "queries": len(answers),
        "ended": statuses.count("ok"),
        "errors": statuses.count("error"),
        "timeouts": statuses.count("timeout"),
        "weight": sum(weight for weight, _ in medians),
        "seconds": sum(median for _, median in medians),
        "weighted_seconds": sum(weight * median for weight, median in medians),
    }
