"""Functions of integers, tuples, basis elements and coordinates."""

from collections.abc import Callable
from functools import reduce

from tapestry.hardware.layouts.cute.basis import (
    ArithmeticTuple,
    ScaledBasis,
    Term,
    as_arithmetic,
    basis_like,
    magnitude,
    term,
)
from tapestry.hardware.layouts.cute.coordinates import (
    compact,
    compact_in_order,
    converted,
    coordinate_of,
    index_of,
    linear_index,
    strided_coordinate_of,
)
from tapestry.hardware.layouts.cute.function import CuteFunction, Given, Templates, places, plain, shape_of
from tapestry.hardware.layouts.cute.integers import (
    ONE,
    Integer,
    Static,
    common_divisor,
    divided,
    larger,
    multiplied,
    number,
    remainder,
    rounded_up,
    sign,
    smaller,
)
from tapestry.hardware.layouts.cute.methods import part
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tuples import (
    compatible,
    congruent,
    each_leaf,
    inner_product,
    integer,
    leaves,
    product,
    same_rank,
    scaled_each,
    shape_div,
    total,
    unwrapped,
    weakly_congruent,
    wrapped,
)
from tapestry.hardware.layouts.layout import LayoutError

LONGEST_TUPLE = 1 << 10


def _tuple(templates: Templates, given: Given) -> tuple[object, ...]:
    return tuple(given) if given or not templates else tuple(templates)


def _basis(templates: Templates, given: Given) -> ScaledBasis:
    if any(place < 0 or place > 255 for place in places(templates)):
        raise LayoutError(f"expected modes of a basis element from 0 to 255, not {templates}")
    return ScaledBasis(ONE, places(templates))


def _scaled_basis(templates: Templates, given: Given) -> ScaledBasis:
    if not templates:
        raise LayoutError("expected a type and modes, as in ScaledBasis<int,0>{5}")
    value = term(given[0]) if given else templates[0]
    value = 0 if isinstance(value, str) else value
    if isinstance(value, ScaledBasis):
        return ScaledBasis(value.value, (*places(templates[1:]), *value.modes))
    return ScaledBasis(integer(value), places(templates[1:]))


def _static(templates: Templates, given: Given) -> Static:
    if len(templates) != 1:
        raise LayoutError("expected one integer, as in Int<4>")
    return Static(places(templates)[0])


def _folded(name: str, combine: Callable[[Integer, Integer], Integer]) -> CuteFunction:
    def meaning(_: Templates, given: Given) -> Integer:
        numbers = [integer(leaf) for value in given for leaf in leaves(term(value))]
        return reduce(combine, reversed(numbers))

    return CuteFunction((name,), meaning, 1, 64)


def _safe_div(a: Term, b: Term) -> Term:
    if isinstance(a, ScaledBasis):
        return ScaledBasis(integer(_safe_div(a.value, b)), a.modes)
    over, under = integer(a), integer(b)
    if isinstance(over, Static) and isinstance(under, Static) and number(remainder(over, under)):
        raise LayoutError(f"Static safe_div requires t % u == 0, got {over.value} and {under.value}")
    return divided(over, under)


def _round_up(a: Term, b: Term) -> Term:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(map(_round_up, a, b + (ONE,) * (len(a) - len(b))))
    return multiplied(rounded_up(integer(a), integer(b)), integer(b))


def _crd2idx(_: Templates, given: Given) -> Term:
    coordinate = term(given[0])
    if isinstance(given[1], Strided):
        return given[1](coordinate)
    if len(given) == 3:
        return index_of(coordinate, term(given[1]), term(given[2]))
    return linear_index(coordinate, term(given[1]))


def _idx2crd(index: Term, shape: Term, stride: Term | None = None) -> Term:
    return coordinate_of(index, shape) if stride is None else strided_coordinate_of(index, shape, stride)


def _repeat(templates: Templates, given: Given) -> object:
    count = places(templates)[0]
    if not 0 <= count <= LONGEST_TUPLE:
        raise LayoutError(f"expected 0 to {LONGEST_TUPLE} repetitions, not {count}")
    return given[0] if count == 1 else (given[0],) * count


def _product_like(shape: Term, guide: Term) -> Term:
    if isinstance(guide, tuple):
        return tuple(_product_like(s, g) for s, g in zip(*same_rank(shape, guide), strict=True))
    return product(shape)


def _basis_get(_: Templates, given: Given) -> Term:
    found = term(given[0])
    return part(term(given[1]), found.modes) if isinstance(found, ScaledBasis) else term(given[1])


def _known(truth: bool, *terms: Term) -> Integer:
    """Return a truth value, static if all integers are."""
    return (
        Static(int(truth))
        if all(isinstance(leaf, Static) for t in terms for leaf in leaves(t))
        else int(truth)
    )


TUPLE_FUNCTIONS: tuple[CuteFunction, ...] = (
    CuteFunction(("E",), _basis, 0, 0, templated=True, constant=True),
    CuteFunction(("ScaledBasis",), _scaled_basis, 0, 1, templated=True, constant=True),
    CuteFunction(("Int", "C", "constant"), _static, 0, 0, templated=True, constant=True),
    CuteFunction(("true_type",), lambda _, __: Static(1), 0, 0, constant=True),
    CuteFunction(("false_type",), lambda _, __: Static(0), 0, 0, constant=True),
    CuteFunction(
        ("Shape", "Stride", "Coord", "Step", "Tile", "tuple", "IntTuple"),
        _tuple,
        0,
        LONGEST_TUPLE,
        templated=True,
        constant=True,
    ),
    CuteFunction(
        ("make_tuple", "make_shape", "make_stride", "make_coord", "make_step", "make_tile", "make_int_tuple"),
        _tuple,
        0,
        LONGEST_TUPLE,
    ),
    CuteFunction(
        ("make_arithmetic_tuple", "ArithmeticTuple"),
        lambda t, g: ArithmeticTuple(tuple(map(term, _tuple(t, g)))),
        0,
        LONGEST_TUPLE,
        templated=True,
        constant=True,
    ),
    plain("as_arithmetic_tuple", as_arithmetic, 1),
    CuteFunction(("make_basis_like",), lambda t, g: basis_like(shape_of(g[0]), places(t)), templated=True),
    CuteFunction(("basis_get",), _basis_get, 2, 2),
    plain("basis_value", lambda e: e.value if isinstance(e, ScaledBasis) else e, 1),
    plain("abs", magnitude, 1),
    plain("signum", lambda x: sign(integer(x)), 1),
    plain("safe_div", _safe_div, 2),
    plain("round_up", _round_up, 2),
    plain("shape_div", shape_div, 2),
    _folded("max", larger),
    _folded("min", smaller),
    _folded("gcd", common_divisor),
    plain(
        "lcm",
        lambda a, b: multiplied(divided(integer(a), common_divisor(integer(a), integer(b))), integer(b)),
        2,
    ),
    plain("product", product, 1),
    plain("product_each", lambda t: tuple(map(product, wrapped(t))), 1),
    plain("product_like", _product_like, 2),
    plain("sum", total, 1),
    plain("inner_product", inner_product, 2),
    plain("elem_scale", scaled_each, 2),
    CuteFunction(("crd2idx",), _crd2idx, 2, 3),
    plain("idx2crd", _idx2crd, 2, 3),
    plain("crd2crd", converted, 3),
    plain("compact_col_major", compact, 1, 2),
    plain("compact_row_major", lambda s, c=ONE: compact(s, c, False), 1, 2),
    plain("compact_order", compact_in_order, 2),
    plain("flatten_to_tuple", leaves, 1),
    plain("wrap", wrapped, 1),
    plain("unwrap", unwrapped, 1),
    plain("congruent", lambda a, b: Static(int(congruent(a, b))), 2),
    plain("weakly_congruent", lambda a, b: Static(int(weakly_congruent(a, b))), 2),
    plain("compatible", lambda a, b: _known(compatible(a, b), a, b), 2),
    CuteFunction(("repeat",), _repeat, templated=True, parameters=1),
    plain("repeat_like", lambda t, x: each_leaf(t, lambda _: x), 2),
)
