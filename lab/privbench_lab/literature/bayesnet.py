"""Parameters of a given Bayesian network, after Chowdhury, Rekatsinas and Jha (ICML 2020).

The graph is public. Every attribute's table over itself and its parents is counted with noise; what
the paper adds is how the budget is divided among the tables (`shares_of_nodes`), by a preliminary
measurement. Departures:

* The counts of a node's parents are the sums of the node's own table. The paper measures them
  separately with half the budget, even the number of rows for a root.
* Preliminary tables are measured on all rows and used: the final table is the precision-weighted
  mean of both. The paper measures them on a sample and discards them; the gain in privacy that it
  claims for sampling needs each row to be drawn independently.
* Counts are posterior means, and a state of the parents that never occurs gives all values equal
  probabilities; the paper does not say what is done if a noisy count is negative. Tables are not
  made consistent with each other.

Sensitivity: every table is a `Histogram`, one cell a row; see its docstring. Tables are charged one
after the other, so that they add up to the whole amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from privbench.arrays import Floats
from privbench.errors import ConfigError
from privbench.learning.answers import Measured, measured
from privbench.learning.graphical.estimate import shrink
from privbench.privacy import Accounting, DatabaseSpec, Measurement, Session, noise_sd
from privbench.privacy.queries import Histogram
from privbench.synthesizers.base import Options, PlanInput
from privbench.synthesizers.database import TableFit
from privbench_lab.circuit import Circuit
from privbench_lab.literature.bif import read_bif
from privbench_lab.literature.circuits import CircuitSynthesizer
from privbench_lab.literature.network import Graph, Network


class BayesnetOptions(Options):
    """Parameters of the Bayesian network."""

    # Parents of every column that has some; the other columns have none.
    parents: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    # A file in the Bayesian Interchange Format whose graph is taken instead. Columns are matched by
    # name; the file's values and parameters are not read into the model.
    bif: str = ""
    # ``dependent``: divided by the graph and preliminary tables; ``independent``: evenly.
    budget: Literal["dependent", "independent"] = "dependent"
    # Part of the amount for preliminary tables, if they are measured.
    preliminary: Annotated[float, Field(gt=0, lt=1)] = 0.1


class BayesnetSynthesizer(CircuitSynthesizer[BayesnetOptions]):
    """Bayesian networks with a public graph."""

    name: ClassVar[str] = "bayesnet"
    options_type: ClassVar[type[Options]] = BayesnetOptions

    def check(self, session: Session) -> None:
        """Refuse a graph that does not fit the tables."""
        for table in session.spec.tables:
            self._graph(session.spec, table)

    def fit_table(self, fit: TableFit) -> Circuit:
        """See `TableSynthesizer.fit_table`."""
        return self._network(fit, self._graph(fit.spec, fit.table)).circuit()

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[Measurement]:
        """See `TableSynthesizer.plan_table`; final tables are planned with equal shares."""
        graph = self._graph(spec, table)
        events = []
        for what, part in self._stages(spec, table, amount, plan):
            amounts = dict.fromkeys(graph.parents, amount * part / len(graph.parents))
            events += _questions(spec, table, graph, what, amounts)
        return events

    @cached_property
    def _parents(self) -> Mapping[str, tuple[str, ...]]:
        """Parents of every column that has some, by the options or by the file that they name."""
        if not self.options.bif:
            return self.options.parents
        if self.options.parents:
            raise ConfigError("bayesnet: the graph is in 'parents' or in 'bif', not in both.")
        return read_bif(self.options.bif).network.graph.parents

    def _graph(self, spec: DatabaseSpec, table: str) -> Graph:
        """The graph of a table; a column without parents stands alone."""
        known = {name for held in spec.tables.values() for name in held.attributes}
        named = {name for child, found in self._parents.items() for name in (child, *found)}
        if strangers := sorted(named - known):
            what = "bayesnet: the graph names a column that is not there."
            raise ConfigError(what, column=strangers[0])
        columns = spec.tables[table].attributes
        parents = {name: self._parents.get(name, ()) for name in columns}
        return Graph(
            {name: found if set(found) <= set(columns) else () for name, found in parents.items()}
        )

    def _stages(
        self, spec: DatabaseSpec, table: str, total: float, plan: PlanInput
    ) -> tuple[tuple[str, float], ...]:
        """Labels of the measurements of a table and their parts of its amount.

        There is no preliminary measurement if a cell of it had more noise than the table has rows.
        """
        first = self.options.preliminary
        columns = list(spec.tables[table].attributes)
        query = Histogram.of(spec, table, columns[:1])
        noise = noise_sd(query, spec, total / len(columns), plan.accounting)
        noise /= first if plan.accounting == "pure" else first**0.5
        if self.options.budget == "independent" or noise > plan.rows(table):
            return ((_FINAL, 1.0),)
        return ((_FIRST, first), (_FINAL, 1.0 - first))

    def _network(self, fit: TableFit, graph: Graph) -> Network:
        domains = fit.spec.tables[fit.table].attributes
        sizes = {name: domain.size for name, domain in domains.items()}
        shares = dict.fromkeys(graph.parents, 1.0 / len(graph.parents))
        found: dict[str, list[Measured]] = {name: [] for name in graph.parents}
        for what, part in self._stages(fit.spec, fit.table, fit.amount, fit.start):
            amounts = {name: fit.amount * part * share for name, share in shares.items()}
            measurements = _questions(fit.spec, fit.table, graph, what, amounts)
            for name, answer in zip(found, measured(fit.session, measurements), strict=True):
                found[name].append(answer)
            counts = {name: _counts(answers, fit) for name, answers in found.items()}
            shares = shares_of_nodes(graph, sizes, counts, fit.session.accounting)
        return Network.of_counts(domains, graph, counts)


_FIRST, _FINAL = "preliminary table", "table"
#: Rows that are added to the estimate of every cell, so that no probability is 0. With ten times as
#: many, rare values come out too often; with none, held-out rows have no likelihood.
_TRACE = 0.01


def shares_of_nodes(
    graph: Graph,
    sizes: Mapping[str, int],
    counts: Mapping[str, Floats],
    accounting: Accounting = "pure",
) -> dict[str, float]:
    """Shares of the budget of all nodes' tables, from the graph and released counts; sum to 1.

    The paper's formulas are lost in the text that was at hand; this is derived from its words. With
    noise of scale σᵢ a parameter θ = C[x, p] / C[p] has, by propagation of errors over numerator
    and denominator, the error σᵢ·√(1 + θ²)/C[p]; δᵢ is its mean over the node's parameters for
    σᵢ = 1. The objective is Σ Wᵢ·δᵢ·σᵢ. Noise is 1/εᵢ under pure accounting, and with a Lagrange
    multiplier for Σ εᵢ = ε the optimum is εᵢ ∝ √(Wᵢδᵢ). Under zCDP noise is ∝ ρᵢ^−½, and the
    optimum ρᵢ ∝ (Wᵢδᵢ)^⅔.

    The weight is the product of height, out-degree and mean sensitivity, and "the extra additive
    term is used to handle leaf nodes so that the weighting coefficients are non-zero": read as
    Wᵢ = hᵢ·oᵢ·sᵢ + 1. (With 1 added to each factor, parameters of sachs and child come out worse
    than with an even division.) The sensitivity of the probability of a child's value y to θ[x | p]
    is ∂P(y)/∂θ = P(p)·P(y | x, p). Its mean over y is P(p)/|Y|, as the probabilities of all y sum
    to 1, and the mean of that over x and p is 1/(|Pa|·|Y|), as those of all p sum to 1. So the mean
    sensitivity does not depend on data; only δᵢ does.

    ``sizes`` are numbers of values; counts are not negative, of shape (*parents' sizes, size) each.
    """
    heights = graph.heights()
    weights = {}
    for name, table in counts.items():
        children = graph.children(name)
        states = table.size // table.shape[-1]
        means = [1.0 / (states * sizes[child]) for child in children]
        sensitivity = float(np.mean(means)) if means else 0.0
        # A state of the parents that has no row counts as if it had one.
        sums = np.maximum(table.sum(axis=-1, keepdims=True), 1.0)
        error = float((np.sqrt(1.0 + (table / sums) ** 2) / sums).mean())
        weights[name] = (heights[name] * len(children) * sensitivity + 1) * error
    power = 1 / 2 if accounting == "pure" else 2 / 3
    raw = {name: weight**power for name, weight in weights.items()}
    return {name: value / sum(raw.values()) for name, value in raw.items()}


def _questions(
    spec: DatabaseSpec, table: str, graph: Graph, what: str, amounts: Mapping[str, float]
) -> list[Measurement]:
    """The tables of all nodes."""
    queries = {name: Histogram.of(spec, table, (*p, name)) for name, p in graph.parents.items()}
    return [
        Measurement(query, amounts[name], f"{what} of {table}.{name}")
        for name, query in queries.items()
    ]


def _counts(answers: list[Measured], fit: TableFit) -> Floats:
    """Posterior mean of a node's counts from its noisy tables, above 0."""
    mean, sd = answers[0].join(*answers[1:])
    even = np.full(mean.shape, fit.weight / mean.size)
    return shrink(mean, sd, even, fit.noise, fit.weight) + _TRACE
