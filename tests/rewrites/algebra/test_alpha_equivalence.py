"""Tests of blocks that differ in names of dimensions only: which are the same, and which are not."""

from tapestry.rewrites import RULES, find, rule_named, saturate
from tapestry.rewrites.example_builder import ExampleBuilder


def test_twins_under_other_names_become_one() -> None:
    b = ExampleBuilder("twins")
    x, w = b.tensor("x", 3, 4), b.tensor("w", 4, 5)
    one, two = b.contract("mk,kn->mn", x, w), b.contract("ab,bc->ac", x, w)
    graph = b.result(b.cell(("exp", ("input", 0)), {one: "pq"}), b.cell(("exp", ("input", 0)), {two: "rs"}))
    done = saturate(graph, [r for r in RULES if r.saturating]).graph
    assert sorted(b.operator for b in done.blocks) == ["cell", "contract", "sink", "sink", "source", "source"]


def test_what_is_read_along_other_dimensions_is_another_value() -> None:
    b = ExampleBuilder("transposed")
    x, y = b.tensor("x", 4, 4), b.tensor("y", 4, 4)
    add = ("add", ("input", 0), ("input", 1))
    one, two = b.cell(add, {x: "pq", y: "pq"}), b.cell(add, {x: "rs", y: "sr"})
    assert find(b.result(one, two), [rule_named("equal_cells")]) == []


def test_coordinates_are_compared_by_the_dimension_they_run_along() -> None:
    b = ExampleBuilder("coordinates")
    x = b.tensor("x", 4, 4)
    expr = ("mul", ("input", 0), ("index", "p"))
    assert find(b.result(b.cell(expr, {x: "pq"}), b.cell(expr, {x: "qp"})), [rule_named("equal_cells")]) == []
