"""Generated ttnn layouts of every kind."""

from hypothesis import assume
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.ttnn import (
    BufferType,
    CoreGrid,
    MemoryConfig,
    MemoryLayout,
    NdShardSpec,
    PageConfig,
    PageLayout,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorSpec,
    TtnnLayout,
    TtnnTile,
    dtype_named,
)

GRID = CoreGrid(8, 8).cores
PAGES = (
    PageConfig(PageLayout.ROW_MAJOR),
    PageConfig(PageLayout.TILE, TtnnTile.of((32, 32))),
    PageConfig(PageLayout.TILE, TtnnTile.of((16, 16))),
    PageConfig(PageLayout.TILE, TtnnTile.of((1, 32))),
    PageConfig(PageLayout.TILE, TtnnTile.without_faces((2, 3))),
)


def bound(
    shape: tuple[int, ...], page: PageConfig, memory: MemoryConfig, alignment: tuple = ()
) -> TtnnLayout:
    return TtnnLayout(TensorSpec(shape, TensorLayout(dtype_named("uint16"), page, memory, alignment)))


KINDS = ("interleaved", "aligned", "HEIGHT", "WIDTH", "BLOCK", "logical", "nd")


@st.composite
def layouts(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> TtnnLayout:
    """Draw layouts of all kinds; draws that ttnn refuses (too few cores, say) are left out."""
    shape = tuple(draw(st.lists(st.integers(1, 40), max_size=2))) + draw(st.tuples(st.integers(1, 70)))
    shape = draw(st.sampled_from([shape, (), (2, 1, *shape)]))
    page = draw(st.sampled_from(PAGES))
    height, width = page.tile.shape if page.is_tiled else (1, 1)
    shard = (height * draw(st.integers(1, 5)), width * draw(st.integers(1, 5)))
    order = draw(st.sampled_from(ShardOrientation))
    kind = draw(st.sampled_from(kinds))
    memory, alignment = MemoryConfig(), ()
    if kind == "aligned":
        alignment = (4 * height, 3 * height, 2 * width)[draw(st.integers(0, 2)) :]
        alignment = (height, *alignment) if len(alignment) == 1 else alignment
    elif kind == "nd":
        lead = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
        strategy = draw(st.sampled_from(ShardDistributionStrategy))
        grid = draw(st.sampled_from([GRID, CoreGrid(2, 3).cores, CoreGrid(1, 2).cores]))
        nd = NdShardSpec((*lead, *shard), grid, order, strategy)
        memory = MemoryConfig(buffer=BufferType.L1, nd_shard=nd)
    elif kind == "logical":
        cut = tuple(draw(st.integers(1, n)) for n in shard)
        spec = ShardSpec(GRID, cut, order, physical_shape=shard)
        memory = MemoryConfig(MemoryLayout.BLOCK_SHARDED, BufferType.L1, spec)
    elif kind != "interleaved":
        rows, columns = TensorLayout(dtype_named("uint16"), page).physical_size(shape)
        whole = {"HEIGHT": (shard[0], columns), "WIDTH": (rows, shard[1])}.get(kind, shard)
        memory = MemoryConfig(MemoryLayout.named(kind), BufferType.L1, ShardSpec(GRID, whole, order))
    try:
        return bound(shape, page, memory, alignment)
    except LayoutError:
        assume(False)
        raise
