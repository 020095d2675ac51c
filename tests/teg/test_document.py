"""Tests of documents: they round-trip to the same object, and files that are none are reported."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.decoding import DocumentError
from tapestry.teg.document import dumps, from_document, json_schema, load, loads, save, to_document
from tapestry.teg.dtypes import NAMES
from tapestry.teg.graph import Block, Graph, attributes
from tapestry.teg.signature import MONOIDS, PARALLEL
from tapestry.teg.zspace import ZRange
from tests.teg.documents import assert_same, rounded
from tests.teg.graphs import cell, programs, small_program

SCHEMA = Draft202012Validator(json_schema())


def explicit_program() -> Graph:
    """Build two parts of a cell on two devices, the second after the first."""
    b = GraphBuilder("explicit")
    x = b.source("x", (4,), "bfloat16")
    cell(b, ("neg", ("input", 0)), x, site="y")
    whole = b.blocks.pop()
    parts = [
        Block("y0", whole.definition, ("x",), ("y0",), ZRange((0,), (2,)), 0),
        Block("y1", whole.definition, ("x",), ("y1",), ZRange((2,), (4,)), 1, ("y0",)),
    ]
    halves = [type(b.tensors["y"])(site, (2,), "bfloat16") for site in ("y0", "y1")]
    return b.build().replace([*b.blocks, *parts], halves)


@given(programs())
def test_given_a_program_then_its_document_gives_it_back(graph: Graph) -> None:
    document = to_document(graph)
    SCHEMA.validate(document)
    assert_same(from_document(document), graph)
    assert_same(from_document(json.loads(json.dumps(document, allow_nan=False))), graph)
    assert_same(from_document(rounded(document)), graph)


@given(programs())
def test_given_a_program_then_its_text_gives_it_back(graph: Graph) -> None:
    text = dumps(graph)
    assert_same(loads(text), graph)
    assert_same(loads(text.encode()), graph)
    assert dumps(loads(text)) == text
    assert json.loads(text) == to_document(graph)


def test_given_an_explicit_graph_then_ranges_devices_and_order_come_back() -> None:
    graph = explicit_program()
    document = to_document(graph)
    SCHEMA.validate(document)
    assert document["blocks"][2] == {
        "site": "y1",
        "definition": 1,
        "inputs": ["x"],
        "outputs": ["y1"],
        "index": {"start": [2], "end": [4]},
        "device": 1,
        "after": ["y0"],
    }
    assert_same(from_document(document), graph)


def test_equal_layers_share_one_definition() -> None:
    b = GraphBuilder("deep")
    x = b.source("x", (8, 8), "float32")
    for k in range(1000):
        (x,) = cell(b, ("relu", ("input", 0)), x, site=f"layers.{k}.activation")
    b.sink(x)
    graph = b.build()
    assert len(to_document(graph)["definitions"]) == 3
    assert len(dumps(graph)) < 200 * 1000
    assert len(gzip.compress(dumps(graph).encode())) < 15 * 1000


def test_the_schema_is_a_schema_and_names_what_the_program_names() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert tuple(schema["$defs"]["dtype"]["enum"]) == NAMES
    assert tuple(schema["$defs"]["dim"]["properties"]["kind"]["enum"]) == (PARALLEL, *MONOIDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no JSON (line 1 column 1"),
        (b'{"teg": 1, "name": "cut o', "no JSON (line 1 column 20"),
        (b"\xff\xfe\x00", "no UTF-8 text"),
        (b'{"teg": NaN}', 'NaN is no JSON; an attribute writes it as {"float": "nan"}'),
        (b'{"teg": 1, "teg": 2}', "the key 'teg' stands twice"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"teg": ' + b"9" * 5000 + b"}", "integer string conversion"),
        (
            b'{"teg": 1, "name": "", "definitions": [], "tensors": [], "blocks": [], "data": {}, "x": 0}',
            "$.x",
        ),
    ],
)
def test_given_text_that_is_no_document_then_one_clear_message(text: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        loads(text)
    assert message in str(caught.value)


def test_sizes_are_limited_before_anything_is_made() -> None:
    graph = small_program()
    document, text = to_document(graph), dumps(graph)
    with pytest.raises(
        DocumentError, match=r"\$\.definitions: 8 definitions; at most 7 are accepted; raise max_blocks"
    ):
        from_document(document, max_blocks=7)
    with pytest.raises(DocumentError, match=r"\$\.data: 72 bytes; at most 71 are accepted; raise max_bytes"):
        from_document(document, max_bytes=71)
    with pytest.raises(
        DocumentError, match=f"more than {len(text) - 1} bytes; at most {len(text) - 1} are accepted"
    ):
        loads(text, max_bytes=len(text) - 1)
    assert_same(loads(text, max_bytes=len(text), max_blocks=8), graph)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (frozenset({1}), "of type frozenset has no form"),
        (np.float32(1), "of type float32 has no form"),
        (b"", "of type bytes"),
    ],
)
def test_given_an_attribute_that_json_cannot_carry_then_writing_says_so(value: Any, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        to_document(spoiled(attributes=(("hint", (1, value)),)))


def spoiled(**changes: Any) -> Graph:
    """Build the small program with one definition changed."""
    graph = small_program()
    b = graph.blocks[2]
    parts = {"operator": b.operator, "attributes": b.definition.attributes, "signature": b.signature}
    definition = type(b.definition)(**{**parts, **changes})
    return graph.replace(
        [Block(b.site, definition, b.inputs, b.outputs) if x is b else x for x in graph.blocks]
    )


def test_given_attributes_out_of_order_then_writing_says_so() -> None:
    with pytest.raises(DocumentError, match=r"not sorted or not unique; make them with teg.graph.attributes"):
        to_document(spoiled(attributes=tuple(reversed(attributes(a=1, b=2)))))


@pytest.mark.parametrize("name", ["model.json", "model.json.gz"])
def test_files_come_back_and_are_the_same_bytes_each_time(tmp_path: Path, name: str) -> None:
    graph = explicit_program()
    save(graph, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save(graph, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert_same(load(tmp_path / name), graph)


def test_given_a_broken_or_foreign_file_then_one_clear_message(tmp_path: Path) -> None:
    packed = gzip.compress(dumps(small_program()).encode())
    (tmp_path / "cut.json.gz").write_bytes(packed[:-20])
    (tmp_path / "plain.json.gz").write_text("{}")
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 10_000_000))
    (tmp_path / "empty.json").write_bytes(b"")
    for name, message in [
        ("cut.json.gz", "broken gzip file"),
        ("plain.json.gz", "broken gzip file"),
        ("bomb.json.gz", "at most 1000000 are accepted"),
        ("empty.json", "no JSON"),
        ("model.onnx", r"ends in .json or .json.gz"),
    ]:
        with pytest.raises(DocumentError, match=message):
            load(tmp_path / name, max_bytes=1_000_000)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.json")


def test_given_a_failed_write_then_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(DocumentError):
        save(spoiled(attributes=(("a", frozenset()),)), tmp_path / "model.json")
    (tmp_path / "model.json").mkdir()
    with pytest.raises(OSError):
        save(small_program(), tmp_path / "model.json")
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
