"""The shapes of XLA: an element type and dimensions, bounded ones included, with a layout or without; tuples of them.

Source: openxla/xla:xla/shape.h, ShapeUtil::PrintHumanStringWithLayout.
"""

from dataclasses import dataclass, replace

from tapestry.hardware.layouts.xla.fields import LayoutFields, descending

UNBOUNDED = -(2**63)
"""The size of a dimension written `?` (Shape::kUnboundedSize)."""
NO_ARRAYS = ("token", "opaque")
"""The types with the form of a scalar's shape but no elements, and never a layout."""


@dataclass(frozen=True)
class ArrayShape:
    """A shape `dtype[dimensions]{layout}`; if `dynamic[k]`, dimension k is only bounded (`<=n`, `?` for no bound)."""

    dtype: str
    dimensions: tuple[int, ...]
    layout: LayoutFields | None = None
    dynamic: tuple[bool, ...] = ()

    @property
    def bare(self) -> str:
        """The text of the shape without its layout."""
        marks = self.dynamic or (False,) * len(self.dimensions)
        sizes = (
            "?" if size == UNBOUNDED else f"<={size}" if dynamic else str(size)
            for size, dynamic in zip(self.dimensions, marks, strict=True)
        )
        return f"{self.dtype}[{','.join(sizes)}]"

    @property
    def is_array(self) -> bool:
        """True if there are elements: `token[]` and `opaque[]` have none."""
        return self.dtype not in NO_ARRAYS

    def __str__(self) -> str:
        # XLA leaves out the braces of a scalar, which has nothing to order, unless something is inside.
        silent = self.layout is None or (not self.dimensions and str(self.layout) == "{}")
        return self.bare + ("" if silent else str(self.layout))


@dataclass(frozen=True)
class TupleShape:
    """A tuple of shapes, `(shape, shape, ...)`."""

    elements: tuple["XlaShape", ...]

    def __str__(self) -> str:
        # XLA numbers every fifth element for its reader.
        marks = (f", /*index={k}*/" if k % 5 == 0 else ", " for k in range(1, len(self.elements)))
        text = "".join(mark + str(e) for mark, e in zip(("", *marks), self.elements, strict=False))
        return f"({text})"


XlaShape = ArrayShape | TupleShape


def with_default_layout(shape: XlaShape) -> XlaShape:
    """Add major-to-minor layouts to arrays without one, as HLO's parser does."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(with_default_layout, shape.elements)))
    if shape.layout is not None or not shape.is_array:
        return shape
    return replace(shape, layout=descending(len(shape.dimensions)))
