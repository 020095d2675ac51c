"""A notation of layouts as a value: its name, the test for its texts, and its parser."""

from collections.abc import Callable
from dataclasses import dataclass

from tapestry.hardware.layouts.layout import Layout


@dataclass(frozen=True)
class Notation:
    """A notation in which layouts are written.

    `recognizes` reads a text's first characters only; `parse(text, dtype)` reads it whole or raises `LayoutError`
    (`dtype` for texts that name no element, None = the notation's default); `examples` are texts of it, each read and
    printed back by the contract tests; `shown` is the one that an error message shows, the first if "".
    `fragments` are patterns of texts that the project prints and that are no layouts by themselves, each with the
    name of what it is and a sentence that explains how to write a layout with it.
    """

    name: str
    title: str
    recognizes: Callable[[str], bool]
    parse: Callable[[str, str | None], Layout]
    examples: tuple[str, ...]
    shown: str = ""
    fragments: tuple[tuple[str, str], ...] = ()
