"""Printable texts: names and notes that any terminal, log and page may show.

What is printable is fixed here, character by character, and not left to the Unicode tables of an interpreter: a
document that one release of Python reads, every other one reads too, and a JSON Schema can say it.
"""

from __future__ import annotations

import re

# Controls, format characters, spaces other than the usual one, ends of lines, and what never is a character.
# Private characters harm nothing, and those that no Unicode has yet may be in the next one.
_HIDDEN = (
    (0x0000, 0x001F),
    (0x007F, 0x00A0),
    (0x00AD, 0x00AD),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x1680, 0x1680),
    (0x180E, 0x180E),
    (0x2000, 0x200F),
    (0x2028, 0x202F),
    (0x205F, 0x206F),
    (0x3000, 0x3000),
    (0xFDD0, 0xFDEF),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE007F),
)


def _written(code: int) -> str:
    """Return a character as all dialects of regular expressions read it: those beyond 16 bits as themselves."""
    return f"\\u{code:04x}" if code < 0x10000 else chr(code)


# The members of a class of characters in a regular expression: those that are not printable.
HIDDEN = "".join(_written(first) + (f"-{_written(last)}" if last > first else "") for first, last in _HIDDEN)
PATTERN = f"^[^{HIDDEN}]*$"
# No text of JSON has surrogates, but what Python decodes may have some.
_ANY_HIDDEN = re.compile(f"[{HIDDEN}\ud800-\udfff]")


def is_printable(text: str) -> bool:
    """Return whether all characters of a text are printable; an empty text is."""
    return text.isprintable() or _ANY_HIDDEN.search(text) is None
