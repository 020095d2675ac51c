"""A scanner of text from left to right; every error names the character, the expected text and the text found."""

import re

from tapestry.hardware.layouts.layout import LayoutError

LONGEST_TEXT = 100_000
INT64_MAX = 2**63 - 1
_BLANKS = re.compile(r"(?:\s+|//[^\n]*)*")
_INTEGER = re.compile(r"-?[0-9]+")
_DIGITS = re.compile(r"[0-9]+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[#!][A-Za-z_][A-Za-z0-9_.]*")


class Scanner:
    """A position in a text; blanks and `//` comments between tokens are skipped.

    Raises `LayoutError` for texts longer than `LONGEST_TEXT` characters.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_TEXT:
            raise LayoutError(f"a text of {len(text)} characters is longer than the {LONGEST_TEXT} read here")
        self.text = text
        self.at = 0

    def peek(self, token: str) -> bool:
        """Return whether `token` comes next."""
        self._skip()
        return self.text.startswith(token, self.at)

    def accept(self, token: str) -> bool:
        """Skip `token` if it comes next, and return whether it did."""
        if not self.peek(token):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        """Skip `token`; raise `LayoutError` if it does not come next."""
        if not self.accept(token):
            raise self.error(f"'{token}'")

    def accept_keyword(self, word: str) -> bool:
        """Skip a whole word if it comes next, and return whether it did."""
        self._skip()
        found = _WORD.match(self.text, self.at)
        if found is None or found.group() != word:
            return False
        self.at = found.end()
        return True

    def word(self, expected: str) -> str:
        """Read the next identifier."""
        return self._take(_WORD, expected)

    def name(self, expected: str) -> str:
        """Read the next `#name` or `!name`, dots included."""
        return self._take(_NAME, expected)

    def peek_word(self) -> str | None:
        """Return the next identifier without advancing; None if none comes next."""
        self._skip()
        found = _WORD.match(self.text, self.at)
        return found.group() if found else None

    def peek_digit(self) -> bool:
        """Return whether a digit comes next."""
        self._skip()
        return _DIGITS.match(self.text, self.at) is not None

    def integer(self, expected: str = "an integer") -> int:
        """Read the next integer, its sign included; at most 64 bits."""
        return self._number(_INTEGER, expected)

    def natural(self, expected: str) -> int:
        """Read the next unsigned integer; at most 64 bits."""
        return self._number(_DIGITS, expected)

    def dimensions(self, expected: str) -> tuple[int, ...]:
        """Read extents like `2x3x64`, blanks allowed around the `x`, none after the last (a trailing `x` is left)."""
        found = [self.natural(expected)]
        while self.peek("x"):
            mark = self.at
            self.at += 1
            if not self.peek_digit():
                self.at = mark
                break
            found.append(self.natural(expected))
        return tuple(found)

    def finish(self) -> None:
        """Raise `LayoutError` unless the text ends here."""
        self._skip()
        if self.at < len(self.text):
            raise self.error("the end of the text")

    def error(self, expected: str) -> LayoutError:
        """Build the error for this position."""
        self._skip()
        rest = self.text[self.at : self.at + 24]
        return LayoutError(f"at character {self.at}: expected {expected}, not {rest!r}" if rest else
                           f"at character {self.at}: expected {expected}, not the end of the text")  # fmt: skip

    def _skip(self) -> None:
        blanks = _BLANKS.match(self.text, self.at)
        self.at = blanks.end() if blanks else self.at

    def _take(self, pattern: re.Pattern[str], expected: str) -> str:
        self._skip()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error(expected)
        self.at = found.end()
        return found.group()

    def _number(self, pattern: re.Pattern[str], expected: str) -> int:
        self._skip()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error(expected)
        if len(found.group()) > 20 or abs(int(found.group())) > INT64_MAX:
            raise self.error(f"{expected} of at most 64 bits")
        self.at = found.end()
        return int(found.group())
