"""Implicit tensors: an iterator moved by a layout, tiled, partitioned, sliced and printed as CuTe does.

Source: NVIDIA/cutlass include/cute/tensor_impl.hpp, util/print_tensor.hpp and media/docs/cpp/cute/0z_tma_tensors.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tapestry.hardware.layouts.cute.algebra import Tiler
from tapestry.hardware.layouts.cute.basis import ArithmeticTuple, Term, text
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.coordinates import converted, strided_coordinate_of
from tapestry.hardware.layouts.cute.integers import ONE, ZERO, Integer, Static, number
from tapestry.hardware.layouts.cute.iterators import CoordinateIterator, Iterator
from tapestry.hardware.layouts.cute.strided import Strided, identity
from tapestry.hardware.layouts.cute.tiling import zipped_divide
from tapestry.hardware.layouts.cute.tuples import (
    KEEP,
    Underscore,
    each_leaf,
    has_underscore,
    product,
    rank,
    same_rank,
    shown,
    sliced,
    wrapped,
)
from tapestry.hardware.layouts.layout import LayoutError

MOST_PRINTED = 1 << 16


@dataclass(frozen=True, slots=True)
class ImplicitTensor:
    """A tensor `iterator o layout`: the element at a coordinate is the iterator moved by the coordinate's image."""

    iterator: Iterator
    layout: Strided | Composed

    def __str__(self) -> str:
        return f"{self.iterator} o {self.layout}"

    def __call__(self, coordinate: Term) -> Term:
        """Return the element at a coordinate."""
        return self.iterator.moved(self.layout(coordinate)).value

    def slice(self, coordinate: object) -> "ImplicitTensor":
        """Keep the modes marked `_`; the iterator moves by the rest."""
        start = self.inner(_grounded(coordinate))
        if isinstance(self.layout, Composed):
            return ImplicitTensor(self.iterator, self.layout.slice(coordinate, start))
        return ImplicitTensor(self.iterator.moved(start), self.layout.slice(coordinate))

    @property
    def inner(self) -> Strided:
        """The layout, without a swizzle that follows it."""
        return self.layout.domain if isinstance(self.layout, Composed) else self.layout

    @property
    def shape(self) -> Term:
        """The shape of the layout."""
        return self.layout.shape

    def at(self, coordinate: object) -> "ImplicitTensor | Term":
        """Return the element at a coordinate, or the slice if it has an underscore."""
        return self.slice(coordinate) if has_underscore(coordinate) else self(coordinate)  # type: ignore[arg-type]

    def relaid(self, change: Callable[[Strided], Strided]) -> "ImplicitTensor":
        """Return a tensor of this iterator with its layout changed (divided, composed, flattened)."""
        if isinstance(self.layout, Composed):
            return ImplicitTensor(self.iterator, self.layout.on_inner(change))
        return ImplicitTensor(self.iterator, change(self.layout))


def _grounded(coordinate: object) -> Term:
    """Replace every underscore of a coordinate by a static 0."""
    if isinstance(coordinate, tuple):
        return tuple(map(_grounded, coordinate))
    return ZERO if isinstance(coordinate, Underscore) else coordinate  # type: ignore[return-value]


def identity_tensor(shape: Term) -> ImplicitTensor:
    """Compute `make_identity_tensor`: the tensor of its own coordinates."""
    return ImplicitTensor(CoordinateIterator(zero_coordinate(shape)), identity(shape))


def zero_coordinate(shape: Term) -> Term:
    """Return the origin of a shape, static, as an iterator holds it."""
    return _arithmetic(each_leaf(shape, lambda _: ZERO))


def _arithmetic(term: Term) -> Term:
    return ArithmeticTuple(tuple(map(_arithmetic, term))) if isinstance(term, tuple) else term


def inner_partition(tensor: ImplicitTensor, tiler: Tiler, coordinate: object) -> ImplicitTensor:
    """Return the tile at a coordinate of the rests (CuTe's `local_tile` and `inner_partition`)."""
    tiled = tensor.relaid(lambda layout: zipped_divide(layout, tiler))
    tile, rest = wrapped(tiled.shape)
    kept = _padded(coordinate, rank(rest)) if isinstance(coordinate, tuple) else coordinate
    return tiled.slice((_underscores(rank(tile)), kept))


def outer_partition(tensor: ImplicitTensor, tiler: Tiler, coordinate: object) -> ImplicitTensor:
    """Return the element at a coordinate of the tile, through all rests."""
    tiled = tensor.relaid(lambda layout: zipped_divide(layout, tiler))
    tile, rest = wrapped(tiled.shape)
    kept = _padded(coordinate, rank(tile)) if isinstance(coordinate, tuple) else coordinate
    return tiled.slice((kept, _underscores(rank(rest))))


def local_tile(
    tensor: ImplicitTensor, tiler: Tiler, coordinate: object, projection: object = None
) -> ImplicitTensor:
    """Return the tensor's tile at a coordinate; a projection `(_1, X, _1)` drops modes of tiler and coordinate."""
    if projection is not None:
        tiler, coordinate = diced(projection, tiler), diced(projection, coordinate)
    return inner_partition(tensor, tiler, coordinate)


def local_partition(
    tensor: ImplicitTensor, tile: Strided, index: Integer, projection: object = None
) -> ImplicitTensor:
    """Return the partition of a tensor that belongs to the thread `index` of a layout of threads."""
    if projection is not None:
        tile = tile.dice(projection)
    flat_shape = tuple(map(product, wrapped(tile.shape)))
    position = strided_coordinate_of(index, tile.shape, tile.stride)
    if isinstance(position, tuple):
        ones = (ONE,) * len(position)
        position = converted(position, tile.shape, ones)
    return outer_partition(tensor, flat_shape, position)


def diced(projection: object, value: object) -> object:
    """Return the entries of a tuple of anything that are paired with a projection's entries other than `X`."""
    if not (isinstance(projection, tuple) and isinstance(value, tuple) and len(projection) == len(value)):
        raise LayoutError(f"Mismatched Ranks: projection {shown(projection)} does not fit {shown(value)}")
    return tuple(v for p, v in zip(projection, value, strict=True) if not isinstance(p, Underscore))


def _underscores(count: int) -> object:
    return KEEP if count == 1 else (KEEP,) * count


def _padded(coordinate: tuple[object, ...], length: int) -> tuple[object, ...]:
    if len(coordinate) > length:
        raise LayoutError(f"Mismatched Ranks: coordinate {shown(coordinate)} for {length} modes")
    return coordinate + (KEEP,) * (length - len(coordinate))


def printed(tensor: ImplicitTensor, header: bool = True) -> str:
    """Format as `print_tensor`: the header and the elements of ranks 1 to 4, in CuTe's form, without the last
    newline.

    Raises `LayoutError` for more than 2^16 elements.
    """
    if number(product(tensor.shape)) > MOST_PRINTED:
        raise LayoutError(f"expected at most {MOST_PRINTED} elements to print, not a tensor {tensor}")
    return "\n".join(([f"{tensor}:"] if header else []) + _lines(tensor))


def _lines(tensor: ImplicitTensor) -> list[str]:
    extents = [number(product(mode)) for mode in wrapped(tensor.shape)]
    if len(extents) > 4:
        return []
    if len(extents) == 1:
        return [padded(tensor(m)) for m in range(extents[0])]
    if len(extents) == 2:
        return ["".join(padded(tensor((m, n))) for n in range(extents[1])) for m in range(extents[0])]
    rule = ("-" if len(extents) == 3 else "=") * (5 * extents[1])
    kept = (KEEP,) * (len(extents) - 1)
    lines = _lines(tensor.slice((*kept, 0)))
    for k in range(1, extents[-1]):
        lines += [rule, *_lines(tensor.slice((*kept, k)))]
    return lines


def rows(tensor: ImplicitTensor) -> list[list[str]]:
    """Format the elements of a tensor of rank 1 or 2 as texts, row by row."""
    extents = [number(product(mode)) for mode in wrapped(tensor.shape)]
    if len(extents) == 1:
        return [[text(tensor(m))] for m in range(extents[0])]
    if len(extents) != 2:
        raise LayoutError(f"expected a tensor of rank 1 or 2, not {tensor}")
    return [[text(tensor((m, n))) for n in range(extents[1])] for m in range(extents[0])]


def padded(value: Term) -> str:
    """Format as `pretty_print` does: an integer in five columns, anything else after two blanks."""
    return f"{value:5d}" if isinstance(value, int) else f"  {text(value)}"


def print_layout(layout: Strided | Composed) -> str:
    """Format as `print_layout`: a layout of rank 2 as a table of its images."""
    if layout.rank != 2:
        raise LayoutError(f"expected a layout of rank 2, not {layout}")
    row_count, column_count = (number(product(mode)) for mode in wrapped(layout.shape))
    if row_count * column_count > MOST_PRINTED:
        raise LayoutError(f"expected at most {MOST_PRINTED} elements to print, not {layout}")
    width = len(str(number(layout.cosize)))
    rule = "    " + ("+" + "-" * (width + 2)) * column_count + "+"
    lines = [str(layout), "    " + "".join(f"  {n:{width}d} " for n in range(column_count))]
    for m in range(row_count):
        cells = "".join(f"| {image(layout, (m, n)):{width}d} " for n in range(column_count))
        lines += [rule, f"{m:2d}  {cells}|"]
    return "\n".join([*lines, rule])


def image(layout: Strided | Composed, coordinate: Term) -> int:
    """Return the image of a coordinate as a plain integer."""
    found = layout(coordinate)
    if isinstance(found, int | Static):
        return number(found)
    raise LayoutError(f"expected a layout of integer strides, not {layout}")


__all__ = [
    "ImplicitTensor",
    "identity_tensor",
    "image",
    "inner_partition",
    "local_partition",
    "local_tile",
    "outer_partition",
    "padded",
    "print_layout",
    "printed",
    "rows",
    "same_rank",
    "sliced",
]
