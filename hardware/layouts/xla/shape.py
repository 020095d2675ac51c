"""XLA's shapes: an element type and dimensions, bounded ones included, with a layout or without; tuples of them.

Source: openxla/xla:xla/shape.h, ShapeUtil::PrintHumanStringWithLayout.
"""

from dataclasses import dataclass

from hardware.layouts.xla.fields import LayoutFields

UNBOUNDED = -(2**63)
"""The size of a dimension written `?` (Shape::kUnboundedSize)."""


@dataclass(frozen=True)
class ArrayShape:
    """`dtype[dimensions]{layout}`; `dynamic[k]` tells that dimension k is only bounded (`<=n`, `?` for no bound)."""

    dtype: str
    dimensions: tuple[int, ...]
    layout: LayoutFields | None = None
    dynamic: tuple[bool, ...] = ()

    @property
    def bare(self) -> str:
        """The shape without its layout."""
        marks = self.dynamic or (False,) * len(self.dimensions)
        sizes = (
            "?" if size == UNBOUNDED else f"<={size}" if dynamic else str(size)
            for size, dynamic in zip(self.dimensions, marks, strict=True)
        )
        return f"{self.dtype}[{','.join(sizes)}]"

    def __str__(self) -> str:
        # XLA leaves out the braces of a scalar, which has nothing to order, unless something is inside.
        silent = self.layout is None or (not self.dimensions and str(self.layout) == "{}")
        return self.bare + ("" if silent else str(self.layout))


@dataclass(frozen=True)
class TupleShape:
    """`(shape, shape, ...)`."""

    elements: tuple["Shape", ...]

    def __str__(self) -> str:
        # XLA numbers every fifth element for its reader.
        marks = (f", /*index={k}*/" if k % 5 == 0 else ", " for k in range(1, len(self.elements)))
        text = "".join(mark + str(e) for mark, e in zip(("", *marks), self.elements, strict=False))
        return f"({text})"


Shape = ArrayShape | TupleShape
