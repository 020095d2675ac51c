"""Tests of the choice of a part of an explicit graph: devices, layers and blocks, and what does not exist."""

import pytest

from tapestry.teg.sharding.explicit_parts import GraphPart, PartError
from tests.teg.sharding.test_explicit_document import layered

FIRST = {"layers.0.weight", "layers.0.bias", "product_0", "sum_0", "relu_0"}


def test_layers_and_blocks_narrow_each_other_and_several_of_one_kind_add_up() -> None:
    graph = layered()
    assert GraphPart(layers=("0",)).sites(graph, 8) == FIRST
    assert GraphPart(layers=("layers.0", "1")).sites(graph, 8) == {b.site for b in graph.blocks} - {"x"}
    assert GraphPart(blocks=("relu_*", "x")).sites(graph, 8) == {"relu_0", "relu_1", "x"}
    assert GraphPart((0,), ("0",), ("relu_*",)).sites(graph, 8) == {"relu_0"}


def test_devices_leave_sites_alone() -> None:
    part = GraphPart((2, 5))
    assert len(part.sites(layered(), 8)) == len(layered().blocks)
    assert [part.has(device) for device in (1, 2, 5)] == [False, True, True]
    assert GraphPart().has(7)


@pytest.mark.parametrize(
    ("part", "option", "message"),
    [
        (GraphPart((0, 8, 9)), "device", "there is no device 8, 9; the plan uses 0 to 7"),
        (GraphPart(layers=("2",)), "layer", "there is no layer '2'; known are layers.0, layers.1"),
        (GraphPart(layers=("layer.1",)), "layer", "did you mean layers.1"),
        (GraphPart(blocks=("produkt_0",)), "block", "no block is called 'produkt_0'; did you mean product_0"),
    ],
)
def test_what_does_not_exist_is_named(part: GraphPart, option: str, message: str) -> None:
    with pytest.raises(PartError, match=message) as refusal:
        part.sites(layered(), 8)
    assert refusal.value.option == option
