"""Parsing of CuTe's texts: terms like `((_128,_64),2)` and `_1@0`, layouts `shape:stride`, iterators, tensors."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term, as_arithmetic
from tapestry.hardware.layouts.cute.composed import Composed, Swizzle
from tapestry.hardware.layouts.cute.integers import Integer, Static, number
from tapestry.hardware.layouts.cute.iterators import CoordinateIterator, CountingIterator, Iterator, Pointer
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.tuples import KEEP, Underscore, integer
from tapestry.hardware.layouts.layout import LayoutError

Found = TypeVar("Found")

LONGEST_TEXT = 1 << 16
DEEPEST_NESTING = 64
LARGEST_INTEGER = (1 << 63) - 1


@dataclass
class Reader:
    """A text and the position reached in it; errors name the character."""

    text: str
    place: int = 0

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_TEXT:
            raise LayoutError(f"expected at most {LONGEST_TEXT} characters, not {len(self.text)}")

    def expected(self, what: str) -> LayoutError:
        """Build the error that reports the expected text at this position."""
        rest = self.text[self.place : self.place + 20]
        return LayoutError(
            f"at character {self.place}: expected {what}, not {rest!r}"
            if rest
            else f"at character {self.place}: expected {what}, not the end of the text"
        )

    def taken(self, pattern: str) -> str | None:
        """Match a pattern here after blanks and advance past it; None if it does not match."""
        blanks = re.compile(r"\s*", re.ASCII).match(self.text, self.place)
        start = blanks.end() if blanks else self.place
        found = re.compile(pattern, re.ASCII).match(self.text, start)
        if found is None:
            return None
        self.place = found.end()
        return found.group()

    def need(self, pattern: str, what: str) -> str:
        """Match a pattern here; raise `LayoutError` if it does not match."""
        found = self.taken(pattern)
        if found is None:
            self.taken("")
            raise self.expected(what)
        return found

    def finish(self) -> None:
        """Raise `LayoutError` if text is left over."""
        self.taken("")
        if self.place != len(self.text):
            raise self.expected("the end of the text")

    def whole(self, digits: str) -> int:
        """Return the value of digits, bounded to 64 bits."""
        if len(digits) > 20 or abs(int(digits)) > LARGEST_INTEGER:
            raise LayoutError(f"at character {self.place - len(digits)}: expected an integer of 64 bits")
        return int(digits)

    def number(self) -> Integer:
        """Parse `4`, `-4`, `_4` or `_-4`."""
        digits = self.need(r"_?-?\d+", "an integer like 4 or _4")
        return Static(self.whole(digits[1:])) if digits[0] == "_" else self.whole(digits)

    def leaf(self) -> Term:
        """Parse an integer, or a scaled basis element `5@1@0` (innermost mode first)."""
        value, modes = self.number(), []
        while self.taken("@"):
            modes.append(self.whole(self.need(r"\d+", "the mode of a basis element")))
        if any(mode > 255 for mode in modes):
            raise LayoutError(f"at character {self.place}: expected modes of a basis element up to 255")
        return ScaledBasis(value, tuple(reversed(modes))) if modes else value

    def term(self, depth: int = 0) -> Term:
        """Parse a leaf or a tuple of terms."""
        if self.taken(r"\("):
            if depth == DEEPEST_NESTING:
                raise self.expected(f"at most {DEEPEST_NESTING} levels of parentheses")
            parts: list[Term] = []
            while not self.taken(r"\)"):
                if parts:
                    self.need(",", "',' or ')'")
                parts.append(self.term(depth + 1))
            return tuple(parts)
        return self.leaf()

    def coordinate(self, depth: int = 0) -> object:
        """Parse a term in which `_` may stand for a whole mode."""
        if self.taken(r"\("):
            if depth == DEEPEST_NESTING:
                raise self.expected(f"at most {DEEPEST_NESTING} levels of parentheses")
            parts: list[object] = []
            while not self.taken(r"\)"):
                if parts:
                    self.need(",", "',' or ')'")
                parts.append(self.coordinate(depth + 1))
            return tuple(parts)
        return KEEP if self.taken(r"_(?![-\d])") else self.leaf()

    def layout(self) -> Strided:
        """Parse `shape:stride`, both terms of one hierarchy."""
        shape = self.term()
        self.need(":", "':' between the shape and the stride")
        return Strided(shape, self.term())

    def mode(self) -> Strided | Term:
        """Parse a mode of a tiler: `shape:stride`, or a size alone."""
        shape = self.term()
        return Strided(shape, self.term()) if self.taken(":") else shape

    def any_layout(self) -> Strided | Composed:
        """Parse `shape:stride`, or `Sw<B,M,S> o offset o shape:stride`."""
        if not self.taken(r"Sw\s*<"):
            return self.layout()
        bits, base, shift = self._three()
        self.need("o", "'o' between a swizzle and its offset")
        offset = self.number()
        self.need("o", "'o' between an offset and its layout")
        return Composed(Swizzle(bits, base, shift), offset, self.layout())

    def _three(self) -> tuple[int, int, int]:
        values = []
        for closing in (",", ",", ">"):
            values.append(self.whole(self.need(r"-?\d+", "an integer of the swizzle")))
            self.need(closing, f"{closing!r}")
        return values[0], values[1], values[2]

    def iterator(self) -> Iterator:
        """Parse `counting_iter(42)`, `ArithTuple(0,_0)`, a coordinate `(0,_0)`, or a pointer `gmem_ptr[16b](...)`."""
        if self.taken(r"counting_iter\("):
            start = self.number()
            self.need(r"\)", "')'")
            return CountingIterator(number(start))
        found = self.taken(r"(gmem_|smem_|rmem_)?ptr\[\d+b\](\(\w*\))?")
        if found:
            space, bits = re.match(r"(\w*?)_?ptr\[(\d+)b\]", found).groups()  # type: ignore[union-attr]
            return Pointer(self.whole(bits), space)
        self.taken("ArithTuple")
        return CoordinateIterator(as_arithmetic(self.term()))

    def tensor(self) -> ImplicitTensor:
        """Parse `iterator o layout`."""
        start = self.iterator()
        self.need("o", "'o' between the iterator and the layout")
        return ImplicitTensor(start, self.any_layout())


def parse_term(text: str) -> Term:
    """Parse the text of a shape, stride or coordinate."""
    return _parsed(text, Reader.term)


def parse_coordinate(text: str) -> object:
    """Parse the text of a coordinate; `_` keeps a mode."""
    return _parsed(text, Reader.coordinate)


def parse_strided(text: str) -> Strided:
    """Parse the text `shape:stride` of a layout."""
    return _parsed(text, Reader.layout)


def parse_any_layout(text: str) -> Strided | Composed:
    """Parse the text of a layout, swizzled or not."""
    return _parsed(text, Reader.any_layout)


def parse_iterator(text: str) -> Iterator:
    """Parse the text of an iterator."""
    return _parsed(text, Reader.iterator)


def parse_tensor(text: str) -> ImplicitTensor:
    """Parse the text `iterator o layout` of a tensor."""
    return _parsed(text, Reader.tensor)


def _parsed(text: str, read: Callable[[Reader], Found]) -> Found:
    """Read the whole text as one thing."""
    reader = Reader(text)
    found = read(reader)
    reader.finish()
    return found


__all__ = [
    "LARGEST_INTEGER",
    "Reader",
    "Underscore",
    "integer",
    "parse_any_layout",
    "parse_coordinate",
    "parse_iterator",
    "parse_strided",
    "parse_tensor",
    "parse_term",
]
