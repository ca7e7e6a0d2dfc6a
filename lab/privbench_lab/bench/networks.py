"""Draws rows from a Bayesian network, and compares a released circuit with its parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from privbench.config import ColumnConfig
from privbench.rng import generator
from privbench_lab.bench.config import DataConfig
from privbench_lab.bench.fitting import Made
from privbench_lab.bench.table import Table, table_of
from privbench_lab.literature.bayesnet_scores import (
    map_accuracy,
    maximum_likelihood,
    network_of,
    parameter_distance,
)
from privbench_lab.literature.bif import read_bif

#: Number of rows if the grid gives none: that of the paper.
_ROWS = 10_000
#: Number of random queries for the most probable explanation: that of the paper.
_QUERIES = 20
_SEED = 20240229


def read_network(name: str, config: DataConfig, folder: Path) -> Table:
    """Draw training rows from the Bayesian network of a file, and a quarter as many test rows.

    The seed is fixed, so that all synthesizers get the same rows.
    """
    assert config.bif is not None
    path = folder / config.bif
    found = read_bif(path)
    rows = config.rows or _ROWS
    codes = found.network.sample(rows + rows // 4, generator(_SEED, "network", name))
    listed = found.values.items()
    texts = {column: np.array(values, object)[codes[column]] for column, values in listed}
    frame = pd.DataFrame(texts, dtype=object)
    declared = {column: ColumnConfig(values=list(values)) for column, values in listed}
    config = config.model_copy(update={"bif": str(path.absolute())})
    return table_of(name, config, frame.iloc[:rows], frame.iloc[rows:], declared)


def network_figures(made: Made, seed: int) -> dict[str, float]:
    """Distance of a circuit's parameters from those of the training rows without noise.

    ``params.l1`` and ``params.kl`` are means over nodes and states of their parents;
    ``map.accuracy`` the share of random queries with the same most probable state.
    """
    config = made.table.config
    if made.circuit is None or config.bif is None:
        return {}
    graph = read_bif(config.bif).network.graph
    domains = made.table.domains
    reference = maximum_likelihood(domains, graph, made.table.codes(made.table.train))
    distance = parameter_distance(reference, network_of(made.circuit, graph))
    accuracy = map_accuracy(
        reference.circuit(), made.circuit, _QUERIES, generator(_SEED, "queries", seed)
    )
    return {"params.l1": distance.l1, "params.kl": distance.kl, "map.accuracy": accuracy}
