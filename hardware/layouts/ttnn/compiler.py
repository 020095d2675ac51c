"""From the compiler's affine map to a grid of shards (document 000, "TTNN layout").

The tensor's strides in elements, as the map lays it out, give the physical matrix: `stride[-2]` elements a row,
`shape[0] * stride[0] / stride[-2]` rows.
"""

from collections.abc import Sequence

from hardware.layouts.layout import LayoutError
from hardware.layouts.ttnn.tile import Pair


def _checked(shape: Sequence[int], stride: Sequence[int], shard: Sequence[int]) -> None:
    if len(shape) != len(stride) or len(shape) < 2 or len(shard) != 2:
        raise LayoutError(
            f"expected a shape and strides of one rank of at least 2 and a 2-D shard, "
            f"got {list(shape)}, {list(stride)}, {list(shard)}"
        )
    if min(shard) < 1 or stride[-2] < 1:
        raise LayoutError(f"shard {list(shard)} and row stride {stride[-2]} must be positive")


def grid_shape(shape: Sequence[int], stride: Sequence[int], shard: Sequence[int]) -> Pair:
    """Shards along rows and columns: the physical matrix divided by the shard, rounded up."""
    _checked(shape, stride, shard)
    rows = shape[0] * stride[0] // stride[-2]
    return -(-rows // shard[0]), -(-stride[-2] // shard[1])


def grid_shape_as_documented(shape: Sequence[int], stride: Sequence[int], shard: Sequence[int]) -> Pair:
    """The document's own formula, which leaves `shape[0]` out and divides columns by the shard's height."""
    _checked(shape, stride, shard)
    return -(-(stride[0] // stride[-2]) // shard[0]), -(-stride[-2] // shard[0])
