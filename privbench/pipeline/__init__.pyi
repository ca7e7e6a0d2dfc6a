from .accounts import LedgerReport, ledger_abandon, ledger_cap, ledger_show
from .clone import CloneReport, clone
from .decode import fewer, scaled
from .demo import demo
from .doctor import Diagnosis, Finding, check_ledger, check_target, doctor
from .fit import fit
from .header import Promise
from .inspection import (
    Inspection,
    PlanCheck,
    agreed_catalog,
    check,
    inspect,
    render_coverage,
    render_literals,
)
from .load import STAYS, LoadReport, load, rehearse
from .losses import losses, render_losses
from .model import Model, require_writable
from .planning import PlanReport, parse_rows, plan
from .progress import Reporter
from .rehearsal import rehearse_apart
from .replaying import run
from .sampling import sample, sample_tables
from .source import Catalog, look, require_epsilon, require_identity, require_used
from .workloads import capture, generate_workload, modelled, rebind

__all__ = [
    "STAYS",
    "Catalog",
    "CloneReport",
    "Diagnosis",
    "Finding",
    "Inspection",
    "LedgerReport",
    "LoadReport",
    "Model",
    "PlanCheck",
    "PlanReport",
    "Promise",
    "Reporter",
    "agreed_catalog",
    "capture",
    "check",
    "check_ledger",
    "check_target",
    "clone",
    "demo",
    "doctor",
    "fewer",
    "fit",
    "generate_workload",
    "inspect",
    "ledger_abandon",
    "ledger_cap",
    "ledger_show",
    "load",
    "look",
    "losses",
    "modelled",
    "parse_rows",
    "plan",
    "rebind",
    "rehearse",
    "rehearse_apart",
    "render_coverage",
    "render_literals",
    "render_losses",
    "require_epsilon",
    "require_identity",
    "require_used",
    "require_writable",
    "run",
    "sample",
    "sample_tables",
    "scaled",
]
