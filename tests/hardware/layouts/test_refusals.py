"""Tests of texts that people paste: output printed beside layouts, digits of other scripts, unknown text."""

import numpy as np
import pytest

from tapestry.hardware.layouts import LayoutError, parse_layout
from tapestry.hardware.layouts.ttnn import Shape, TtnnLayout


@pytest.mark.parametrize(
    ("text", "padded", "size_bytes", "first_of_second_row"),
    [
        ("ttnn.Shape([16, 32])", (16, 32), 1024, 32),
        ("ttnn.Shape([14, 28], [32, 32])", (32, 32), 2048, 16),
        ("ttnn.Shape([14[32], 28[32]])", (32, 32), 2048, 16),
        ("Shape([3, 5[8]])", (3, 8), 48, 8),
    ],
)
def test_a_shape_alone_is_stored_as_it_is_padded(
    text: str, padded: tuple[int, int], size_bytes: int, first_of_second_row: int
) -> None:
    """Check the second row of the first face: 16 elements after the first if padded to tiles; else a row after."""
    layout = parse_layout(text)
    assert isinstance(layout, TtnnLayout)
    assert layout.spec.padded_shape == padded
    assert layout.size_bytes == size_bytes
    assert layout.offset_of((1, 0)) == first_of_second_row
    assert parse_layout(str(layout)) == layout


def test_a_shape_is_read_as_it_is_called_and_as_it_is_printed() -> None:
    called = Shape.parse("ttnn.Shape([14, 28], [32, 32])")
    assert called == Shape((14, 28), (32, 32)) == Shape.parse(str(called))
    with pytest.raises(LayoutError, match="at character 16: expected"):
        Shape.parse("ttnn.Shape([2[4]], [4])")


@pytest.mark.parametrize("text", ["ArithTuple(0,0) o (4,5):(_1@0,_1@1)", "counting_iter(42) o (4,5):(_1,4)"])
def test_an_implicit_tensor_lies_in_no_memory(text: str) -> None:
    layout = parse_layout(" " + text)
    assert str(layout) == text
    assert (layout.buffer_count, layout.size_bytes, layout.padding_bytes) == (0, 0, 0)
    for use in (
        lambda: layout.offset_of((0, 0)),
        lambda: layout.pack(np.zeros(layout.shape)),
        lambda: layout.unpack(np.zeros((0, 0))),
    ):
        with pytest.raises(LayoutError, match="computes its elements and stores none; ask for the element"):
            use()
    with pytest.raises(LayoutError, match="at character 5: expected"):
        parse_layout("(4,5)(")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("f32[3,5]{1,0:T(2,２)}", 17),
        ("f32[٣,5]", 4),
        ("ptr[16b] o (４,2):(2,1)", 12),
        ("ttnn.TensorSpec(shape=[１4, 28], layout=ttnn.TILE_LAYOUT)", 23),
        ("tensor<٥3x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <1x1>, memref<53x63xf32>>>", 7),
        ("ptr[300b] o (4,4):(1,4)", 4),
    ],
)
def test_only_plain_digits_are_numbers(text: str, place: int) -> None:
    with pytest.raises(LayoutError, match=f"at character {place}: expect"):
        parse_layout(text)


def test_a_text_of_no_notation_is_shown_whole_ones() -> None:
    with pytest.raises(
        LayoutError, match=r"at character 2: 'x\[3\]' is of no notation known here"
    ) as refusal:
        parse_layout("  x[3]")
    shown = str(refusal.value).split(" like ")[1:]
    assert len(shown) == 4
    for text in shown:
        assert parse_layout(text[1:].split("'")[0]).size_bytes > 0
