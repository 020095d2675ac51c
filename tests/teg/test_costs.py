"""Cost tables: fixed amounts and steps, priced for any part of an index space."""

import pytest

from teg.costs import CostTable, ResourceCost, cost_table, total

TABLE = cost_table({"gpu": 3}, {"batch": {"gpu": 1, "ram": 2}, "x": {"gpu": 4}})


def test_a_part_costs_the_fixed_amount_and_its_steps() -> None:
    assert TABLE.price({"batch": 10, "x": 2}) == {"gpu": 3 + 10 + 8, "ram": 20}
    assert TABLE.price({"batch": 0, "x": 2}) == {"gpu": 0, "ram": 0}
    assert TABLE.dims == {"batch", "x"}


def test_equal_tables_are_one_object() -> None:
    steps = {"x": {"gpu": 4}, "batch": {"ram": 2, "gpu": 1}}
    assert cost_table({"gpu": 3}, steps) is TABLE
    assert TABLE.named("ram") == ResourceCost("ram", 0, (("batch", 2),)) and TABLE.named("cpu") is None


@pytest.mark.parametrize(
    "resources",
    [
        (ResourceCost("gpu", -1),),
        (ResourceCost("gpu", float("nan")),),
        (ResourceCost("gpu", True),),
        (ResourceCost("", 1),),
        (ResourceCost("b", 1), ResourceCost("a", 1)),
        (ResourceCost("a", 1, (("y", 1), ("x", 1))),),
    ],
)
def test_what_no_table_may_say(resources: tuple[ResourceCost, ...]) -> None:
    with pytest.raises(ValueError, match=r"costs|resources|steps"):
        CostTable(resources)


def test_amounts_are_added_up_by_resource() -> None:
    assert total([{"gpu": 1, "ram": 2}, {"gpu": 0.5}]) == {"gpu": 1.5, "ram": 2}
