"""Descriptions of layouts for the command line and the API: of a text, of an element and of an offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.hardware.layouts import NOTATIONS, Layout, LayoutError, parse_layout
from tapestry.hardware.layouts.drawing import Diagram, diagram_of
from tapestry.hardware.layouts.drawing.vector import MOST_COLUMNS, MOST_ROWS

LARGEST = 2**63 - 1


class LayoutFaults(ValueError):
    """Error raised when a layout cannot be described: JSON pointers into the request, and the faults there."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = tuple(faults)


def read_layout(text: str, dtype: str | None = None) -> Layout:
    """Parse a layout from a text of any notation.

    Raises:
        LayoutFaults: the text, or the data type that it is read with, is wrong.
    """
    try:
        return parse_layout(text, dtype)
    except LayoutError as refusal:
        raise LayoutFaults([("/dtype" if _is_read_without(text, dtype) else "/text", str(refusal))]) from None


def _is_read_without(text: str, dtype: str | None) -> bool:
    if dtype is None:
        return False
    try:
        parse_layout(text, None)
    except LayoutError:
        return False
    return True


def describe(layout: Layout, at: Sequence[int] | None = None, offset: int | None = None) -> dict[str, Any]:
    """Describe a layout: shapes, buffers, bytes; the place of the element `at` coordinates; the content at `offset`.

    The `value` is that of the element where the layout computes its elements, which then lie in no place.

    Raises:
        LayoutFaults: the coordinates lie outside the shape, or the offset outside the storage; or the layout is too
            large and scattered for its padding to be counted.
    """
    try:
        size, padding = layout.size_bytes, layout.padding_bytes
    except LayoutError as refusal:
        raise LayoutFaults([("/text", str(refusal))]) from None
    document: dict[str, Any] = {
        "text": str(layout),
        "notation": layout.notation,
        "title": next(n.title for n in NOTATIONS if n.name == layout.notation),
        "shape": list(layout.shape),
        "element_bits": layout.element_bits,
        "element_count": layout.element_count,
        "physical_shape": list(layout.physical_shape),
        "buffer_count": layout.buffer_count,
        "buffer_elements": layout.buffer_elements,
        "size_bytes": size,
        "padding_bytes": padding,
        "padding_share": padding / size if size else 0.0,
        "element": None,
        "slot": None,
        "value": None,
    }
    faults = []
    if at is not None:
        try:
            document["value"] = layout.element_text(at)
            if document["value"] is None:
                document["element"] = _located(layout, layout.offset_of(at), tuple(at))
        except LayoutError as refusal:
            faults.append(("/at", str(refusal)))
    if offset is not None:
        try:
            document["slot"] = _located(layout, offset, layout.coords_of(offset))
        except LayoutError as refusal:
            faults.append(("/offset", str(refusal)))
    if faults:
        raise LayoutFaults(faults)
    return document


def draw(layout: Layout, most_rows: int = MOST_ROWS, most_columns: int = MOST_COLUMNS) -> Diagram:
    """Draw the picture of a layout.

    Raises:
        LayoutFaults: it is too large to draw, or has no storage.
    """
    if not layout.buffer_count:
        message = f"{layout} computes its elements and stores none, so there is nothing to draw; describe it instead"
        raise LayoutFaults([("/text", message)])
    try:
        return diagram_of(layout, most_rows, most_columns)
    except LayoutError as refusal:
        raise LayoutFaults([("/text", str(refusal))]) from None


def _located(layout: Layout, offset: int, coords: Sequence[int] | None) -> dict[str, Any]:
    buffer, slot = divmod(offset, layout.buffer_elements)
    bit = slot * layout.element_bits if is_plain(layout) else None
    return {
        "coordinates": None if coords is None else list(coords),
        "is_padding": coords is None,
        "offset": offset,
        "buffer": buffer,
        "buffer_name": layout.buffer_name(buffer),
        "slot": slot,
        "byte": None if bit is None else bit // 8,
        "bit": None if bit is None else bit % 8,
    }


def is_plain(layout: Layout) -> bool:
    """Return whether a buffer holds its elements and nothing else; block floats store exponents among them."""
    plain = -(-layout.buffer_elements * layout.element_bits // 8)
    return layout.size_bytes == layout.buffer_count * plain
