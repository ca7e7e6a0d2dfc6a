"""QUAIL, after Rosenblatt et al. (2020): a synthesizer, and a classifier for one column.

The target is left out of what the wrapped synthesizer learns; every synthetic row gets its target
from a classifier that was trained on the real rows under differential privacy.

The paper contradicts itself on the split p: Algorithm 1 gives p to the synthesizer, its section 5,
its Table 1 and its code give p to the classifier. Here `QuailOptions.split` is the classifier's.
"Train in parallel" is no parallel composition, as both use all rows: their amounts add up, and so
do their δ, which the paper's theorem leaves out. The classifier is naive Bayes on noisy histograms
(`naive_bayes`, with its sensitivity), which needs no bound on gradients or norms; it serves as a
regressor as well, on the target's bins. The wrapped synthesizer has its own proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from privbench.arrays import Ints
from privbench.domain import Domain
from privbench.errors import ConfigError
from privbench.learning.answers import measured
from privbench.learning.denoise import noise_law
from privbench.learning.synthetic import SyntheticTable
from privbench.privacy import DatabaseSpec, Measurement, Question, Session
from privbench.rng import generator
from privbench.synthesizers import get
from privbench.synthesizers.base import FittedModel, Options, PlanInput, Synthesizer
from privbench.synthesizers.model import damaged, load, store
from privbench_lab.circuit import Circuit
from privbench_lab.literature.classify import draw
from privbench_lab.literature.naive_bayes import NaiveBayes, event, learn, query_of
from privbench_lab.outline import circuits

#: Rows whose targets are drawn at once; a limit on memory.
_CHUNK = 2**18


class QuailOptions(Options):
    """Parameters of QUAIL."""

    # The column that the classifier predicts: ``table.column``, or a name that is in one table
    # only.
    target: str
    synthesizer: str = "privbench"  # name of the wrapped synthesizer
    options: dict[str, Any] = Field(default_factory=dict)  # the wrapped synthesizer's options
    # Part of the amount that the classifier gets; the wrapped synthesizer gets the rest.
    split: Annotated[float, Field(gt=0, lt=1)] = 0.5
    # ``drawn``: a row's target is drawn from the classifier's law; ``best``: its most probable
    # value, as in the paper, which leaves rare classes out.
    labels: Literal["drawn", "best"] = "drawn"


class _Without:
    """A session whose spec lacks one column; everything else is that of the wrapped session."""

    def __init__(self, session: Session, table: str, column: str) -> None:
        self._session = session
        self._place = table, column

    @property
    def spec(self) -> DatabaseSpec:
        return without(self._session.spec, *self._place)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class QuailSynthesizer(Synthesizer[QuailOptions]):
    """A synthesizer and a classifier for one column."""

    name: ClassVar[str] = "quail"
    options_type: ClassVar[type[Options]] = QuailOptions

    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_kinds: Mapping[str, Ints] | None = None,
    ) -> FittedModel:
        """See `Synthesizer.fit`."""
        options, inner, spec = self.options, self._inner(), session.spec
        table, column = target_of(spec, options.target)
        first = amount * options.split
        question = Measurement(query_of(spec, table, column), first, event(table, column))
        (answer,) = measured(session, [question])
        rows = max(float(totals.get(table, 1.0)), 1.0)
        classifier = learn(spec, table, column, rows, noise_law(session.accounting), answer)
        narrow = cast(Session, _Without(session, table, column))
        model = inner.fit(narrow, totals, amount - first, public_kinds)
        domains = spec.tables[table].attributes
        place = table, tuple(domains), domains[column]
        return QuailModel(inner.name, model, *place, classifier, options.labels)

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> Sequence[Question]:
        """See `Synthesizer.plan`."""
        table, column = target_of(spec, self.options.target)
        first = plan.total * self.options.split
        question = Measurement(query_of(spec, table, column), first, event(table, column))
        rest = replace(plan, total=plan.total - first)
        inner = self._inner().plan(without(spec, table, column), rest)
        return [question, *inner]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        with damaged():
            name, target = str(header["wrapped"]), str(header["target"])
            columns = tuple(str(column) for column in header["columns"])
            others = [column for column in columns if column != target]
            domain = Domain.from_json(dict(header["domain"]))
            classifier = NaiveBayes.from_arrays(target, others, load(arrays, "classifier"))
            model = get(name).load(header["model"], load(arrays, "model"))
            table, labels = str(header["table"]), str(header["labels"])
        return QuailModel(name, model, table, columns, domain, classifier, labels)

    def _inner(self) -> Synthesizer[Any]:
        if self.options.synthesizer == self.name:
            raise ConfigError("quail wraps another synthesizer than itself.")
        return get(self.options.synthesizer)(self.options.options)


def target_of(spec: DatabaseSpec, target: str) -> tuple[str, str]:
    """Table and column of a target, which has to be one column alone."""
    found = [
        (table, column)
        for table in spec.tables
        for column in spec.tables[table].attributes
        if target in (column, f"{table}.{column}")
    ]
    if len(found) != 1:
        how = "no modelled column" if not found else "a column of several tables"
        raise ConfigError(f"quail: the target {target!r} is {how}.", remedy="Give table.column.")
    return found[0]


def without(spec: DatabaseSpec, table: str, column: str) -> DatabaseSpec:
    """A spec without one column."""
    kept = {name: d for name, d in spec.tables[table].attributes.items() if name != column}
    return spec.with_attributes(table, kept)


@dataclass(frozen=True, slots=True)
class QuailModel:
    """A released model that lacks one column, and the classifier that predicts that column."""

    name: str  # name of the wrapped synthesizer
    model: FittedModel
    table: str  # the target's table
    columns: tuple[str, ...]  # all columns of that table, in order
    domain: Domain  # the target's domain
    classifier: NaiveBayes  # predicts the target
    labels: str  # ``drawn`` or ``best``

    @property
    def units(self) -> Mapping[str, float]:
        """See `FittedModel.units`."""
        return self.model.units

    @property
    def circuits(self) -> Mapping[str, Circuit]:
        """Circuits of the wrapped model: without the target."""
        return circuits(self.model)

    def sample(self, scale: float = 1.0, seed: int | None = None) -> dict[str, SyntheticTable]:
        """See `FittedModel.sample`."""
        made = self.model.sample(scale, seed)
        table = made[self.table]
        random = generator(seed, "target", self.table)
        target = np.zeros(table.rows, self.domain.dtype)
        for first in range(0, table.rows, _CHUNK):
            part = {name: codes[first : first + _CHUNK] for name, codes in table.codes.items()}
            law = self.classifier.law(part)
            found = law.argmax(axis=1) if self.labels == "best" else draw(law, random)
            target[first : first + _CHUNK] = found
        whole = {**table.codes, self.classifier.target: target}
        table.codes = {name: whole[name] for name in self.columns}
        return made

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """State and arrays that `QuailSynthesizer.load` reads back."""
        header, parts = self.model.to_state()
        arrays: dict[str, NDArray[Any]] = {}
        store(arrays, parts, "model")
        store(arrays, self.classifier.to_arrays(), "classifier")
        state = {
            "synthesizer": "quail",
            "wrapped": self.name,
            "model": header,
            "table": self.table,
            "columns": list(self.columns),
            "target": self.classifier.target,
            "domain": self.domain.to_json(),
            "labels": self.labels,
        }
        return state, arrays
