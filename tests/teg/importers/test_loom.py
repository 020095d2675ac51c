"""Tests of Loom graphs: their constraints, and their conversion to a program and back."""

import copy
import json
from typing import Any

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.exporters import to_loom
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_loom
from tapestry.teg.importers.loom.constraints import constraint_issues
from tapestry.teg.importers.loom.model import parse
from tapestry.teg.issues import Issue
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.external_graphs import recover_external
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.validate import validate
from tests.teg.graphs import small_program
from tests.teg.sharding.programs import MESHES, random_placements, random_program
from tests.teg.sharding.test_external_graphs import paper

Document = dict[str, Any]


def loom_issues(document: Any) -> list[Issue]:
    """Find all issues of a Loom graph, as the importer does."""
    graph, issues = parse(document)
    return [*issues, *constraint_issues(graph)]


def span(*ends: int, start: tuple[int, ...] | None = None) -> Document:
    return {"start": list(start or (0,) * len(ends)), "end": list(ends)}


def tensor(name: str, *ends: int, start: tuple[int, ...] | None = None, dtype: str = "float32") -> Document:
    body = {"dtype": dtype, "range": span(*ends, start=start)}
    return {"id": name, "type": "Tensor", "label": name, "body": body}


def some(name: str, box: Document) -> list[Document]:
    return [{"tensorId": name, "range": box}]


def operation(name: str, kernel: str, inputs: Document, outputs: Document, **tags: Any) -> list[Document]:
    """Build an operation and the one shard that is all of it."""
    body = {"kernel": kernel, "inputs": inputs, "outputs": outputs}
    shard = {"operationId": name, "inputs": inputs, "outputs": outputs}
    index = {k: v for k, v in tags.items() if k == "IPFIndex"}
    return [
        {"id": name, "type": "Operation", "label": name, "body": body, "tags": tags},
        {"id": f"{name}/0", "type": "Application", "body": shard, "tags": index},
    ]


def layer() -> Document:
    """Build `y = relu(x A + b)` over four rows that begin at row -2, with an unsharded export."""
    x, z = span(2, 3, start=(-2, 0)), span(4, 2)
    nodes = [
        tensor("x", 2, 3, start=(-2, 0)),
        tensor("A", 3, 2),
        tensor("b", 2),
        tensor("z", 4, 2),
        tensor("y", 4, 2),
    ]
    inputs = {"x": some("x", x), "A": some("A", span(3, 2)), "b": some("b", span(2))}
    nodes += operation("linear", "op:linear", inputs, {"result": some("z", z)})
    nodes += operation("relu", "op:relu", {"tensor": some("z", z)}, {"result": some("y", z)})
    nodes += operation("seen", "op:export", {"input": some("y", z)}, {})
    return {"id": "layer", "nodes": nodes}


def summed() -> Document:
    """Build the worked example of the original's documentation: an addition in two shards, tensors with offsets."""
    t0, t1, z = (
        tensor("t0", 10, 5, dtype="int32"),
        tensor("t1", 210, 55, start=(200, 50), dtype="int32"),
        span(10, 5),
    )
    whole = {"tensors": [*some("t0", z), *some("t1", span(210, 55, start=(200, 50)))]}
    identity = [[1, 0], [0, 1]]
    ports = [
        {"affineMap": {"projection": identity, "offset": o}, "shape": [1, 1]} for o in ([0, 0], [200, 50])
    ]
    signature = {"inputs": {"tensors": ports}, "outputs": {"result": ports[:1]}}
    add, _ = operation("sum", "op:add", whole, {"result": some("z", z)}, IPFSignature=signature, IPFIndex=z)
    shards = []
    for low, high in ((0, 5), (5, 10)):
        part, moved = span(high, 5, start=(low, 0)), span(200 + high, 55, start=(200 + low, 50))
        body = {"operationId": "sum", "inputs": {"tensors": [*some("t0", part), *some("t1", moved)]}}
        body["outputs"] = {"result": some("z", part)}
        shards.append({"id": f"s{low}", "type": "Application", "body": body, "tags": {"IPFIndex": part}})
    return {"nodes": [t0, t1, tensor("z", 10, 5, dtype="int32"), add, *shards]}


def test_a_layer_comes_in_with_its_meaning() -> None:
    graph = from_loom(layer())
    assert validate(graph) == []
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(s).astype(np.float32) for s in ((4, 3), (3, 2), (2,)))
    values = evaluate(graph, {"x": x, "A": a, "b": b})
    np.testing.assert_allclose(values["seen"], np.maximum(x @ a + b, 0), rtol=1e-5)


def test_the_worked_example_is_valid_and_adds() -> None:
    assert loom_issues(summed()) == []
    graph = from_loom(json.dumps(summed()))
    t = np.arange(50, dtype=np.int32).reshape(10, 5)
    np.testing.assert_array_equal(evaluate(graph, {"t0": t, "t1": t})["z.out"], t + t)


def test_an_unknown_kernel_keeps_its_signature_and_refuses_to_be_evaluated() -> None:
    document = summed()
    document["nodes"][3]["body"]["kernel"] = "op:mixing"
    document["nodes"][3]["body"]["params"] = {"axis": 1, "weights": {"a": [0.5]}}
    graph = from_loom(document)
    assert validate(graph) == []
    block = graph.by_site["z"]
    assert (block.operator, block.definition["kernel"]) == ("external", "op:mixing")
    assert block.signature is not None and block.signature.inputs[1].start.offset == (0, 0)
    zeros = np.zeros((10, 5), np.int32)
    with pytest.raises(ValueError, match=r"'z' \(external\): kernel 'op:mixing' is defined elsewhere"):
        evaluate(graph, {"t0": zeros, "t1": zeros})


def test_a_part_of_a_tensor_is_a_view() -> None:
    document = layer()
    document["nodes"] += operation("corner", "op:export", {"input": some("x", span(0, 1, start=(-1, 0)))}, {})
    graph = from_loom(document)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    values = evaluate(graph, {"x": x, "A": np.zeros((3, 2), np.float32), "b": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(values["corner"], x[1:2, 0:1])


def test_a_sequence_point_tag_is_kept() -> None:
    document = layer()
    relu = next(n for n in document["nodes"] if n["id"] == "relu")
    relu["tags"]["http://tensortapestry.org/schemas/loom/2024-01/tag_types.jsd#/tags/IOSequencePoint"] = {}
    graph = from_loom(document)
    assert [p.after for p in graph.sequence_points] == [("y",)]


def test_a_program_goes_out_and_comes_back() -> None:
    graph = small_program()
    document = to_loom(graph)
    assert loom_issues(document) == []
    assert to_loom(graph) == document
    back = from_loom(document)
    assert {(b.site, b.definition, b.inputs, b.outputs) for b in back.blocks} == {
        (b.site, b.definition, b.inputs, b.outputs) for b in graph.blocks
    }
    assert back.tensors == graph.tensors


def test_windows_that_stick_out_go_without_signature_and_come_back_with_it() -> None:
    b = GraphBuilder("conv")
    x, w = b.source("x", (1, 2, 5, 5), "float32"), b.source("w", (3, 2, 3, 3), "float32", "parameter")
    pads = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1}
    b.sink(b.apply("conv", (x, w), site="c", **pads)[0], site="y")
    graph = b.build()
    document = to_loom(graph)
    assert loom_issues(document) == []
    assert from_loom(document).by_site["c"] is graph.by_site["c"]


def shard(document: Document) -> Document:
    return document["nodes"][4]


SPOILED = {
    "a shard is missing": (lambda d: d["nodes"].pop(), "shards reach over zr[0:5, 0:5]"),
    "no shards at all": (lambda d: d.update(nodes=d["nodes"][:4]), "the operation has no shards"),
    "a gap and an overlap that cancel": (
        lambda d: [
            s["body"]["outputs"]["result"][0].update(range=r)
            for s, r in zip(d["nodes"][4:], [span(6, 5), span(10, 4, start=(4, 0))], strict=True)
        ],
        "shards overlap",
    ),
    "an index without signature's ranges": (
        lambda d: shard(d)["tags"].update(IPFIndex=span(4, 5)),
        "index zr[0:4, 0:5] projects to",
    ),
    "a shard without index": (lambda d: shard(d).pop("tags"), "no IPFIndex"),
    "a signature without index": (lambda d: d["nodes"][3]["tags"].pop("IPFIndex"), "without IPFIndex"),
    "another name": (
        lambda d: shard(d)["body"].update(outputs={"other": some("z", span(5, 5))}),
        "the names ['other']",
    ),
    "outside the tensor": (
        lambda d: d["nodes"][3]["body"]["outputs"]["result"][0].update(range=span(11, 5)),
        "selects zr[0:11, 0:5] of a tensor of zr[0:10, 0:5]",
    ),
    "a tensor that is none": (
        lambda d: d["nodes"][3]["body"]["inputs"]["tensors"][0].update(tensorId="sum"),
        "'sum' is no Tensor",
    ),
    "one id twice": (lambda d: d["nodes"].append(copy.deepcopy(d["nodes"][0])), "is $.nodes[0] already"),
    "an unknown type": (lambda d: shard(d).update(type="#/nodes/Kernel"), "unknown type of node"),
    "a key that is no name": (
        lambda d: shard(d)["body"].update(inputs={"a b": some("z", span(5, 5))}),
        "the name 'a b'",
    ),
    "no list of nodes": (lambda d: d.update(nodes={}), "expected a list"),
    "a range that ends before it starts": (
        lambda d: d["nodes"][0]["body"].update(range=span(-1, 5)),
        "may not end before",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_every_breach_is_reported(name: str) -> None:
    spoil, text = SPOILED[name]
    document = summed()
    spoil(document)
    issues = loom_issues(document)
    assert any(text in str(issue) for issue in issues), issues
    with pytest.raises(ImportFailure, match="the Loom graph is not valid"):
        from_loom(document)


def test_a_cycle_is_shown() -> None:
    nodes = [tensor("a", 2), tensor("b", 2)]
    nodes += operation("f", "op:relu", {"input": some("a", span(2))}, {"result": some("b", span(2))})
    nodes += operation("g", "op:relu", {"input": some("b", span(2))}, {"result": some("a", span(2))})
    (issue,) = loom_issues({"nodes": nodes})
    assert issue.kind == "cycle" and "feeds" in issue.message


@pytest.mark.parametrize("text", [b"\xff", "{", '{"nodes": ' + "[" * 100_000, '{"nodes": [], "nodes": []}'])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ImportFailure):
        from_loom(text)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(ImportFailure, match=r"nowhere\.json"):
        from_loom(tmp_path / "nowhere.json")


def test_thousands_of_shards_are_checked_quickly() -> None:
    count = 5_000
    nodes = [tensor("t", count)]
    body = {"kernel": "source", "outputs": {"output": some("t", span(count))}}
    nodes.append({"id": "op", "type": "Operation", "body": body})
    for k in range(count):
        part = {"operationId": "op", "outputs": {"output": some("t", span(k + 1, start=(k,)))}}
        nodes.append({"id": f"s{k}", "type": "Application", "body": part})
    assert loom_issues({"nodes": nodes}) == []
    assert isinstance(from_loom({"nodes": nodes}), Graph)


@pytest.mark.parametrize("depth", [50, 150, 900])
def test_parameters_nest_so_deep_and_no_deeper(depth: int) -> None:
    document = summed()
    document["nodes"][3]["body"]["kernel"] = "op:mixing"
    text = json.dumps(document).replace(
        '"op:mixing"', '"op:mixing", "params": {"a": %s}' % ("[" * depth + "]" * depth)
    )
    if depth == 50:
        assert validate(from_loom(text)) == []
        return
    with pytest.raises(ImportFailure, match="nested"):
        from_loom(text)


def test_a_file_that_is_too_large_is_not_read(tmp_path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(2 * 2**30)
    with pytest.raises(ImportFailure, match="more than 1073741824 bytes"):
        from_loom(tmp_path / "huge.json")


def test_shards_become_applications() -> None:
    document = to_loom(paper(concat=False))
    assert loom_issues(document) == []
    shards = [n for n in document["nodes"] if n["type"].endswith("Application")]
    # Two of B, of the sum and of the sink; one each of A1, A2 and of the join that nobody ran.
    assert len(shards) == 9
    assert from_loom(document).structural_hash == recover_external(paper(concat=False)).structural_hash


@pytest.mark.parametrize("seed", range(8))
def test_expansions_become_applications(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng, 6)
    mesh_shape = MESHES[seed % len(MESHES)]
    nodes = materialize(expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)).graph
    assert loom_issues(to_loom(nodes)) == []
