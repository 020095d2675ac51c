"""A CuTe layout as a function: a shape and a stride of one hierarchy, `(4,(2,3)):(2,(1,8))`.

Source: NVIDIA/cutlass include/cute/layout.hpp and media/docs/cpp/cute/01_layout.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tapestry.hardware.layouts.cute.basis import (
    Term,
    as_arithmetic,
    as_coordinate,
    basis_like,
    magnitude,
    text,
)
from tapestry.hardware.layouts.cute.coordinates import compact, compact_in_order, index_of
from tapestry.hardware.layouts.cute.integers import ONE, ZERO, Integer, added, subtracted
from tapestry.hardware.layouts.cute.tuples import (
    congruent,
    depth,
    each_leaf,
    flat,
    inner_product,
    integer,
    product,
    rank,
    sliced,
    total,
    wrapped,
    zeros_filtered,
)
from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True, slots=True)
class Strided:
    """The function from coordinates of `shape` to the inner product with `stride`.

    Strides are integers or basis elements. `LayoutError` is raised unless both have the same hierarchy.
    """

    shape: Term
    stride: Term

    def __post_init__(self) -> None:
        if not congruent(self.shape, self.stride):
            raise LayoutError(
                f"expected a stride congruent with the shape {text(self.shape)}, not {text(self.stride)}"
            )

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    def __call__(self, coordinate: Term) -> Term:
        """Return the image of a coordinate, natural, one-dimensional or partial."""
        return index_of(coordinate, self.shape, self.stride)

    @property
    def rank(self) -> int:
        """The number of modes at the top."""
        return rank(self.shape)

    @property
    def depth(self) -> int:
        """The number of levels of the hierarchy; 0 for a single integer."""
        return depth(self.shape)

    @property
    def size(self) -> Integer:
        """The number of coordinates of the domain."""
        return product(self.shape)

    @property
    def coshape(self) -> Term:
        """The extents of the smallest box from the origin that holds every image."""
        last = each_leaf(self.shape, lambda s: subtracted(integer(s), ONE))
        strides = each_leaf(self.stride, magnitude)
        corner = as_coordinate(as_arithmetic(inner_product(last, strides)))
        return each_leaf(corner, lambda c: added(integer(c), ONE))

    @property
    def cosize(self) -> Integer:
        """The size of the codomain: one more than the largest image."""
        return product(self.coshape)

    @property
    def coprofile(self) -> Term:
        """The hierarchy of the images, with `_0` at each leaf."""
        return each_leaf(as_coordinate(as_arithmetic(total(self.stride))), lambda _: ZERO)

    @property
    def modes(self) -> "tuple[Strided, ...]":
        """The top modes, each as a layout; a single integer is its own mode."""
        return tuple(map(Strided, wrapped(self.shape), wrapped(self.stride)))

    @property
    def flat(self) -> "Strided":
        """The equal function of depth one at most."""
        return Strided(flat(self.shape), flat(self.stride))

    @property
    def zeros_filtered(self) -> "Strided":
        """The layout with extent 1 wherever the stride is a static 0."""
        return Strided(zeros_filtered(self.stride, self.shape), self.stride)

    def slice(self, coordinate: object) -> "Strided":
        """Return the modes that `_` keeps."""
        return Strided(sliced(coordinate, self.shape), sliced(coordinate, self.stride))

    def dice(self, coordinate: object) -> "Strided":
        """Return the modes that `_` does not keep."""
        return Strided(sliced(coordinate, self.shape, False), sliced(coordinate, self.stride, False))


def joined(layouts: "tuple[Strided, ...] | Iterator[Strided]") -> Strided:
    """Compute `make_layout(a, b, ...)`: each layout is a mode of the result."""
    parts = tuple(layouts)
    return Strided(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def columnwise(shape: Term) -> Strided:
    """Build the gapless layout of a shape, first mode fastest (CuTe's default)."""
    return Strided(shape, compact(shape))


def rowwise(shape: Term) -> Strided:
    """Build the gapless layout of a shape, last mode fastest."""
    return Strided(shape, compact(shape, leftmost=False))


def ordered(shape: Term, order: Term) -> Strided:
    """Compute `make_ordered_layout`: the gapless layout of a shape, modes of lower order faster."""
    return Strided(shape, compact_in_order(shape, order))


def identity(shape: Term) -> Strided:
    """Compute `make_identity_layout`: the layout that maps each coordinate to itself."""
    return Strided(shape, basis_like(shape))


def extended(layout: Strided, length: int, extra: Strided | None = None) -> Strided:
    """Compute `append<N>`: modes `extra` (or `_1:_0`) behind, up to rank `length`."""
    extra = extra or Strided(ONE, ZERO)
    missing = length - layout.rank
    if missing < 0:
        raise LayoutError(f"expected a layout of rank {length} at most, not {layout}")
    if not missing:
        return layout
    shapes = wrapped(layout.shape) + (extra.shape,) * missing
    return Strided(shapes, wrapped(layout.stride) + (extra.stride,) * missing)
