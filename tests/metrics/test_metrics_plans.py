"""Plans read from EXPLAIN's JSON, and the work of two runs compared."""

import pytest

from privbench.metrics import plans


def _node(kind, rows, children=(), **more):
    return {
        "Node Type": kind, "Plan Rows": rows, "Actual Rows": rows, "Actual Loops": 1,
        "Actual Total Time": 1.0, "Shared Hit Blocks": 0, "Shared Read Blocks": 0,
        "Plans": list(children), **more,
    }  # fmt: skip


def _scan(alias, rows, **more):
    return _node("Seq Scan", rows, Alias=alias, **more)


def _hash(rows, one, other, **more):
    return _node("Hash Join", rows, (one, _node("Hash", 1, (other,))), **more)


def _run(root):
    found = plans.read([{"Plan": root, "Planning Time": 0.5, "Execution Time": 2.0}])
    assert found is not None
    return found


def test_a_plan_is_read_with_its_loops_blocks_and_names():
    inner = _node("Index Scan", 3.0, **{
        "Alias": "b", "Index Name": "b_pkey", "Actual Loops": 10, "Plan Rows": 6,
        "Shared Hit Blocks": 30, "Shared Read Blocks": 2, "Actual Total Time": 0.2,
    })  # fmt: skip
    never = _node("Seq Scan", 5, **{"Alias": "c", "Actual Loops": 0, "Actual Rows": 0})
    root = _node("Nested Loop", 30, (_scan("a", 10), inner, never), **{
        "Shared Hit Blocks": 40, "Shared Read Blocks": 4, "Local Hit Blocks": 1,
        "Temp Read Blocks": 2, "Temp Written Blocks": 3, "Join Type": "Left",
    })  # fmt: skip
    found = _run(root)
    assert (found.shared, found.local, found.temp, found.spill) == (44, 1, 5, 6)
    assert found.rows == 30 + 10 + 30
    assert (found.planning, found.execution) == (0.5, 2.0)
    assert [node.operator for node in found.plan.walk()] == [
        "Nested Loop Left Join", "Seq Scan", "Index Scan", "Seq Scan",
    ]  # fmt: skip
    index = found.plan.children[1]
    assert (index.relation, index.index, index.total, index.blocks) == ("b", "b_pkey", 30, 32)
    assert index.milliseconds == pytest.approx(2.0)
    assert found.plan.estimates().tolist() == [1, 1, 2]  # the node that never ran has none


@pytest.mark.parametrize(
    ("kind", "more", "name"),
    [
        ("Hash Join", {"Join Type": "Inner"}, "Hash Join"),
        ("Hash Join", {"Join Type": "Right Anti"}, "Hash Right Anti Join"),
        ("Merge Join", {"Join Type": "Full"}, "Merge Full Join"),
        ("Aggregate", {"Strategy": "Plain", "Partial Mode": "Partial"}, "Partial Aggregate"),
        ("Aggregate", {"Strategy": "Hashed", "Partial Mode": "Simple"}, "HashAggregate"),
        ("Aggregate", {"Strategy": "Sorted", "Partial Mode": "Finalize"},
         "Finalize GroupAggregate"),
        ("Seq Scan", {"Parallel Aware": True}, "Parallel Seq Scan"),
    ],
)  # fmt: skip
def test_operators_are_named_as_explain_does(kind, more, name):
    assert _run(_node(kind, 1, **more)).plan.operator == name


def test_nothing_is_read_from_nothing_or_a_plan_that_did_not_run():
    assert plans.read(None) is None
    assert plans.read([{"Plan": {"Node Type": "Result", "Plan Rows": 1}}]) is None


def test_the_same_plan_and_the_same_join_order():
    one = _run(_hash(9, _hash(9, _scan("a", 1), _scan("b", 1)), _scan("c", 1))).plan
    rows = _run(_hash(7, _hash(90, _scan("a", 5), _scan("b", 1)), _scan("c", 1))).plan
    assert plans.same(one, rows)
    assert plans.operator_qerrors(one, rows).tolist() == [9 / 7, 10, 5, 1, 1, 1, 1]
    turned = _run(_hash(9, _scan("c", 1), _hash(9, _scan("b", 1), _scan("a", 1)))).plan
    nested = _run(_node("Nested Loop", 9, (
        _node("Nested Loop", 9, (_scan("a", 1), _scan("b", 1))), _scan("c", 1),
    ))).plan  # fmt: skip
    other = _run(_hash(9, _hash(9, _scan("a", 1), _scan("c", 1)), _scan("b", 1))).plan
    for found, order in ((turned, True), (nested, True), (other, False)):
        assert not plans.same(one, found)
        assert (plans.join_order(one) == plans.join_order(found)) is order
