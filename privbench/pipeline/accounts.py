"""The command ``ledger``: show what was spent on a database, and set its cap."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privbench import display
from privbench.errors import UsageError
from privbench.postgres.connect import OF_FILES, Connection
from privbench.postgres.connect import identity as database_identity
from privbench.postgres.reading import reading
from privbench.privacy import Cap, Guarantee, Ledger
from privbench.sources import is_file


@dataclass(frozen=True)
class LedgerReport:
    """The state of one database's ledger, or of all ledgers in a directory (``ledgers``)."""

    state: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the report for JSON; infinite totals become the string ``infinite``."""
        return dict(json.loads(json.dumps(self.state), parse_constant=lambda _: "infinite"))

    def render(self) -> display.Lines:
        """Return the report as plain text."""
        state = self.state
        if "ledgers" in state:
            return display.lines(*_ledger_lines(state))
        cap, most = state["cap"], state["cap"]["epsilon"]
        lines = [f"Ledger of {state['identity']} in {state['path']}", ""]
        releases = [
            (
                item["opened"],
                item["release"],
                item["state"],
                f"ε {_number(item['epsilon'])}",
                f"δ {_number(item['delta'])}",
                "" if item["private"] else "NOT PRIVATE (seeded noise)",
            )
            for item in state["releases"]
        ]
        lines += display.table(releases)
        for other in state["others"]:
            lines += [
                f"  Counted with it: the ledger of {other['identity']} in {other['path']},",
                "  which may be of this database; if it is another's, move that folder away",
            ]
        for name in state["apart"]:
            lines.append(f"  Not counted, as it was declared to be of other data: {name}")
        if not state["releases"]:
            lines += [
                "  no releases under this identity, in this directory (see [database]",
                "  identity and [ledger] path in the config, --identity and --ledger here)",
            ]
        lines.append("")
        for item in state["definitions"]:
            lines.append(
                f"Unit definition {item['id']} ({item['neighbours']}): "
                f"total ε {_number(item['epsilon'])}, δ {_number(item['delta'])}"
            )
            if cap["monthly"] is not None:
                months = (f"{month} ε {_number(spent)}" for month, spent in item["months"].items())
                lines.append("  by months: " + ", ".join(months))
            if item["infinite"]:
                promising = ", ".join(item["infinite"])
                lines.append(
                    f"  infinite because of releases that promise these units nothing: {promising}"
                )
        monthly = f", ε a month {_number(cap['monthly'])}" if cap["monthly"] is not None else ""
        lines.append(f"Cap: ε {_number(cap['epsilon'])}, δ {_number(cap['delta'])}{monthly}")
        if most is not None and any(item["epsilon"] >= most for item in state["definitions"]):
            lines.append("  what is spent has reached the cap: every further release is refused")
        return display.lines(*lines)


def _ledger_lines(state: dict[str, Any]) -> list[str]:
    """A line for each ledger of a directory."""
    rows = [
        (
            item["identity"],
            f"ε {_number(max((d['epsilon'] for d in item['definitions']), default=0.0))} spent",
            f"cap {_number(item['cap']['epsilon'])}",
            item["path"],
        )
        for item in state["ledgers"]
    ]
    head = f"Ledgers in {state['path']} (--ledger names another directory): {len(rows)}"
    return [head, *display.table(rows)]


def ledger_show(source: str, identity: str | None, path: str | None) -> LedgerReport:
    """Return releases, totals and cap of a database, named by its declared identity or its own.

    Without either, the ledgers of the directory are returned. If `path` is None, in any function of
    this module, the ledger is in the user's state directory.
    """
    if not source and identity is None:
        base = Ledger.open(path, "").directory.parent
        states = [item.show() for item, _ in Ledger.every(base)]
        return LedgerReport({"path": str(base), "ledgers": states})
    return LedgerReport(_ledger(source, identity, path).show())


def ledger_cap(source: str, identity: str | None, path: str | None, cap: Cap) -> list[str]:
    """Replace the cap on a database's total.

    Returns a line for each limit of the previous cap that the new one lifts.
    """
    limits = [value for value in (cap.epsilon, cap.monthly) if value is not None]
    if not all(0 < value < math.inf for value in limits) or not 0 <= (cap.delta or 0) < 1:
        raise UsageError("a cap needs ε > 0 and δ in [0, 1).")
    ledger = _ledger(source, identity, path)
    ledger.require_one_name()
    before = ledger.show()["cap"]
    ledger.set_cap(cap)
    return [
        f"{name} (the cap was {_number(before[limit])})"
        for limit, name in (("epsilon", "total ε"), ("delta", "total δ"), ("monthly", "ε a month"))
        if before[limit] is not None and getattr(cap, limit) is None
    ]


def ledger_abandon(release_id: str, path: str | None) -> Guarantee:
    """Close a release whose fit was interrupted, and return the privacy loss of its events.

    That loss stays spent; reserved budget that no event used is free again. A LedgerError is raised
    if no ledger has the release, or if it is closed or in use.
    """
    return Ledger.holding(path, release_id).abandon(release_id)


def ledgers_of(connection: Connection, path: str | None, *, surely: bool = False) -> list[Path]:
    """Return the ledgers that have releases of a database, which then may be a source, no clone.

    No ledger is found for a source that was never fitted or whose ledger lies elsewhere. Where the
    system identifier cannot be read, the OID alone decides. A ledger whose identity is an address
    or a database's name may belong to another database; with `surely` such ledgers are left out.
    """
    every = Ledger.of_database(path, database_identity(connection).own, surely=surely)
    return [item.directory for item in every]


def _ledger(source: str, identity: str | None, path: str | None) -> Ledger:
    """A database's ledger; with a declared identity and no source, no connection is made."""
    if identity is not None and not source:
        return Ledger.open(path, identity)
    if is_file(source):
        return Ledger.open(path, identity or OF_FILES.required())
    with reading(source) as connection:
        database = database_identity(connection, identity)
    return Ledger.open(path, database.required(), database.own)


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return "∞" if math.isinf(value) else f"{value:.6g}"
