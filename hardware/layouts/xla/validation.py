"""Validation of a layout in a shape, with the errors of XLA in XLA's words.

Source: openxla/xla:xla/layout_util.cc (ValidateLayoutInShape, ValidateLayoutForShape), xla/shape_util.cc
(ValidateShapeSize).
"""

from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.xla.fields import LayoutFields
from tapestry.hardware.layouts.xla.primitives import BY_NAME, primitive_named
from tapestry.hardware.layouts.xla.shape import UNBOUNDED, ArrayShape, TupleShape, XlaShape
from tapestry.hardware.layouts.xla.tile import check_tile

LARGEST = 2**63 - 1


def validate(shape: XlaShape, allow_missing_layouts: bool = False) -> None:
    """Raise `LayoutError` if a shape, or one inside a tuple, has an impossible layout or lacks a required one."""
    if isinstance(shape, TupleShape):
        for element in shape.elements:
            validate(element, allow_missing_layouts)
        return
    if not shape.is_array:
        if shape.layout is not None:
            raise LayoutError(f"shape of primitive type {shape.dtype.upper()} should not have a layout")
        return
    check_size(shape)
    if shape.layout is not None:
        validate_for(shape.layout, shape)
    elif not allow_missing_layouts:
        raise LayoutError(f"shape {shape.bare} does not have a layout; write one, like {{1,0}}, behind it")


def validate_for(layout: LayoutFields, shape: ArrayShape) -> None:
    """Raise `LayoutError` if a layout does not fit an array's shape."""
    if not shape.is_array:
        if layout.minor_to_major:
            kind = shape.dtype.upper()
            raise LayoutError(f"shape of primitive type {kind} should not have a non-trivial layout")
        return
    _check_order(layout, shape)
    _check_lengths(layout, shape)
    for tile in layout.tiles:
        check_tile(tile)
    if layout.is_sparse:
        _check_sparse(layout, shape)
    else:
        _check_dense(layout, shape)
    _check_levels(layout, shape)
    if layout.tail_padding_alignment_in_elements < 1:
        raise LayoutError(
            f"tail_padding_alignment_in_elements is {layout.tail_padding_alignment_in_elements}; expected at least 1"
        )


def check_size(shape: ArrayShape) -> None:
    """Raise `LayoutError` if an array has a negative dimension or more bytes than an int64 counts."""
    if any(size < 0 and size != UNBOUNDED for size in shape.dimensions):
        raise LayoutError(f"shape {shape.bare} has a negative dimension; expected at least 0")
    bounded = [max(size, 1) for size in shape.dimensions]
    if prod(bounded) * primitive_named(shape.dtype).size_bytes > LARGEST:
        raise LayoutError(f"Shape {shape.bare[:80]} size may overflow int64_t.")


def _check_order(layout: LayoutFields, shape: ArrayShape) -> None:
    order, rank = layout.minor_to_major, len(shape.dimensions)
    if sorted(order) == list(range(rank)):
        return
    listed = "{" + ", ".join(map(str, order)) + "}"
    if len(order) != rank:
        raise LayoutError(
            f"layout minor_to_major field contains {len(order)} elements, but shape is rank {rank}: {listed}; "
            f"shape: {shape.bare}"
        )
    if any(not 0 <= dim < rank for dim in order):
        raise LayoutError(
            f"layout minor_to_major field has out-of-bounds value: {listed}; shape: {shape.bare}"
        )
    raise LayoutError(f"layout minor_to_major field has duplicate values: {listed}; shape: {shape.bare}")


def _check_lengths(layout: LayoutFields, shape: ArrayShape) -> None:
    rank = len(shape.dimensions)
    for field, values in (
        ("dim_level_types", layout.dim_level_types),
        ("dim_unique", layout.dim_unique),
        ("dim_ordered", layout.dim_ordered),
    ):
        if values and len(values) != rank:
            shown = ", ".join(level_name(v) if isinstance(v, str) else str(v).lower() for v in values)
            raise LayoutError(
                f"layout {field} field contains {len(values)} elements, but shape is rank {rank}: {{{shown}}}; "
                f"shape: {shape.bare}"
            )


def _check_sparse(layout: LayoutFields, shape: ArrayShape) -> None:
    if layout.tiles:
        raise LayoutError(f"layout has tiles, but the shape is a sparse array: {shape}")
    inner = layout.physical_shape
    if inner is None:
        return
    if isinstance(inner, ArrayShape | TupleShape):
        validate(inner, allow_missing_layouts=True)
        if any(s.layout is not None and s.layout.physical_shape is not None for s in _arrays(inner)):
            raise LayoutError(f"layout has a physical_shape, whose layout also has a physical shape: {shape}")
    for field in ("index_primitive_type", "pointer_primitive_type"):
        name = getattr(layout, field)
        if name is not None and (name.lower() not in BY_NAME or BY_NAME[name.lower()].kind != "u"):
            raise LayoutError(f"{field} is not an unsigned integer type: {shape}")


def _check_dense(layout: LayoutFields, shape: ArrayShape) -> None:
    for field in ("index_primitive_type", "pointer_primitive_type", "physical_shape"):
        if getattr(layout, field) is not None:
            raise LayoutError(f"layout has a {field}, but is not a sparse array: {shape}")


def _check_levels(layout: LayoutFields, shape: ArrayShape) -> None:
    if not layout.dim_unique and not layout.dim_ordered:
        return
    for dim in range(len(shape.dimensions)):
        level = layout.dim_level_types[dim] if layout.dim_level_types else "dense"
        unique = not layout.dim_unique or layout.dim_unique[dim]
        ordered = not layout.dim_ordered or layout.dim_ordered[dim]
        if level == "dense" and not (unique and ordered):
            marks = ("" if unique else ", non-unique") + ("" if ordered else ", non-ordered")
            raise LayoutError(
                f"layout dimension {dim} has invalid level encoding {level_name(level)}{marks}: {shape.bare}"
            )


def level_name(level: str) -> str:
    """Return XLA's name of a level: `DIM_DENSE`."""
    return f"DIM_{level.upper()}"


def _arrays(shape: XlaShape) -> list[ArrayShape]:
    if isinstance(shape, ArrayShape):
        return [shape]
    return [array for element in shape.elements for array in _arrays(element)]
