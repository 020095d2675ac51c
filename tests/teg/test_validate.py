"""Tests of validation: every violation is found, with its position in the document and the fix."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import from_document, to_document
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Block, Definition, Graph, Tensor, attributes
from tapestry.teg.validate import InvalidGraphError, check, validate
from tapestry.teg.zspace import ZRange
from tests.teg.documents import Change, Document, change
from tests.teg.graphs import cell, issues_of, programs, small_program


def spoiled(*spoils: Change) -> Graph:
    """Build the small program after changes to its document, where the paths of issues point."""
    document = copy.deepcopy(to_document(small_program()))
    for spoil in spoils:
        spoil(document)
    return from_document(document)


def move(old: int, new: int) -> Change:
    def apply(document: Document) -> None:
        document["blocks"].insert(new, document["blocks"].pop(old))

    return apply


def add(key: str, value: Any) -> Change:
    return lambda document: document[key].append(value)


@given(programs())
def test_what_the_builder_makes_is_valid(graph: Graph) -> None:
    assert validate(graph) == []


# Blocks: 0 x, 1 w, 2 product, 3 y, 4 count, 5 following, 6 result, 7 next; definitions in the same order.
# Each case: its name, what is done, and the kinds and places of all issues.
BREACHES: list[tuple[str, list[Change], list[tuple[str, str]]]] = [
    (
        "unknown operator",
        [change("definitions", 3, "operator", to="cel")],
        [("operator", "$.definitions[3].operator")],
    ),
    (
        "input that no block produces",
        [change("blocks", 2, "inputs", 0, to="X")],
        [("producer", "$.blocks[2].inputs[0]")],
    ),
    (
        "input that is a tensor without producer",
        [
            add("tensors", {"site": "z", "shape": [4, 6], "dtype": "float32"}),
            change("blocks", 2, "inputs", 0, to="z"),
        ],
        [("producer", "$.blocks[2].inputs[0]")],
    ),
    (
        "tensor without producer and reader",
        [add("tensors", {"site": "z", "shape": [], "dtype": "bool"})],
        [("producer", "$.tensors[6]")],
    ),
    (
        "tensor with two producers",
        [add("blocks", {"site": "again", "definition": 0, "inputs": [], "outputs": ["x"]})],
        [("producer", "$.blocks[8].outputs[0]")],
    ),
    (
        "output that is not among the tensors",
        [add("blocks", {"site": "more", "definition": 0, "inputs": [], "outputs": ["more"]})],
        [("tensor", "$.blocks[8].outputs[0]")],
    ),
    ("use before production", [move(2, 3)], [("order", "$.blocks[2].inputs[0]")]),
    ("cycle", [change("blocks", 3, "inputs", 0, to="y")], [("cycle", "$.blocks[3]")]),
    (
        "too few inputs",
        [change("blocks", 2, "inputs", to=["x"])],
        [("arity", "$.blocks[2].inputs")],
    ),
    (
        "too many outputs",
        [
            add("tensors", {"site": "z", "shape": [4, 3], "dtype": "float32"}),
            change("blocks", 3, "outputs", to=["y", "z"]),
        ],
        [("arity", "$.blocks[3].outputs")],
    ),
    (
        "attributes the operator refuses",
        [change("definitions", 3, "attributes", "expr", to=["reluu", ["input", 0]])],
        [("operator", "$.blocks[3]")],
    ),
    (
        "stored signature is not the operator's",
        [change("definitions", 2, "signature", "dims", 2, "kind", to="max")],
        [("signature", "$.blocks[2].definition")],
    ),
    (
        "output type is not the operator's",
        [change("tensors", 2, "dtype", to="float16"), change("tensors", 3, "dtype", to="float16")],
        [("type", "$.blocks[2].outputs[0]"), ("type", "$.blocks[3].outputs[0]")],
    ),
    (
        "ranges that differ",
        [change("tensors", 3, "shape", to=[4, 5])],
        [
            ("range", "$.blocks[3].outputs[0]"),
            ("type", "$.blocks[3].outputs[0]"),
            ("margin", "$.blocks[6].inputs[0]"),
            ("signature", "$.blocks[6].definition"),
        ],
    ),
    (
        "ranks that differ",
        [change("tensors", 3, "shape", to=[12])],
        [
            ("range", "$.blocks[3].outputs[0]"),
            ("type", "$.blocks[3].outputs[0]"),
            ("range", "$.blocks[6].inputs[0]"),
            ("signature", "$.blocks[6].definition"),
        ],
    ),
    (
        "unknown role",
        [change("definitions", 1, "attributes", "role", to="weight")],
        [("role", "$.definitions[1].attributes.role")],
    ),
    ("data of another shape", [change("data", "w", "shape", to=[3, 6])], [("data", "$.data.w")]),
    (
        "data of another type",
        [change("data", "w", "dtype", to="int32")],
        [("data", "$.data.w")],
    ),
    (
        "data of what is no source",
        [change("data", "y", to={"dtype": "bool", "shape": [0], "base64": ""})],
        [("data", "$.data.y")],
    ),
    (
        "index outside the index range",
        [change("blocks", 2, "index", to={"start": [0, 0, 0], "end": [4, 3, 7]})],
        [("index", "$.blocks[2].index")],
    ),
    (
        "index of another rank",
        [change("blocks", 2, "index", to={"start": [], "end": []})],
        [("index", "$.blocks[2].index")],
    ),
    (
        "part of an index space over whole tensors",
        [change("blocks", 2, "index", to={"start": [0, 0, 0], "end": [2, 3, 6]})],
        [("range", "$.blocks[2].inputs[0]"), ("range", "$.blocks[2].outputs[0]")],
    ),
    (
        "after an unknown block",
        [change("blocks", 2, "after", to=["w", "X"])],
        [("after", "$.blocks[2].after[1]")],
    ),
    (
        "after a later block",
        [change("blocks", 2, "after", to=["following"])],
        [("order", "$.blocks[2].after[0]")],
    ),
    ("a source after something", [change("blocks", 1, "after", to=["x"])], [("after", "$.blocks[1].after")]),
    ("after itself", [change("blocks", 2, "after", to=["product"])], [("cycle", "$.blocks[2]")]),
    (
        "carries what is no source",
        [change("definitions", 7, "attributes", "carries", to="y")],
        [("carries", "$.definitions[7].attributes.carries")],
    ),
    (
        "carries a source of another type",
        [change("definitions", 7, "attributes", "carries", to="x")],
        [("carries", "$.blocks[7].inputs[0]")],
    ),
    (
        "two sinks carry one source",
        [add("blocks", {"site": "twice", "definition": 7, "inputs": ["following"], "outputs": []})],
        [("carries", "$.definitions[7].attributes.carries")],
    ),
    ("two blocks of one name", [change("blocks", 3, "site", to="product")], [("site", "$.blocks[3].site")]),
    ("device below zero", [change("blocks", 3, "device", to=-1)], [("device", "$.blocks[3].device")]),
    ("unknown element type", [change("tensors", 4, "dtype", to="i8")], [("dtype", "$.tensors[4].dtype")]),
    ("size below zero", [change("tensors", 4, "shape", to=[-1])], [("shape", "$.tensors[4].shape")]),
    ("too many bytes", [change("tensors", 4, "shape", to=[2**60])], [("shape", "$.tensors[4].shape")]),
    (
        "nothing is observed",
        [lambda document: document["blocks"].__delitem__(slice(6, 8))],
        [("unobserved", "$.blocks")],
    ),
]


@pytest.mark.parametrize(("spoils", "issues"), [b[1:] for b in BREACHES], ids=[b[0] for b in BREACHES])
def test_given_a_breach_then_exactly_its_issues(spoils: list[Change], issues: list[tuple[str, str]]) -> None:
    assert issues_of(spoiled(*spoils)) == issues


def test_all_breaches_are_reported_at_once() -> None:
    graph = spoiled(
        change("definitions", 3, "operator", to="cel"),
        change("blocks", 2, "inputs", 0, to="X"),
        change("blocks", 7, "device", to=-1),
        change("data", "w", "shape", to=[3, 6]),
    )
    assert issues_of(graph) == [
        ("device", "$.blocks[7].device"),
        ("producer", "$.blocks[2].inputs[0]"),
        ("operator", "$.definitions[3].operator"),
        ("data", "$.data.w"),
    ]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (change("definitions", 3, "operator", to="cel"), "there is no operator 'cel'; did you mean cell"),
        (
            change("tensors", 3, "shape", to=[4, 2]),
            "index range zr[0:4, 0:3] projects to zr[0:4, 0:3]; the tensor's range is zr[0:4, 0:2]; they must be equal",
        ),
        (
            change("definitions", 2, "signature", "dims", 2, "kind", to="max"),
            "dimensions (m:4 parallel, n:3 parallel, k:6 max) instead of (m:4 parallel, n:3 parallel, k:6 sum)",
        ),
        (
            change("definitions", 2, "signature", "inputs", 0, "offset", to=[0, 1]),
            "inputs[0] projects by [[1, 0, 0], [0, 0, 1]] + [0, 1], shape [1, 1] instead of",
        ),
        (
            change("tensors", 2, "dtype", to="float16"),
            "tensor 'product' is float16[4, 3]; 'contract' makes float32[4, 3]",
        ),
        (change("data", "w", "shape", to=[3, 6]), "$.data.w: float32[3, 6]; the source makes float32[6, 3]"),
        (change("blocks", 2, "after", to=["X"]), "there is no block 'X'; name a block of this graph"),
    ],
)
def test_issues_say_what_came_and_what_was_expected(spoil: Change, text: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        check(spoiled(spoil))
    assert text in str(caught.value)


def test_a_cycle_is_shown_and_the_blocks_behind_it_are_not_blamed() -> None:
    graph = spoiled(
        change("blocks", 5, "inputs", 0, to="y"), change("blocks", 3, "inputs", 0, to="following")
    )
    (cycle,) = [issue for issue in validate(graph) if issue.kind in ("cycle", "order")]
    assert cycle.path == "$.blocks[3]"
    assert cycle.message == "a cycle: 'y' needs 'following' needs 'y'"


def test_given_many_issues_then_the_error_lists_ten_and_keeps_all() -> None:
    document = to_document(small_program())
    for k in range(15):
        document["tensors"].append({"site": f"spare{k}", "shape": [], "dtype": "bool"})
    with pytest.raises(InvalidGraphError) as caught:
        check(from_document(document))
    lines = str(caught.value).splitlines()
    assert lines[0] == "graph 'small' is not valid (15 issues):"
    assert lines[1] == "  $.tensors[6]: no block produces 'spare0'; add its source or drop it"
    assert (len(lines), lines[-1]) == (12, "  ... and 5 more")
    assert len(caught.value.issues) == 15


def test_given_a_valid_graph_then_check_is_silent() -> None:
    check(small_program())


def test_shards_carry_on_the_shards_of_a_source() -> None:
    # Given a counter on one device as an expansion writes it: sites name the abstract source and the device
    b = GraphBuilder("shard")
    b.source("count@0", (), "int64", "buffer")
    b.sink("count@0", site="next@0", carries="count")
    source, sink = b.blocks
    here = ZRange((), ())
    shards = [
        Block(source.site, source.definition, (), source.outputs, here, 0),
        Block(sink.site, sink.definition, sink.inputs, (), here, 0),
    ]
    assert issues_of(b.build().replace(shards)) == []
    assert issues_of(b.build()) == [("carries", "$.definitions[1].attributes.carries")]


def test_what_a_document_cannot_hold_is_found_too() -> None:
    graph = small_program()
    tensors = {**graph.tensors, "x": Tensor("other", (4, 6), "float32")}
    assert issues_of(Graph("g", graph.blocks, tensors))[0] == ("site", "$.tensors[0].site")
    wild = Definition("cell", (*attributes(hint=1), ("expr", frozenset())), None)
    kinds = [kind for kind, _ in issues_of(graph.replace([*graph.blocks, Block("b", wild, (), ())]))]
    assert kinds[:2] == ["attribute", "attribute"]
    numpy_sized = Tensor("x", (np.int64(4), np.int64(6)), "float32")
    assert issues_of(Graph("g", graph.blocks, {**graph.tensors, "x": numpy_sized}))[0] == (
        "shape",
        "$.tensors[0].shape",
    )


def test_an_empty_graph_observes_nothing() -> None:
    assert issues_of(Graph("empty", (), {})) == [("unobserved", "$.blocks")]


def test_equal_layers_are_one_definition() -> None:
    b = GraphBuilder("deep")
    x = b.source("x", (8, 8), "float32")
    for k in range(2000):
        (x,) = cell(b, ("relu", ("input", 0)), x, site=f"layer{k}")
    b.sink(x)
    graph = b.build()
    assert validate(graph) == []
    assert len({block.definition for block in graph.blocks}) == 3, "source, layer and sink"


@pytest.mark.slow
def test_a_long_cycle_is_found_and_reported_in_part() -> None:
    b = GraphBuilder("ring")
    count = 50_000
    x = b.source("x", (2,), "float32")
    (first,) = cell(b, ("neg", ("input", 0)), x, site="c0")
    definition = b.blocks[-1].definition
    blocks = [Block(f"c{k}", definition, (f"c{(k - 1) % count}",), (f"c{k}",)) for k in range(count)]
    b.sink(first, site="y")
    tensors = {f"c{k}": Tensor(f"c{k}", (2,), "float32") for k in range(count)}
    graph = Graph("ring", (b.blocks[0], *blocks, b.blocks[-1]), {**b.tensors, **tensors})
    (issue,) = validate(graph)
    assert issue.kind == "cycle" and "needs ..." in issue.message and len(issue.message) < 200


def test_tensors_without_elements_are_legal() -> None:
    b = GraphBuilder("empty")
    x = b.source("x", (0, 3), "float32")
    (y,) = b.apply("reduce", (x,), site="y", monoid="sum", labels=("a", "b"), output=("b",))
    b.sink(y, site="out")
    graph = from_document(to_document(b.build()))
    assert validate(graph) == []
    np.testing.assert_array_equal(evaluate(graph, {"x": np.zeros((0, 3), np.float32)})["out"], [0, 0, 0])
