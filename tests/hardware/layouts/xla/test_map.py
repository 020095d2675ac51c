"""Tests of element positions in XLA's tiled layouts: both ways, against numpy's pad, reshape and transpose."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.binding import native_text
from tapestry.hardware.layouts.layout import every_coordinate
from tapestry.hardware.layouts.native import native_named
from tapestry.hardware.layouts.xla import XlaLayout, array_size, parse
from tests.cases import examples
from tests.hardware.layouts.xla.generators import layouts, split_layouts, tiled_by_numpy


@settings(max_examples=examples(60), deadline=None)
@given(layouts())
def test_packing_is_pad_reshape_transpose_and_the_index_formula_agrees(layout: XlaLayout) -> None:
    values = np.arange(layout.element_count).reshape(layout.shape)
    expected = tiled_by_numpy(values, layout.fields.minor_to_major, layout.tiles, -1)
    packed = layout.pack(values, fill=-1)
    assert layout.tiled_shape == expected.shape
    assert packed[0, : expected.size].tolist() == expected.ravel().tolist()
    assert set(packed[0, expected.size :].tolist()) <= {-1}
    assert (packed[0][layout.offsets(every_coordinate(layout.shape))] == values.ravel()).all()
    assert (layout.unpack(packed) == values).all()


@settings(max_examples=examples(60), deadline=None)
@given(layouts() | split_layouts())
def test_every_slot_is_one_element_or_padding(layout: XlaLayout) -> None:
    slots = layout.buffer_count * layout.buffer_elements
    coords, real = layout.coordinates(np.arange(slots))
    assert int(real.sum()) == layout.element_count
    assert (layout.offsets(coords[real]) == np.flatnonzero(real)).all()
    assert len(np.unique(coords[real], axis=0)) == layout.element_count
    assert layout.size_bytes == layout.buffer_count * layout.buffer_elements * layout.element_bits // 8
    assert np.prod(layout.physical_shape, dtype=int) == slots


@settings(max_examples=examples(30), deadline=None)
@given(split_layouts())
def test_split_arrays_come_back_and_their_text_too(layout: XlaLayout) -> None:
    values = np.arange(layout.element_count).reshape(layout.shape)
    assert (layout.unpack(layout.pack(values)) == values).all()
    assert parse(str(layout)) == layout


@settings(max_examples=examples(40), deadline=None)
@given(layouts())
def test_text_and_values_are_the_same(layout: XlaLayout) -> None:
    assert parse(str(layout)) == layout


def test_the_document_of_xla() -> None:
    figure = parse("F32[3,5]{1,0:T(2,2)}")
    assert str(figure) == "f32[3,5]{1,0:T(2,2)}"
    assert figure.offset_of((2, 3)) == 17 and figure.coords_of(17) == (2, 3) and figure.coords_of(11) is None
    assert (figure.size_bytes, figure.padding_bytes) == (96, 36)
    across = parse("f32[8,8]{1,0:T(2,4)(2,1,1,1)}")
    assert across.offset_of((6, 5)) == 51 and across.tiled_shape == (2, 2, 2, 4, 2, 1, 1, 1)


@pytest.mark.parametrize(
    ("text", "tiled", "size"),
    [
        ("f32[100]{0:T(8,128)}", (1, 1, 8, 128), 4096),
        ("bf16[]{:T(256)}", (1, 256), 512),
        ("f32[]", (), 4),
        ("f32[0,5]{1,0:T(8,128)}", (0, 1, 8, 128), 0),
        ("s4[9216,6144]{1,0:T(64,128)(8,1)E(4)}", (144, 48, 8, 128, 8, 1), 9216 * 6144 // 2),
        ("s4[3]{0:E(4)}", (3,), 2),
        ("f32[10]{0:T(4)L(100)}", (3, 4), 400),
        ("f32[150,200,100]{0,1,2:SC(0:30)(1:40,130)}", (70, 90, 150), 6 * 4 * 70 * 90 * 150),
    ],
)
def test_sizes_of_unusual_shapes(text: str, tiled: tuple[int, ...], size: int) -> None:
    layout = parse(text)
    assert layout.tiled_shape == tiled and layout.size_bytes == size
    if layout.buffer_count == 1:
        assert array_size(layout.array) == size


def test_every_default_of_a_tpu() -> None:
    sizes = {
        ("float32", (10, 300)): "f32[10,300]{1,0:T(8,128)}",
        ("f32", (5, 2, 300)): "f32[5,2,300]{2,1,0:T(2,128)}",
        ("bfloat16", (1, 6144)): "bf16[1,6144]{1,0:T(2,128)(2,1)}",
        ("pred", (1, 1)): "pred[1,1]{1,0:T(4,128)(4,1)}",
        ("s4", (64, 256)): "s4[64,256]{1,0:T(8,128)(8,1)}",
        ("bf16", (4096,)): "bf16[4096]{0:T(1024)(128)(2,1)}",
        ("f32", (200,)): "f32[200]{0:T(256)}",
        ("pred", ()): "pred[]{:T(512)}",
    }
    for (dtype, shape), text in sizes.items():
        assert str(XlaLayout.of(shape, dtype, tiles="default")) == text
    column_major = XlaLayout.of((2, 300), "f32", (0, 1), "default")
    assert (
        str(column_major) == "f32[2,300]{0,1:T(8,128)}"
        and XlaLayout.of((2, 300), "f32", (0, 1), "default") is column_major
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(1, 2000), max_size=3).map(tuple),
    st.sampled_from(("float32", "bfloat16", "int8", "bool")),
)
def test_a_native_layout_in_program_order_is_the_default(shape: tuple[int, ...], dtype: str) -> None:
    default = XlaLayout.of(shape, dtype, tiles="default")
    assert native_text(native_named("xla_tiled"), "", shape, dtype) == str(default)


def test_the_largest_storage_is_indexed_without_overflow() -> None:
    layout = parse("s8[3000000000,3000000000]{1,0:T(8,128)(4,1)}")
    last = (2999999999, 2999999999)
    assert layout.size_bytes == 3000000000 * 3000000000
    assert layout.offset_of(last) == layout.size_bytes - 1 and layout.coords_of(layout.size_bytes - 1) == last


def test_arrays_of_another_shape_are_refused() -> None:
    layout = parse("f32[3,5]{1,0:T(2,2)}")
    with pytest.raises(LayoutError, match=r"expected array of shape \[3, 5\], not \[5, 3\]"):
        layout.pack(np.zeros((5, 3)))
    with pytest.raises(LayoutError, match=r"expected buffers of shape \[1, 24\]"):
        layout.unpack(np.zeros((1, 23)))
