"""Formatting of attributes and tensor types as text, in the spelling of each dialect."""

from collections.abc import Sequence

from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.aligned import AlignedAttribute
from tapestry.hardware.layouts.tt_metal.attribute import MetalAttribute
from tapestry.hardware.layouts.tt_metal.element import MetalElement


def printed_tensor(shape: Sequence[int], dtype: str, attribute: MetalAttribute) -> str:
    """Format a tensor type as `tensor<2x3xf32, #tt.metal_layout<...>>`."""
    return f"tensor<{extents_prefix(shape)}{dtype}, {printed_attribute(attribute)}>"


def printed_attribute(attribute: MetalAttribute) -> str:
    """Format an attribute in its dialect's spelling.

    `#tt.metal_layout<linear, oob, <grid>, memref<...>>`, or `#ttnn.ttnn_layout<linear, <grid>, memref<...>>`.
    """
    dialect = attribute.dialect
    ttnn = dialect == "ttnn"
    grid = "x".join(map(str, attribute.grid))
    if attribute.grid_map is not None:
        grid += f", {attribute.grid_map}"
    space = f"#{dialect}.{'buffer_type' if ttnn else 'memory_space'}<{attribute.memory_space}>"
    element = attribute.element.text("ttcore" if ttnn else dialect)
    memref = f"memref<{extents_prefix(attribute.memref_shape)}{element}, {space}>"
    fields = [str(attribute.linear), *([] if ttnn else [attribute.oob]), f"<{grid}>", memref]
    if attribute.memory_layout is not None:
        fields.append(f"<{attribute.memory_layout}>" if ttnn else attribute.memory_layout)
    if attribute.core_ranges:
        ranges = ", ".join(f"#ttnn.core_range<{first}, {last}>" for first, last in attribute.core_ranges)
        fields.append(f"core_ranges = <[{ranges}]>")
    return f"#{dialect}.{'ttnn' if ttnn else 'metal'}_layout<{', '.join(fields)}>"


def printed_aligned(device_shape: Sequence[int], element: MetalElement, attribute: AlignedAttribute) -> str:
    """Format a tensor type as `tensor<1x1x32x32xf32, #ttcore.metal_layout<logical_shape = ...>>`."""
    stored = element.text(attribute.dialect)
    return f"tensor<{extents_prefix(device_shape)}{stored}, {printed_aligned_attribute(attribute)}>"


def printed_aligned_attribute(attribute: AlignedAttribute) -> str:
    """Format an attribute of the newer form.

    `#ttcore.metal_layout<logical_shape = ..., dim_alignments = ..., collapsed_intervals = ..., l1, sharded>`.
    """
    fields = [
        f"logical_shape = {_by_x(attribute.logical_shape)}",
        f"dim_alignments = {_by_x(attribute.dim_alignments)}",
        f"collapsed_intervals = dense<{_dense(attribute)}> : tensor<{len(attribute.intervals)}x2xi64>",
        *filter(None, (attribute.oob, attribute.memory_space, attribute.memory_layout)),
    ]
    if attribute.index_map is not None:
        fields.append(f"index_map = {_view(attribute.index_map)}")
    return f"#{attribute.dialect}.metal_layout<{', '.join(fields)}>"


def _dense(attribute: AlignedAttribute) -> str:
    values = {value for pair in attribute.intervals for value in pair}
    if len(values) == 1:
        return str(values.pop())
    rows = ", ".join(f"[{start}, {end}]" for start, end in attribute.intervals)
    return f"[{rows}]" if rows else ""


def _view(view: AffineMap) -> str:
    """Format an identity of four dimensions as `map(4)`, any other map in full."""
    return f"map({view.dim_count})" if view == AffineMap.identity(view.dim_count) else str(view)


def _by_x(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))


def extents_prefix(shape: Sequence[int]) -> str:
    """Format extents as `2x3x`, or as an empty string for no extents."""
    return "".join(f"{n}x" for n in shape)
