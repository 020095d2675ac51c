"""The alignment that pads a shape to a given padded shape (tt-metal: `TensorLayout::fromPaddedShape`)."""

from collections.abc import Sequence
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.dtypes import DataType
from tapestry.hardware.layouts.ttnn.memory import MemoryConfig
from tapestry.hardware.layouts.ttnn.pages import PageConfig
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.tile import round_up


def layout_of_padded(
    dtype: DataType, page: PageConfig, memory: MemoryConfig, shape: Sequence[int], padded: Sequence[int]
) -> TensorLayout:
    """Build the tensor layout in which `shape` is padded to `padded`.

    Raises:
        LayoutError: ranks differ, a dimension would shrink, or a sharded tensor would be padded before its last two
            dimensions.
    """
    if len(shape) != len(padded) or any(p < s for s, p in zip(shape, padded, strict=True)):
        raise LayoutError(f"a shape {list(shape)} cannot be padded to {list(padded)}")
    return TensorLayout(dtype, page, memory, _alignment(page, memory, tuple(shape), tuple(padded)))


def _alignment(
    page: PageConfig, memory: MemoryConfig, shape: tuple[int, ...], padded: tuple[int, ...]
) -> tuple[int, ...]:
    if shape == padded:
        return ()
    flat = shape[:-2] == padded[:-2]
    if memory.shard is not None:
        if not flat:
            raise LayoutError(
                f"Tensor with shape {list(shape)} ({list(padded)}) cannot be sharded because alignment will have rank "
                "greater than 2!"
            )
        return () if page.is_tiled else (memory.shard.physical_shape or memory.shard.shape)[1:]
    volumes = () if flat else tuple(max(prod(padded[at:-1]), 1) for at in range(len(padded) - 2))
    return (*volumes, *_matrix(page, shape[-2:], padded[-2:]))


def _matrix(page: PageConfig, shape: tuple[int, ...], padded: tuple[int, ...]) -> tuple[int, ...]:
    """Infer the alignment of the last dimensions: their padded extents, or the tile where that is all the padding."""
    tile = page.tile.shape[2 - len(shape) :]
    return tuple(
        edge if page.is_tiled and full <= round_up(size, edge) else max(full, 1)
        for size, full, edge in zip(shape, padded, tile, strict=True)
    )
