"""Tests of drawings: every cell agrees with the layout, borders stand where tiles and buffers end."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError, parse_layout
from tapestry.hardware.layouts.drawing import diagram_of, svg_of, text_of
from tapestry.hardware.layouts.drawing.diagram import MOST_CELLS, MOST_PANELS
from tapestry.hardware.layouts.drawing.terminal import ASCII
from tapestry.hardware.layouts.drawing.tile_borders import BUFFER, INNER, OUTER, PLAIN, kept, tile_borders
from tapestry.hardware.layouts.ttnn import tiled
from tests.cases import examples
from tests.contracts.layout_members import STRATEGIES

SVG = "{http://www.w3.org/2000/svg}"


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_cell_agrees_with_the_layout(data: st.DataObject) -> None:
    layout = data.draw(STRATEGIES[data.draw(st.sampled_from(sorted(STRATEGIES)))])
    diagram = diagram_of(layout, data.draw(st.integers(3, 9)), data.draw(st.integers(3, 9)))
    for panel in diagram.panels:
        assert panel.slots.shape == (len(panel.rows), len(panel.columns))
        offsets = panel.buffers * layout.buffer_elements + panel.slots
        for place in np.ndindex(*offsets.shape):
            found = layout.coords_of(int(offsets[place]))
            assert (found is not None) == panel.real[place]
            assert found is None or found == tuple(panel.coords[place].tolist())
    assert text_of(diagram) and ElementTree.fromstring(svg_of(diagram)).tag == f"{SVG}svg"


def test_borders_distinguish_faces_from_tiles() -> None:
    """Check the borders of a ttnn tile of 32 x 32, which consists of faces of 16 x 16."""
    panel = diagram_of(tiled((64, 64), "bfloat16"), 64, 64).panels[0]
    wanted = np.full(64, PLAIN)
    wanted[[16, 48]], wanted[32] = INNER, OUTER
    assert (panel.left == wanted[None, :]).all()
    assert (panel.above == wanted[:, None]).all()


def test_a_border_between_buffers_is_one_whatever_the_step() -> None:
    offsets = np.array([[0, 1, 4, 5], [2, 3, 6, 7]])
    assert tile_borders(offsets, offsets // 4, axis=1).tolist() == [[0, 0, BUFFER, 0]] * 2
    assert tile_borders(offsets, np.zeros_like(offsets), axis=1).tolist() == [[0, 0, INNER, 0]] * 2


def test_a_scattered_map_has_no_borders() -> None:
    offsets = np.array([np.cumsum([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])])
    assert not tile_borders(offsets, np.zeros_like(offsets), axis=1).any()


def test_what_is_left_out_lies_between_what_begins() -> None:
    starts = np.zeros(100, bool)
    starts[[30, 60]] = True
    shown, is_cut = kept(starts, 10)
    assert (shown.tolist(), is_cut) == ([0, 1, 29, 30, 59, 60, 99], False)
    shown, is_cut = kept(np.ones(100, bool), 5)
    assert (shown.tolist(), is_cut) == ([0, 1, 2, 3, 99], True)
    assert kept(starts[:10], 10)[0].tolist() == list(range(10))


def test_rows_are_named_by_what_their_elements_share() -> None:
    joined = parse_layout("f32[2,2,3]{2,1,0:T(*,3,2)}")
    assert diagram_of(joined, 9, 9).panels[0].row_labels == ["0,0,:", "0,1,:", "1,0,:", "1,1,:", "", ""]
    assert diagram_of(parse_layout("f32[2,3]{0,1}"), 9, 9).panels[0].row_labels == [":,0", ":,1", ":,2"]


def test_a_cell_of_the_svg_says_what_lies_there() -> None:
    root = ElementTree.fromstring(svg_of(diagram_of(parse_layout("f32[3,5]{1,0:T(2,2)}"), 40, 40)))
    specified = [title.text for title in root.findall(f"{SVG}g/{SVG}title")]
    assert len(specified) == 24 and sum(text.startswith("padding") for text in specified) == 9
    assert "element [2, 3]: buffer 0, slot 17" in specified
    hatched = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "padding"]
    assert len(hatched) == 9


def test_matrices_beyond_the_first_are_counted() -> None:
    diagram = diagram_of(parse_layout("f32[20,3,5]"), 40, 40)
    assert (len(diagram.panels), diagram.panel_count) == (MOST_PANELS, 20)
    assert text_of(diagram, ASCII)[-1] == "Shown are, of the matrices, the first 8 of 20."


def test_what_is_too_large_is_refused_with_a_hint() -> None:
    diagram_of(parse_layout(f"f32[1,{MOST_CELLS}]"), 40, 40)
    with pytest.raises(LayoutError, match="draw a smaller shape in the same layout"):
        diagram_of(parse_layout(f"f32[1,{MOST_CELLS + 1}]"), 40, 40)
