"""Where references lead: nowhere, into other units, or into the row's own."""

from __future__ import annotations

import numpy as np

from privbench.learning.answers import Measure
from privbench.learning.denoise import Floats, Noise
from privbench.learning.keyasks import NULLS, asks
from privbench.privacy import DatabaseSpec, KeySpec


def measure_links(
    spec: DatabaseSpec,
    key: KeySpec,
    amount: float,
    measure: Measure,
    total: float,
    noise: Noise,
    *,
    own: bool,
    few: bool = False,
) -> Floats:
    """Where references lead: shares of rows without one, into other units, into their own.

    Args:
        spec: What is public.
        key: A REF key that may be NULL, or whose targets may be in the row's own unit.
        amount: What may be spent on the key.
        measure: Asks the session.
        total: Released weight of all rows.
        noise: Law of the noise.
        own: Whether the third share is measured; else the shape is (2,).
        few: See `asks`.
    """
    ask = next(ask for ask in asks(key, {}, own=own, few=few) if ask.what == NULLS)
    noisy, sd = measure(ask.query, amount * ask.part, ask.label(key))
    return link_shares(noisy, sd, total, noise, nullable=key.nullable)


def link_shares(noisy: Floats, sd: float, total: float, noise: Noise, *, nullable: bool) -> Floats:
    """Posterior mean of the shares of a few cells of known sum.

    Every share of a grid is as likely as any other beforehand, but that no row has none, or that
    none stays inside, is as likely as all other shares of theirs together.

    Args:
        noisy: Noisy counts of rows without a reference, outside and, maybe, inside; shape (2,) or
            (3,).
        sd: Standard deviation of the noise.
        total: Released sum, above 0.
        noise: Law of the noise.
        nullable: Whether there may be rows without a reference.

    >>> link_shares(np.array([30.0, 70.0]), 1.0, 100.0, "laplace", nullable=True).round(2).tolist()
    [0.3, 0.7]
    """
    grid = np.linspace(0.0, 1.0, 101)
    none = grid if nullable else grid[:1]
    inside = grid if len(noisy) == 3 else grid[:1]
    first, third = (part.ravel() for part in np.meshgrid(none, inside, indexing="ij"))
    held = first + third <= 1.0 + 1e-9
    shares = np.stack([first, 1.0 - first - third, third], axis=1)[held]
    spikes = (shares[:, [0, 2]] == 0.0).sum(axis=1) * np.log(len(grid))
    # Shares are known no better than the grid tells.
    spread = max(sd, total / len(grid))
    off = np.abs(noisy - total * shares[:, : len(noisy)]) / spread
    logs = spikes - (np.sqrt(2.0) * off if noise == "laplace" else 0.5 * off**2).sum(axis=1)
    weights = np.exp(logs - logs.max())
    found = np.maximum(weights @ shares[:, : len(noisy)] / weights.sum(), 0.0)
    return np.asarray(found / found.sum())
