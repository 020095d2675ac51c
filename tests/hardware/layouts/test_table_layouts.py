"""Tests of tables as layouts of Tenstorrent devices: their texts are read back, and cut tensors where tables do."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tapestry.hardware.layouts import parse_layout
from tapestry.hardware.layouts.table_layouts import (
    DIALECTS,
    layout_fault,
    mapper_fault,
    metal_layouts,
    ttnn_specs,
)
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.teg.exporters.tables.plans import random_plan
from tests.teg.exporters.tables.tables import table_of


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_grid_of_devices_divides_each_dimension_as_the_table_states(dialect: str) -> None:
    table = random_plan(np.random.default_rng(1), tensors=8, mesh_shape=MeshShape.of(x=2, y=4)).table
    subjects = [t for t in table.tensors if not layout_fault(table, t)]
    assert any(t.axes for t in subjects) and len(subjects) < len(table.tensors)

    lines = [line for line in metal_layouts(table, dialect).splitlines() if not line.startswith("//")]

    for tensor, text in zip(subjects, lines, strict=True):
        assert f"#{dialect}.metal_layout" in text
        layout = parse_layout(text)
        assert layout.shape == tensor.shape
        parts = [table.parts(dim.axes) for dim in tensor.dims]
        assert layout.buffer_count == np.prod(parts, dtype=int)
        if not tensor.shape:
            continue
        # The buffer of an element is that of the device whose box holds it.
        elements = np.argwhere(np.ones(tensor.shape))
        chunks = np.array([dim.chunk for dim in tensor.dims])
        wanted = np.ravel_multi_index(tuple((elements // chunks).T), parts)
        assert (layout.offsets(elements) // layout.buffer_elements).tolist() == wanted.tolist()


def test_what_a_device_holds_is_a_tensor_spec_of_ttnn() -> None:
    table = table_of(
        {"x": 2, "y": 4},
        ("w", "parameter", (100, 64), (("x",), ("y",))),
        ("h", "intermediate", (8, 30), (("y", "x"), ())),
    )
    text = ttnn_specs(table)
    mappers, _, specs = text.partition("SPECS = {")
    assert '    # w: float32[100, 64] over [x, y]\n    "w": ttnn.TensorSpec(shape=[50, 16]' in specs
    assert "    # h: float32[8, 30] over [y*x, -]" in specs
    assert "[ttnn.PlacementShard(0), ttnn.PlacementShard(1)], ttnn.MeshShape([2, 4])" in mappers
    assert (
        "# h: float32[8, 30] has none: dimension 0 is split over y, x, which the mesh does not have in a row"
        in mappers
    )
    for line in specs.splitlines():
        if line.startswith('    "'):
            spec = line.partition(": ")[2].rstrip(",").replace(", memory_config=ttnn.DRAM_MEMORY_CONFIG", "")
            layout = parse_layout(spec)
            assert layout.shape in ((50, 16), (1, 30))
    compile(text, "specs", "exec")


def boxes_by_ttnn(shape: tuple[int, ...], config: SimpleNamespace) -> list[list[list[int]]]:
    """Compute which part of a tensor each device gets, as tt-metal's `TensorToMesh` does.

    Chunks of dimensions are dealt out to the coordinates of the mapper's mesh, and these to the devices row-major.
    """
    found = []
    for coordinate in np.ndindex(*config.mesh_shape):
        box = [[0, size] for size in shape]
        shards = [p.dim for p in config.placements if p.dim is not None]
        assert len(set(shards)) == len(shards), "tt-metal: dims must be unique"
        for position, parts, placement in zip(coordinate, config.mesh_shape, config.placements, strict=True):
            if placement.dim is not None:
                assert shape[placement.dim] % parts == 0, "tt-metal: shard shape mismatch"
                chunk = shape[placement.dim] // parts
                box[placement.dim] = [position * chunk, (position + 1) * chunk]
        found.append(box)
    return found


def test_a_mesh_mapper_gives_each_device_the_part_that_the_table_states() -> None:
    fake = SimpleNamespace(
        MeshMapperConfig=lambda placements, shape: SimpleNamespace(placements=placements, mesh_shape=shape),
        MeshShape=tuple,
        PlacementShard=lambda dim: SimpleNamespace(dim=dim),
        PlacementReplicate=lambda: SimpleNamespace(dim=None),
        TensorSpec=lambda **_: None,
        TILE_LAYOUT=None,
        DRAM_MEMORY_CONFIG=None,
        float32=None,
    )
    rng, split = np.random.default_rng(2), 0
    for mesh_shape in (MeshShape.of(x=2, y=4), MeshShape.of(a=2, b=2, c=2)):
        table = random_plan(rng, tensors=16, mesh_shape=mesh_shape).table
        names: dict[str, Any] = {"ttnn": fake}
        exec(ttnn_specs(table).replace("import ttnn", ""), names)
        for tensor in table.tensors:
            assert (tensor.name in names["MAPPERS"]) == (not mapper_fault(table, tensor))
            if tensor.name in names["MAPPERS"]:
                found = boxes_by_ttnn(tensor.shape, names["MAPPERS"][tensor.name])
                assert found == table.boxes(tensor).tolist()
                split += bool(tensor.axes)
    assert split > 10


def test_a_split_that_no_grid_makes_has_its_reason_in_the_place_of_a_layout() -> None:
    plan = random_plan(np.random.default_rng(1), tensors=8, mesh_shape=MeshShape.of(gpu=8))
    text = metal_layouts(plan.table)
    for tensor in plan.table.tensors:
        if fault := layout_fault(plan.table, tensor):
            assert f"// {tensor.name}: " in text and f"has none: {fault}" in text
