"""What a key's noisy answers become."""

import numpy as np
import pytest

from privbench.learning.denoise import noise_law
from privbench.learning.keyfit import Sizes, fit_key
from privbench.privacy import DatabaseSpec, KeySpec, Relation, TableSpec


@pytest.mark.parametrize(
    ("missing", "present", "share"),
    [
        (30.0, 90.0, 0.25),
        (900.0, 4.0, 1.0),
        (4.0, 900.0, 0.0),
        (-7.0, 900.0, 0.0),
        (4.0, -7.0, 0.0),
    ],
)
def test_a_null_share_within_its_noise_is_none(missing, present, share):
    key = KeySpec("k", "child", "parent", "ref", True, True)
    tables = {"parent": TableSpec("parent", {}), "child": TableSpec("child", {}, (key,))}
    spec = DatabaseSpec(tables, Relation())
    sizes = Sizes({"parent": 100.0, "child": 100.0})
    answer = np.array([missing, present]), 5.0
    model = fit_key(spec, key, 1.0, lambda *ask: answer, sizes, {}, noise_law("pure"))
    assert model.null == pytest.approx(share)
