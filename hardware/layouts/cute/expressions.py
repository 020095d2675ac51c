"""Expressions in the C++ of CuTe's tests and documentation: `5*E<1>{} + make_coord(1,_2{})`, `it[c]`, `A(_,1)`.

A recursive-descent parser that computes as it reads: operators with C++'s precedence, calls, templates, braces,
methods, and names bound by `auto a = ...;`. Functions are the records of `functions.FUNCTIONS`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tapestry.hardware.layouts.cute.basis import (
    ArithmeticTuple,
    ScaledBasis,
    equal,
    minus,
    negative,
    plus,
    term,
    times,
)
from tapestry.hardware.layouts.cute.composed import Composed, Swizzle
from tapestry.hardware.layouts.cute.functions import FUNCTIONS, CuteFunction
from tapestry.hardware.layouts.cute.integers import Integer, Static, combined, divided, number, remainder
from tapestry.hardware.layouts.cute.iterators import CoordinateIterator, CountingIterator, Pointer
from tapestry.hardware.layouts.cute.methods import method_of
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.text import DEEPEST_NESTING, LARGEST_INTEGER, Reader
from tapestry.hardware.layouts.cute.tuples import KEEP, has_underscore, integer, shown
from tapestry.hardware.layouts.layout import LayoutError

_BY_NAME = {name: function for function in FUNCTIONS for name in function.names}
_NAME = r"(?:cute::)?[A-Za-z_]\w*"
_DECLARATION = re.compile(r"\s*(?:[A-Za-z_][\w:<>, ]*?[\s&]+)?([A-Za-z]\w*)\s*=(?!=)\s*")
MOST_ENTRIES = 1 << 12
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMPARISONS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("<=", lambda x, y: x <= y),
    (">=", lambda x, y: x >= y),
    ("<", lambda x, y: x < y),
    (">", lambda x, y: x > y),
)


def evaluate(text: str) -> object:
    """Evaluate an expression, or statements, of which the last gives the value; `tuples.shown` prints it as CuTe does.

    Raises `LayoutError` with the character for malformed text, and with CuTe's wording for what does not compile.
    """
    reader = Reader(text)
    reader.text = _COMMENT.sub(lambda found: " " * len(found.group()), text)
    return Evaluation(reader).program()


@dataclass
class Evaluation:
    """The evaluation of one text; `bound` holds the names it declared."""

    reader: Reader
    bound: dict[str, object] = field(default_factory=dict)
    depth: int = 0

    def program(self) -> object:
        """Evaluate statements separated by semicolons; return the value of the last."""
        value: object = None
        while True:
            declared = _DECLARATION.match(self.reader.text, self.reader.place)
            if declared:
                self.reader.place = declared.end()
            value = self.expression()
            if declared:
                self.bound[declared.group(1)] = value
            if not self.reader.taken(";"):
                break
            if self.reader.taken("$") is not None:
                break
        self.reader.finish()
        return value

    def expression(self) -> object:
        """Evaluate an expression of any precedence; nesting is bounded."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise self.reader.expected(f"at most {DEEPEST_NESTING} levels of nesting")
        value = self.conjunction()
        self.depth -= 1
        return bounded(value)

    def conjunction(self) -> object:
        """Evaluate `a && b || c`."""
        value = self.equality()
        while operator := self.reader.taken(r"&&|\|\|"):
            other = self.equality()
            join = (lambda x, y: int(bool(x and y))) if operator == "&&" else (lambda x, y: int(bool(x or y)))
            value = combined(integer(value), integer(other), join)
        return value

    def equality(self) -> object:
        """Evaluate `a == b`, `a != b`."""
        value = self.relation()
        while operator := self.reader.taken("==|!="):
            same = compared(value, self.relation())
            value = same if operator == "==" else combined(same, Static(1), lambda x, _: 1 - x)
        return value

    def relation(self) -> object:
        """Evaluate `a < b` and the other order comparisons."""
        value = self.sum()
        while operator := self.reader.taken("<=|>=|<(?!<)|>(?!>)"):
            compare = dict(_COMPARISONS)[operator]
            value = combined(integer(value), integer(self.sum()), lambda x, y: int(compare(x, y)))  # noqa: B023
        return value

    def sum(self) -> object:
        """Evaluate `a + b - c`."""
        value = self.product()
        while operator := self.reader.taken(r"\+(?!\+)|-(?!-)"):
            other = self.product()
            value = added(value, other) if operator == "+" else minus(term(value), term(other))
        return value

    def product(self) -> object:
        """Evaluate `a * b / c % d`."""
        value = self.unary()
        while operator := self.reader.taken(r"\*|/|%"):
            other = self.unary()
            if operator == "*":
                value = times(term(value), term(other))
            else:
                value = (divided if operator == "/" else remainder)(integer(value), integer(other))
        return value

    def unary(self) -> object:
        """Evaluate `-a`, `+a`, `!a`, `*iterator`."""
        operators = []
        while operator := self.reader.taken(r"-|\+|!(?!=)|\*"):
            operators.append(operator)
        value = self.postfix()
        for operator in reversed(operators):
            if operator == "-":
                value = negative(term(value))
            elif operator == "!":
                value = combined(integer(value), Static(0), lambda x, _: int(not x))
            elif operator == "*":
                value = dereferenced(value)
        return value

    def postfix(self) -> object:
        """Evaluate a primary followed by `(c)`, `[c]` or `.method(...)`."""
        value = self.primary()
        while opening := self.reader.taken(r"\(|\[|\."):
            if opening == ".":
                name = self.reader.need(rf"(?:template\s+)?{_NAME}", "the name of a method").split()[-1]
                templates = self.templates() if self.reader.taken("<") else ()
                self.reader.need(r"\(", "'('")
                value = method_of(value, name, templates, self.arguments(r"\)", "')'"))
            else:
                closing = (r"\)", "')'") if opening == "(" else (r"\]", "']'")
                value = applied(value, self.arguments(*closing), opening == "[")
        return value

    def arguments(self, closing: str, name: str) -> list[object]:
        """Evaluate expressions up to a closing bracket."""
        values: list[object] = []
        while not self.reader.taken(closing):
            if values:
                self.reader.need(",", f"',' or {name}")
            values.append(self.expression())
        return values

    def primary(self) -> object:
        """Evaluate a literal, a parenthesized expression, a bound name, a static integer, a type or a function."""
        reader = self.reader
        if digits := reader.taken(r"\d+(?![\w.])|\d+(?=_c\b|[uUlL]+\b)"):
            static = reader.taken("_c|[uUlL]+") == "_c"
            return Static(reader.whole(digits)) if static else reader.whole(digits)
        if reader.taken(r"\("):
            value = self.expression()
            reader.need(r"\)", "')'")
            return value
        if digits := reader.taken(r"_m?\d+\b"):
            self.braces()
            sign = -1 if digits[1] == "m" else 1
            return Static(sign * reader.whole(digits.lstrip("_m")))
        name = reader.need(_NAME, "a number, a name or '('").removeprefix("cute::")
        return self.named(name)

    def named(self, name: str) -> object:
        """Evaluate a name with its template arguments and its arguments."""
        if name in self.bound:
            return self.bound[name]
        if name in ("_", "X", "Underscore"):
            self.braces()
            return KEEP
        function = _BY_NAME.get(name)
        if function is None:
            self.reader.place -= len(name)
            raise self.reader.expected("a name of CuTe's")
        templates = self.templates() if function.templated and self.reader.taken("<") else ()
        if self.reader.taken(r"\{"):
            return self.called(function, name, templates, self.arguments(r"\}", "'}'"))
        if self.reader.taken(r"\("):
            return self.called(function, name, templates, self.arguments(r"\)", "')'"))
        if function.constant:
            return self.called(function, name, templates, [])
        raise self.reader.expected(f"'(' or '{{' after {name}")

    def called(
        self, function: CuteFunction, name: str, templates: tuple[object, ...], given: list[object]
    ) -> object:
        """Apply a function, after checking its number of arguments."""
        if not function.fewest <= len(given) <= function.most:
            wanted = (
                f"{function.fewest}" if function.fewest == function.most else f"{function.fewest} or more"
            )
            raise LayoutError(
                f"at character {self.reader.place}: expected {wanted} arguments of {name}, not {len(given)}"
            )
        if function.parameters not in (None, len(templates)):
            raise LayoutError(
                f"at character {self.reader.place}: expected {function.parameters} template arguments of {name}, "
                f"not {len(templates)}"
            )
        return function.meaning(templates, given)

    def templates(self) -> tuple[object, ...]:
        """Parse template arguments up to `>`: integers and types, which stand for their values."""
        values: list[object] = []
        while not self.reader.taken(">"):
            if values:
                self.reader.need(",", "',' or '>'")
            values.append(self.template())
        return tuple(values)

    def template(self) -> object:
        """Parse one template argument: an integer, possibly negative or in another base, or a type."""
        reader = self.reader
        if digits := reader.taken(r"-?0[xX][0-9a-fA-F]{1,16}|-?0b[01']{1,64}|-?\d+"):
            return int(digits.replace("'", ""), 0) if re.match("-?0[xXb]", digits) else reader.whole(digits)
        if digits := reader.taken(r"_m?\d+\b"):
            return Static((-1 if digits[1] == "m" else 1) * reader.whole(digits.lstrip("_m")))
        name = reader.need(_NAME, "a template argument").removeprefix("cute::")
        if name in ("_", "X", "Underscore"):
            return KEEP
        function = _BY_NAME.get(name)
        if function is None or not function.constant:
            return name
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise reader.expected(f"at most {DEEPEST_NESTING} levels of nesting")
        templates = self.templates() if reader.taken("<") else ()
        self.depth -= 1
        return function.meaning(templates, [])

    def braces(self) -> None:
        """Skip `{}` or `()` after a type without arguments, if there."""
        self.reader.taken(r"\{\s*\}")


def bounded(value: object) -> object:
    """Return the value; raise `LayoutError` if too deep, over 4096 entries or with integers beyond 64 bits."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    seen = 0
    while waiting:
        entry, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST_NESTING:
            raise LayoutError(f"expected at most {DEEPEST_NESTING} levels of nesting")
        if seen > MOST_ENTRIES:
            raise LayoutError(f"expected at most {MOST_ENTRIES} entries in a tuple")
        if isinstance(entry, ArithmeticTuple):
            entry = entry.items
        elif isinstance(entry, Strided):
            entry = (entry.shape, entry.stride)
        elif isinstance(entry, ScaledBasis):
            entry = entry.value
        if isinstance(entry, tuple):
            waiting.extend((part, depth + 1) for part in entry[: MOST_ENTRIES + 1])
        elif isinstance(entry, int | Static) and abs(number(entry)) > LARGEST_INTEGER:
            raise LayoutError(f"expected integers of 64 bits, not {str(number(entry))[:20]}...")
    return value


def added(a: object, b: object) -> object:
    """Compute `a + b`; an iterator moves."""
    if isinstance(a, CountingIterator | CoordinateIterator | Pointer):
        return a.moved(term(b))
    return plus(term(a), term(b))


def compared(a: object, b: object) -> Integer:
    """Compare `a == b`: terms, layouts, swizzles."""
    if isinstance(a, Strided) and isinstance(b, Strided):
        return equal((a.shape, a.stride), (b.shape, b.stride))
    if isinstance(a, Strided | Composed | Swizzle) or isinstance(b, Strided | Composed | Swizzle):
        return Static(int(a == b))
    return equal(term(a), term(b))


def dereferenced(value: object) -> object:
    """Evaluate `*iterator`."""
    if isinstance(value, CountingIterator | CoordinateIterator | Pointer):
        return value.value
    raise LayoutError(f"expected an iterator to dereference, not {shown(value)}")


def applied(value: object, given: list[object], bracket: bool) -> object:
    """Evaluate `layout(c, ...)`, `tensor(c, ...)`, `tensor[c]`, `iterator[c]`, `swizzle(x)`."""
    if not given:
        raise LayoutError(f"expected a coordinate for {shown(value)}")
    coordinate = given[0] if len(given) == 1 else tuple(given)
    if isinstance(value, CountingIterator | CoordinateIterator | Pointer) and bracket:
        return value.moved(term(coordinate)).value
    if isinstance(value, ImplicitTensor):
        return value.at(coordinate)
    if isinstance(value, Strided | Composed) and not bracket:
        if has_underscore(coordinate):
            return sliced_layout(value, coordinate)
        return value(term(coordinate))
    if isinstance(value, Swizzle) and not bracket:
        return value(integer(coordinate))
    raise LayoutError(f"expected a layout, a tensor or an iterator to index, not {shown(value)}")


def sliced_layout(layout: Strided | Composed, coordinate: object) -> Strided | Composed:
    """Evaluate `layout(_, 1)`."""
    if isinstance(layout, Strided):
        return layout.slice(coordinate)
    tensor = ImplicitTensor(CountingIterator(0), layout).slice(coordinate)
    return tensor.layout
