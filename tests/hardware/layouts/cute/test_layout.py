"""Tests of CuTe layouts in memory: texts, offsets both ways, packing, and refusals."""

import numpy as np
import pytest

from tapestry.hardware.layouts import parse_layout
from tapestry.hardware.layouts.cute import NOTATION, parse
from tapestry.hardware.layouts.layout import Layout, LayoutError, every_coordinate


@pytest.mark.parametrize("text", NOTATION.examples)
def test_every_example_is_read_printed_and_packed(text: str) -> None:
    layout = parse_layout(text)
    assert str(layout) == text and parse(str(layout)) == layout
    array = np.arange(1, layout.element_count + 1).reshape(layout.shape)
    packed = layout.pack(array, fill=-7)
    assert np.array_equal(packed, Layout.pack(layout, array, fill=-7))
    assert np.array_equal(layout.unpack(packed), array)
    coords, real = layout.coordinates(np.arange(layout.buffer_elements))
    assert np.count_nonzero(real) == layout.element_count
    assert np.array_equal(layout.offsets(coords[real]), np.flatnonzero(real))


def test_a_mode_that_is_a_tuple_is_one_dimension_counted_colexicographically() -> None:
    layout = parse("ptr[16b] o (4,(2,3)):(2,(1,8))")
    assert layout.shape == (4, 6)
    assert layout.offset_of((3, 5)) == 2 * 3 + 1 * 1 + 8 * 2 == 23
    assert layout.coords_of(23) == (3, 5) and layout.size_bytes == 48


def test_strides_that_interleave_are_inverted_by_a_table() -> None:
    layout = parse("(2,3):(3,2)")
    assert [layout.coords_of(k) for k in range(8)] == [
        (0, 0), None, (0, 1), (1, 0), (0, 2), (1, 1), None, (1, 2),
    ]  # fmt: skip


def test_elements_that_share_a_slot_are_packed_if_they_agree() -> None:
    layout = parse("(2,3):(0,1)")
    same = np.array([[1, 2, 3], [1, 2, 3]])
    assert layout.pack(same).tolist() == [[1, 2, 3]]
    assert layout.unpack(layout.pack(same)).tolist() == same.tolist()
    with pytest.raises(LayoutError, match="Non-injective Layout"):
        parse("(2,3):(1,1)").pack(np.arange(6).reshape(2, 3))


def test_elements_that_share_a_slot_leave_no_negative_padding() -> None:
    assert parse("(2,3):(0,1)").padding_bytes == 0
    assert parse("(2,3):(0,2)").padding_bytes == 2 * 4
    assert parse("(2,3):(1,1)").padding_bytes == 0


def test_a_swizzle_fills_its_last_period() -> None:
    layout = parse("smem_ptr[8b] o Sw<1,0,1> o _0 o 3:1")
    assert (layout.buffer_elements, layout.padding_bytes) == (4, 1)
    assert layout.pack(np.array([5, 6, 7]), fill=0).tolist() == [[5, 6, 0, 7]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(4,5):(1,4", r"at character 10: expected ',' or '\)'"),
        ("(4,5)", "at character 0: .4,5. is a tuple of integers .*, not a layout; write shape:stride"),
        ("(4,5):(1,4) x", "at character 12: expected the end of the text"),
        ("(4,5):(1,(4))", "expected a stride congruent with the shape"),
        ("ptr[32b] o (4,5):(1@0,1@1)", "expected integer strides in memory"),
        ("(4,5):(1,-4)", "strides of 0 or more"),
        ("(4000000000,4000000000):(1,4000000000)", "expected offsets below"),
        ("99999999999999999999:1", "expected an integer of 64 bits"),
        ("(" * 100 + "4", "at most 64 levels"),
        ("ptr[0b] o 4:1", "elements of 1 to 128 bits"),
        ("Sw<3,3,1> o _0 o 4:1", "abs.SShift. must be more than BBits"),
        ("(" + "1," * 40000 + "1):1", "expected at most 65536 characters"),
    ],
)
def test_malformed_texts_are_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse(text)


def test_the_element_comes_from_the_text_or_the_argument() -> None:
    assert str(parse("4:1", "bf16")) == "ptr[16b] o 4:1"
    assert parse("half_t (4,5):(1,4)").element_bits == 16
    assert parse("(4,5):(1,4)").element_bits == 32
    with pytest.raises(LayoutError, match="expected an element type"):
        parse("4:1", "thing")


def test_many_modes_are_packed_too() -> None:
    pieces = "(" + ",".join(["2", "1"] * 40) + ")"
    layout = parse(f"{pieces}:({','.join(['0'] * 78 + ['1', '5'])})", "u8")
    assert layout.shape[:2] == (2, 1) and len(layout.shape) == 80
    folded = parse(f"({pieces},3):(({','.join(['0'] * 60 + ['1'] + ['0'] * 19)}),2)")
    assert folded.shape == (1 << 40, 3) and folded.buffer_elements == 6
    small = parse("((2,1,2,1,2),(2,2)):((1,9,2,9,4),(8,16))")
    array = np.arange(32).reshape(8, 4)
    assert np.array_equal(small.unpack(small.pack(array)), array)


def test_a_million_offsets_are_arrays() -> None:
    layout = parse("((16,64),(32,8)):((1,512),(16,32768))")
    coords = np.random.default_rng(0).integers(0, 256, (1_000_000, 2))
    found, real = layout.coordinates(layout.offsets(coords))
    assert real.all() and np.array_equal(found, coords)


def test_every_coordinate_of_a_hierarchy_has_its_own_offset() -> None:
    layout = parse("((2,2),(3,(2,2))):((1,12),(2,(6,24)))")
    assert sorted(layout.offsets(every_coordinate(layout.shape)).tolist()) == list(range(48))
