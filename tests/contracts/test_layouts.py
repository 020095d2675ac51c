"""Tests of the contract of every layout notation: texts and elements round-trip, no two elements share a slot."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import NOTATIONS, Layout, LayoutError, Notation, parse_layout
from tapestry.hardware.layouts.layout import every_coordinate
from tests.cases import examples
from tests.contracts.layout_members import STRATEGIES

MEMBERS = [
    pytest.param(n.name, text, id=f"{n.name}-{k}") for n in NOTATIONS for k, text in enumerate(n.examples)
]
MOST_ELEMENTS = 2**17
notations = pytest.mark.parametrize("notation", NOTATIONS, ids=lambda n: n.name)
each_text = pytest.mark.parametrize(("name", "text"), MEMBERS)


def assert_layout(layout: Layout) -> None:
    """Check all that the protocol promises, for every element and every slot."""
    assert parse_layout(str(layout)) == layout
    slots = layout.buffer_count * layout.buffer_elements
    assert prod(layout.physical_shape) == slots
    array = np.arange(1, layout.element_count + 1, dtype=np.int32).reshape(layout.shape)
    buffers = layout.pack(array, 0)
    assert buffers.shape == (layout.buffer_count, layout.buffer_elements)
    np.testing.assert_array_equal(layout.unpack(buffers), array)

    coords = every_coordinate(layout.shape)
    offsets = layout.offsets(coords)
    assert len(np.unique(offsets)) == layout.element_count
    np.testing.assert_array_equal(buffers.reshape(-1)[offsets], array.reshape(-1))
    found, real = layout.coordinates(np.arange(slots))
    np.testing.assert_array_equal(np.flatnonzero(real), np.sort(offsets))
    np.testing.assert_array_equal(layout.offsets(found[real]), np.flatnonzero(real))
    np.testing.assert_array_equal(found[offsets], coords)
    assert not buffers.reshape(-1)[~real].any()


def assert_sizes(layout: Layout) -> None:
    """Check that bytes are those of the buffers; only what elements share (exponents of block floats) is added."""
    plain = layout.buffer_count * -(-layout.buffer_elements * layout.element_bits // 8)
    least = -(-layout.element_count * layout.element_bits // 8)
    assert plain <= layout.size_bytes <= plain + plain // 8
    assert 0 <= layout.padding_bytes <= layout.size_bytes - least
    slots = layout.buffer_count * layout.buffer_elements
    if plain == layout.size_bytes and not slots * layout.element_bits % 8:
        empty = (slots - layout.element_count) * layout.element_bits
        assert layout.padding_bytes == empty // 8


def assert_picture(layout: Layout) -> None:
    """Check that every slot of the storage that is drawn is drawn once, and all elements are among them."""
    places = every_coordinate(layout.picture_shape)
    offsets = layout.picture_offsets(places)
    assert len(np.unique(offsets)) == len(places)
    assert layout.coordinates(offsets)[1].sum() == layout.element_count


@each_text
def test_a_text_is_read_and_printed_back(name: str, text: str) -> None:
    layout = parse_layout(text)
    assert layout.notation == name
    assert str(parse_layout(str(layout))) == str(layout)
    assert parse_layout(f"  {text}\n") == layout


@each_text
def test_an_example_holds_what_layouts_promise(name: str, text: str) -> None:
    layout = parse_layout(text)
    assert_sizes(layout)
    if layout.buffer_count * layout.buffer_elements <= MOST_ELEMENTS:
        assert_layout(layout)
        assert_picture(layout)


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_generated_layouts_hold_what_layouts_promise(name: str, data: st.DataObject) -> None:
    layout = data.draw(STRATEGIES[name])
    assert layout.notation == name
    assert_sizes(layout)
    if layout.buffer_count * layout.buffer_elements <= MOST_ELEMENTS:
        assert_layout(layout)
        assert_picture(layout)


def test_every_notation_is_generated() -> None:
    assert set(STRATEGIES) == {notation.name for notation in NOTATIONS}


@notations
def test_a_notation_recognizes_its_own_texts_alone(notation: Notation) -> None:
    own = [n for n in NOTATIONS for text in n.examples if notation.recognizes(text)]
    assert own == [notation] * len(notation.examples)
    assert not notation.recognizes("")


@each_text
def test_elements_outside_are_refused(name: str, text: str) -> None:
    layout = parse_layout(text)
    end = layout.buffer_count * layout.buffer_elements
    for coords in (layout.shape, (0,) * (len(layout.shape) + 1)):
        with pytest.raises(LayoutError, match="not inside the shape"):
            layout.offset_of(coords if coords else (0,))
    for offset in (-1, end):
        with pytest.raises(LayoutError, match=f"offset {offset} is not inside the storage of {end} elements"):
            layout.coords_of(offset)
    with pytest.raises(LayoutError, match="expected array of shape"):
        layout.pack(np.zeros((*layout.shape, 2)))
    with pytest.raises(LayoutError, match="expected buffers of shape"):
        layout.unpack(np.zeros((layout.buffer_count, layout.buffer_elements + 1)))


@each_text
def test_arrays_of_places_are_checked(name: str, text: str) -> None:
    layout = parse_layout(text)
    rank, end = len(layout.shape), layout.buffer_count * layout.buffer_elements
    for offsets in ([0, -1], [0, end]):
        with pytest.raises(
            LayoutError, match=f"offset {offsets[1]} in row 1 is not inside the storage of {end}"
        ):
            layout.coordinates(np.array(offsets))
    with pytest.raises(LayoutError, match="expected integers as offsets, not float64"):
        layout.coordinates(np.array([0.0]))
    with pytest.raises(LayoutError, match=r"expected offsets \(n,\), not \(1, 1\)"):
        layout.coordinates(np.array([[0]]))
    with pytest.raises(LayoutError, match=r"expected integers as an offset, not 0\.5"):
        layout.coords_of(0.5)  # type: ignore[arg-type]
    for coords in (np.zeros((1, rank + 1), int), np.zeros((rank,), int)):
        with pytest.raises(LayoutError, match=rf"expected coordinates \(n, {rank}\), not "):
            layout.offsets(coords)
    assert layout.offsets(np.zeros((0, rank), int)).shape == (0,)


@each_text
def test_coordinates_are_integers_inside_the_shape(name: str, text: str) -> None:
    layout = parse_layout(text)
    for dim, extent in enumerate(layout.shape):
        for bad in (-1, extent):
            coords = np.zeros((3, len(layout.shape)), int)
            coords[2, dim] = bad
            with pytest.raises(LayoutError, match="in row 2 are not inside the shape "):
                layout.offsets(coords)
        with pytest.raises(LayoutError, match=r"expected integers as coordinates, not 0\.5"):
            layout.offset_of((0.5,) * len(layout.shape))  # type: ignore[arg-type]
    if layout.shape:
        with pytest.raises(LayoutError, match="expected integers as coordinates, not float64"):
            layout.offsets(np.zeros((1, len(layout.shape))))


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_damaged_text_is_read_or_refused(data: st.DataObject) -> None:
    """Check that any typing error gives a layout, or a `LayoutError` that fits on a few lines."""
    text = data.draw(st.sampled_from([text for n in NOTATIONS for text in n.examples]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 6, len(text))))
    put = data.draw(
        st.sampled_from(["", "(", ")", "9" * 30, "-1", "0", ",", "x", "é", "\x00", "{", "<" * 300])
    )
    try:
        parse_layout(text[:start] + put + text[end:])
    except LayoutError as refusal:
        assert 0 < len(str(refusal)) < 2000


@each_text
def test_a_text_that_ends_too_soon_is_refused_with_the_place(name: str, text: str) -> None:
    """Check that the error for a text cut anywhere behind the part that identifies the notation names a character."""
    notation = next(n for n in NOTATIONS if n.name == name)
    for end in range(len(text) // 3, len(text)):
        try:
            notation.parse(text[:end], None)
        except LayoutError as refusal:
            assert re.search(r"at character \d+: ", str(refusal)), (text[:end], str(refusal))


@notations
@pytest.mark.parametrize("filler", ["(", "[", "<", "{", ",", "1", " ", "x"])
def test_a_megabyte_of_anything_is_refused_at_once(notation: Notation, filler: str) -> None:
    text = notation.examples[0]
    for start in (0, 1, len(text) // 2, len(text)):
        with pytest.raises(LayoutError):
            notation.parse(text[:start] + filler * 1_000_000, None)


def test_a_text_of_no_notation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LayoutError, match="is of no notation known here; expected") as refusal:
        parse_layout("float*** x")
    assert all(notation.name in str(refusal.value) for notation in NOTATIONS)
