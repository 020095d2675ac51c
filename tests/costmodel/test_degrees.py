"""Tests of fixed degrees of parallelism: which strategies have them, in which views, and what cannot be had."""

from __future__ import annotations

from math import prod

import pytest

import tapestry
from tapestry.costmodel.degrees import FixedDegrees, degrees_fault, is_product, view_with_degrees
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.possible_rounds import batch_dims

EIGHT = MeshShape.of(node=2, gpu=4)


def step(batch: int = 16) -> Graph:
    """Build a training step of two products with a softmax, on a batch."""
    with tapestry.program("small") as p:
        x = p.input("x", sample=batch, feature=32)
        hidden = (x @ p.parameter("up", feature=32, hidden=64)).relu()
        y = (hidden @ p.parameter("down", hidden=64, word=32)).softmax("word")
        p.output("y", y)
    return tapestry.training_step(p, loss="sum", optimizer="sgd").graph


@pytest.mark.parametrize("parts", [(2, 4), (8, 1), (None, 8), (4, None), (2, 2)])
def test_every_strategy_has_the_degrees(parts: tuple[int | None, int | None]) -> None:
    degrees = FixedDegrees(*parts)
    graph, mesh = step(), load_mesh("dgx-h100")
    shape = MeshShape(mesh.axis_sizes)
    view = view_with_degrees(shape, degrees)
    space = PlanSpace(graph, mesh, view, degrees=degrees)
    batch = batch_dims(graph)
    products = 0
    for block, family in zip(space.blocks, space.families, strict=True):
        if block.site not in batch or graph.carriers.get(block.site):
            continue
        for strategy in family.strategies:
            counts = [shape.size_of(split.axes) for split in strategy.splits]
            at = batch[block.site]
            if degrees.data is not None:
                assert counts[at] == degrees.data
            if degrees.tensor is not None and is_product(block.signature):
                assert prod(counts) // counts[at] == degrees.tensor
        products += is_product(block.signature)
    assert products == 5, "forward and backward of both products, but for the gradient of the input"


def test_a_batch_that_is_too_small_is_split_as_far_as_it_goes() -> None:
    graph, mesh = step(batch=2), load_mesh("dgx-h100")
    space = PlanSpace(graph, mesh, degrees=FixedDegrees(data=8))
    batch = batch_dims(graph)
    family = space.families[space.gene_of["softmax"]]
    sizes = {MeshShape(mesh.axis_sizes).size_of(s.splits[batch["softmax"]].axes) for s in family.strategies}
    assert sizes == {2}


def test_without_a_batch_products_are_split_along_all_dimensions() -> None:
    with tapestry.program("single") as p:
        p.output("y", p.input("x", row=1, feature=32) @ p.parameter("w", feature=32, hidden=64))
    space = PlanSpace(p.graph, load_mesh("dgx-h100"), degrees=FixedDegrees(tensor=4))
    shape = space.mesh_shape
    (product,) = (b for b in space.slots if b.operator == "contract")
    family = space.families[space.gene_of[product.site]]
    assert {prod(shape.size_of(s.axes) for s in strategy.splits) for strategy in family.strategies} == {4}


@pytest.mark.parametrize(
    ("degrees", "groups"),
    [
        (FixedDegrees(2, 4), [("node.0",), ("gpu.0", "gpu.1")]),
        (FixedDegrees(4, 2), [("node.0", "gpu.0"), ("gpu.1",)]),
        (FixedDegrees(None, 8), [("node.0", "gpu.0", "gpu.1")]),
    ],
)
def test_products_are_split_along_the_fastest_axes(
    degrees: FixedDegrees, groups: list[tuple[str, ...]]
) -> None:
    view = view_with_degrees(EIGHT, degrees)
    assert view is not None
    axes = [sub for group in view.axes for sub in group]
    assert axes == [sub for group in groups for sub in group], "neighboring axes are joined, none is left out"
    ends = [prod(EIGHT.size_of((a,)) for a in axes[k:]) for k in range(len(axes) + 1)]
    starts = {sum(len(group) for group in view.axes[:k]) for k in range(len(view.axes) + 1)}
    assert degrees.tensor is None or ends.index(degrees.tensor) in starts


def test_degrees_that_axes_do_not_have_are_refused() -> None:
    assert degrees_fault(FixedDegrees(2, 4), EIGHT) == ""
    assert degrees_fault(FixedDegrees(), EIGHT) == ""
    for degrees in (FixedDegrees(4, 4), FixedDegrees(None, 3), FixedDegrees(16, None)):
        assert "the axes node:2, gpu:4 cannot be divided for" in degrees_fault(degrees, EIGHT)
