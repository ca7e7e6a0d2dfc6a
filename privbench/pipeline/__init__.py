"""Every command as a Python function; the command line is a thin skin over these."""

from privbench.pipeline.accounts import LedgerReport, ledger_cap, ledger_show
from privbench.pipeline.capturing import capture
from privbench.pipeline.clone import CloneReport, clone
from privbench.pipeline.demo import DemoReport, demo
from privbench.pipeline.fit import fit
from privbench.pipeline.generating import generate_workload
from privbench.pipeline.inspection import (
    Check,
    Inspection,
    check,
    ddl_literals,
    inspect,
    render_literals,
)
from privbench.pipeline.load import LoadReport, check_target, load, sample
from privbench.pipeline.model import Model, Promise, require_writable
from privbench.pipeline.modelled import modelled
from privbench.pipeline.planning import PlanReport, parse_rows, plan
from privbench.pipeline.progress import Reporter
from privbench.pipeline.rebinding import rebind
from privbench.pipeline.replaying import run

__all__ = [
    "Check",
    "CloneReport",
    "DemoReport",
    "Inspection",
    "LedgerReport",
    "LoadReport",
    "Model",
    "PlanReport",
    "Promise",
    "Reporter",
    "capture",
    "check",
    "check_target",
    "clone",
    "ddl_literals",
    "demo",
    "fit",
    "generate_workload",
    "inspect",
    "ledger_cap",
    "ledger_show",
    "load",
    "modelled",
    "parse_rows",
    "plan",
    "rebind",
    "render_literals",
    "require_writable",
    "run",
    "sample",
]
