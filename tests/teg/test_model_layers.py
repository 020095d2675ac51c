"""Tests of the layers of a model, as the names of its parameters say."""

import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.model_layers import is_called, layer_of_name, model_layers
from tests.teg.graphs import cell


def two_layers() -> Graph:
    """Build a program whose blocks are numbered through, as exporters do: embedding, two layers, head."""
    b = GraphBuilder("numbered")
    x = b.source("tokens", (4, 4), "float32")
    names = (
        "embed.weight",
        "layers.0.up.weight",
        "layers.0.down.weight",
        "layers.1.up.weight",
        "head.weight",
    )
    weights = [b.source(f"model.{name}", (4, 4), "float32", "parameter") for name in names]
    for k, weight in enumerate(weights):
        labels = (("m", "k"), ("k", "n"))
        (x,) = b.apply("contract", (x, weight), site=f"node_{k}", labels=labels, output=("m", "n"))
        (x,) = cell(b, ("relu", ("input", 0)), x, site=f"relu_{k}.0")
    b.sink(x, site="logits")
    return b.build()


def test_blocks_are_in_the_layer_of_the_parameters_before_them() -> None:
    first, second = "model.layers.0", "model.layers.1"
    assert model_layers(two_layers()) == {
        "model.layers.0.up.weight": first,
        "model.layers.0.down.weight": first,
        "model.layers.1.up.weight": second,
        "node_1": first,
        "relu_1.0": first,
        "node_2": first,
        "relu_2.0": first,
        "node_3": second,
        "relu_3.0": second,
    }


def test_a_block_that_joins_layers_is_in_the_last() -> None:
    b = GraphBuilder("joined")
    x = b.source("x", (3,), "float32")
    (late,) = cell(b, ("relu", ("input", 0)), x, site="h.10.act")
    (early,) = cell(b, ("relu", ("input", 0)), x, site="h.2.act")
    dims, labels = (("d", 3),), (("d",), ("d",))
    expr = ("add", ("input", 0), ("input", 1))
    (y,) = b.apply("cell", (late, early), site="add", expr=expr, labels=labels, dims=dims, dtype="float32")
    b.sink(y, site="out")
    assert model_layers(b.build()) == {"h.10.act": "h.10", "h.2.act": "h.2", "add": "h.2", "out": "h.2"}


@pytest.mark.parametrize(
    ("site", "layer"),
    [
        ("m.model.layers.31.mlp.weight", "m.model.layers.31"),
        ("/encoder/layer/3/Add", "/encoder/layer/3"),
        ("encoder.block.2.layer.1.weight", "encoder.block.2"),
        ("node_Split_867.0", None),
        ("node_linear_12", None),
        ("h.3", None),
        ("", None),
    ],
)
def test_a_layer_is_a_number_with_something_behind_it(site: str, layer: str | None) -> None:
    assert layer_of_name(site) == layer


def test_a_layer_is_called_by_its_end() -> None:
    layer = "model.layers.13"
    assert [name for name in ("13", "layers.13", layer, "3", "s.13", "model") if is_called(layer, name)] == [
        "13",
        "layers.13",
        layer,
    ]
