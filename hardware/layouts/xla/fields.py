"""The braces of XLA's shapes, `{3,2,1,0:T(8,128)(2,1)L(100)E(4)S(1)}`: dimension order, tiles and the rest.

Source: openxla/xla:xla/layout.h and layout.cc (Layout, Layout::Print, Layout::Equal).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.xla.primitives import BY_NAME
from tapestry.hardware.layouts.xla.tile import Tile, tile_text

LEVELS = {"dense": "D", "compressed": "C", "singleton": "S", "loose_compressed": "H"}


class PhysicalShape(Protocol):
    """The content of `P(...)`: any shape, printed with its layout."""

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class SplitConfig:
    """The split of a dimension among memories: `dimension` counts from the most major, `indices` begin the parts."""

    dimension: int
    indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.indices))})"


@dataclass(frozen=True)
class LayoutFields:
    """The equivalent of XLA's `Layout`, without a shape; nothing is checked here (see `validate`), as in XLA.

    `dim_level_types`, `dim_unique` and `dim_ordered` describe sparse dimensions; for dense arrays, for which XLA
    prints none of them and compares none, they are empty or say "dense" only.
    `tail_padding_alignment_in_elements` 1, `element_size_in_bits` 0 and `memory_space` 0 are the defaults.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[Tile, ...] = ()
    dim_level_types: tuple[str, ...] = ()
    dim_unique: tuple[bool, ...] = ()
    dim_ordered: tuple[bool, ...] = ()
    tail_padding_alignment_in_elements: int = 1
    index_primitive_type: str | None = None
    pointer_primitive_type: str | None = None
    element_size_in_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    physical_shape: PhysicalShape | None = None
    dynamic_shape_metadata_prefix_bytes: int = 0

    @property
    def is_sparse(self) -> bool:
        """True if a level of a dimension is not dense."""
        return any(level != "dense" for level in self.dim_level_types)

    def __str__(self) -> str:
        order = ",".join(map(str, self.minor_to_major))
        suffix = "".join(
            (
                f"D({','.join(map(self._level, range(len(self.dim_level_types))))})"
                if self.is_sparse
                else "",
                f"T{''.join(map(tile_text, self.tiles))}" if self.tiles else "",
                _number("L", self.tail_padding_alignment_in_elements, 1),
                _type("#", self.index_primitive_type),
                _type("*", self.pointer_primitive_type),
                _number("E", self.element_size_in_bits, 0),
                _number("S", self.memory_space, 0),
                f"SC{''.join(map(str, self.split_configs))}" if self.split_configs else "",
                f"P({self.physical_shape})" if self.physical_shape is not None else "",
                _number("M", max(0, self.dynamic_shape_metadata_prefix_bytes), 0),
            )
        )
        return f"{{{order}:{suffix}}}" if suffix else f"{{{order}}}"

    def _level(self, dim: int) -> str:
        shared = "+" if not all(self.dim_unique[dim : dim + 1]) else ""
        loose = "~" if not all(self.dim_ordered[dim : dim + 1]) else ""
        return f"{LEVELS.get(self.dim_level_types[dim], '?')}{shared}{loose}"


def _number(letter: str, value: int, silent: int) -> str:
    return "" if value == silent else f"{letter}({value})"


def _type(letter: str, name: str | None) -> str:
    if name is None:
        return ""
    known = BY_NAME.get(name.lower())
    return f"{letter}({known.name if known and known.is_integer else 'invalid'})"


IGNORABLE = tuple(f.name for f in fields(LayoutFields) if not f.name.startswith(("minor", "dim", "dynamic")))
"""The fields that `equal` can ignore."""


def equal(a: LayoutFields, b: LayoutFields, ignoring: Sequence[str] = ()) -> bool:
    """Return whether two layouts are equal by XLA's `Layout::Equal`, ignoring given names of `IGNORABLE`.

    `MinorToMajorOnly()` is `ignoring=IGNORABLE`. The bytes of dynamic shape metadata and the + and ~ of sparse
    dimensions never count. Raises `LayoutError` for a name that cannot be ignored.
    """
    unknown = [name for name in ignoring if name not in IGNORABLE]
    if unknown:
        raise LayoutError(f"{unknown[0]!r} cannot be ignored; expected one of {', '.join(IGNORABLE)}")
    if (a.is_sparse or b.is_sparse) and a.dim_level_types != b.dim_level_types:
        return False
    compared = ("minor_to_major", *(name for name in IGNORABLE if name not in ignoring))
    return all(getattr(a, name) == getattr(b, name) for name in compared)


def descending(rank: int) -> LayoutFields:
    """Build `{n-1,...,1,0}`, the default layout: the first dimension is the most major (MakeDescendingLayout)."""
    return LayoutFields(tuple(range(rank - 1, -1, -1)))


def ascending(rank: int) -> LayoutFields:
    """Build `{0,1,...,n-1}`: the first dimension is the most minor (MakeAscendingLayout)."""
    return LayoutFields(tuple(range(rank)))


def move_dim_to_major(layout: LayoutFields, dim: int) -> LayoutFields:
    """Make one dimension of the layout the most major, keeping the order of the others (MoveDimToMajor)."""
    if dim not in layout.minor_to_major:
        raise LayoutError(f"dimension {dim} is not in the layout {layout}; expected one of its dimensions")
    others = tuple(d for d in layout.minor_to_major if d != dim)
    return replace(layout, minor_to_major=(*others, dim))


def logical_to_physical(layout: LayoutFields) -> tuple[int, ...]:
    """Compute the place of each logical dimension counted from the most major (MakeLogicalToPhysical)."""
    rank = len(layout.minor_to_major)
    return tuple(rank - 1 - layout.minor_to_major.index(dim) for dim in range(rank))
