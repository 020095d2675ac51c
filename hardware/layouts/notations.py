"""All notations, and the parsing of a text in any of them."""

from __future__ import annotations

import re

from tapestry.hardware.layouts.cute import NOTATION as CUTE
from tapestry.hardware.layouts.layout import Layout, LayoutError
from tapestry.hardware.layouts.notation import Notation
from tapestry.hardware.layouts.tt_metal import NOTATION as TT_METAL
from tapestry.hardware.layouts.ttnn import NOTATION as TTNN
from tapestry.hardware.layouts.xla import NOTATION as XLA

NOTATIONS: tuple[Notation, ...] = (XLA, TT_METAL, TTNN, CUTE)


LONGEST_FRAGMENT = 400


def parse_layout(text: str, dtype: str | None = None) -> Layout:
    """Parse the text of a layout in any notation.

    `dtype` names the element where the text does not. Raises `LayoutError` with the place and what was expected.
    """
    _refuse_fragment(text)
    for notation in NOTATIONS:
        if notation.recognizes(text):
            return notation.parse(text, dtype)
    names = ", ".join(f"{n.name} like {n.shown or n.examples[0]!r}" for n in NOTATIONS)
    place = len(text) - len(text.lstrip())
    raise LayoutError(
        f"at character {place}: {text[place : place + 80]!r} is of no notation known here; expected {names}"
    )


def _refuse_fragment(text: str) -> None:
    """Raise `LayoutError` for a text that is only a part of a layout, with its name and what to write."""
    bare = text.strip()
    for notation in NOTATIONS if len(bare) <= LONGEST_FRAGMENT else ():
        for pattern, meaning in notation.fragments:
            if re.fullmatch(pattern, bare, re.ASCII):
                place = len(text) - len(text.lstrip())
                raise LayoutError(f"at character {place}: {bare[:80]!r} is {meaning}")
