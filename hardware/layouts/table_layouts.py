"""Tables of shardings as layouts of Tenstorrent devices: tensors over a grid of devices, and each device's part.

A `metal_layout` states several devices by a grid of a higher rank, which divides the tensor's own dimensions
(tt-mlir's docs/src/specs/tensor-layout.md, "Multi-device"). A `ttnn.TensorSpec` states the part that one device holds,
and a `ttnn.MeshMapperConfig` how a tensor is distributed over a mesh device. Its mesh shape may differ from the
device's, whose devices it takes row-major (tt-metal's ttnn/core/distributed/distributed_tensor.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tapestry.hardware.layouts.binding import METAL_TYPES
from tapestry.hardware.layouts.tt_metal import MetalLayout
from tapestry.teg.exporters.tables.table import ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.text import axis_sizes, sizes
from tapestry.teg.python_text import quoted, visible

TTNN_TYPES = {
    "float32": "float32",
    "bfloat16": "bfloat16",
    "int32": "int32",
    "uint32": "uint32",
    "uint16": "uint16",
    "uint8": "uint8",
}
DIALECTS = ("tt", "ttcore")


def layout_fault(table: ShardingTable, tensor: TensorSharding) -> str:
    """Return why a grid of devices does not divide a tensor as the plan does, or nothing.

    A grid divides each dimension in parts of the size divided by their number, rounded up.
    """
    for k, (size, dim) in enumerate(zip(tensor.shape, tensor.dims, strict=True)):
        parts = table.parts(dim.axes)
        if dim.fault:
            return f"dimension {k}: {dim.fault}"
        if dim.axes and dim.chunk != -(-size // parts):
            return f"dimension {k} of size {size} is split in chunks of {dim.chunk}, a grid takes {-(-size // parts)}"
    if tensor.partial:
        return f"it is left as terms of a {tensor.monoid} over {', '.join(tensor.partial)}"
    return f"it is stored in the dimension order {tensor.layout}" if tensor.layout else ""


def mapper_fault(table: ShardingTable, tensor: TensorSharding) -> str:
    """Return why no mesh mapper of ttnn distributes a tensor as the plan does, or nothing.

    A mapper makes shards of one shape, and shards a dimension along one axis of a mesh.
    """
    if fault := layout_fault(table, tensor):
        return fault
    order = list(table.sizes)
    for k, (size, dim) in enumerate(zip(tensor.shape, tensor.dims, strict=True)):
        first = order.index(dim.axes[0]) if dim.axes else 0
        if list(dim.axes) != order[first : first + len(dim.axes)]:
            return f"dimension {k} is split over {', '.join(dim.axes)}, which the mesh does not have in a row"
        if dim.axes and size != dim.chunk * table.parts(dim.axes):
            return f"dimension {k} of size {size} is split into {table.parts(dim.axes)} unequal parts"
    return ""


def metal_layouts(table: ShardingTable, dialect: str = "tt") -> str:
    """Write the type of each tensor with its `metal_layout`, in the spelling of a dialect, one to a line.

    Tensors lie in the devices' DRAM, in tiles. The dimensions of the grid are the tensor's own; a comment says over
    which axes of the mesh each one runs, or why there is no layout.
    """

    def layout(tensor: TensorSharding) -> str:
        grid = tuple(table.parts(dim.axes) for dim in tensor.dims)
        grid = (1,) * (2 - len(grid)) + grid
        kind = METAL_TYPES.get(tensor.dtype, "")
        if not kind:
            return ""
        return str(MetalLayout.of(tensor.shape, kind, (), grid, memory_space="dram", dialect=dialect))

    axes = ", ".join(f"{visible(name)}={size}" for name, size in table.sizes.items())
    return "\n".join([f"// mesh of {axes}", *_lines(table, layout, layout_fault, "//", "")]) + "\n"


def ttnn_specs(table: ShardingTable) -> str:
    """Write a Python module: how ttnn distributes each tensor, and the spec of the largest part that a device holds."""

    def spec(tensor: TensorSharding) -> str:
        kind = TTNN_TYPES.get(tensor.dtype, "")
        part = [min(dim.chunk, size) for size, dim in zip(tensor.shape, tensor.dims, strict=True)]
        if not kind:
            return ""
        return (
            f"ttnn.TensorSpec(shape={part}, dtype=ttnn.{kind}, layout=ttnn.TILE_LAYOUT, "
            "memory_config=ttnn.DRAM_MEMORY_CONFIG)"
        )

    specs = "\n".join(_lines(table, spec, layout_fault, "    #", "    "))
    mappers = "\n".join(_lines(table, lambda t: _mapper(table, t), mapper_fault, "    #", "    "))
    return "\n".join(
        [
            "import ttnn",
            "",
            axis_sizes(table),
            "",
            "# For ttnn.from_torch(..., mesh_mapper=ttnn.create_mesh_mapper(device, MAPPERS[name])).",
            f"MAPPERS = {{\n{mappers}\n}}",
            "",
            "# What one device holds.",
            f"SPECS = {{\n{specs}\n}}",
            "",
        ]
    )


def _mapper(table: ShardingTable, tensor: TensorSharding) -> str:
    """Return the configuration of a mesh mapper: the axes of a split dimension are one axis of its mesh."""
    where = {dim.axes[0]: (k, dim.axes) for k, dim in enumerate(tensor.dims) if dim.axes}
    joined = {axis for _, axes in where.values() for axis in axes[1:]}
    placements, shape = [], []
    for axis, size in table.sizes.items():
        if axis in where:
            k, axes = where[axis]
            placements.append(f"ttnn.PlacementShard({k})")
            shape.append(table.parts(axes))
        elif axis not in joined:
            placements.append("ttnn.PlacementReplicate()")
            shape.append(size)
    return f"ttnn.MeshMapperConfig([{', '.join(placements)}], ttnn.MeshShape({shape}))"


def _lines(
    table: ShardingTable,
    write: Callable[[TensorSharding], str],
    refuse: Callable[[ShardingTable, TensorSharding], str],
    comment: str,
    indent: str,
) -> Iterator[str]:
    """Yield a comment for each tensor, and what states it, unless it cannot be."""
    for tensor in table.tensors:
        over = ", ".join(visible("*".join(dim.axes)) or "-" for dim in tensor.dims)
        fault = refuse(table, tensor)
        text = "" if fault else write(tensor)
        if not text:
            reason = fault or f"there is no element type {tensor.dtype}"
            yield f"{comment} {visible(tensor.name)}: {sizes(tensor.shape, tensor.dtype)} has none: {visible(reason)}"
            continue
        yield f"{comment} {visible(tensor.name)}: {sizes(tensor.shape, tensor.dtype)} over [{over}]"
        yield f"{indent}{quoted(tensor.name)}: {text}," if indent else text
