"""Tests of ttnn's sharding: cores and their groups, equivalent ND and 2-D shardings, configs, sizes in banks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.ttnn import (
    Core,
    CoreGrid,
    CoreRange,
    CoreRangeSet,
    MemoryConfig,
    NdShardSpec,
    PageConfig,
    PageLayout,
    Shape,
    ShardDistributionStrategy,
    ShardSpec,
    StridedShards,
    TensorLayout,
    TensorSpec,
    TtnnLayout,
    bank_of_page,
    dtype_named,
    first_cores,
    layout_of_padded,
    legacy_of_nd,
    nd_of_legacy,
    parse_memory_config,
    squeeze_ranks,
    strides_of_map,
)
from tapestry.hardware.layouts.ttnn.cores import merged
from tests.cases import examples
from tests.hardware.layouts.ttnn.generators import layouts

ROWS = PageConfig(PageLayout.ROW_MAJOR)
BFLOAT16 = dtype_named("bfloat16")
HUGE_SHARD = NdShardSpec((1, 2**30, 2**32 - 1), CoreGrid(1, 1).cores)


def held_by_cores(layout: TtnnLayout) -> dict[Core | None, list[Any]]:
    """Return the slots that every core holds, shard after shard."""
    held: dict[Core | None, list[Any]] = {}
    numbered = np.arange(1, layout.element_count + 1).reshape(layout.shape)
    for buffer, slots in enumerate(layout.pack(numbered).tolist()):
        held.setdefault(layout.core_of_buffer(buffer), []).append(slots)
    return held


def in_memory(layout: TtnnLayout, memory: MemoryConfig) -> TtnnLayout:
    found = replace(layout.spec.layout, memory=memory, alignment=())
    return TtnnLayout(TensorSpec(layout.shape, found))


@settings(max_examples=examples(150), deadline=None)
@given(layouts(("nd",)))
def test_a_2d_sharding_found_for_an_nd_one_puts_every_element_on_the_same_core(layout: TtnnLayout) -> None:
    legacy = legacy_of_nd(layout.spec)
    assume(legacy is not None)
    assert legacy is not None
    assert held_by_cores(in_memory(layout, legacy)) == held_by_cores(layout)


@settings(max_examples=examples(100), deadline=None)
@given(layouts(("HEIGHT", "WIDTH", "BLOCK")))
def test_every_2d_sharding_is_an_nd_sharding(layout: TtnnLayout) -> None:
    nd = nd_of_legacy(layout.spec)
    assert nd is not None
    same = in_memory(layout, MemoryConfig(buffer=layout.spec.layout.memory.buffer, nd_shard=nd))
    assert held_by_cores(same) == held_by_cores(layout)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_squeezing_ranks_changes_no_slot(data: st.DataObject) -> None:
    tensor = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    shard = [data.draw(st.integers(1, size)) for size in tensor]
    squeezed = squeeze_ranks(tensor, shard)
    mappings = []
    for extents, cut in ((tuple(tensor), tuple(shard)), squeezed):
        grid = [-(-e // c) for e, c in zip(extents, cut, strict=True)]
        pages = np.stack(np.unravel_index(np.arange(np.prod(extents)), extents))
        column = np.array(cut)[:, None]
        mappings.append(
            (np.ravel_multi_index(pages // column, grid), np.ravel_multi_index(pages % column, cut))
        )
    assert np.array_equal(mappings[0], mappings[1])


@settings(max_examples=examples(60), deadline=None)
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_merged_ranges_hold_exactly_the_cores(points: set[tuple[int, int]]) -> None:
    cores = {Core(x, y) for x, y in points}
    assert set(merged(cores).cores()) == cores


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8))
def test_printed_shapes_are_read_back(pairs: list[tuple[int, int]]) -> None:
    shape = Shape(tuple(d for d, _ in pairs), tuple(d + more for d, more in pairs))
    assert Shape.parse(str(shape)) == shape


def test_first_cores_are_full_lines_and_a_rest() -> None:
    assert (
        str(first_cores(11, CoreGrid(8, 7), row_wise=True))
        == "{[(x=0,y=0) - (x=7,y=0)], [(x=0,y=1) - (x=2,y=1)]}"
    )
    assert str(first_cores(9, CoreGrid(8, 7))) == "{[(x=0,y=0) - (x=0,y=6)], [(x=1,y=0) - (x=1,y=1)]}"


def test_runs_of_shards_stay_together() -> None:
    spec = NdShardSpec((1, 2), CoreGrid(2, 1).cores, distribution=ShardDistributionStrategy.CONTIGUOUS_1D)
    layout = TtnnLayout(TensorSpec((2, 4), TensorLayout(BFLOAT16, ROWS, MemoryConfig(nd_shard=spec))))
    assert [str(layout.core_of_buffer(b)) for b in range(4)] == ["(x=0,y=0)"] * 2 + ["(x=1,y=0)"] * 2
    assert layout.spec.distribution.page_mapping().tolist() == [[0, 1], [2, 3]]
    odd = MemoryConfig(nd_shard=replace(spec, grid=CoreGrid(2, 2).cores))
    with pytest.raises(LayoutError, match="6 shards cannot be dealt in equal runs to 4 cores"):
        TtnnLayout(TensorSpec((3, 4), replace(layout.spec.layout, memory=odd)))


def test_the_compiler_s_map_becomes_strides_shards_and_a_grid() -> None:
    stride = strides_of_map([(192, 64, 1, 0), (0, 0, 0, 1)], width=128)
    assert stride == (24576, 8192, 128, 1)
    shards = StridedShards((2, 3, 64, 128), stride, (60, 50), (32, 32))
    assert (shards.matrix, shards.grid_shape, shards.physical_shard) == ((384, 128), (7, 3), (64, 64))


def test_sizes_in_banks_are_of_aligned_pages() -> None:
    layout = TensorLayout(BFLOAT16, ROWS)
    assert layout.page_bytes((3, 5, 7)) == 14
    assert layout.packed_bytes((3, 5, 7)) == 210
    assert layout.bytes_per_bank((3, 5, 7), alignment_bytes=32, bank_count=12) == 2 * 32
    assert [bank_of_page(page, 12) for page in (0, 11, 14)] == [(0, 0), (11, 0), (2, 1)]
    sharded = replace(layout, memory=MemoryConfig(nd_shard=NdShardSpec((2, 2, 2), CoreGrid(2, 2).cores)))
    assert sharded.bytes_per_bank((3, 5, 7), alignment_bytes=16, bank_count=0) == 6 * 4 * 16


def test_a_memory_config_is_read_back_and_older_prints_are_understood() -> None:
    older = (
        "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec="
        "ShardSpec(grid={[(x=0,y=0) - (x=7,y=7)]},shape={32, 64},orientation=ShardOrientation::ROW_MAJOR,halo=0))"
    )
    config = parse_memory_config(older)
    assert (
        config.shard is not None
        and config.shard.shape == (32, 64)
        and config.shard.grid == CoreGrid(8, 8).cores
    )
    assert parse_memory_config(str(config)) == config


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoreRange(Core(2, 0), Core(1, 0)), "Invalid core range for start_coord: (x=2,y=0)"),
        (
            lambda: CoreRangeSet((CoreRange(Core(0, 0), Core(2, 2)), CoreRange(Core(2, 2), Core(3, 3)))),
            "overlap!",
        ),
        (lambda: CoreRangeSet(()).bounding_box(), "Cannot get bounding_box of an empty CoreRangeSet!"),
        (lambda: first_cores(57, CoreGrid(8, 7)), "57 is greater than total number of available cores 56"),
        (lambda: NdShardSpec((2, 0), CoreGrid(1, 1).cores), "Shard shape must have non zero volume!"),
        (lambda: ShardSpec(CoreGrid(1, 1).cores, (4, 4), physical_shape=(2, 4)), "must be greater or equal"),
        (lambda: MemoryConfig(MemoryConfig().layout.HEIGHT_SHARDED), "must have Shard Spec specified"),
        (
            lambda: squeeze_ranks([4], [2, 2]),
            "Tensor shape rank (1) can't be less than shard shape rank (2)!",
        ),
        (lambda: layout_of_padded(BFLOAT16, ROWS, MemoryConfig(), [8], [4]), "cannot be padded"),
        (
            lambda: TensorLayout(BFLOAT16, ROWS, alignment=(5, 2, 3)).padded_shape((4, 3, 3)),
            "can't be deducted",
        ),
        (lambda: Shape.parse("ttnn.Shape([14[32], x])"), "at character 20: expected a dimension"),
        (
            lambda: strides_of_map([(1, 0, 0), (0, 64, 1), (0, 0, 1)], 128),
            "expected a map with 2 results, not 3",
        ),
        (lambda: strides_of_map([(1, 0), (1, 1)], 128), "columns are the last dimension alone"),
        (lambda: StridedShards((2, 2), (0, 1, 1), (1, 1)), "of one rank of at least 2"),
        (
            lambda: TtnnLayout(
                TensorSpec((3, 1, 1), TensorLayout(BFLOAT16, ROWS, MemoryConfig(nd_shard=HUGE_SHARD)))
            ),
            "the storage has more than 2^63 - 1 elements",
        ),
        (lambda: Shape.documented([]), "has 1 to 8 dimensions, not 0"),
        (lambda: parse_memory_config("MemoryConfig(memory_layout=ROUND)"), "at character 27: 'ROUND' is no"),
    ],
)
def test_impossible_combinations_are_refused_in_ttnn_s_words(make: Any, message: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        make()
    assert message in str(refusal.value)
