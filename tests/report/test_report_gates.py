"""Gates: what is read, what is refused, when they fail."""

import pytest
from sql_files import cases

from privbench.errors import UsageError
from privbench.report.gates import Gate, parse

FIGURES = {"qerror.p95": 4.0, "kld.2": 0.1, "kld.2[public.users]": 0.2, "runtime.p50": None}
FIGURES["a.b"] = float("nan")


@pytest.mark.parametrize(("verdict", "text"), cases(__file__, "gates.txt"))
def test_a_gate_fails_where_its_condition_holds(verdict, text):
    assert Gate.parse(text).check(FIGURES).failed is (verdict == "fails")


@pytest.mark.parametrize(
    "text",
    ["", "qerror.p95", "qerror.p95 > ", "> 5", "qerror.p95 > five", "qerror.p95 => 5", "p95 > 5",
     "qerror.p95 > 5 and kld.2 > 1", "qerror.p95 > __import__('os')", "qerror.p95 > 1; 2",
     "qerror.p95 > nan", "(qerror.p95) > 5"],
)  # fmt: skip
def test_what_is_no_gate_is_refused(text):
    with pytest.raises(UsageError, match="is not a gate"):
        parse(["qerror.p95 > 5", text])


def test_a_gate_names_known_figures_or_a_multiple_of_another():
    with pytest.raises(UsageError, match=r"Figures: qerror\.p95"):
        Gate.parse("qerror.p59 > 5").check(FIGURES)
    # A gate over another figure is held against its multiple.
    gate = Gate.parse("runtime.p50>2*runtime.floor.p50")
    assert str(gate) == "runtime.p50 > 2 * runtime.floor.p50"
    assert gate.check({"runtime.p50": 5.0, "runtime.floor.p50": 2.0}).failed
    passed = gate.check({"runtime.p50": 3.0, "runtime.floor.p50": 2.0})
    assert (passed.failed, passed.limit) == (False, 4.0)
    assert gate.check({"runtime.p50": 3.0, "runtime.floor.p50": None}).failed
    assert str(Gate.parse("a.b < a.c")) == "a.b < a.c"
    with pytest.raises(UsageError, match=r"no figure 'query\.qerror'"):
        Gate.parse("qerror.p50 > query.qerror").check({"qerror.p50": 1.0})
