"""Whether the parts of a model of junction trees fit each other; input may be hostile."""

from __future__ import annotations

from collections.abc import Mapping

from privbench.errors import ModelError
from privbench.learning.assemble import TableModel, ownership_levels
from privbench.learning.junction.model import TableLaw
from privbench.learning.keys import KeyModel, fan_variable, link_variable


def check_model(tables: Mapping[str, TableModel], laws: Mapping[str, TableLaw]) -> None:
    """Refuse a model whose tables speak of variables that are not there.

    Raises:
        ModelError: Given columns, numbers of children, links or pulls do not fit the laws, or OWN
            keys are cyclic.
    """
    ownership_levels(tables)
    for name, table in tables.items():
        _check_given(name, tables, laws)
        for key in table.keys.values():
            _check_key(name, key, laws)


def _require(condition: bool, table: str) -> None:
    if not condition:
        raise ModelError("the parts of the model do not fit each other.", table=table)


def _check_given(name: str, tables: Mapping[str, TableModel], laws: Mapping[str, TableLaw]) -> None:
    chain: list[str] = []
    own = tables[name].own
    while own is not None:
        chain.append(own.parent)
        own = tables[own.parent].own
    for column in laws[name].given:
        _require(column.levels <= len(chain), name)
        domain = laws[chain[column.levels - 1]].domains.get(column.name)
        _require(domain is not None and domain.size == len(column.of), name)


def _check_key(name: str, key: KeyModel, laws: Mapping[str, TableLaw]) -> None:
    link = laws[name].domains.get(link_variable(key.name))
    _require(link is None or link.size in (2, 3), name)
    if key.role == "public":
        return
    _require(key.parent in laws, name)
    target = laws[key.parent].domains
    fan = target.get(fan_variable(name, key.name))
    if fan is not None:
        _require(key.law is not None and len(key.law.mass) == fan.size, name)
    for term in (term for pull in key.pulls for term in pull.terms):
        domain = target.get(term.variable)
        _require(domain is not None and domain.size == len(term.scores), name)
