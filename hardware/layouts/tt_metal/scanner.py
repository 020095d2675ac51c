"""Reading a text from left to right: every refusal names the character, what was expected and what came."""

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
        """Whether `token` comes next."""
        self._skip()
        return self.text.startswith(token, self.at)

    def accept(self, token: str) -> bool:
        """Pass over `token` if it comes next."""
        if not self.peek(token):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        """Pass over `token`, which has to come next."""
        if not self.accept(token):
            raise self.error(f"'{token}'")

    def accept_keyword(self, word: str) -> bool:
        """Pass over a whole word if it comes next."""
        self._skip()
        found = _WORD.match(self.text, self.at)
        if found is None or found.group() != word:
            return False
        self.at = found.end()
        return True

    def word(self, expected: str) -> str:
        """The identifier that comes next."""
        return self._take(_WORD, expected)

    def name(self, expected: str) -> str:
        """The `#name` or `!name` that comes next, dots included."""
        return self._take(_NAME, expected)

    def peek_word(self) -> str | None:
        """The identifier that comes next, left in place; None if none does."""
        self._skip()
        found = _WORD.match(self.text, self.at)
        return found.group() if found else None

    def peek_digit(self) -> bool:
        """Whether a digit comes next."""
        self._skip()
        return _DIGITS.match(self.text, self.at) is not None

    def integer(self, expected: str = "an integer") -> int:
        """The integer that comes next, its sign included; at most 64 bits."""
        return self._number(_INTEGER, expected)

    def natural(self, expected: str) -> int:
        """The unsigned integer that comes next; at most 64 bits."""
        return self._number(_DIGITS, expected)

    def dimensions(self, expected: str) -> tuple[int, ...]:
        """Extents like `2x3x64`, blanks allowed around the `x`, none after the last (an `x` left is not taken)."""
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
        """The text has to end here."""
        self._skip()
        if self.at < len(self.text):
            raise self.error("the end of the text")

    def error(self, expected: str) -> LayoutError:
        """The refusal at this place."""
        self._skip()
        rest = self.text[self.at : self.at + 24]
        return LayoutError(f"at character {self.at}: expected {expected}, got {rest!r}" if rest else
                           f"at character {self.at}: expected {expected}, got the end of the text")  # fmt: skip

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
