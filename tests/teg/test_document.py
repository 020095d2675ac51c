"""Tests of documents: they round-trip to the same object, and malformed ones are reported with the position."""

import copy
import gzip
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.decoding import DocumentError
from tapestry.teg.document import dumps, from_document, json_schema, load, loads, save, to_document
from tapestry.teg.dtypes import NAMES
from tapestry.teg.encoding import decode_array, decode_value, encode_array, encode_value
from tapestry.teg.graph import Block, Graph, TensorType, attributes
from tapestry.teg.signature import MONOIDS, PARALLEL
from tapestry.teg.zspace import ZRange
from tests.teg.graphs import cell, programs, small_program, values_of

Document = dict[str, Any]
SCHEMA = Draft202012Validator(json_schema())

attribute_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


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


def assert_same(found: Graph, graph: Graph) -> None:
    assert found == graph
    assert all(a is b for a, b in zip(found.blocks, graph.blocks, strict=True))
    assert all(found.tensors[site] is t for site, t in graph.tensors.items())


def rounded(value: Any) -> Any:
    """Return JSON as left by a tool that knows one kind of number: whole floats lose their point."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return int(float(value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


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


@given(attribute_values)
def test_attribute_values_keep_type_and_bits(value: Any) -> None:
    for form in (encode_value(value, "$"), rounded(encode_value(value, "$"))):
        assert repr(decode_value(json.loads(json.dumps(form, allow_nan=False)), "$")) == repr(value)


def test_numbers_that_json_tools_confuse_are_tagged() -> None:
    values = (1, 1.0, True, 0.5, -0.0, math.nan, -math.inf, 2**53, 1e300)
    assert encode_value(values, "$") == [
        *(1, {"float": 1.0}, True, 0.5, {"float": "-0.0"}, {"float": "nan"}, {"float": "-inf"}),
        *({"int": "9007199254740992"}, {"float": 1e300}),
    ]


@pytest.mark.parametrize("dtype", NAMES)
def test_arrays_of_every_element_type_come_back_bit_by_bit(dtype: str) -> None:
    array = values_of(TensorType((3, 4), dtype), 0)
    form = encode_array(array, "$")
    found = decode_array(form["dtype"], tuple(form["shape"]), form["base64"], "$")
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert not found.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=">f4").reshape(3, 4),
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.float64(-0.0),
        np.empty((0, 3), np.float32),
        np.array([math.nan, -math.nan, math.inf]),
    ],
)
def test_arrays_of_any_layout_are_stored_little_endian_and_dense(array: np.ndarray) -> None:
    array = np.asarray(array)
    form = encode_array(array, "$")
    found = decode_array(form["dtype"], tuple(form["shape"]), form["base64"], "$")
    assert found.shape == array.shape
    assert found.tobytes() == np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


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


def test_five_thousand_blocks_are_read_in_tens_of_milliseconds() -> None:
    b = GraphBuilder("deep")
    x = b.source("x", (8, 8), "float32")
    (block, tensor) = (b.blocks[0], b.tensors[x])
    cell(b, ("relu", ("input", 0)), x, site="first")
    relu = b.blocks[1].definition
    chain = [Block(f"b{k}", relu, (f"b{k - 1}" if k else "x",), (f"b{k}",)) for k in range(5000)]
    graph = b.build().replace(
        [block, *chain], [type(tensor)(f"b{k}", (8, 8), "float32") for k in range(5000)]
    )
    text = dumps(graph)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        loads(text)
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.3  # 0.06 s alone on one core; tests share theirs


def change(*path: Any, to: Any) -> Callable[[Document], None]:
    def apply(document: Document) -> None:
        *steps, last = path
        target: Any = document
        for step in steps:
            target = target[step]
        target[last] = to

    return apply


def drop(*path: Any) -> Callable[[Document], None]:
    def apply(document: Document) -> None:
        *steps, last = path
        target: Any = document
        for step in steps:
            target = target[step]
        del target[last]

    return apply


# What is done to the document of `small_program`, the path that is reported, and a part of the message.
MALFORMED = [
    (drop("teg"), "$", "without 'teg'"),
    (change("teg", to=2), "$.teg", "this program reads version 1"),
    (change("teg", to="1"), "$.teg", "version '1'"),
    (drop("blocks"), "$", "'blocks' is missing"),
    (change("block", to=[]), "$.block", "did you mean blocks"),
    (change("name", to=3), "$.name", "int 3; expected printable text"),
    (change("blocks", to={}), "$.blocks", "an object; expected a list"),
    (change("data", to=[]), "$.data", "a list; expected an object"),
    (change("tensors", 1, to=None), "$.tensors[1]", "null; expected an object with site, shape, dtype"),
    (change("tensors", 1, "shape", to=[6, 3.0]), "$.tensors[1].shape[1]", "float 3.0; expected an integer"),
    (change("tensors", 1, "shape", 0, to=True), "$.tensors[1].shape[0]", "a bool; expected an integer"),
    (change("tensors", 1, "site", to=""), "$.tensors[1].site", "printable text, not empty"),
    (change("tensors", 1, "site", to="a\nb"), "$.tensors[1].site", "printable text, not empty"),
    (change("tensors", 1, "site", to="x"), "$.tensors[1].site", "'x' stands at 0 already; rename one"),
    (drop("blocks", 2, "inputs"), "$.blocks[2]", "'inputs' is missing"),
    (change("blocks", 2, "input", to=[]), "$.blocks[2].input", "did you mean inputs"),
    (change("blocks", 2, "inputs", 1, to=7), "$.blocks[2].inputs[1]", "int 7; expected a name"),
    (change("blocks", 2, "definition", to=99), "$.blocks[2].definition", "no definition 99"),
    (change("blocks", 2, "definition", to=-1), "$.blocks[2].definition", "positions run from 0 to 7"),
    (change("blocks", 2, "device", to="gpu"), "$.blocks[2].device", "str 'gpu'; expected an integer"),
    (change("blocks", 2, "index", to=[0, 1]), "$.blocks[2].index", "expected an object with start, end"),
    (change("blocks", 2, "index", to={"start": [1], "end": [0]}), "$.blocks[2].index", "before it starts"),
    (change("definitions", 2, "operator", to=None), "$.definitions[2].operator", "null; expected a name"),
    (
        change("definitions", 2, "attributes", to=[]),
        "$.definitions[2].attributes",
        "a list; expected an object",
    ),
    (
        change("definitions", 2, "attributes", "output", to=[{"set": [1]}]),
        "$.definitions[2].attributes.output[0]",
        "{'set': [1]} is no attribute value",
    ),
    (
        change("definitions", 2, "attributes", "output", to={"float": "1.5"}),
        "$.definitions[2].attributes.output",
        "is no attribute value",
    ),
    (
        change("definitions", 2, "signature", "dims", 0, "kind", to="mean"),
        "$.definitions[2].signature",
        "unknown kind 'mean'",
    ),
    (
        change("definitions", 2, "signature", "dims", 0, "size", to=-1),
        "$.definitions[2].signature.dims[0].size",
        "0 or more",
    ),
    (
        change("definitions", 2, "signature", "inputs", 0, "matrix", 0, to=[1]),
        "$.definitions[2].signature.inputs[0]",
        "equal lengths",
    ),
    (
        change("definitions", 2, "signature", "inputs", 0, "shape", to=[1]),
        "$.definitions[2].signature.inputs[0]",
        "needs 2 extents",
    ),
    (change("data", "w", "dtype", to="float33"), "$.data.w.dtype", "unknown element type 'float33'"),
    (
        change("data", "w", "shape", to=[6, 4]),
        "$.data.w.base64",
        "72 bytes; a float32 array of shape [6, 4] has 96",
    ),
    (change("data", "w", "shape", to=[-6, -3]), "$.data.w.shape", "sizes are 0 or more"),
    (change("data", "w", "shape", to=[0, 10**30]), "$.data.w.base64", "72 bytes"),
    (change("data", "w", "base64", to="?"), "$.data.w.base64", "broken base64"),
    (change("data", "a b", to=3), "$.data['a b']", "int 3; expected an object"),
]
# The form allows what only the numbers, the bytes or other members of the document can tell.
BEYOND_THE_SCHEMA = (
    *("rename one", "no definition 99", "before it starts", "equal lengths", "needs 2 extents"),
    *("72 bytes", "float 3.0"),
)


@pytest.mark.parametrize(("spoil", "path", "message"), MALFORMED, ids=[f"{m[1]} {m[2]}" for m in MALFORMED])
def test_given_a_malformed_document_then_the_place_and_the_hint_are_named(
    spoil: Callable[[Document], None], path: str, message: str
) -> None:
    document = copy.deepcopy(to_document(small_program()))
    spoil(document)
    with pytest.raises(DocumentError) as caught:
        from_document(document)
    assert caught.value.path == path
    assert message in str(caught.value)
    assert SCHEMA.is_valid(document) == any(m in message for m in BEYOND_THE_SCHEMA)


@pytest.mark.parametrize("value", [None, [], "teg", 3, {}])
def test_given_something_else_then_it_is_refused(value: Any) -> None:
    assert not SCHEMA.is_valid(value)
    with pytest.raises(DocumentError, match="a document is an object with"):
        from_document(value)


def test_all_malformed_places_are_listed() -> None:
    document = to_document(small_program())
    document["tensors"][0]["shape"] = "4x6"
    document["blocks"][2]["extra"] = 1
    document["data"]["w"]["base64"] = "AAAA"
    with pytest.raises(DocumentError) as caught:
        from_document(document)
    assert [i.path for i in caught.value.issues] == [
        "$.tensors[0].shape",
        "$.blocks[2].extra",
        "$.data.w.base64",
    ]


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


def test_infinite_numbers_and_deep_values_are_refused() -> None:
    document = to_document(small_program())
    document["definitions"][2]["attributes"]["output"] = [1e999]
    with pytest.raises(DocumentError, match=r"output\[0\]: the number inf is not finite"):
        from_document(document)
    nested: Any = 1
    for _ in range(300):
        nested = [nested]
    document["definitions"][2]["attributes"]["output"] = nested
    with pytest.raises(DocumentError, match="nested deeper than 200 levels"):
        from_document(document)


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
