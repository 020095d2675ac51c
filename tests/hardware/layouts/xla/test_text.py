"""Tests of XLA's texts: what is refused and where, what hostile texts may do, values that texts cannot hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.xla import (
    IGNORABLE,
    ArrayShape,
    LayoutFields,
    SplitConfig,
    XlaLayout,
    array_data_size,
    byte_strides_is_major_to_minor,
    default_tpu_tiles,
    equal,
    linear_index_of_first_tile,
    logical_to_physical,
    move_dim_to_major,
    parse,
    parse_layout_fields,
    parse_shape,
    primitive_named,
)

NUMBERS = st.integers(1, 2**40)


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("f32[3,5]{1,0:T(2,2}", 18, r"expects a list to end with '\)', found '}'"),
        ("f32[3,5]{1,0:T(2,x)}", 17, "expects integer"),
        ("f32[3,-5]", 6, "expected a dimension size of at least 0"),
        ("f32[3,5", 7, r"expects a list to end with '\]', found the end"),
        ("f32[3,5]{1,0} tail", 14, "expected the end of the text"),
        ("f32[3,5]{1,0:L(0)}", 15, "expected a positive multiple padded to in elements"),
        ("f32[9999999999999999999999]", 4, "expected an integer of 64 bits"),
        ("token[3]", 6, "token has no dimensions"),
        ("f32[3,5]{1:T(2)}", 8, "Dimensions size is 2, but minor to major size is 1"),
        ("(" * 30 + ")" * 30, 25, "expected shapes at most 24 deep"),
        ("f32[4]{0:D(C)P(f32[4]}", 21, r"expects physical shape to end with '\)'"),
    ],
)
def test_a_malformed_text_names_the_place(text: str, at: int, expected: str) -> None:
    with pytest.raises(LayoutError, match=f"^at character {at}: {expected}"):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(f32[2], s8[])", "expected one array, found a tuple"),
        ("token[]", "'token' is no element type"),
        ("f32[?,4]", "unbounded dimension"),
        ("f32[4,4]{1,0:D(D,C)}", "is a sparse array, which has no storage of its own"),
        ("f32[4,4]{1,0:T(0,4)}", "has a dimension of size 0"),
        ("f32[4,4]{1,0:T(4,*)}", r"ends in '\*'"),
        ("f32[4,4]{1,0:T(-2,4)}", "minimum int64_t value if it's negative. Value is -2"),
        ("f32[3000000000,3000000000]", r"Shape f32\[3000000000,3000000000\] size may overflow int64_t"),
        ("s8[2]{0:T(4000000000,4000000000)}", "size may overflow int64_t"),
        ("s8[5]{0:L(9223372036854775807)E(9)}", "size may overflow int64_t"),
        (f"f32[2]{{0:T{'(1)' * 80}}}", "make 65 dimensions; expected at most 64"),
        ("f32[7]{0:SC(1:3)}", "missing or split already"),
        ("f32[7]{0:SC(0:3)(0:4)}", "missing or split already"),
        ("f32[7]{0:SC(0:9)}", "out of order; expected ascending indices up to 7"),
        (f"f32[{','.join(['1'] * 65)}]", "shape of type f32 is rank 65; expected at most 64"),
        ("f32[3,5]" + " " * 100_000, "is too long; expected at most 100000"),
    ],
)
def test_what_has_no_storage_is_refused(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("f32[2,3]{1,0:D(D,D)}", "f32[2,3]{1,0}"),
        ("f32[2,3]{1,0:D(D,D)T(2,2)}", "f32[2,3]{1,0:T(2,2)}"),
        ("f32[2,3]{1,0}", "f32[2,3]{1,0}"),
    ],
)
def test_levels_of_a_dense_array_are_not_printed(text: str, printed: str) -> None:
    layout = parse(text)
    assert str(layout) == printed
    assert layout == parse(printed)
    assert str(parse_shape(text)) == printed


def test_a_level_that_is_not_dense_makes_all_of_them_print() -> None:
    assert str(parse_layout_fields("{1,0:D(D,C+~)}")) == "{1,0:D(D,C+~)}"


@given(st.text("f32[]{}(),:*TLESCDPM#?<=-0 ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        shape = parse_shape("f32[2,3]{1,0" + text)
    except LayoutError:
        return
    assert parse_shape(str(shape)) == shape


@given(st.permutations(range(3)), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_fields_come_back(
    order: list[int], tail: int, bits: int, space: int, prefix: int, sparse: bool
) -> None:
    fields = LayoutFields(
        tuple(order),
        dim_level_types=("compressed", "singleton", "loose_compressed") if sparse else (),
        dim_unique=(True, False, True) if sparse else (),
        tiles=((8, -(2**63), 128), (2, 1)),
        tail_padding_alignment_in_elements=tail,
        element_size_in_bits=bits,
        memory_space=space,
        split_configs=(SplitConfig(1, (2, 3)), SplitConfig(0, ())),
        dynamic_shape_metadata_prefix_bytes=prefix,
    )
    assert parse_layout_fields(str(fields)) == fields


def test_wrong_arguments_are_reported() -> None:
    plain, shape = LayoutFields((1, 0)), ArrayShape("f32", (2, 3))
    for call, message in (
        (lambda: equal(plain, plain, ["color"]), "'color' cannot be ignored; expected one of tiles"),
        (lambda: move_dim_to_major(plain, 2), "dimension 2 is not in the layout {1,0}"),
        (lambda: linear_index_of_first_tile(shape, [1]), "index [1] has 1 elements, but shape is rank 2"),
        (lambda: byte_strides_is_major_to_minor([4], [2, 3], "f32"), "1 byte strides for 2 dimensions"),
        (lambda: default_tpu_tiles("f32", -1), "-1 is negative"),
        (lambda: primitive_named("f33"), "'f33' is no element type of XLA; expected one of pred, s1"),
        (lambda: XlaLayout.of((2, 3), "f32", (0, 0), "default"), "field has duplicate values: {0, 0}"),
        (lambda: XlaLayout.of((2, 3), "f32", (0,), "default"), "contains 1 elements, but shape is rank 2"),
        (lambda: XlaLayout.of((2, 3), "f32", tiles="some"), "tiles 'some' are none"),
        (lambda: XlaLayout.of((2, -3), "f32"), "shape f32[2,-3] has a negative dimension"),
    ):
        with pytest.raises(LayoutError) as refusal:
            call()
        assert message in str(refusal.value)


def test_stars_are_left_to_the_full_index() -> None:
    starred = parse("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")
    with pytest.raises(LayoutError, match=r"LayoutUtil::LinearIndex handles no '\*'"):
        array_data_size(starred.array)
    assert starred.offset_of((1, 6, 7, 10, 9)) == 12430


def test_small_helpers() -> None:
    assert logical_to_physical(LayoutFields((0, 2, 1))) == (2, 0, 1)
    assert equal(LayoutFields((0,), ((8,),), memory_space=2), LayoutFields((0,)), IGNORABLE)
    assert [
        primitive_named(n).name for n in ("F32", "bfloat16", "bool", "int4", "float8_e5m2", "uint16")
    ] == [*("f32", "bf16", "pred", "s4", "f8e5m2", "u16")]
    assert parse("f32[2,<=3]").pack(np.ones((2, 3))).sum() == 6
