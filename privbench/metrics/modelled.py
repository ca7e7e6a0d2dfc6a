"""A released model as the heat map needs it: circuits, and the way they branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from privbench.circuit import Circuit
from privbench.encoding import Codec
from privbench.learning.bins import Ints
from privbench.learning.junction.model import TableLaw
from privbench.synthesizers.base import FittedModel
from privbench.synthesizers.graphical import GraphicalModel
from privbench.synthesizers.junction_model import JunctionModel


@dataclass(frozen=True, eq=False)
class ModelledTable:
    """The released law of one table's rows."""

    circuit: Circuit  # its circuit
    codecs: Mapping[str, Codec]  # by column, what its codes stand for
    # By attribute, the one whose sum nodes stand right above its own; None where only the
    # owner's attributes, or nothing, do.
    above: Mapping[str, str | None] = field(default_factory=dict)
    # By attribute, the bin of every code: a sum node has one child for each bin.
    bins: Mapping[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True)
class Modelled:
    """A released model."""

    digest: str  # SHA-256 of the model file
    synthesizer: str  # what learned it
    promise: str  # its guarantee, in one sentence
    tables: Mapping[str, ModelledTable]  # the private tables, by key


def modelled_tables(
    fitted: FittedModel, codecs: Mapping[str, Mapping[str, Codec]]
) -> dict[str, ModelledTable]:
    """The tables of a fitted model.

    Circuits of synthesizers that split rows branch on nothing that a row shows, so they have
    neither `ModelledTable.above` nor `ModelledTable.bins`.
    """
    if isinstance(fitted, GraphicalModel):
        return {
            key: ModelledTable(item.circuit, codecs[key], item.above, item.bins)
            for key, item in fitted.outlines.items()
        }
    if not isinstance(fitted, JunctionModel):
        circuits = fitted.circuits.items()
        return {key: ModelledTable(circuit, codecs[key]) for key, circuit in circuits}
    return {
        key: ModelledTable(fitted.circuits[key], codecs[key], _above(law), _bins(law))
        for key, law in fitted.laws.items()
    }


def _above(law: TableLaw) -> dict[str, str | None]:
    names, given = list(law.domains), len(law.given)
    found: dict[str, str | None] = {}
    for number, name in enumerate(names, given):
        place = law.tree.layout.above(number)
        found[name] = None if place is None or place < given else names[place - given]
    return found


def _bins(law: TableLaw) -> dict[str, Ints]:
    return {name: bins.of for name, bins in zip(law.domains, law.bins, strict=True)}
