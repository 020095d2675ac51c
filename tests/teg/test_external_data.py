"""Tests of external data: content hashes, parts of parts, and what an evaluation without values says."""

import hashlib

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tapestry.teg.document import dumps, from_document, json_schema, loads, to_document
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.external_data import ExternalData, content_hash
from tapestry.teg.graph import Graph
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange
from tests.teg.documents import Change, change, drop
from tests.teg.graphs import small_program

WHOLE = ZRange((0, 0), (6, 3))


def named_program(box: ZRange = WHOLE, shape: tuple[int, ...] = (6, 3)) -> Graph:
    """Return the small program without the values of `w`, which it names by content."""
    graph = small_program()
    named = ExternalData("weight", "float32", shape, content_hash(graph.data["w"]), box)
    return Graph(graph.name, graph.blocks, graph.tensors, {}, {"w": named})


def test_a_content_hash_is_of_type_and_bytes() -> None:
    value = np.arange(6, dtype=np.int16).reshape(2, 3)
    text = b"int16[2,3]\n" + bytes([0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0])
    assert content_hash(value) == hashlib.sha256(text).hexdigest()
    assert content_hash(value.reshape(3, 2)) != content_hash(value) != content_hash(value.view(np.uint16))
    assert content_hash(np.asfortranarray(value)) == content_hash(value)
    assert content_hash(np.float32(1).reshape(())) == hashlib.sha256(b"float32[]\n\0\0\x80?").hexdigest()


def test_a_part_of_a_part_is_a_part_of_the_whole() -> None:
    named = ExternalData("w", "float32", (8, 4), "0" * 64, ZRange((2, 0), (6, 4)))
    part = named.part(ZRange((1, 1), (3, 2)))
    assert part.box == ZRange((3, 1), (5, 2))
    assert part.whole_of(ZRange((1, 1), (3, 2)), (4, 4)) == named


def test_a_document_with_external_data_is_read_back_exactly() -> None:
    graph = named_program()
    document = to_document(graph)
    Draft202012Validator(json_schema()).validate(document)
    assert document["data"] == {
        "w": {
            "tensor": "weight",
            "dtype": "float32",
            "shape": [6, 3],
            "sha256": content_hash(small_program().data["w"]),
            "box": {"start": [0, 0], "end": [6, 3]},
        }
    }
    assert loads(dumps(graph)) == graph != small_program()
    assert Graph.from_networkx(graph.to_networkx()) == graph
    assert graph.structural_hash not in (
        small_program().structural_hash,
        named_program(ZRange((1, 0), (7, 3)), (9, 3)).structural_hash,
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop("data", "w", "sha256"), "'sha256' is missing"),
        (change("data", "w", "sha256", to="ABC"), "$.data.w.sha256"),
        (change("data", "w", "dtype", to="float"), "$.data.w.dtype"),
        (change("data", "w", "box", "end", to=[6]), "$.data.w.box"),
        (change("data", "w", "shape", to=[6]), "a box of rank 2 of a tensor of rank 1"),
        (change("data", "w", "tensor", to=""), "$.data.w.tensor"),
        (change("data", "w", "more", to=1), "more"),
    ],
)
def test_a_damaged_name_of_values_says_where(damage: Change, message: str) -> None:
    document = to_document(named_program())
    damage(document)
    with pytest.raises(ValueError, match="no TEG document") as caught:
        from_document(document)
    assert message in str(caught.value)


def test_what_names_values_must_fit_its_source() -> None:
    assert validate(named_program()) == []
    (outside,) = validate(named_program(ZRange((4, 0), (10, 3))))
    assert (outside.path, outside.expected) == ("$.data.w", "name a box inside the tensor")
    (small,) = validate(named_program(ZRange((0, 0), (2, 3))))
    assert "float32[6, 3]" in small.expected
    graph = named_program()
    (lost,) = validate(Graph(graph.name, graph.blocks, graph.tensors, {}, {"y": graph.external["w"]}))
    assert "'y' is no output of a source" in lost.message


def test_an_evaluation_without_the_values_says_which_and_what_to_do() -> None:
    graph = named_program()
    inputs = random_inputs(graph, np.random.default_rng(0))
    drawn = inputs.pop("w")
    with pytest.raises(ValueError, match=r"'weight' by content .* tapestry\.teg\.binding\.bind_values"):
        evaluate(graph, inputs)
    assert evaluate(graph, {**inputs, "w": drawn})["result"].shape == (4, 3)
