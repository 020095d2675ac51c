"""Tests of sequence points: happens-before, roots of visibility; and the pruning of unobserved blocks."""

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import DocumentError, dumps, from_document, json_schema, loads, to_document
from tapestry.teg.drawing import to_dot
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.pruning import observed, prune
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.recover import recover
from tapestry.teg.sharding.strategy import Split, Strategy
from tapestry.teg.sharding.verify import verify
from tapestry.teg.validate import validate
from tests.teg.graphs import cell
from tests.teg.sharding.explicit_values import evaluate_explicit


def ordered() -> Graph:
    """Build a program: `late` is after all that produces `early`; only the point reads `unseen`, nothing `lost`."""
    b = GraphBuilder("ordered")
    x = b.source("x", (4,), "float32", names=("batch",))
    (early,) = cell(b, ("neg", ("input", 0)), x, site="early")
    cell(b, ("exp", ("input", 0)), x, site="unseen")
    cell(b, ("sin", ("input", 0)), x, site="lost")
    point = b.sequence_point(("early", "unseen"))
    expr = ("mul", ("input", 0), ("const", 2))
    dims, labels = (("d0", 4),), (("d0",),)
    b.apply(
        "cell", (early,), site="late", after=(point,), expr=expr, labels=labels, dims=dims, dtype="float32"
    )
    b.sink("late", site="y")
    return b.build()


def split(graph: Graph) -> Placements:
    return Placements(
        {s: Placement(Strategy((Split(("gpu.0",)),))) for s in ("x", "early", "late", "unseen", "y")}
    )


def test_a_sequence_point_orders_blocks_and_computes_nothing() -> None:
    graph = ordered()
    assert validate(graph) == []
    assert [b.site for b in graph.roots] == ["point", "y"]
    np.testing.assert_array_equal(evaluate(graph, {"x": np.ones(4, np.float32)})["y"], np.full(4, -2.0))
    assert loads(dumps(graph)) == graph
    drawing = to_dot(graph)
    assert "shape=diamond" in drawing and "style=dotted" in drawing and "float32[batch=4]" in drawing


def test_happens_before_is_checked_through_the_point() -> None:
    graph = ordered()
    blocks = [b for b in graph.blocks if b.site != "point"] + [graph.by_site["point"]]
    late = graph.replace(blocks)
    assert [(i.kind, i.path) for i in validate(late)] == [("order", "$.blocks[4].after[0]")]
    circular = graph.replace(
        [
            b if b.site != "point" else type(b)(b.site, b.definition, (), (), after=("late",))
            for b in graph.blocks
        ]
    )
    (issue,) = validate(circular)
    assert issue.kind == "cycle" and "'late' needs 'point'" in issue.message


def test_what_a_point_waits_for_is_observed_and_the_rest_pruned() -> None:
    graph = ordered()
    assert observed(graph) == {"x", "early", "unseen", "point", "late", "y"}
    pruned = prune(graph)
    assert [b.site for b in graph.blocks if b not in pruned.blocks] == ["lost"]
    assert prune(pruned) is pruned
    assert pruned.structural_hash == graph.structural_hash


def test_without_a_sink_a_sequence_point_still_observes() -> None:
    b = GraphBuilder("effects")
    cell(b, ("neg", ("input", 0)), b.source("x", (2,), "float32"), site="y")
    b.sequence_point(("y",))
    assert validate(b.build()) == []
    assert [i.kind for i in validate(GraphBuilder("nothing").build())] == ["unobserved"]


def test_the_point_of_an_expansion_waits_for_all_devices() -> None:
    graph, mesh_shape = prune(ordered()), MeshShape((("gpu", 2),))
    expanded = expand(graph, split(graph), mesh_shape)
    assert verify(graph, expanded) == []
    explicit = materialize(expanded)
    assert explicit.graph.by_site["point@0"].after == ("early@0", "early@1", "unseen@0", "unseen@1")
    assert explicit.graph.by_site["late@1"].after == ("point@0",)
    assert validate(explicit.graph) == []
    values = evaluate_explicit(explicit, {"x": np.arange(4, dtype=np.float32)})
    np.testing.assert_array_equal(values["y"], [0, -2, -4, -6])
    back = recover(explicit)
    assert back.structural_hash == graph.structural_hash
    assert back.tensors["x"].names == ("batch",)


@pytest.mark.parametrize("names", [("batch", "batch"), ("batch",), ("", "x")])
def test_names_are_for_all_dimensions_and_different(names: tuple[str, ...]) -> None:
    b = GraphBuilder("names")
    b.sink(b.source("x", (2, 3), "float32", names=names), site="y")
    assert {(i.kind, i.path) for i in validate(b.build())} == {("names", "$.tensors[0].names")}


def test_errors_of_evaluation_show_the_names() -> None:
    b = GraphBuilder("names")
    b.sink(b.source("x", (2, 3), "float32", names=("batch", "features")), site="y")
    with pytest.raises(ValueError, match=r"shape \(batch=2, features=3\) and type float32"):
        evaluate(b.build(), {})


def test_the_schema_knows_names_points_and_costs() -> None:
    schema = Draft202012Validator(json_schema())
    document = to_document(ordered())
    assert not list(schema.iter_errors(document))
    document["definitions"][1]["costs"] = {"gpu": 1, "ram": {"fixed": 0.5, "steps": {"d0": 2}}}
    assert not list(schema.iter_errors(document))
    assert validate(from_document(document)) == []
    for wrong in ({"gpu": -1}, {"gpu": {"step": 1}}, {"gpu": "1"}, []):
        document["definitions"][1]["costs"] = wrong
        assert list(schema.iter_errors(document))
        with pytest.raises(DocumentError):
            from_document(document)
