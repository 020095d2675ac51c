"""All notations, and the layout that a text of any of them describes."""

from __future__ import annotations

from tapestry.hardware.layouts import cute, tt_metal, ttnn, xla
from tapestry.hardware.layouts.layout import Layout, LayoutError
from tapestry.hardware.layouts.notation import Notation

NOTATIONS: tuple[Notation, ...] = (xla.NOTATION, tt_metal.NOTATION, ttnn.NOTATION, cute.NOTATION)


def parse_layout(text: str, dtype: str | None = None) -> Layout:
    """The layout that a text of any notation describes.

    `dtype` names the element where the text does not. Raises `LayoutError` with the place and what was expected.
    """
    for notation in NOTATIONS:
        if notation.recognises(text):
            return notation.parse(text, dtype)
    names = ", ".join(f"{n.name} like {n.shown or n.examples[0]!r}" for n in NOTATIONS)
    place = len(text) - len(text.lstrip())
    raise LayoutError(
        f"at character {place}: {text[place : place + 80]!r} is of no notation known here; expected {names}"
    )
