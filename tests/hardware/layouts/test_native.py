"""Tests of a device's native layouts: closed formulas of sizes agree with the layouts that pack real elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.catalog import device_names, load_device
from tapestry.hardware.layouts.binding import bind, native_text
from tapestry.hardware.layouts.dimension_order import (
    dimension_order_of,
    parse_dimension_order,
    row_major_order,
)
from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.native import (
    NATIVES,
    accessed_bytes,
    candidate_dimension_orders,
    native_named,
    stored_bytes,
)
from tapestry.teg.dtypes import NAMES, item_bytes
from tests.cases import examples

TILED = [native for native in NATIVES if native.tiles is not None]
SHAPES = st.lists(st.integers(1, 37), max_size=4).map(tuple)


def size(native: str, order: str, shape: tuple[int, ...], dtype: str) -> int:
    return int(stored_bytes(native_named(native), order, np.array(shape, dtype=np.int64), dtype))


@pytest.mark.parametrize("native", TILED, ids=lambda n: n.name)
@settings(max_examples=examples(60), deadline=None)
@given(shape=SHAPES, dtype=st.sampled_from(NAMES), data=st.data())
def test_what_is_counted_is_what_is_packed(native, shape, dtype, data) -> None:
    order = data.draw(st.sampled_from(candidate_dimension_orders(native, shape, dtype)))
    layout = bind(native, order, shape, dtype)
    values = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    packed = layout.pack(values)
    assert packed.size * item_bytes(dtype) == size(native.name, order, shape, dtype)
    assert (layout.unpack(packed) == values).all()


@pytest.mark.parametrize(
    ("native", "order", "shape", "dtype", "expected"),
    [
        ("row_major", "", (3, 5), "float32", 60),
        ("xla_tiled", "", (10, 300), "float32", 16 * 384 * 4),
        ("xla_tiled", "{0,1}", (10, 300), "float32", 304 * 128 * 4),
        ("xla_tiled", "", (16, 3, 10), "bfloat16", 16 * 4 * 128 * 2),
        ("xla_tiled", "{2*1,0}", (16, 3, 50), "float32", 16 * 256 * 4),
        ("xla_tiled", "", (768,), "float32", 1024 * 4),
        ("xla_tiled", "", (), "bfloat16", 256 * 2),
        ("tt_tile", "", (16, 64, 56, 56), "bfloat16", 16 * 64 * 64 * 64 * 2),
        ("tt_tile", "{3*2,1,0}", (16, 64, 56, 56), "bfloat16", 16 * 64 * 56 * 56 * 2),
        ("tt_tile", "", (768,), "float32", 32 * 768 * 4),
        ("tt_tile", "", (0, 5), "float32", 0),
    ],
)
def test_sizes_by_hand(native, order, shape, dtype, expected) -> None:
    assert size(native, order, shape, dtype) == expected


def test_texts_of_the_vendors() -> None:
    tpu, wormhole = native_named("xla_tiled"), native_named("tt_tile")
    assert native_text(tpu, "", (16, 256), "bfloat16") == "bf16[16,256]{1,0:T(8,128)(2,1)}"
    assert native_text(tpu, "{3*2,1,0}", (8, 9, 12, 64), "float32") == "f32[8,9,12,64]{3,2,1,0:T(8,*,128)}"
    assert native_text(wormhole, "{2,0,1}", (3, 40, 50), "bfloat16") == (
        "tensor<3x40x50xbf16, #tt.metal_layout<(d0, d1, d2) -> (d1 * 32 + d0, d2), undef, <1x1>, "
        "memref<40x2x!tt.tile<32x32, bf16>, #tt.memory_space<dram>>>>"
    )
    with pytest.raises(LayoutError, match="one after another"):
        native_text(native_named("row_major"), "", (2,), "float32")


@pytest.mark.parametrize("native", TILED, ids=lambda n: n.name)
@settings(max_examples=examples(40), deadline=None)
@given(shape=SHAPES)
def test_orders_that_are_offered_take_no_more_than_the_programs(native, shape) -> None:
    candidates = candidate_dimension_orders(native, shape, "float32")
    assert candidates[0] == "" and len(set(candidates)) == len(candidates) <= 4
    sizes = [size(native.name, order, shape, "float32") for order in candidates]
    assert max(sizes) == sizes[0]


def test_orders_are_read_and_printed() -> None:
    order = parse_dimension_order("{3*2,1,0}", 4)
    assert (order.columns, order.rows, order.outside) == ((3, 2), (1,), (0,))
    assert str(order) == "{3*2,1,0}" and order == dimension_order_of(4, (3, 2), (1,))
    assert parse_dimension_order("", 3) == row_major_order(3) == parse_dimension_order("{2,1,0}", 3)
    for text in ("{0,0}", "{1}", "{0,1,2}"):
        with pytest.raises(LayoutError, match="each of the 2 dimensions once"):
            parse_dimension_order(text, 2)
    for text in ("1,0", "{1,}", "{a}"):
        with pytest.raises(LayoutError, match="is no order"):
            parse_dimension_order(text, 2)


def test_bytes_accessed_grow_with_the_padding() -> None:
    moved, stored, logical = np.array([60, 30, 0, 7]), np.array([600] * 4), np.array([60, 60, 60, 0])
    assert accessed_bytes(moved, stored, logical).tolist() == [600, 300, 0, 7]


def test_every_device_stores_in_a_layout_we_know() -> None:
    for name in device_names():
        assert [native_named(layout).name for layout in load_device(name).layouts]
    with pytest.raises(LayoutError, match="known are row_major, xla_tiled, tt_tile"):
        native_named("cute")
