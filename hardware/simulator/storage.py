"""Storage of parts on devices: their layouts and sizes, packing and unpacking.

Imported by the backends and by the run's clocks; no other module deals with packed values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tapestry.hardware.device import Device
from tapestry.hardware.layouts.binding import bind
from tapestry.hardware.layouts.layout import Layout
from tapestry.hardware.layouts.native import Native, accessed_bytes, native_named
from tapestry.hardware.simulator.parts import frozen
from tapestry.teg.arrays import Array, arrays_of
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.sharding.expand import Buffer
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.spec import volumes


class Packed(NamedTuple):
    """A part as a device stores it: the slots of its layout, padding included; a plain array where it has none."""

    slots: Array
    layout: Layout | None

    def array(self) -> Array:
        """Return the part's elements."""
        if self.layout is None:
            return self.slots
        xp = arrays_of(self.slots)
        return frozen(xp.from_numpy(self.layout.unpack(xp.to_numpy(self.slots))))


class ShardStorage:
    """The native layout of one kind of device."""

    def __init__(self, device: Device) -> None:
        self.native: Native = native_named(device.layouts[0])

    def part_bytes(self, buffer: Buffer, boxes: np.ndarray) -> np.ndarray:
        """Compute the bytes of boxes `(devices, rank, 2)` in a buffer's layout, padding included, `(devices,)`.

        Counted in the slots of each part's layout, not by the closed formula of the cost model.
        """
        if buffer.layout == HOST:
            slots: np.ndarray = np.zeros(len(boxes), dtype=np.int64)
        elif self.native.tiles is None:
            slots = _shapes(boxes).prod(axis=-1, dtype=np.int64)
        else:
            shapes = _shapes(boxes).tolist()
            slots = np.array([_slots(self.native, buffer.layout, tuple(s), buffer.dtype) for s in shapes])
        return slots * item_bytes(buffer.dtype)

    def accessed_bytes(self, buffer: Buffer, part: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Compute the bytes accessed for `moved` logical ones of the boxes `part` of a buffer, `(devices,)`."""
        logical = volumes(part) * item_bytes(buffer.dtype)
        return accessed_bytes(moved, self.part_bytes(buffer, part), logical)

    def pack(self, array: Array, buffer: Buffer) -> Packed:
        """Pack a part in the layout of its buffer, on the host."""
        if self.native.tiles is None or buffer.layout == HOST or 0 in array.shape:
            return Packed(array, None)
        xp, layout = arrays_of(array), bind(self.native, buffer.layout, tuple(array.shape), buffer.dtype)
        return Packed(frozen(xp.from_numpy(layout.pack(xp.to_numpy(array)))), layout)


@lru_cache(maxsize=65536)
def _slots(native: Native, dimension_order: str, shape: tuple[int, ...], dtype: str) -> int:
    """Compute the number of slots of a part in its layout of tiles."""
    if 0 in shape:
        return 0
    layout = bind(native, dimension_order, shape, dtype)
    return layout.buffer_count * layout.buffer_elements


def _shapes(boxes: np.ndarray) -> np.ndarray:
    shapes: np.ndarray = np.maximum(boxes[..., 1] - boxes[..., 0], 0)
    return shapes
