"""What stands between the braces of an XLA layout, as a value: minor to major, tiles and the rarer fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hardware.layouts.layout import LayoutError
from hardware.layouts.xla.tiling import Tile, check_tile, tile_text

LEVELS = {"dense": "D", "compressed": "C", "singleton": "S", "loose_compressed": "H"}


@dataclass(frozen=True)
class DimLevel:
    """How one dimension of a sparse array is stored; `D` plain, `+` not unique, `~` not ordered."""

    level: str = "dense"
    unique: bool = True
    ordered: bool = True

    def __str__(self) -> str:
        return LEVELS[self.level] + ("" if self.unique else "+") + ("" if self.ordered else "~")


@dataclass(frozen=True)
class SplitConfig:
    """Where a dimension is split between memories: at these indices."""

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"


@dataclass(frozen=True)
class XlaFields:
    """An XLA layout apart from the shape it is for; defaults are left out when printed.

    `minor_to_major` are dimension numbers. `element_size_in_bits` 0 means the type's own size; `physical_shape`
    is a shape's text.
    """

    minor_to_major: tuple[int, ...] = ()
    dim_levels: tuple[DimLevel, ...] = ()
    tiles: tuple[Tile, ...] = ()
    tail_padding_alignment_in_elements: int = 1
    index_primitive_type: str = ""
    pointer_primitive_type: str = ""
    element_size_in_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    physical_shape: str = ""
    dynamic_shape_metadata_prefix_bytes: int = 0

    def __post_init__(self) -> None:
        for tile in self.tiles:
            check_tile(tile)
        if self.tail_padding_alignment_in_elements < 1:
            raise LayoutError(
                f"tail padding alignment L({self.tail_padding_alignment_in_elements}) is not positive"
            )
        if self.element_size_in_bits < 0:
            raise LayoutError(f"element size E({self.element_size_in_bits}) is negative")

    @property
    def is_dense(self) -> bool:
        """Whether no dimension is stored sparsely."""
        return all(str(level) == "D" for level in self.dim_levels)

    def __str__(self) -> str:
        suffix = "".join(
            [
                "" if self.is_dense else f"D({','.join(map(str, self.dim_levels))})",
                "T" + "".join(map(tile_text, self.tiles)) if self.tiles else "",
                _field("L", self.tail_padding_alignment_in_elements, 1),
                _field("#", self.index_primitive_type, ""),
                _field("*", self.pointer_primitive_type, ""),
                _field("E", self.element_size_in_bits, 0),
                _field("S", self.memory_space, 0),
                "SC" + "".join(map(str, self.split_configs)) if self.split_configs else "",
                _field("P", self.physical_shape, ""),
                _field("M", self.dynamic_shape_metadata_prefix_bytes, 0),
            ]
        )
        return "{" + ",".join(map(str, self.minor_to_major)) + (":" + suffix if suffix else "") + "}"


def _field(name: str, value: Any, default: Any) -> str:
    return "" if value == default else f"{name}({value})"


def descending(rank: int) -> XlaFields:
    """The last dimension most minor: `MakeDescendingLayout`, XLA's default."""
    return XlaFields(tuple(reversed(range(rank))))


def ascending(rank: int) -> XlaFields:
    """The first dimension most minor: `MakeAscendingLayout`."""
    return XlaFields(tuple(range(rank)))


def with_dim_major(fields: XlaFields, dim: int) -> XlaFields:
    """The layout with a dimension moved to the most major place: `MoveDimToMajor`."""
    if dim not in fields.minor_to_major:
        raise LayoutError(f"the layout {fields} has no dimension {dim}")
    others = tuple(d for d in fields.minor_to_major if d != dim)
    return replace(fields, minor_to_major=(*others, dim))


EQUAL_OPTIONS = {
    "ignore_tiles": ("tiles",),
    "ignore_tail_padding_alignment_in_elements": ("tail_padding_alignment_in_elements",),
    "ignore_index_primitive_type": ("index_primitive_type",),
    "ignore_pointer_primitive_type": ("pointer_primitive_type",),
    "ignore_element_size": ("element_size_in_bits",),
    "ignore_memory_space": ("memory_space",),
    "ignore_split_configs": ("split_configs",),
    "ignore_physical_shape": ("physical_shape",),
    "minor_to_major_only": (
        *("tiles", "tail_padding_alignment_in_elements", "index_primitive_type", "pointer_primitive_type"),
        *("element_size_in_bits", "memory_space", "split_configs", "physical_shape", "dim_levels"),
        "dynamic_shape_metadata_prefix_bytes",
    ),
}


def equal(a: XlaFields, b: XlaFields, options: Sequence[str] = ()) -> bool:
    """Whether two layouts are equal, as `Layout::Equal` with these options called.

    Raises:
        LayoutError: an unknown option.
    """
    unknown = [o for o in options if o not in EQUAL_OPTIONS]
    if unknown:
        raise LayoutError(f"unknown option {unknown[0]!r}; known are {', '.join(EQUAL_OPTIONS)}")
    default = XlaFields()
    reset: dict[str, Any] = {name: getattr(default, name) for o in options for name in EQUAL_OPTIONS[o]}
    return replace(a, **reset) == replace(b, **reset)


def check_for_shape(fields: XlaFields, shape: Sequence[int]) -> None:
    """Refuse a layout that does not fit a shape, in the words of `LayoutUtil::ValidateLayoutForShape`.

    Raises:
        LayoutError: the first thing that is wrong.
    """
    rank, order = len(shape), fields.minor_to_major
    text = ", ".join(map(str, order))
    if len(order) != rank:
        raise LayoutError(
            f"layout minor_to_major field contains {len(order)} elements, but shape is rank {rank}: {{{text}}}"
        )
    for k, dim in enumerate(order):
        if not 0 <= dim < rank:
            raise LayoutError(f"layout minor_to_major field has out-of-bounds value: {{{text}}}")
        if dim in order[:k]:
            raise LayoutError(f"layout minor_to_major field has duplicate values: {{{text}}}")
    if fields.dim_levels and len(fields.dim_levels) != rank:
        raise LayoutError(
            f"layout dim_level_types field contains {len(fields.dim_levels)} elements, but shape is rank {rank}: "
            f"{{{text}}}"
        )
    if not fields.is_dense and fields.tiles:
        raise LayoutError(f"layout has tiles, but is for a sparse array: {fields}")
