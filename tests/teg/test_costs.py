"""Tests of cost tables: fixed amounts and steps, priced for any part of an index space."""

import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.costs import CostTable, ResourceCost, cost_table, total
from tapestry.teg.document import DocumentError, dumps, from_document, loads, to_document
from tapestry.teg.graph import Graph
from tapestry.teg.validate import validate

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


def priced() -> Graph:
    b = GraphBuilder("priced")
    x = b.source("x", (4, 6), "float32")
    dims, labels = (("batch", 4), ("x", 6)), (("batch", "x"),)
    b.apply(
        "cell",
        (x,),
        site="y",
        costs=TABLE,
        expr=("neg", ("input", 0)),
        labels=labels,
        dims=dims,
        dtype="float32",
    )
    b.sink("y", site="z")
    return b.build()


def test_costs_travel_in_the_document() -> None:
    graph = priced()
    assert validate(graph) == []
    costs = to_document(graph)["definitions"][1]["costs"]
    assert costs == {
        "gpu": {"fixed": 3, "steps": {"batch": 1, "x": 4}},
        "ram": {"fixed": 0, "steps": {"batch": 2}},
    }
    assert loads(dumps(graph)).by_site["y"].definition.costs is TABLE
    plain = to_document(graph)
    plain["definitions"][1]["costs"] = {"gpu": 2.5}
    again = from_document(plain)
    assert again.by_site["y"].definition.costs is cost_table({"gpu": 2.5})
    assert len({g.structural_hash for g in (graph, again)}) == 2


def test_costs_along_a_dimension_that_is_not_there_are_an_issue() -> None:
    document = to_document(priced())
    document["definitions"][1]["costs"]["ram"]["steps"] = {"depth": 1}
    (issue,) = validate(from_document(document))
    assert (issue.kind, issue.path) == ("costs", "$.definitions[1].costs.ram.steps.depth")
    assert "batch, x" in issue.expected


@pytest.mark.parametrize(
    ("costs", "path"),
    [
        ({"gpu": -1}, "$.definitions[1].costs.gpu"),
        ({"gpu": True}, "$.definitions[1].costs.gpu"),
        ({"gpu": {"step": 1}}, "$.definitions[1].costs.gpu.step"),
        ({"gpu": {"steps": {"x": "1"}}}, "$.definitions[1].costs.gpu.steps.x"),
        ({"": 1}, "$.definitions[1].costs['']"),
        ([], "$.definitions[1].costs"),
        ({"gpu": 10**400}, "$.definitions[1].costs.gpu"),
    ],
)
def test_malformed_costs_are_reported_by_their_place(costs: object, path: str) -> None:
    document = to_document(priced())
    document["definitions"][1]["costs"] = costs
    with pytest.raises(DocumentError) as error:
        from_document(document)
    assert error.value.path == path
