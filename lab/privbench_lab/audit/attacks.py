"""Attacks on released models: scores of canaries, and anonymeter in a process of its own.

Scores are computed from rows drawn from the model and from the bytes of the model file alone.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privbench.config import Config
from privbench.pipeline.decode import decode
from privbench.pipeline.fit import fit
from privbench.pipeline.model import Model
from privbench_lab.audit.canaries import OWN, Canary, Planter
from privbench_lab.audit.recording import apart_from
from privbench_lab.bench.peers import PeerFailed, call, environment

#: Weight of a canary's unique text if it is found in a release, in standard deviations of the other
#: features; it exceeds all of them together.
_PROOF = 1000.0
#: Most records that are held out; with 500 the interval of a risk is about ± .04.
_HELD_OUT = 500
#: Fewest records that are held out; with fewer, intervals are too wide to be of use.
_FEWEST = 50
_LIMIT = 900
#: The versions of Python for which anonymeter's pinned requirements can be installed; and the pins.
_PACKAGE = ("3.11", "3.13"), ("anonymeter==1.1.0",)
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
        rates = rates.attack_rate.value, rates.control_rate.value
        found.append([name, *rates, risk.value, *risk.ci])
    except Exception as error:
        failed.append(f"{name} ({type(error).__name__})")
columns = list(ori.columns)
for mode in ("univariate", "multivariate"):
    note(f"singling out, {mode}", lambda: SinglingOutEvaluator(
        n_cols=min(3, len(columns)), max_attempts=20000, **common), mode=mode)
for secret in columns if len(columns) > 1 else ():
    note(f"guessing {secret} from the rest", lambda: InferenceEvaluator(
        aux_cols=[name for name in columns if name != secret], secret=secret,
        regression=ori[secret].dtype.kind == "f", **common), n_jobs=1)
with open(job["said"], "w") as file:
    json.dump([found, failed], file)
"""


def features(path: Path, canaries: Sequence[Canary]) -> NDArray[np.float64]:
    """How often the values of each canary, in or out, occur in a model file and in a clone of it.

    The result has a row for each canary. For each column in which canaries stand out it has the
    number of the clone's rows with the canary's value, or within a hundredth of the clone's range
    of it. The last column is the number of the canary's unique texts that are in the model file or
    in the clone.
    """
    with zipfile.ZipFile(path) as members:
        released = b"\0".join(members.read(name) for name in members.namelist())
    found, own = [], np.zeros(len(canaries))
    tables = {item.table.key: item for item in decode(Model.load(path))}
    for key, name in canaries[0].marks:
        item, marks = tables[key], [canary.marks[key, name] for canary in canaries]
        at = item.columns.index(name) if name in item.columns else None
        batches = item.batches() if at is not None else ()
        rows = [value for batch in batches for value in batch.column(at).to_pylist()]
        counts = _counts(rows, marks)
        if all(len(mark) == OWN and mark.startswith("canary") for mark in marks):
            own += counts + [mark.encode() in released for mark in marks]
        else:
            found.append(counts)
    return np.stack([*found, own], axis=1)


def _counts(rows: Sequence[Any], marks: Sequence[str]) -> NDArray[np.float64]:
    clone, wanted = _numbers(rows), _numbers(marks)
    if clone is None or wanted is None:
        exact = Counter(str(row) for row in rows if row is not None)
        return np.array([exact[mark] for mark in marks], np.float64)
    clone = np.sort(clone)
    near = float(np.subtract(*np.quantile(clone, [0.99, 0.01]))) / 100
    low = np.searchsorted(clone, wanted - near, "left")
    return np.asarray(np.searchsorted(clone, wanted + near, "right") - low, np.float64)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """Numbers, dates or times as floats; None if there are none or a value is of another kind."""
    texts = pd.Series([str(value) for value in values if value is not None], dtype=object)
    found = pd.to_numeric(texts, errors="coerce")
    if found.isna().any():
        moments = pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True)
        found = pd.Series(np.nan) if moments.isna().any() else moments.astype("int64")
    usable = len(texts) and not found.isna().any()
    return np.asarray(found, np.float64) if usable else None


def scores(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """One score for each canary of all fits: the sum of its features, each divided by its spread.

    A unique text that is found weighs more than all other features.
    """
    whole = np.concatenate(parts)
    spread = whole.std(axis=0)
    scaled = (whole - whole.mean(axis=0)) / np.where(spread, spread, 1.0)
    return np.asarray(scaled[:, :-1].sum(axis=1) + _PROOF * whole[:, -1])


class Attack(NamedTuple):
    """Success rates on members (`inside`) and other records (`outside`), and the excess risk.

    `low` and `high` are the ends of the risk's 95 % interval.
    """

    name: str
    inside: float
    outside: float
    risk: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Risks:
    """The findings of anonymeter."""

    reason: str = ""  # why it did not run; empty if it did
    attacks: tuple[Attack, ...] = ()  # the attacks that it carried out
    failed: tuple[str, ...] = ()  # the attacks that it could not carry out
    control: int = 0  # number of held-out records

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

    By Giomi, Boenisch, Wehmeyer and Tasnádi (2023) the risk is the attack's success on records that
    were in the data, beyond its success on records that were not. The held-out units are deleted
    from the scratch copy.
    """
    key = str(planter.root)
    columns = [name for table, name in planter.places if table == key]
    if not columns:
        return Risks(f"no column of {key} is modelled and stands in no key.")
    try:
        python = environment(*_PACKAGE)
        inside, control = planter.hold_out(_HELD_OUT)
        if len(control) < _FEWEST:
            return Risks(
                f"of {key} only {len(control)} records can be held out; {_FEWEST} are needed."
            )
        with apart_from(config) as (apart, folder):
            model = fit(scratch, apart, folder / "model")
            (item,) = [item for item in decode(model) if item.table.key == key]
            made = pd.concat([batch.to_pandas() for batch in item.batches()])
            made.columns = pd.Index(item.columns)
            job = {name: str(folder / f"{name}.csv") for name in ("ori", "syn", "control")}
            for name, rows in (("ori", inside), ("syn", made), ("control", control)):
                pd.DataFrame(rows)[columns].to_csv(job[name], index=False)
            job["said"] = str(folder / "said")
            call(python, _SCRIPT, job, str(folder), _LIMIT)
            found, failed = json.loads(Path(job["said"]).read_text())
    except PeerFailed as error:
        return Risks(f"anonymeter {error}")
    if not found:
        return Risks(f"anonymeter could not carry out {failed[0]}.")
    attacks = tuple(Attack(*row) for row in found)
    return Risks("", attacks, tuple(failed), len(control))
