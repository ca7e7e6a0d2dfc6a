"""CHECKs that a text lies between two others, as patterns."""

from __future__ import annotations

import re

import pytest

from privbench.encoding.checks import Limits
from privbench.encoding.patterns import span_patterns


@pytest.mark.parametrize("limits", [Limits(low="0"), Limits(low="A"), Limits(high="f")])
def test_a_single_bound_says_little_of_texts(limits):
    """`name >= '0'` holds for nearly every name."""
    assert span_patterns([limits]) is None


def test_new_texts_lie_between_two_bounds():
    stay, made, more = span_patterns([Limits(low="B", high="K")])
    for text in "BDK":
        assert re.search(made, text)
    assert re.search(stay, "Dora")
    assert not re.search(stay, "Zoe")
    assert re.search(more, "CAB")
