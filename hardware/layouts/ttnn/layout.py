"""A ttnn tensor as a physical layout: a tensor spec whose shards are buffers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import ClassVar

from tapestry.hardware.layouts.layout import Buffers, Indices, Layout, Mask
from tapestry.hardware.layouts.ttnn.cores import Core
from tapestry.hardware.layouts.ttnn.distribution import Distribution
from tapestry.hardware.layouts.ttnn.dtypes import dtype_named
from tapestry.hardware.layouts.ttnn.encoding import Encoding, encoding_of
from tapestry.hardware.layouts.ttnn.pages import PageConfig
from tapestry.hardware.layouts.ttnn.shape import check_volume
from tapestry.hardware.layouts.ttnn.spec import TensorSpec
from tapestry.hardware.layouts.ttnn.storage import Storage
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.tile import Pair, TtnnTile
from tapestry.hardware.layouts.ttnn.words import PageLayout


@dataclass(frozen=True)
class TtnnLayout(Layout):
    """A tensor spec bound to its shape: one buffer for every shard, or one for an interleaved tensor.

    A buffer holds a shard's pages in row-major order; `spec.distribution` assigns buffers to cores. Interleaved
    pages follow each other here and go round robin over banks on a device.
    """

    notation: ClassVar[str] = "ttnn"

    shape: tuple[int, ...] = field(init=False)
    element_bits: int = field(init=False)
    spec: TensorSpec

    def __post_init__(self) -> None:
        layout = self.spec.layout
        object.__setattr__(self, "shape", self.spec.shape)
        object.__setattr__(self, "element_bits", layout.page.element_bits(layout.dtype))
        if layout.memory.is_sharded:
            _ = self.distribution
        check_volume(self.physical_shape, "storage")

    def __str__(self) -> str:
        return str(self.spec)

    @cached_property
    def encoding(self) -> Encoding:
        """The encoding that pads the tensor."""
        return encoding_of(self.spec.layout, self.shape)

    @cached_property
    def storage(self) -> Storage:
        """The split of the padded tensor into shards, pages and faces."""
        page, extents = self.spec.layout.page, self.encoding.extents
        shard = self.spec.layout.physical_shard or extents
        shard = (1,) * (len(extents) - len(shard)) + shard
        if page.is_tiled:
            return Storage(extents, shard, page.tile.shape, page.tile.face)
        row = (1, shard[-1])
        return Storage(extents, shard, row, row)

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The padded extents with the last shards filled up, folded as they are sharded."""
        return self.storage.full_extents

    @property
    def buffer_count(self) -> int:
        """The number of shards, or 1 for an interleaved tensor."""
        return prod(self.storage.shard_grid)

    @property
    def buffer_elements(self) -> int:
        """The number of slots of a shard."""
        return prod(self.storage.shard)

    @property
    def pages_per_buffer(self) -> int:
        """The number of pages of a shard."""
        page = self.storage.page
        return self.buffer_elements // prod(page) if prod(page) else 0

    @property
    def size_bytes(self) -> int:
        """The bytes of all buffers; exponents of block floats count too, though no element of `pack` holds them."""
        layout = self.spec.layout
        return (
            self.buffer_count
            * self.pages_per_buffer
            * layout.page.page_bytes(self.storage.page, layout.dtype)
        )

    @cached_property
    def distribution(self) -> Distribution:
        """The distribution of shards over cores."""
        return self.spec.distribution

    def core_of_buffer(self, buffer: int) -> Core | None:
        """Return the core that holds a buffer; None for an interleaved tensor."""
        return self.distribution.core_of_shard(buffer) if self.spec.layout.memory.is_sharded else None

    def buffer_name(self, buffer: int) -> str:
        """Name a buffer, with the core that holds it where the tensor is sharded."""
        core = self.core_of_buffer(buffer)
        return super().buffer_name(buffer) if core is None else f"shard {buffer} on core {core}"

    def picture_offsets(self, places: Indices) -> Indices:
        """Compute the offsets (n,) of places (n, k) in the padded extents, last shards filled up."""
        return self.storage.offsets(list(places.T))

    def _offsets(self, coords: Indices) -> Indices:
        """Compute the offsets (n,) of the elements at coordinates (n, rank)."""
        return self.storage.offsets(self.encoding.positions(coords))

    def _coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Compute the coordinates (n, rank) of the elements at offsets (n,), and a mask (n,), False on padding."""
        return self.encoding.coordinates(self.storage.positions(offsets))

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """Pack an array (shape) into buffers (shards, slots)."""
        self._expect(array, self.shape, "array")
        return self.storage.scatter(self.encoding.encode(array, fill), fill)

    def unpack(self, buffers: Buffers) -> Buffers:
        """Unpack the array (shape) from buffers (shards, slots)."""
        self._expect(buffers, (self.buffer_count, self.buffer_elements), "buffers")
        return self.encoding.decode(self.storage.gather(buffers))


def row_major(shape: Sequence[int], dtype: str) -> TtnnLayout:
    """Build the layout of an interleaved tensor in DRAM, stored row by row."""
    return _interleaved(shape, dtype, PageConfig(PageLayout.ROW_MAJOR))


def tiled(shape: Sequence[int], dtype: str, tile: Pair = (32, 32)) -> TtnnLayout:
    """Build the layout of an interleaved tensor in DRAM, stored tile by tile with the hardware's faces."""
    return _interleaved(shape, dtype, PageConfig(PageLayout.TILE, TtnnTile.of(tile)))


def _interleaved(shape: Sequence[int], dtype: str, page: PageConfig) -> TtnnLayout:
    return TtnnLayout(TensorSpec(tuple(shape), TensorLayout(dtype_named(dtype), page)))
