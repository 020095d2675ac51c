"""Tests of the laws of CuTe's layout algebra, over generated layouts and on worked examples."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts.cute.algebra import coalesce, complement, composition, filtered
from tapestry.hardware.layouts.cute.basis import Term, basis, plus, times
from tapestry.hardware.layouts.cute.composed import Swizzle
from tapestry.hardware.layouts.cute.coordinates import coordinate_of, linear_index
from tapestry.hardware.layouts.cute.integers import Static, number
from tapestry.hardware.layouts.cute.inverse import left_inverse, right_inverse
from tapestry.hardware.layouts.cute.layout import bound
from tapestry.hardware.layouts.cute.recast import evenly_divides
from tapestry.hardware.layouts.cute.strided import Strided, columnwise, identity
from tapestry.hardware.layouts.cute.text import parse_strided
from tapestry.hardware.layouts.cute.tiling import (
    blocked_product,
    flat_divide,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    zipped_divide,
)
from tapestry.hardware.layouts.cute.tuples import integer
from tapestry.hardware.layouts.layout import LayoutError
from tests.cases import examples
from tests.hardware.layouts.cute.comparison import same_function
from tests.hardware.layouts.cute.generators import injective, shapes

laws = settings(max_examples=examples(60), deadline=None)


def images(layout: Strided) -> list[int]:
    return [number(integer(layout(k))) for k in range(number(layout.size))]


@laws
@given(injective())
def test_coalescing_and_flattening_keep_the_function(layout: Strided) -> None:
    assert images(coalesce(layout)) == images(layout.flat) == images(layout)
    assert coalesce(layout).depth <= 1 and coalesce(coalesce(layout)) == coalesce(layout)


@laws
@given(injective(), injective())
def test_a_composition_is_the_composition_of_the_functions(a: Strided, b: Strided) -> None:
    try:
        found = composition(a, b)
    except LayoutError as refusal:
        assert "Divisibility Condition" in str(refusal)
        return
    assert images(found) == [number(integer(a(k))) for k in images(b)]


@laws
@given(injective(), st.integers(1, 64))
def test_a_complement_is_ordered_disjoint_and_large_enough(layout: Strided, cotarget: int) -> None:
    rest = images(complement(layout, Static(cotarget)))
    assert rest == sorted(set(rest)) and not set(rest[1:]) & set(images(layout))
    assert len(rest) * number(filtered(layout).size) >= cotarget


@laws
@given(injective())
def test_inverses_undo_the_layout(layout: Strided) -> None:
    right = right_inverse(layout)
    assert [number(integer(layout(k))) for k in images(right)] == list(range(number(right.size)))
    left = left_inverse(layout)
    assert [number(integer(left(k))) for k in images(layout)] == list(range(number(layout.size)))


@laws
@given(injective(), st.sampled_from((1, 2, 3, 4)))
def test_a_divide_permutes_the_elements_and_puts_the_tile_first(layout: Strided, size: int) -> None:
    assume(evenly_divides(coalesce(layout).shape, Static(size)))
    try:
        found = logical_divide(layout, Static(size))
    except LayoutError as refusal:
        assert "Divisibility Condition" in str(refusal)
        return
    assert sorted(images(found)) == sorted(images(layout))
    assert images(found)[:size] == images(layout)[:size]
    assert number(found.modes[0].size) == size


@laws
@given(injective(gaps=False), st.sampled_from((1, 2, 3)))
def test_a_product_repeats_the_block_without_overlap(block: Strided, count: int) -> None:
    found = logical_product(block, Static(count))
    assert sorted(images(found)) == list(range(number(block.size) * count))
    assert same_function(found.modes[0], block)


@laws
@given(shapes, st.integers(0, 300))
def test_coordinates_of_a_shape_are_counted_colexicographically(shape: Term, index: int) -> None:
    index %= number(columnwise(shape).size)
    coordinate = coordinate_of(index, shape)
    assert number(linear_index(coordinate, shape)) == index
    assert number(integer(columnwise(shape)(coordinate))) == index


@laws
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 3), st.integers(0, 3))
def test_the_module_is_linear(a: int, b: int, first: int, second: int) -> None:
    e, f = basis(first), basis(second)
    assert times(a + b, e).value == plus(times(a, e).value, times(b, e).value)  # type: ignore[union-attr]
    together = plus(times(a, e), times(b, f))
    assert times(3, together) == plus(times(3 * a, e), times(3 * b, f))


@laws
@given(injective(), st.lists(st.integers(0, 50), min_size=2, max_size=2))
def test_a_layout_is_linear_in_natural_coordinates(layout: Strided, scales: list[int]) -> None:
    one = coordinate_of(number(layout.size) - 1, layout.shape)
    scaled = [times_each(scale, one) for scale in scales]
    both = layout(times_each(sum(scales), one))
    assert number(integer(both)) == sum(number(integer(layout(c))) for c in scaled)


def times_each(scale: int, coordinate: Term) -> Term:
    if isinstance(coordinate, tuple):
        return tuple(times_each(scale, part) for part in coordinate)
    return scale * number(integer(coordinate))


@laws
@given(injective(), st.integers(0, 2**31))
def test_packing_is_undone_by_unpacking(layout: Strided, seed: int) -> None:
    memory = bound(layout, 32)
    array = np.random.default_rng(seed).integers(0, 100, memory.shape)
    assert np.array_equal(memory.unpack(memory.pack(array)), array)


@laws
@given(st.integers(0, 3), st.integers(0, 3), st.integers(-5, 5), st.integers(0, 4095))
def test_a_swizzle_is_its_own_inverse(bits: int, base: int, shift: int, offset: int) -> None:
    assume(abs(shift) >= bits and shift)
    swizzle = Swizzle(bits, base, shift)
    assert swizzle.of(swizzle.of(offset)) == offset


@pytest.mark.parametrize(
    ("divide", "printed"),
    [
        (logical_divide, "((_3,3),((_2,_4),(2,2))):((177,59),((13,2),(26,1)))"),
        (zipped_divide, "((_3,(_2,_4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"),
        (tiled_divide, "((_3,(_2,_4)),3,(2,2)):((177,(13,2)),59,(26,1))"),
        (flat_divide, "(_3,(_2,_4),3,(2,2)):(177,(13,2),59,(26,1))"),
    ],
)
def test_the_documentations_divide_has_its_four_forms(divide: object, printed: str) -> None:
    layout = parse_strided("(9,(4,8)):(59,(13,1))")
    tiler = (parse_strided("_3:_3"), parse_strided("(_2,_4):(_1,_8)"))
    wanted = parse_strided(printed)
    assert same_function(divide(layout, tiler), wanted)  # type: ignore[operator]


def test_blocks_are_repeated_whole_or_interleaved() -> None:
    block, tiler = parse_strided("(_2,_5):(_5,_1)"), parse_strided("(_3,_4):(_1,_3)")
    assert str(blocked_product(block, tiler)) == "((_2,_3),(_5,_4)):((_5,_10),(_1,_30))"
    assert str(raked_product(block, tiler)) == "((_3,_2),(_4,_5)):((_10,_5),(_30,_1))"


def test_basis_strides_compose_and_measure_their_codomain() -> None:
    layout = identity((8, 8))
    assert (
        str(composition(layout, parse_strided("(_4,_2):(_2,_8)"))) == "((4,1),(1,2)):((_2@0,1@1),(_8@0,1@1))"
    )
    assert str(layout.coshape) == "(8, 8)" and layout.cosize == 64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: composition(parse_strided("(_8,_8):(_8,_1)"), parse_strided("_4:_3")), "Shape Divisibility"),
        (
            lambda: composition(parse_strided("(_4,_6):(_6,_1)"), parse_strided("_2:_5")),
            "Stride Divisibility",
        ),
        (
            lambda: composition(parse_strided("(_6,_2):(_1,_9)"), parse_strided("(_2,_2):(_2,_4)")),
            "carry across",
        ),
        (
            lambda: composition(parse_strided("(_3,_8):(_8,_1)"), parse_strided("_4:_2")),
            "leaves the extent _3",
        ),
        (lambda: complement(parse_strided("(_4,_2):(_1,_2)")), "Non-injective Layout detected in complement"),
        (lambda: complement(parse_strided("(4,2):(1,4)"), 16), "Dynamic-stride complement only for rank-1"),
        (lambda: left_inverse(parse_strided("(4,2):(1,4)")), "Left inverse requires static strides"),
        (lambda: logical_divide(parse_strided("4:1"), (Static(2), Static(2))), "Too many modes in tiler"),
        (lambda: parse_strided("(4,5):(1,4)")((1, 2, 3)), "Mismatched Ranks"),
        (lambda: Strided((4, 5), 1), "expected a stride congruent with the shape"),
    ],
)
def test_impossible_combinations_have_cutes_words(call: object, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        call()  # type: ignore[operator]


flat_layouts = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12)), min_size=1, max_size=3).map(
    lambda modes: Strided(tuple(s for s, _ in modes), tuple(d for _, d in modes))
)


@settings(max_examples=examples(200), deadline=None)
@given(flat_layouts, flat_layouts, st.booleans())
def test_a_composition_is_refused_or_right_for_any_integers(a: Strided, b: Strided, is_static: bool) -> None:
    """Check any modes, including those that interleave or carry into each other; B stays inside A."""
    assume(max(images(b)) < number(a.size))
    if is_static:
        a, b = (Strided(*(tuple(map(Static, t)) for t in (l.shape, l.stride))) for l in (a, b))  # type: ignore[arg-type]
    try:
        found = composition(a, b)
    except LayoutError:
        return
    assert images(found) == [number(integer(a(k))) for k in images(b)]


@pytest.mark.parametrize(
    ("a", "b"),
    [("(2,3):(1,10)", "2:3"), ("(_4,_2):(_1,_10)", "(_3,_2):(_1,_2)"), ("(4,2):(1,10)", "(3,2):(1,2)")],
)
def test_a_composition_that_carries_is_refused(a: str, b: str) -> None:
    """Check that 2 x 3 elements 3 apart are refused: 0 and 3 are A(0) = 0 and A(3) = 11; no walk by modes gives it."""
    with pytest.raises(LayoutError, match="Divisibility Condition"):
        composition(parse_strided(a), parse_strided(b))
