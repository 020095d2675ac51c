"""Tests of malformed documents: every fault is reported with its path and what to do."""

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tapestry.teg.decoding import DocumentError
from tapestry.teg.document import from_document, json_schema, to_document
from tests.teg.documents import Change, change, drop
from tests.teg.graphs import small_program

SCHEMA = Draft202012Validator(json_schema())


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
    spoil: Change, path: str, message: str
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
