"""Affine maps like `(d0, d1)[s0] -> (d0 * 192 + d1 floordiv 8, d1 mod 8)`: read, printed, evaluated, composed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.expression import (
    CEILDIV,
    FLOORDIV,
    MOD,
    OPERATIONS,
    ConstantExpr,
    Dim,
    Expression,
    Symbol,
    add,
    evaluate,
    leaves,
    multiply,
    replace,
)
from tapestry.hardware.layouts.tt_metal.scanner import Scanner

DEEPEST_PARENTHESES = 32

KEPT_SIZES = 64
"""Shapes whose extents a map remembers: planners ask for the same ones again and again."""


@dataclass(frozen=True)
class AffineMap:
    """A map from `dim_count` dimensions and `symbol_count` symbols to one integer per result."""

    dim_count: int
    symbol_count: int
    results: tuple[Expression, ...]

    def __str__(self) -> str:
        dims = ", ".join(f"d{i}" for i in range(self.dim_count))
        symbols = ", ".join(f"s{i}" for i in range(self.symbol_count))
        results = ", ".join(map(str, self.results))
        return f"({dims}){f'[{symbols}]' if symbols else ''} -> ({results})"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.dim_count, self.symbol_count, self.results))

    @classmethod
    def identity(cls, rank: int) -> "AffineMap":
        """Build `(d0, d1) -> (d0, d1)`."""
        return cls(rank, 0, tuple(map(Dim, range(rank))))

    @cached_property
    def used_dims(self) -> tuple[tuple[int, ...], ...]:
        """The dimensions that each result depends on, ascending."""
        return tuple(
            tuple(sorted({leaf.index for leaf in leaves(r) if isinstance(leaf, Dim)})) for r in self.results
        )

    @cached_property
    def unused_dims(self) -> tuple[int, ...]:
        """The dimensions that no result depends on, ascending."""
        return tuple(sorted(set(range(self.dim_count)).difference(*self.used_dims)))

    def evaluate(self, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Evaluate the results where the dimensions and symbols are integers or int64 arrays (n,).

        Raises `LayoutError` for another number of dimensions or symbols.
        """
        if len(dims) != self.dim_count or len(symbols) != self.symbol_count:
            raise LayoutError(
                f"the affine map {self} takes {self.dim_count} dimensions and {self.symbol_count} symbols, "
                f"not {len(dims)} and {len(symbols)}"
            )
        return tuple(evaluate(result, dims, symbols) for result in self.results)

    def last(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Evaluate the results at the last index of a shape."""
        return self.evaluate([n - 1 for n in shape])

    def size(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Compute the extents that a shape takes: the results at its last index, plus one (tt-mlir's `evalShape`).

        Results of dimensions that hold nothing are 0. Raises `LayoutError` where the last index leads below 0.
        """
        key = tuple(shape)
        found = self._sizes.get(key)
        if found is None:
            if len(self._sizes) >= KEPT_SIZES:
                self._sizes.clear()
            found = self._sizes[key] = self._size(key)
        return found

    @cached_property
    def _sizes(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        return {}

    def _size(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        empty = [any(shape[d] == 0 for d in used) for used in self.used_dims]
        found = tuple(0 if e else v + 1 for e, v in zip(empty, self.last(shape), strict=True))
        if any(n < 0 for n in found):
            raise LayoutError(
                f"the affine map {self} takes the last index of {list(shape)} below 0: {list(found)}"
            )
        return found

    def compose(self, inner: "AffineMap") -> "AffineMap":
        """Build the map `x -> self(inner(x))`; the symbols of both, this one's first."""
        if len(inner.results) != self.dim_count:
            raise LayoutError(
                f"cannot compose {self} with {inner}: it takes {self.dim_count} dimensions, "
                f"not {len(inner.results)} results"
            )
        moved = [Symbol(self.symbol_count + i) for i in range(inner.symbol_count)]
        dims = list(map(Dim, range(inner.dim_count)))
        inputs = [replace(result, dims, moved) for result in inner.results]
        return AffineMap(
            inner.dim_count,
            self.symbol_count + inner.symbol_count,
            tuple(replace(result, inputs) for result in self.results),
        )


def parse_affine_map(text: str) -> AffineMap:
    """Parse an affine map; `affine_map<...>` around it is allowed.

    Raises `LayoutError` with the character and what was expected.
    """
    scanner = Scanner(text)
    found = read_affine_map(scanner)
    scanner.finish()
    return found


def read_affine_map(scanner: Scanner) -> AffineMap:
    """Parse the affine map that comes next."""
    wrapped = scanner.accept_keyword("affine_map")
    if wrapped:
        scanner.expect("<")
    dims = _names(scanner, "(", ")")
    symbols = _names(scanner, "[", "]") if scanner.peek("[") else ()
    if len({*dims, *symbols}) != len(dims) + len(symbols):
        raise scanner.error("every dimension and symbol named once")
    scanner.expect("->")
    names: dict[str, Expression] = {name: Dim(i) for i, name in enumerate(dims)}
    names |= {name: Symbol(i) for i, name in enumerate(symbols)}
    scanner.expect("(")
    results: list[Expression] = []
    if not scanner.peek(")"):
        results.append(_sum(scanner, names, 0))
        while scanner.accept(","):
            results.append(_sum(scanner, names, 0))
    scanner.expect(")")
    if wrapped:
        scanner.expect(">")
    return AffineMap(len(dims), len(symbols), tuple(results))


def _names(scanner: Scanner, opening: str, closing: str) -> tuple[str, ...]:
    scanner.expect(opening)
    found: list[str] = []
    if not scanner.peek(closing):
        found.append(scanner.word("a dimension or symbol name"))
        while scanner.accept(","):
            found.append(scanner.word("a dimension or symbol name"))
    scanner.expect(closing)
    return tuple(found)


def _sum(scanner: Scanner, names: dict[str, Expression], depth: int) -> Expression:
    terms = [_product(scanner, names, depth)]
    while True:
        if scanner.accept("+"):
            terms.append(_product(scanner, names, depth))
        elif scanner.peek("-") and not scanner.peek("->"):
            scanner.expect("-")
            terms.append(multiply(_product(scanner, names, depth), ConstantExpr(-1)))
        else:
            return add(*terms)


def _product(scanner: Scanner, names: dict[str, Expression], depth: int) -> Expression:
    left = _operand(scanner, names, depth)
    while True:
        word = scanner.peek_word()
        operation = "*" if scanner.peek("*") else word if word in (FLOORDIV, CEILDIV, MOD) else None
        if operation is None:
            return left
        scanner.expect(operation)
        place = scanner.at
        right = _operand(scanner, names, depth)
        try:
            left = OPERATIONS[operation](left, right)
        except LayoutError as refusal:
            raise LayoutError(f"at character {place}: {refusal}") from None


def _operand(scanner: Scanner, names: dict[str, Expression], depth: int) -> Expression:
    if depth > DEEPEST_PARENTHESES:
        raise scanner.error(f"at most {DEEPEST_PARENTHESES} parentheses inside each other")
    if scanner.accept("("):
        inside = _sum(scanner, names, depth + 1)
        scanner.expect(")")
        return inside
    if scanner.accept("-"):
        return multiply(_operand(scanner, names, depth + 1), ConstantExpr(-1))
    if scanner.peek_digit():
        return ConstantExpr(scanner.natural("an integer"))
    word = scanner.peek_word()
    if word is None or word in (FLOORDIV, CEILDIV, MOD):
        raise scanner.error("an affine expression")
    if word not in names:
        raise scanner.error(f"one of {', '.join(names) or 'no names'}")
    scanner.expect(word)
    return names[word]
