"""P3GM, after Takagi et al. (ICDE 2021): components, a mixture, a decoder, with a proof that holds.

Rows are mapped to principal components (DP-PCA), a mixture of Gaussians is fitted to these (DP-EM),
and a network is trained to decode them (DP-SGD); synthetic rows are decoded draws from the mixture.
Departures:

* Nothing is exact: the mean that centres the PCA, ranges of rows, shares of the label and the
  number of rows are read off the same noisy second moments. A first histogram bounds lengths.
* DP-EM measures sums, number and squares of all components as one vector, whose sensitivity
  holds whatever values the noisy numbers have; the paper bounds means and variances themselves.
* All rows are in every batch, and gradients get the session's own noise, on integers: under zCDP,
  in which the ledger adds up losses, sampling of batches is no gain, and for as many steps the
  noise on a mean gradient is the same. So nothing depends on Poisson batches or on noise in
  floating point.
* Latent rows go into the decoder without noise of their own: the paper's variant "P3GM (AE)".
* Ordered columns are drawn around the decoded number, with the variance that was released.

Sensitivities are proved in the docstrings of the four queries.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privbench.errors import ConfigError
from privbench.learning.graphical.columns import varies
from privbench.privacy import Accounting, DatabaseSpec, Measurement, Question, Session
from privbench.synthesizers.base import Options, PlanInput
from privbench.synthesizers.database import TableFit, TableSynthesizer
from privbench_lab.literature.p3gm_decoder import Decoder
from privbench_lab.literature.p3gm_fit import Learner, P3gmOptions, planned
from privbench_lab.queries import Features


class P3gmSynthesizer(TableSynthesizer[P3gmOptions]):
    """A mixture of latent rows and a decoder for every table."""

    name: ClassVar[str] = "p3gm"
    options_type: ClassVar[type[Options]] = P3gmOptions

    def check(self, session: Session) -> None:
        """Refuse pure accounting, a label that is no column, and tables that are too wide."""
        self._check(session.spec, session.accounting)

    def fit_table(self, fit: TableFit) -> Decoder:
        """See `TableSynthesizer.fit_table`."""
        random = np.random.default_rng(zlib.crc32(f"{fit.session.release_id}{fit.table}".encode()))
        return Learner(fit, self.options, random).decoder()

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> Sequence[Question]:
        """See `Synthesizer.plan`."""
        self._check(spec, plan.accounting)
        return super().plan(spec, plan)

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[Measurement]:
        """See `TableSynthesizer.plan_table`."""
        return planned(spec, table, amount, self.options)

    @classmethod
    def read_attributes(cls, state: Any, arrays: Mapping[str, NDArray[Any]]) -> Decoder:
        """See `TableSynthesizer.read_attributes`."""
        return Decoder.from_state(state, arrays)

    def _check(self, spec: DatabaseSpec, accounting: Accounting) -> None:
        if accounting == "pure":
            raise ConfigError(
                "p3gm learns from long vectors, which noise under pure accounting would hide.",
                remedy="Give the release a delta, or set accounting = 'zcdp'.",
            )
        for name in filter(partial(varies, spec), spec.tables):
            Features.of(spec, name, self.options.cells)
        label = self.options.label
        if label and not any(label in table.attributes for table in spec.tables.values()):
            raise ConfigError("p3gm: the label is no modelled column.", column=label)
