"""A small database, and mechanisms and fits that are broken on purpose, each in one way."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sql_files import sql_of

from privbench.config import Config, LedgerConfig
from privbench.learning.graphical import candidates
from privbench.privacy import NoiseSource
from privbench.privacy.data import Labels, PrivateDatabase
from privbench.privacy.mechanisms import Method, VectorMechanism
from privbench_lab.audit import recording

#: The module, which the package hides behind the function of that name.
fit = importlib.import_module("privbench.pipeline.fit")

SCHEMA = sql_of(__file__, "broken")
CONFIG = sql_of(__file__, "people.toml")


def config(ledger, **privacy) -> Config:
    """Roles of the small database; person 115 has more visits than a total counts of one unit."""
    found = Config.loads(CONFIG).with_privacy(**privacy)
    return found.model_copy(update={"ledger": LedgerConfig(path=str(ledger))})


class Otherwise(NoiseSource):
    """Cells of statistics are drawn by `vector`, choices and labels as they should be."""

    def draw(self, method, exact, stream):
        if isinstance(method.mechanism, VectorMechanism):
            return self.vector(method.mechanism, exact, method.scale, stream)
        return super().draw(method, exact, stream)

    def vector(self, mechanism, values, scale, stream):
        return super().draw(Method(mechanism, scale), values, stream)


class HalfNoise(Otherwise):
    """Noise of half the scale that the event states."""

    def vector(self, mechanism, values, scale, stream):
        return super().vector(mechanism, values, scale / 2, stream)


class HalfNoiseInOne(Otherwise):
    """Half the noise in the largest statistic alone."""

    def vector(self, mechanism, values, scale, stream):
        return super().vector(mechanism, values, scale / (2 if values.size >= 100 else 1), stream)


class ReusedDraw(Otherwise):
    """One draw of standard noise for all statistics, stretched to each one's scale."""

    def __init__(self) -> None:
        self._drawn = np.zeros(0)

    def vector(self, mechanism, values, scale, stream):
        if self._drawn.size < values.size:
            zero = np.zeros(values.size, np.int64)
            more = super().vector(mechanism, zero, float(2**30), stream) / 2**30
            self._drawn = np.concatenate([self._drawn, more[self._drawn.size :]])
        noise = np.rint(self._drawn[: values.size] * scale).astype(np.int64)
        return values + noise.reshape(values.shape)


class Unnoised(Otherwise):
    """Statistics of few cells as they are; one cell alone may well have no noise by chance."""

    def vector(self, mechanism, values, scale, stream):
        return values if values.size < 16 else super().vector(mechanism, values, scale, stream)


class _HalfScale:
    def __init__(self, noise: Any) -> None:
        self._noise = noise

    def draw(self, method, exact, stream):
        return self._noise.draw(replace(method, scale=method.scale / 2), exact, stream)


def half_the_scale(draw, data, noise, stream):
    """Another scale than the event's."""
    return draw(data, _HalfScale(noise), stream)


def nudged(draw, data, noise, stream):
    """A draw that is changed before it is released."""
    return draw(data, noise, stream) + 1


def drawn_twice(draw, data, noise, stream):
    """The second of two draws, of which one is charged."""
    draw(data, noise, stream)
    return draw(data, noise, stream)


def asked_by_size(draft, stage) -> None:
    """Totals twice, where the exact number of persons is odd."""
    stage(draft)
    if sizes(draft.rows)["public.person"] % 2:
        del draft.totals
        stage(draft)


def no_call(draft, stage) -> None:
    """The last event without a mechanism, where the exact number of persons is odd."""
    stage(draft)
    if sizes(draft.rows)["public.person"] % 2:
        draft.session._noise.calls.popitem()


def change(monkeypatch, name: str, how: Callable[..., None]) -> None:
    """Let a stage of a fit run otherwise."""
    stages = dict(fit.STAGES)
    changed = tuple((stages | {name: lambda draft: how(draft, stages[name])}).items())
    monkeypatch.setattr(fit, "STAGES", changed)
    monkeypatch.setattr(recording, "STAGES", changed)


def pairs_by_spread(monkeypatch) -> None:
    """Let pairs be candidates only where both columns vary in the exact rows."""
    sound, rows = candidates.pairs_of, list[PrivateDatabase]()

    def learn(draft, stage):
        rows[:] = [draft.rows]
        stage(draft)

    def varies(variable) -> bool:
        name = variable.name.rsplit(".", 1)[-1]
        tables = [table._attributes for part in rows for table in part._tables.values()]
        held = [table[name] for table in tables if name in table]
        return not held or any(np.unique(item._codes).size > 1 for item in held)

    def chosen(variables, own):
        return [(i, j) for i, j in sound(variables, own) if varies(variables[i])]

    change(monkeypatch, "learn", learn)
    monkeypatch.setattr(candidates, "pairs_of", chosen)


def texts(rows: PrivateDatabase) -> list[str]:
    """Every text that a row holds."""
    held = [a for table in rows._tables.values() for a in table._attributes.values()]
    lists = [(a._labels.to_pylist(), a._codes) for a in held if isinstance(a, Labels)]
    return sorted({names[code] for names, codes in lists for code in codes.tolist() if code >= 0})


def sizes(rows: PrivateDatabase) -> dict[str, int]:
    """Exact numbers of rows."""
    return {name: table._rows for name, table in rows._tables.items()}


class _Leaky:
    def __init__(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.to_state = lambda: (state, arrays)


def leak(monkeypatch, tell: Callable[[PrivateDatabase], Any]) -> None:
    """Let a fit put what it reads from exact rows into its model, past the session's door."""

    def totals(draft, stage):
        draft.told = tell(draft.rows)
        stage(draft)

    def learn(draft, stage):
        stage(draft)
        state, arrays = draft.fitted.to_state()
        draft.fitted = _Leaky({**state, "told": draft.told}, arrays)

    change(monkeypatch, "totals", totals)
    change(monkeypatch, "learn", learn)
