"""Tests of maps of layouts: the slots that formulas give, and both directions of every notation in agreement."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.hardware.layouts import NOTATIONS
from tapestry.service.layout_maps import MOST_CELLS, PADDING, layout_map
from tapestry.service.layouts import LayoutFaults, read_layout
from tests.service.layout_examples import BROADCAST, EXAMPLES, TILED, LayoutExample


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text[:20])
def test_slots_are_those_of_the_formula(example: LayoutExample) -> None:
    found = layout_map(read_layout(example.text, example.dtype or None))
    rows, columns = np.indices(found["shape"])
    expected = example.offset(rows, columns).reshape(-1)
    assert found["elements"] == expected.tolist()
    slots = np.array(found["slots"])
    assert set(np.flatnonzero(slots != PADDING)) == set(expected.tolist())
    assert np.array_equal(expected[slots[slots != PADDING]], np.flatnonzero(slots != PADDING))


@pytest.mark.parametrize("text", [text for notation in NOTATIONS for text in notation.examples])
def test_both_directions_agree_in_every_notation(text: str) -> None:
    layout = read_layout(text)
    if layout.buffer_count * layout.buffer_elements > MOST_CELLS:
        with pytest.raises(LayoutFaults, match="too large to show"):
            layout_map(layout)
        return
    found = layout_map(layout)
    assert len(found["elements"]) == len(found["above"]) == len(found["left"]) == layout.element_count
    assert len(found["slots"]) == layout.buffer_count * layout.buffer_elements
    assert len(found["buffer_names"]) == layout.buffer_count
    assert all(found["slots"][offset] != PADDING for offset in found["elements"])
    for offset, element in enumerate(found["slots"]):
        if element != PADDING:
            assert found["elements"][element] == offset


def test_borders_are_those_of_tiles_and_of_buffers() -> None:
    tiled = layout_map(read_layout(TILED.text))
    left = np.reshape(tiled["left"], (3, 5)) > 0
    assert left.tolist() == [[False, False, True, False, True]] * 3
    above = np.reshape(tiled["above"], (3, 5)) > 0
    assert above.tolist() == [[False] * 5, [False] * 5, [True] * 5]
    cores = layout_map(read_layout("f32[7,9]{0,1:T(4)SC(0:3)}"))
    assert np.reshape(cores["left"], (7, 9))[:, 3].tolist() == [3] * 7


def test_elements_may_share_a_slot() -> None:
    found = layout_map(read_layout(BROADCAST.text, BROADCAST.dtype))
    assert len(found["elements"]) == 24
    assert sum(element != PADDING for element in found["slots"]) == 12


@pytest.mark.parametrize("text", ["f32[600,600]", "f32[2]{0:T(524288)}"])
def test_what_is_too_large_is_refused(text: str) -> None:
    with pytest.raises(LayoutFaults, match="at most 262,144 elements and slots"):
        layout_map(read_layout(text))
