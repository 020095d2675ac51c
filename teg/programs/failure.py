"""Errors in programs, reported at the author's own line."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from pathlib import Path
from types import FrameType

# Files of the builder and of what builds on it: an author's frame is none of theirs.
OURS = (
    str(Path(__file__).parent) + os.sep,
    *(str(Path(__file__).parents[2] / folder) + os.sep for folder in ("optimizer", "service")),
    contextlib.__file__,
)
SHOWN_CHARACTERS = 60


class ProgramError(ValueError):
    """Error raised when a program is wrong; the message begins with the file, the line and the expression at fault."""

    def __init__(self, message: str) -> None:
        place = author_place()
        super().__init__(f"{place}: {message}" if place else message)


def author_place() -> str:
    """Return `file:line: expression` of the innermost frame that is not ours; empty where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    if frame is None:
        return ""
    text = _expression(frame)
    return f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}" + (f": {text}" if text else "")


def _short(path: str) -> str:
    """Return the path relative to the working directory if it is below it, or unchanged."""
    inside = os.path.relpath(path) if os.path.isabs(path) else path
    return path if inside.startswith("..") else inside


def _expression(frame: FrameType) -> str:
    """Return the text of the expression that the frame is in, as far as it can be found."""
    places = list(frame.f_code.co_positions())
    if not 0 <= frame.f_lasti // 2 < len(places):
        return ""
    first, last, start, end = places[frame.f_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return ""
    lines = [linecache.getline(frame.f_code.co_filename, n).encode() for n in range(first, last + 1)]
    if not any(lines):
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = " ".join(b" ".join(lines).decode(errors="replace").split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
