"""Tests of `tapestry layout`: descriptions, drawings, and refusals."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tapestry.hardware.layouts import NOTATIONS, parse_layout
from tests.service.conftest import Run, complaint

METAL = (
    "tensor<53x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, "
    "memref<1x1x!tt.tile<32x32, bf16>, #tt.memory_space<l1>>>>"
)


def test_sizes_and_places_are_reported(tapestry: Run) -> None:
    """Check the document's example: rows of 53 over 3 cores are 18 per core, columns of 63 over 2 are 32."""
    reported = tapestry("layout", "describe", METAL, "--at", "20,33", "--offset", "1023", "--json").json
    assert (reported["shape"], reported["physical_shape"]) == ([53, 63], [96, 64])
    assert (reported["buffer_count"], reported["buffer_elements"], reported["size_bytes"]) == (6, 1024, 12288)
    assert reported["padding_bytes"] == 12288 - 53 * 63 * 2
    assert reported["padding_share"] == reported["padding_bytes"] / 12288
    assert reported["element"] == {
        "coordinates": [20, 33], "is_padding": False, "offset": 3 * 1024 + 65, "buffer": 3,
        "buffer_name": "core [1, 1]", "slot": 2 * 32 + 1, "byte": 130, "bit": 0,
    }  # fmt: skip
    assert (reported["slot"]["coordinates"], reported["slot"]["is_padding"]) == (None, True)


def test_people_read_the_same(tapestry: Run) -> None:
    lines = tapestry("layout", "describe", METAL, "--at", "20,33", "--offset", "1023").out.splitlines()
    assert lines[0] == METAL
    message = dict(re.split(" {2,}", line, maxsplit=1) for line in lines[1:])
    assert message["size"] == "12,288 B (12.00 KiB)"
    assert message["padding"] == "5,610 B (5.479 KiB) (45.7%)"
    assert message["element [20, 33]"] == "offset 3,137: core [1, 1], slot 65, byte 130"
    assert message["offset 1023"] == "padding: core [0, 0], slot 1,023, byte 2,046"


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda n: n.name)
def test_every_example_is_described_and_drawn(tapestry: Run, notation, tmp_path: Path) -> None:
    for text in notation.examples:
        layout = parse_layout(text)
        reported = tapestry("layout", "describe", text, "--json").json
        assert (reported["text"], reported["size_bytes"]) == (str(layout), layout.size_bytes)
        answer = tapestry("layout", "draw", text)
        assert (answer.code, answer.err) == (0, "") and answer.out
        diagram = tmp_path / "picture.svg"
        assert tapestry("layout", "draw", text, "--svg", diagram).out == ""
        assert diagram.stat().st_size < 2_000_000
        assert ElementTree.parse(diagram).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_drawing_shows_slots_padding_and_the_borders_of_tiles(tapestry: Run) -> None:
    """Check XLA's own picture: f32[3,5] in tiles of 2 x 2."""
    text = "f32[3,5]{1,0:T(2,2)}"
    assert tapestry("layout", "draw", text).out.splitlines() == [
        "      0  1  2  3  4  5",
        "0,:   0  1┊ 4  5┊ 8  ·",
        "1,:   2  3┊ 6  7┊10  ·",
        "    ┈┈┈┈┈┈┼┈┈┈┈┈┼┈┈┈┈┈",
        "2,:  12 13┊16 17┊20  ·",
        "      ·  ·┊ ·  ·┊ ·  ·",
    ]
    drawn = tapestry("layout", "draw", text, "--elements").out.splitlines()
    assert drawn[4] == "2,:  2,0 2,1┊2,2 2,3┊2,4   ·"


def test_a_swizzle_moves_runs_of_elements(tapestry: Run) -> None:
    """Check Sw<1,1,2>: bit 3 of the offset is added to bit 1, so runs of two change places in every other row."""
    out = tapestry("layout", "draw", "ptr[16b] o Sw<1,1,2> o _0 o (_4,_4):(_4,_1)").out.splitlines()
    assert [re.findall(r"\d+", line.partition(":")[2]) for line in out if ":" in line] == [
        ["0", "1", "2", "3"], ["4", "5", "6", "7"], ["10", "11", "8", "9"], ["14", "15", "12", "13"],
    ]  # fmt: skip


def test_a_tensor_without_elements_has_no_picture(tapestry: Run, tmp_path: Path) -> None:
    assert tapestry("layout", "draw", "f32[0,4]").out == "There are no slots.\n"
    tapestry("layout", "draw", "f32[0,4]", "--svg", tmp_path / "empty.svg")
    assert "There are no slots." in (tmp_path / "empty.svg").read_text()
    assert tapestry("layout", "describe", "f32[0,4]", "--json").json["padding_share"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "float*** x"), "is of no notation known here; expected xla like"),
        (("describe", METAL[:40]), "at character 40"),
        (("describe", METAL, "--at", "53,0"), "coordinates [53, 0] are not inside the shape [53, 63]"),
        (("describe", METAL, "--at", "1,x"), "expected whole numbers such as 2,3, not '1,x'"),
        (("describe", METAL, "--at", "9" * 5000), "expected whole numbers"),
        (("describe", METAL, "--offset", "6144"), "offset 6144 is not inside the storage of 6144 elements"),
        (("describe", "(100000000,2):(1,1)"), "to invert strides that interleave"),
        (("describe", "(4,5):(1,4)", "--dtype", "thing"), "expected an element type"),
        (
            ("draw", "(5000,5000):(1,5000)"),
            "too large to draw: expected at most 1,048,576 cells, not 5,000 x 5,000",
        ),
        (("draw", METAL, "--svg", "/no/such/folder/x.svg"), "there is no such folder"),
        (("draw",), "required: TEXT"),
        ((), "required: ACTION"),
    ],
)
def test_whatever_is_wrong_is_one_line(tapestry: Run, arguments: tuple[str, ...], message: str) -> None:
    assert message in complaint(tapestry("layout", *arguments))
