"""Generated XLA layouts and a reference implementation of tiling done step by step with numpy."""

import numpy as np
from hypothesis import strategies as st

from tapestry.hardware.layouts.xla import COMBINE, ArrayShape, LayoutFields, SplitConfig, Tile, XlaLayout

SIZES = st.integers(1, 7)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    """Draw a tile of rank 1 to 4, with stars before its last size."""
    major = draw(st.lists(st.one_of(SIZES, st.just(COMBINE)), max_size=3))
    return (*major, draw(SIZES))


@st.composite
def layouts(draw: st.DrawFn) -> XlaLayout:
    """Draw a layout of rank 0 to 4, any dimension order, up to three tiles of lower and higher rank, tail padding."""
    shape = tuple(draw(st.lists(SIZES, max_size=4)))
    order = tuple(draw(st.permutations(range(len(shape)))))
    laid = tuple(draw(st.lists(tiles(), max_size=3)))
    fields = LayoutFields(order, laid, tail_padding_alignment_in_elements=draw(st.sampled_from((1, 1, 5))))
    return XlaLayout.bind(ArrayShape("s16", shape, fields))


@st.composite
def split_layouts(draw: st.DrawFn) -> XlaLayout:
    """Draw a layout whose dimensions are cut into parts, empty ones too."""
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    order = tuple(draw(st.permutations(range(len(shape)))))
    cut = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    splits = tuple(
        SplitConfig(
            k, tuple(sorted(draw(st.lists(st.integers(0, shape[order[-1 - k]]), min_size=1, max_size=2))))
        )
        for k in sorted(cut)
    )
    laid = tuple(draw(st.lists(tiles(), max_size=1)))
    return XlaLayout.bind(ArrayShape("f32", shape, LayoutFields(order, laid, split_configs=splits)))


def tiled_by_numpy(
    array: np.ndarray, order: tuple[int, ...], laid: tuple[Tile, ...], fill: int
) -> np.ndarray:
    """Tile as in docs/tiled_layout.md: order the dimensions, then pad, reshape and transpose for every tile."""
    array = array.transpose(order[::-1])
    for tile in laid:
        array = array.reshape((1,) * (len(tile) - array.ndim) + array.shape)
        sizes = list(tile)
        while COMBINE in sizes:
            at = sizes.index(COMBINE)
            axis = array.ndim - len(sizes) + at
            bounds = list(array.shape)
            bounds[axis : axis + 2] = [bounds[axis] * bounds[axis + 1]]
            array = array.reshape(bounds)
            del sizes[at]
        lead = array.ndim - len(sizes)
        missing = [(0, -d % t) for d, t in zip(array.shape[lead:], sizes, strict=True)]
        array = np.pad(array, [(0, 0)] * lead + missing, constant_values=fill)
        split = [n for d, t in zip(array.shape[lead:], sizes, strict=True) for n in (d // t, t)]
        array = array.reshape(*array.shape[:lead], *split)
        outer, inner = range(lead, array.ndim, 2), range(lead + 1, array.ndim, 2)
        array = array.transpose(*range(lead), *outer, *inner)
    return array
