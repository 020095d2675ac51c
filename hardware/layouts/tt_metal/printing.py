"""The text of attributes and tensor types, in the spelling of each dialect."""

from collections.abc import Sequence

from hardware.layouts.tt_metal.attribute import MetalAttribute


def printed_tensor(shape: Sequence[int], dtype: str, attribute: MetalAttribute) -> str:
    """`tensor<2x3xf32, #tt.metal_layout<...>>`."""
    return f"tensor<{extents_prefix(shape)}{dtype}, {printed_attribute(attribute)}>"


def printed_attribute(attribute: MetalAttribute) -> str:
    """`#tt.metal_layout<linear, oob, <grid>, memref<...>>`, or `#ttnn.ttnn_layout<linear, <grid>, memref<...>>`."""
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
    return f"#{dialect}.{'ttnn' if ttnn else 'metal'}_layout<{', '.join(fields)}>"


def extents_prefix(shape: Sequence[int]) -> str:
    """`2x3x`, or nothing for no extents."""
    return "".join(f"{n}x" for n in shape)
