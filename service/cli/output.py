"""Results for people: aligned tables, colors only on a terminal; JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

COLORS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Format the lines of a table; columns in `right` are aligned to the right, all are two blanks apart."""
    widths = [max(len(row[k]) for row in (headers, *rows)) for k in range(len(headers))]
    return [
        "  ".join(
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (headers, *rows)
    ]


def paint(text: str, color: str, stream: TextIO | None = None) -> str:
    """Return the text in a color, if `stream` (standard output) is a terminal that may show one."""
    target = sys.stdout if stream is None else stream
    if not target.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{COLORS[color]}m{text}\x1b[0m"


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print a table on standard output, its head in bold."""
    head, *lines = table(headers, rows, right)
    print(paint(head, "bold"))
    for line in lines:
        print(line)


def print_json(document: Any) -> None:
    """Print a JSON value on standard output."""
    print(json.dumps(document, indent=2, allow_nan=False))


def verdict(holds: bool, yes: str = "ok", no: str = "FAILED") -> str:
    """Format whether something holds, in green or red."""
    return paint(yes, "green") if holds else paint(no, "red")
