"""P3GM, after Takagi et al. (ICDE 2021): components, a mixture, a decoder, with a proof that holds.

Rows go to principal components (DP-PCA), these get a mixture of Gaussians (DP-EM), and a network is
trained to decode them (DP-SGD); synthetic rows are decoded draws from the mixture. Departures:

* Nothing is exact: the mean that centres the PCA, ranges of rows, shares of the label and the
  number of rows are read off the same noisy second moments. A first histogram bounds lengths.
* DP-EM measures sums, number and squares of all components as one vector, whose sensitivity
  holds whatever the noisy numbers come out as; the paper bounds means and variances themselves.
* All rows are in every batch, and gradients get the session's own noise, on integers: under zCDP,
  in which the ledger adds up, sampling of batches is no gain, and for as many steps the noise on a
  mean gradient is the same. So nothing rests on Poisson batches or on a generator of floats.
* Latent rows go into the decoder without noise of their own: the paper's variant "P3GM (AE)".
* Numbers are drawn around what is decoded, with the variance that was released.

Sensitivities are proved in the docstrings of the four queries.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.domain import Codes, Domain
from privbench.errors import ConfigError, ModelError
from privbench.learning.assemble import TableModel, assemble, expected_units
from privbench.learning.fanlaw import Ints
from privbench.learning.shares import rows_item
from privbench.learning.synthetic import SyntheticDatabase
from privbench.literature.p3gm_decoder import Decoder
from privbench.literature.p3gm_fit import Learner, P3gmOptions, planned
from privbench.literature.proofs import PROOFS, Proof
from privbench.privacy import Accounting, DatabaseSpec, Session
from privbench.privacy.queries import Features
from privbench.rng import generator
from privbench.synthesizers.base import FittedModel, Options, PlanInput, PlannedEvent, Synthesizer
from privbench.synthesizers.common import Fitting, amounts, planned_keys
from privbench.synthesizers.model import (
    damaged,
    load,
    public_from_state,
    store,
    table_from_state,
    table_to_state,
)


class P3gmSynthesizer(Synthesizer[P3gmOptions]):
    """A mixture of latent rows and a decoder for every table."""

    name: ClassVar[str] = "p3gm"
    options_type: ClassVar[type[Options]] = P3gmOptions

    @property
    def proof(self) -> Proof:
        """Whether the privacy proof holds."""
        return PROOFS["p3gm"]

    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_rows: Mapping[str, int] | None = None,
    ) -> FittedModel:
        """See `Synthesizer.fit`.

        Raises:
            ConfigError: The accounting is pure, or the label is no column; nothing was spent.
            SchemaError: A table is too wide; nothing was spent.
        """
        spec = session.spec
        self._check(spec, session.accounting)
        fitting = Fitting.open(session, totals, amount, public_rows)
        decoders = {}
        for name in spec.order():
            if _varied(spec, name):
                random = np.random.default_rng(zlib.crc32(f"{session.release_id}{name}".encode()))
                given = fitting.rows_amount(name)
                learner = Learner(spec, name, self.options, given, fitting.measure, random)
                decoders[name] = learner.decoder()
        tables = fitting.drawn_tables({name: fitting.table_model(name) for name in spec.order()})
        domains = {name: dict(spec.tables[name].attributes) for name in tables}
        public = dict(fitting.start.public_rows)
        return P3gmModel(tables, domains, decoders, public, self.options.label)

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
        """See `Synthesizer.plan`."""
        self._check(spec, plan.accounting)
        given = amounts(spec, plan)
        events = [
            PlannedEvent.of(label, query, spec, amount, plan)
            for name in spec.tables
            if _varied(spec, name)
            for label, query, amount in planned(spec, name, given[rows_item(name)], self.options)
        ]
        return [*events, *planned_keys(spec, plan)]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        return P3gmModel.from_state(header, arrays)

    def _check(self, spec: DatabaseSpec, accounting: Accounting) -> None:
        if accounting == "pure":
            raise ConfigError(
                "p3gm learns from long vectors, which pure accounting drowns in noise.",
                remedy="Give the release a delta, or set accounting = 'zcdp'.",
            )
        for name in filter(partial(_varied, spec), spec.tables):
            Features.of(spec, name, self.options.cells)
        label = self.options.label
        if label and not any(label in table.attributes for table in spec.tables.values()):
            raise ConfigError("p3gm: the label is no modelled column.", column=label)


def _varied(spec: DatabaseSpec, table: str) -> bool:
    """Whether a table has a column of more than one code."""
    return any(domain.size > 1 for domain in spec.tables[table].attributes.values())


@dataclass(frozen=True, slots=True)
class P3gmModel:
    """A released model.

    Attributes:
        tables: Released sizes and keys.
        domains: Per table every column's domain.
        decoders: Per table with a column of more than one code, how its rows are made.
        public_rows: Exact row counts of the public tables that keys point to.
        label: A column whose shares are the released ones, or none.
    """

    tables: dict[str, TableModel]
    domains: dict[str, dict[str, Domain]]
    decoders: dict[str, Decoder]
    public_rows: dict[str, int]
    label: str

    @property
    def units(self) -> Mapping[str, float]:
        """See `FittedModel.units`."""
        return expected_units(self.tables)

    @property
    def circuits(self) -> Mapping[str, Circuit]:
        """None: a decoder is no circuit."""
        return {}

    def sample(self, scale: float = 1.0, seed: int | None = None) -> SyntheticDatabase:
        """See `FittedModel.sample`."""

        def draw(table: str, rows: int, owners: Ints | None) -> dict[str, Codes]:
            if table not in self.decoders:
                return {n: np.zeros(rows, d.dtype) for n, d in self.domains[table].items()}
            return self.decoders[table].sample(rows, generator(seed, "rows", table), self.label)

        return assemble(self.tables, self.public_rows, draw, scale, seed)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """See `FittedModel.to_state`."""
        header: dict[str, Any] = {"synthesizer": "p3gm", "label": self.label, "tables": []}
        header["public_rows"] = dict(self.public_rows)
        arrays: dict[str, NDArray[Any]] = {}
        for index, (name, table) in enumerate(self.tables.items()):
            state = table_to_state(name, table, arrays, index)
            state["domains"] = [[n, d.to_json()] for n, d in self.domains[name].items()]
            if name in self.decoders:
                state["cells"] = self.decoders[name].cells
                store(arrays, self.decoders[name].to_arrays(), index, "decoder")
            header["tables"].append(state)
        return header, arrays

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> P3gmModel:
        """The model that `to_state` wrote.

        Raises:
            ModelError: Not such a model.
        """
        made = cls({}, {}, {}, {}, "")
        with damaged():
            made = cls({}, {}, {}, public_from_state(header), str(header["label"]))
            for index, state in enumerate(header["tables"]):
                name, table = table_from_state(state, arrays, index)
                found = {str(n): Domain.from_json(dict(d)) for n, d in state["domains"]}
                made.tables[name], made.domains[name] = table, found
                if "cells" in state:
                    parts = load(dict(arrays), index, "decoder")
                    made.decoders[name] = Decoder.from_arrays(found, int(state["cells"]), parts)
                elif any(domain.size > 1 for domain in found.values()):
                    raise ModelError("the model lacks a decoder.", table=name)
        return made
