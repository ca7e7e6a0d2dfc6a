"""Singling out and attribute inference against a clone, by anonymeter in a process of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from privbench.audit.canaries import Planter
from privbench.audit.recording import apart_from
from privbench.bench.peers import PeerFailed, call, environment
from privbench.config import Config
from privbench.pipeline.decode import decode
from privbench.pipeline.fit import fit

#: Records held out, at most: the interval of a risk is then about ± .04.
_HELD_OUT = 500
#: Fewer give intervals that say nothing.
_FEWEST = 50
_LIMIT = 900
_SCRIPT = """
import json, sys
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, SinglingOutEvaluator
job = json.load(sys.stdin)
ori, syn, control = (pd.read_csv(job[name]) for name in ("ori", "syn", "control"))
common = dict(ori=ori, syn=syn, control=control, n_attacks=min(len(control), len(ori)))
found, failed = [], []
def note(name, make, **how):
    try:
        made = make()
        made.evaluate(**how)
        rates, risk = made.results(0.95), made.risk(confidence_level=0.95)
        found.append([name, rates.attack_rate.value, rates.control_rate.value, risk.value, *risk.ci])
    except Exception as error:
        failed.append(f"{name} ({type(error).__name__})")
columns = list(ori.columns)
for mode in ("univariate", "multivariate"):
    note(f"singling out, {mode}", lambda: SinglingOutEvaluator(n_cols=min(3, len(columns)), **common), mode=mode)
for secret in columns if len(columns) > 1 else ():
    note(f"guessing {secret} from the rest", lambda: InferenceEvaluator(
        aux_cols=[name for name in columns if name != secret], secret=secret,
        regression=ori[secret].dtype.kind == "f", **common), n_jobs=1)
with open(job["said"], "w") as file:
    json.dump([found, failed], file)
"""


class _Package:
    """anonymeter, with the versions of Python on which its pins resolve."""

    python, pins = ("3.11", "3.13"), ("anonymeter==1.1.0",)


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: its success on records that were in and on others, and the risk beyond the latter.

    Attributes:
        name: What was tried.
        inside: Success rate on records that the fit has read.
        outside: Success rate on records that it has not.
        risk: What of it the outside does not explain.
        low: Lower end of the 95 % interval.
        high: Upper end.
    """

    name: str
    inside: float
    outside: float
    risk: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Risks:
    """What anonymeter found.

    Attributes:
        reason: Why it did not run; empty if it did.
        attacks: Attacks that ended.
        failed: Attacks that anonymeter could not carry out.
        control: Records held out.
    """

    reason: str = ""
    attacks: tuple[Attack, ...] = ()
    failed: tuple[str, ...] = ()
    control: int = 0

    def line(self) -> str:
        """The result in one line."""
        if self.reason:
            return f"not run: {self.reason}"
        worst = max(self.attacks, key=lambda attack: attack.low)
        return (
            f"{len(self.attacks)} attacks on {self.control} records; worst: {worst.name}, risk "
            f"{worst.risk:.3f} ({worst.low:.3f} to {worst.high:.3f})"
        )


def attack(scratch: str, config: Config, planter: Planter) -> Risks:
    """Hold units out, fit the rest, and let anonymeter attack a clone's rows of the root table.

    Giomi, Boenisch, Wehmeyer and Tasnádi (2023): an attack's success on records that were in, less
    what it reaches on records that were not. The held-out units are gone from the scratch copy.

    Args:
        scratch: DSN of the scratch database.
        config: Roles and budget.
        planter: Knows the root table.
    """
    key = str(planter.root)
    columns = [name for table, name in planter.places if table == key]
    if not columns:
        return Risks(f"no column of {key} is modelled and stands in no key.")
    try:
        python = environment(_Package())
        inside, control = planter.hold_out(_HELD_OUT)
        if len(control) < _FEWEST:
            return Risks(
                f"of {key} only {len(control)} records can be held out; {_FEWEST} are needed."
            )
        with TemporaryDirectory(prefix="privbench-audit-") as folder:
            model = fit(scratch, apart_from(config, Path(folder)), Path(folder, "model"))
            (item,) = [item for item in decode(model) if item.table.key == key]
            made = pd.concat([batch.to_pandas() for batch in item.batches()])
            made.columns = pd.Index(item.columns)
            job = {name: str(Path(folder, f"{name}.csv")) for name in ("ori", "syn", "control")}
            for name, rows in (("ori", inside), ("syn", made), ("control", control)):
                pd.DataFrame(rows)[columns].to_csv(job[name], index=False)
            job["said"] = str(Path(folder, "said"))
            call(python, _SCRIPT, job, folder, _LIMIT)
            found, failed = json.loads(Path(job["said"]).read_text())
    except PeerFailed as error:
        return Risks(f"anonymeter {error}")
    if not found:
        return Risks(f"anonymeter could not carry out {failed[0]}.")
    attacks = tuple(Attack(*row) for row in found)
    return Risks("", attacks, tuple(failed), len(control))
