"""Maps of layouts: the slot of every element, and the element in every slot, for drawings that show both."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tapestry.hardware.layouts import Layout, LayoutError
from tapestry.hardware.layouts.drawing.tile_borders import tile_borders
from tapestry.hardware.layouts.layout import Indices, every_coordinate
from tapestry.service.layouts import LayoutFaults, is_plain

MOST_CELLS = 2**18  # elements, and slots
PADDING = -1


def layout_map(layout: Layout) -> dict[str, Any]:
    """Build the map of a layout.

    `elements` has the offset of every element, the last dimension fastest; `above` and `left` are the borders before it
    in the matrix of the last two dimensions: 0 none, 1 and 2 of tiles, 3 of a buffer. `slots` has for every offset the
    number of the element that the layout finds there, -1 for padding. Elements may share a slot, as by strides of zero.

    Raises:
        LayoutFaults: it has no storage, or more elements or slots than can be shown.
    """
    if not layout.buffer_count:
        message = f"{layout} computes its elements and stores none, so there is nothing to show; describe it instead"
        raise LayoutFaults([("/text", message)])
    count, slot_count = layout.element_count, layout.buffer_count * layout.buffer_elements
    if max(count, slot_count) > MOST_CELLS:
        message = (
            f"too large to show: expected at most {MOST_CELLS:,} elements and slots, not {count:,} and {slot_count:,}; "
            "show a smaller shape in the same layout, its tiles are the same"
        )
        raise LayoutFaults([("/text", message)])
    try:
        offsets, slots = _offsets(layout), _slots(layout, slot_count)
    except LayoutError as refusal:
        raise LayoutFaults([("/text", str(refusal))]) from None
    above, left = _borders(layout, offsets)
    return {
        "text": str(layout),
        "notation": layout.notation,
        "shape": list(layout.shape),
        "physical_shape": list(layout.physical_shape),
        "buffer_count": layout.buffer_count,
        "buffer_elements": layout.buffer_elements,
        "buffer_names": [layout.buffer_name(k) for k in range(layout.buffer_count)],
        "element_bits": layout.element_bits if is_plain(layout) else None,
        "elements": offsets.tolist(),
        "above": above.tolist(),
        "left": left.tolist(),
        "slots": slots.tolist(),
    }


def _offsets(layout: Layout) -> Indices:
    return layout.offsets(every_coordinate(layout.shape)) if layout.element_count else np.zeros(0, np.int64)


def _slots(layout: Layout, count: int) -> Indices:
    coords, real = layout.coordinates(np.arange(count, dtype=np.int64))
    found = np.full(count, PADDING, np.int64)
    if real.any():
        found[real] = np.ravel_multi_index(tuple(coords[real].T), layout.shape) if layout.shape else 0
    return found


def _borders(layout: Layout, offsets: Indices) -> tuple[Indices, Indices]:
    """Find the borders before every element, down and across."""
    if not len(offsets):
        return offsets, offsets
    height, width = (1, 1, *layout.shape)[-2:]
    matrices = offsets.reshape(prod(layout.shape[:-2]), height, width)
    buffers = matrices // layout.buffer_elements
    found = [
        np.concatenate(
            [tile_borders(*both, axis).reshape(-1) for both in zip(matrices, buffers, strict=True)]
        )
        for axis in (0, 1)
    ]
    return found[0], found[1]
