"""Outlines of models that are no circuits."""

import numpy as np
import pytest

from privbench.synthesizers import get
from privbench_lab.circuit import marginal, probabilities
from privbench_lab.outline import circuits, outlines


def test_outlines_branch_on_what_depends_and_keep_the_law_of_the_rows(shop, begin):
    session, totals, amount = begin(shop(2000), 20.0)
    model = get("privbench")().fit(session, totals, amount, {"countries": np.arange(12)})
    drawn = circuits(model)
    assert set(drawn) == set(shop(1).spec.tables)
    assert set(drawn["orders"].domains) == {"state"}
    users, made = outlines(model)["users"], model.sample(1.0, 1)["users"].codes
    assert set(users.above.values()) == {None, "kind"} or set(users.above.values()) == {None, "age"}
    for name, size in (("kind", 3), ("age", 60)):
        counts = np.bincount(made[name], minlength=size) / len(made[name])
        assert marginal(users.circuit, name) == pytest.approx(counts, abs=0.02)
    old = np.tile(np.arange(60) >= 40, (3, 1))
    joint = probabilities(users.circuit, {"kind": np.eye(3), "age": old.astype(float)})
    assert (joint / joint.sum())[2] > 0.9
