"""The paper's own synthesizer on whole databases, and hostile models of it."""

import market
import numpy as np
import pytest
import test_model_fuzz as fuzz
import test_model_header as headers
import test_model_members as members
import test_synthesizers_fit as fits
from shops import begin, shop, table

from privbench import pipeline
from privbench.errors import ConfigError
from privbench.synthesizers import get

__all__ = ["begin", "shop", "table"]
NAME = "privbench-paper"
SMALL = {"beta": 10, "depth": 2}


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_a_whole_database(accounting, shop, begin):
    fits.test_a_whole_database(NAME, accounting, shop, begin)


@pytest.mark.parametrize(
    ("unit", "neighbours"), [("owner", "add-remove"), ("owner", "replace"), ("row", "replace")]
)
def test_every_claim_of_a_fit_holds(unit, neighbours, shop, begin):
    kinds = {"joint histogram", "joint pair scores"}
    fits.test_every_claim_of_a_fit_holds(NAME, unit, neighbours, shop, begin, SMALL, kinds)


def break_cells(head, held):
    _table(head, "users")["cells"][0] += 1


def lose_the_circuit(head, held):
    for name in [name for name in held if name.startswith("attributes/")]:
        del held[name]


def swap_names(head, held):
    columns = _table(head, "users")["columns"]
    columns[0], columns[-1] = columns[-1], columns[0]


def _table(head, name):
    return next(item for item in head["tables"] if item["name"] == name)


#: What is done to a model with circuits; what any model may suffer is done to networks.
CIRCUITS = [
    break_cells,
    lose_the_circuit,
    swap_names,
    lambda head, held: next(item for item in head["tables"] if item.pop("attributes", None)),
    lambda head, held: _table(head, "users")["attributes"]["domains"].reverse(),
]


def test_models_come_back_from_their_files_and_damaged_ones_are_refused(shop, begin):
    fits.test_models_come_back_from_their_files_and_damaged_ones_are_refused(
        NAME, shop, begin, CIRCUITS
    )


def test_plans_name_the_events_of_a_fit(shop, begin):
    fits.test_plans_name_the_events_of_a_fit(NAME, shop, begin, {"alpha": 0})


@pytest.mark.parametrize(("users", "epsilon"), [(0, 0.001), (0, 3.2), (1, 3.2), (2, 0.001)])
def test_tiny_databases(users, epsilon, shop, begin):
    fits.test_tiny_databases(NAME, users, epsilon, shop, begin)


def test_events_do_not_depend_on_rows(shop, begin):
    fits.test_events_do_not_depend_on_rows(NAME, shop, begin)


@pytest.mark.parametrize(
    "odd", [*list(fits.ODD)[:-1], pytest.param([*fits.ODD][-1], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("epsilon", [0.001, 1000.0])
def test_odd_tables(odd, epsilon, table, begin):
    fits.test_odd_tables(NAME, odd, epsilon, table, begin, {"beta": 2, "depth": 3})


@pytest.mark.parametrize("options", [{"alpha": 2}, {"nonsense": 1}, {"iterations": -1}])
def test_options_are_checked(options):
    with pytest.raises(ConfigError, match=NAME):
        get(NAME)(options)


@pytest.fixture(scope="module")
def honest(make_database, tmp_path_factory):
    """An honest model, that attacks are made of."""
    folder, source = tmp_path_factory.mktemp("honest"), market.create(make_database(), 20)
    config = market.learner(market.config(folder / "ledger", epsilon=50.0), NAME)
    pipeline.fit(source, config, folder / NAME)
    return {NAME: folder / NAME}


@pytest.mark.parametrize(("cases", "seed"), fuzz.CASES)
@pytest.mark.parametrize("spoil", [fuzz.odd_header, fuzz.spoilt_member])
def test_decode_of_changed_models_is_sound(honest, tmp_path, spoil, cases, seed):
    fuzz.test_decode_of_changed_models_is_sound(honest, tmp_path, spoil, NAME, cases, seed)


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0, 1e308])
def test_sample_of_odd_weights_is_refused_or_sound(honest, tmp_path, number):
    members.test_sample_of_odd_weights_is_refused_or_sound(honest, tmp_path, NAME, number)


@pytest.mark.parametrize("attack", headers.OF_ATTRIBUTES)
def test_sample_of_what_a_header_may_not_say_is_refused(honest, tmp_path, attack):
    headers.test_sample_of_what_a_header_may_not_say_is_refused(honest[NAME], tmp_path, attack)
