"""Conversion of the compiler's affine map to ttnn's strides, shards and grids (document 000, "TTNN Tensor Layout").

The compiler uses an affine map to specify which dimensions are folded into rows; ttnn uses strides. A row is
`stride[-2]` elements wide, and there are `shape[0] * stride[0] / stride[-2]` rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.shape import checked
from tapestry.hardware.layouts.ttnn.tile import Pair, round_up


@dataclass(frozen=True)
class StridedShards:
    """A logical shape with strides in elements, split into logical shards that are padded to whole tiles."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    shard: Pair
    tile: Pair = (1, 1)

    def __post_init__(self) -> None:
        checked(self.shape)
        checked(self.shard, "shard shape", smallest=1)
        checked(self.tile, "tile shape", smallest=1)
        if len(self.shape) != len(self.stride) or len(self.shape) < 2:
            raise LayoutError(
                f"expected a shape and strides of one rank of at least 2, not {list(self.shape)}, {list(self.stride)}"
            )
        if self.stride[-2] < 1:
            raise LayoutError(f"a row stride must be positive, not {list(self.stride)}")

    @property
    def matrix(self) -> Pair:
        """The numbers of rows and columns of the physical layout."""
        return self.shape[0] * self.stride[0] // self.stride[-2], self.stride[-2]

    @property
    def physical_shard(self) -> Pair:
        """The shard padded to whole tiles."""
        return round_up(self.shard[0], self.tile[0]), round_up(self.shard[1], self.tile[1])

    @property
    def grid_shape(self) -> Pair:
        """The numbers of shards along rows and columns: the matrix divided by the shard, rounded up."""
        rows, columns = self.matrix
        return -(-rows // self.shard[0]), -(-columns // self.shard[1])

    @property
    def documented_grid_shape(self) -> Pair:
        """The grid shape by the document's formula, which omits `shape[0]` and divides columns by shard height."""
        width = self.stride[-2]
        return -(-(self.stride[0] // width) // self.shard[0]), -(-width // self.shard[0])


def strides_of_map(results: Sequence[Sequence[int]], width: int) -> tuple[int, ...]:
    """Compute the strides that fold dimensions into rows of `width` elements as an affine map does.

    `results` are the coefficients of the map's two results, one for each dimension: `(d0 * 64 + d1, d2)` is
    `((64, 1, 0), (0, 0, 1))`.

    Raises:
        LayoutError: ttnn does not support the map; it needs two results, the second of them the last dimension
            alone.
    """
    if len(results) != 2 or len({len(row) for row in results}) != 1 or len(results[0]) < 2:
        raise LayoutError(
            f"ttnn folds all dimensions but the last: expected a map with 2 results, not {len(results)}"
        )
    rows, columns = results
    if rows[-1] or columns[-1] != 1 or any(columns[:-1]):
        raise LayoutError(f"ttnn's columns are the last dimension alone, not coefficients {list(columns)}")
    return (*(coefficient * width for coefficient in rows[:-1]), 1)
