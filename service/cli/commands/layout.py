"""`tapestry layout describe` and `tapestry layout draw`: the positions of a tensor's elements in memory."""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from tapestry.hardware.layouts import Layout
from tapestry.hardware.layouts.drawing import svg_of, text_of
from tapestry.hardware.layouts.drawing.terminal import ASCII, MOST_COLUMNS, MOST_ROWS, UNICODE
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.layouts import LayoutFaults, describe, draw, read_layout
from tapestry.teg.readable import quantity

MARGIN, LEAST = 12, 6  # columns of text beside a drawing, columns of cells in the narrowest


def run(arguments: Namespace) -> int:
    """Parse the text, then describe or draw the layout as requested."""
    try:
        layout = read_layout(arguments.text, arguments.dtype)
        if arguments.action == "draw":
            _draw(layout, arguments.svg, arguments.elements)
        else:
            _describe(describe(layout, arguments.at, arguments.offset), arguments.json)
    except LayoutFaults as error:
        raise CommandError(str(error)) from error
    return OK


def _describe(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    print(document["text"])
    buffers, slots = document["buffer_count"], document["buffer_elements"]
    shape = f"{document['shape']}, elements: {document['element_count']:,}"
    figures = {"notation": document["title"]}
    if buffers:
        figures |= {
            "shape": f"{shape} of {document['element_bits']} bits",
            "stored as": str(document["physical_shape"]),
            "buffers": f"{buffers:,} of {slots:,} slots",
            "size": _bytes(document["size_bytes"]),
            "padding": f"{_bytes(document['padding_bytes'])} ({document['padding_share']:.1%})",
        }
    else:
        figures |= {"shape": shape, "stored as": "nothing: the elements are computed"}
    if document["value"] is not None:
        figures["element"] = document["value"]
    for found, what in (("element", "element"), ("slot", "offset")):
        if document[found] is not None:
            figures |= {f"{what} {_position_text(document[found], what)}": _located(document[found], what)}
    width = max(map(len, figures)) + 2
    for name, value in figures.items():
        print(f"{name.ljust(width)}{value}")


def _position_text(position: dict[str, Any], what: str) -> str:
    return str(position["coordinates"] if what == "element" else position["offset"])


def _located(position: dict[str, Any], what: str) -> str:
    byte = "" if position["byte"] is None else f", byte {position['byte']:,}"
    bit = f" bit {position['bit']}" if position["bit"] else ""
    place = f"{position['buffer_name']}, slot {position['slot']:,}{byte}{bit}"
    if what == "element":
        return f"offset {position['offset']:,}: {place}"
    lies = "padding" if position["is_padding"] else f"element {position['coordinates']}"
    return f"{lies}: {place}"


def _bytes(count: int) -> str:
    exact = f"{count:,} B"
    return exact if count < 1024 else f"{exact} ({quantity(count, 'B')})"


def _draw(layout: Layout, path: str | None, elements: bool) -> None:
    if path is not None:
        _write(svg_of(draw(layout)), path)
        return
    glyphs = UNICODE if "utf" in (sys.stdout.encoding or "").lower() else ASCII
    for line in text_of(draw(layout, MOST_ROWS, _columns(layout)), glyphs, elements=elements):
        print(line)


def _columns(layout: Layout) -> int:
    """Compute the number of columns of cells that fit on the terminal."""
    if not sys.stdout.isatty():
        return MOST_COLUMNS
    digits = len(str(layout.buffer_elements))
    return min(max((shutil.get_terminal_size().columns - MARGIN) // (digits + 2), LEAST), MOST_COLUMNS)


def _write(content: str, path: str) -> None:
    if not Path(path).resolve().parent.is_dir():
        raise CommandError(f"cannot write {path!r}: there is no such folder")
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path!r}: {error.strerror or error}") from error
