"""Tests of ttnn layouts: every element has one slot, packing and unpacking are inverse, sizes are exact."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import Layout, LayoutError
from tapestry.hardware.layouts.ttnn import (
    NOTATION,
    MemoryConfig,
    TtnnLayout,
    decode,
    encode,
    parse,
)
from tests.cases import examples
from tests.hardware.layouts.ttnn.definition import slot_by_definition
from tests.hardware.layouts.ttnn.generators import KINDS, PAGES, bound, layouts


@settings(max_examples=examples(150), deadline=None)
@given(layouts())
def test_packing_agrees_with_the_offset_of_every_element_and_is_undone(layout: TtnnLayout) -> None:
    array = np.arange(1, layout.element_count + 1).reshape(layout.shape)
    buffers = layout.pack(array)
    assert (buffers == Layout.pack(layout, array)).all()
    assert (layout.unpack(buffers) == array).all()
    slots = np.arange(buffers.size)
    coords, real = layout.coordinates(slots)
    assert (real == (buffers.reshape(-1) != 0)).all()
    assert (layout.offsets(coords[real]) == slots[real]).all()


@settings(max_examples=examples(150), deadline=None)
@given(layouts(), st.data())
def test_offsets_follow_the_definition(layout: TtnnLayout, data: st.DataObject) -> None:
    coords = tuple(data.draw(st.integers(0, size - 1)) for size in layout.shape)
    assert layout.offset_of(coords) == slot_by_definition(layout, coords)


@settings(max_examples=examples(80), deadline=None)
@given(layouts())
def test_the_stored_matrix_holds_the_tensor(layout: TtnnLayout) -> None:
    array = np.arange(1, layout.element_count + 1).reshape(layout.shape)
    matrix = encode(layout.spec.layout, array)
    assert matrix.shape == layout.spec.physical_size
    assert sorted(matrix[matrix > 0].tolist()) == list(range(1, array.size + 1))
    assert (decode(layout.spec.layout, layout.shape, matrix) == array).all()


@settings(max_examples=examples(100), deadline=None)
@given(layouts())
def test_sizes_are_exact_and_the_text_is_read_back(layout: TtnnLayout) -> None:
    assert math.prod(layout.physical_shape) == layout.buffer_count * layout.buffer_elements
    assert layout.size_bytes == 2 * layout.buffer_count * layout.buffer_elements
    assert layout.padding_bytes == layout.size_bytes - 2 * layout.element_count
    assert parse(str(layout)) == layout


@settings(max_examples=examples(60), deadline=None)
@given(layouts(KINDS[2:]))
def test_cores_hold_the_pages_that_the_buffers_hold(layout: TtnnLayout) -> None:
    distribution = layout.spec.distribution
    assert distribution.shard_count == layout.buffer_count
    assert math.prod(distribution.shard) == layout.pages_per_buffer
    mapping = distribution.page_mapping()
    held = np.sort(mapping[mapping >= 0])
    assert (held == np.arange(distribution.page_count)).all()


def test_a_tile_is_stored_face_by_face() -> None:
    layout = bound((32, 32), PAGES[1], MemoryConfig())
    faces = {layout.offset_of(c): c for c in [(0, 0), (0, 16), (16, 0), (16, 16), (1, 0)]}
    assert faces == {0: (0, 0), 256: (0, 16), 512: (16, 0), 768: (16, 16), 16: (1, 0)}
    assert layout.coords_of(17) == (1, 1) and bound((8, 8), PAGES[1], MemoryConfig()).coords_of(8) is None


def test_blocks_of_a_column_major_grid_are_transposed() -> None:
    layout = parse(NOTATION.examples[4])
    assert [str(layout.core_of_buffer(b)) for b in range(4)] == [
        "(x=0,y=0)",
        "(x=0,y=1)",
        "(x=1,y=0)",
        "(x=1,y=1)",
    ]
    assert layout.offset_of((0, 64)) == 4096


def test_block_floats_pay_for_their_exponents() -> None:
    layout = parse(NOTATION.examples[3])
    assert layout.physical_shape == (32, 64)
    assert layout.size_bytes == 4 * (16 * 32 + 32)


@pytest.mark.parametrize("text", NOTATION.examples)
def test_examples_print_as_they_are_written(text: str) -> None:
    assert str(parse(text)) == text


def test_the_constructor_s_short_form_is_read() -> None:
    text = "ttnn.TensorSpec(shape=ttnn.Shape([14, 28]), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)"
    assert str(parse(text)) == NOTATION.examples[0]
    rows = parse("TensorSpec(shape=[5, 4, 3, 2], layout=ROW_MAJOR)", "float32")
    assert str(rows) == NOTATION.examples[1]
    assert parse("TensorSpec(shape=[20, 40], tile=[16, 32])").physical_shape == (32, 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TensorSpec(", "at character 11: expected a name, a number"),
        ("TensorSpec(logical_shape=Shape([2, x]))", "at character 35: expected a number"),
        (
            "TensorSpec(logical_shape=[2],tensor_layout=TensorLayout(dtype=HALF))",
            "at character 62: 'HALF' is no data",
        ),
        ("TensorSpec(" * 1000, "expected at most 24 levels"),
        (
            "TensorSpec(logical_shape=[" + "9" * 40 + "])",
            "at character 26: expected a number of at most 20 digits",
        ),
        (
            "TensorSpec(logical_shape=[4294967296],tensor_layout=TensorLayout())",
            "dimension 0 of the shape is 4294967",
        ),
        (
            "TensorSpec(logical_shape=[1073741824,1073741824,16],tensor_layout=TensorLayout())",
            "more than 2^63 - 1",
        ),
        (
            "TensorSpec(logical_shape=[5],tensor_layout=TensorLayout(),more=1)",
            "at character 63: expected no field",
        ),
        (
            "TensorSpec(tensor_layout=TensorLayout())",
            "at character 0: expected TensorSpec with logical_shape",
        ),
        (
            "TensorSpec(logical_shape=[5],tensor_layout=TensorLayout()) x",
            "at character 59: expected the end",
        ),
    ],
)
def test_malformed_texts_name_the_position(text: str, message: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        parse(text)
    assert message in str(refusal.value)
