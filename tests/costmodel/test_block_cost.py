"""Tests of the costs of blocks, counted for one device of each class, against a plain count over all devices."""

from dataclasses import fields

import numpy as np
import pytest

from tapestry.costmodel.block_cost import block_costs, costs_of_parts
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_device
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import chunk_bounds
from tests.costmodel.programs import GRAPHS

MESH = Mesh(
    "uneven",
    load_device("h100-sxm5-80gb"),
    tuple(MeshAxis(n, s, "switch", 1e10, 1e-6) for n, s in [("node", 3), ("gpu", 4)]),
)


@pytest.mark.parametrize("name", GRAPHS)
def test_classes_of_devices_cost_what_all_devices_do(name: str) -> None:
    graph, shape = GRAPHS[name](), MeshShape(MESH.axis_sizes)
    space = PlanSpace(graph, MESH)
    for block, family in zip(space.blocks, space.families, strict=True):
        kinds = (block.definition, graph.input_types(block), graph.output_types(block))
        dims = block.signature.dims if block.signature is not None else ()
        index = np.array(
            [
                [chunk_bounds(d.size, s, shape) for d, s in zip(dims, each.splits, strict=True)]
                for each in family.strategies
            ],
            dtype=np.int64,
        ).reshape(len(family.strategies), len(dims), shape.device_count, 2)
        plain = costs_of_parts(*kinds, index.transpose(0, 2, 1, 3), MESH.device)
        found = block_costs(*kinds, family.strategies, shape, MESH.device)
        for column in fields(found):
            assert np.array_equal(getattr(found, column.name), getattr(plain, column.name))
