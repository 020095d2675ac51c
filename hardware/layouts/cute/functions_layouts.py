"""Functions that build, split and combine layouts; those of tensors act on their layouts."""

from collections.abc import Callable

from tapestry.hardware.layouts.cute.algebra import coalesce, complement, composition, filtered
from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term, basis_like, divided_up, term
from tapestry.hardware.layouts.cute.composed import Composed, Swizzle, merged, swizzle_of, swizzled
from tapestry.hardware.layouts.cute.elements import bits_of
from tapestry.hardware.layouts.cute.function import (
    CuteFunction,
    Given,
    Templates,
    a_layout,
    places,
    shape_of,
)
from tapestry.hardware.layouts.cute.integers import ZERO, Static, negated
from tapestry.hardware.layouts.cute.inverse import (
    left_inverse,
    max_common_layout,
    max_common_vector,
    nullspace,
    right_inverse,
)
from tapestry.hardware.layouts.cute.recast import (
    domain_distribute,
    downcast_any,
    evenly_divides,
    layout_like,
    max_alignment,
    recast,
    upcast_any,
)
from tapestry.hardware.layouts.cute.strided import Strided, columnwise, joined, ordered, rowwise
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.tiling import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from tapestry.hardware.layouts.cute.tuples import (
    Underscore,
    ceil_div,
    flat,
    integer,
    rank,
)
from tapestry.hardware.layouts.layout import LayoutError

COLUMNS, ROWS = "LayoutLeft", "LayoutRight"


def _make_layout(_: Templates, given: Given) -> Strided:
    if isinstance(given[0], Strided):
        return joined(tuple(map(a_layout, given)))
    shape = term(given[0])
    if len(given) == 1:
        return columnwise(shape)
    if given[1] in (COLUMNS, ROWS):
        return columnwise(shape) if given[1] == COLUMNS else rowwise(shape)
    return Strided(shape, term(given[1]))


def _layout_type(templates: Templates, given: Given) -> object:
    arguments = list(given) or list(templates)
    if not arguments:
        raise LayoutError("expected a shape, as in Layout<Shape<_4,_2>>{}")
    if isinstance(arguments[0], Strided) and len(arguments) == 1:
        return arguments[0]
    return _make_layout((), arguments)


def _ordered(_: Templates, given: Given) -> Strided:
    if given[1] in (COLUMNS, ROWS):
        return _make_layout((), given)
    return ordered(term(given[0]), term(given[1]))


def _on_layout(change: Callable[..., Strided]) -> Callable[[Templates, Given], object]:
    """Extend a change of a layout so that it also acts within a swizzle and on a tensor's layout."""

    def meaning(_: Templates, given: Given) -> object:
        value, rest = given[0], given[1:]
        if isinstance(value, ImplicitTensor):
            return value.relaid(lambda layout: change(layout, *rest))
        if isinstance(value, Composed):
            return value.on_inner(lambda layout: change(layout, *rest))
        return change(a_layout(value), *rest)

    return meaning


def _flatten(_: Templates, given: Given) -> object:
    if isinstance(given[0], Strided | Composed | ImplicitTensor):
        return _on_layout(lambda layout: layout.flat)((), given)
    return flat(term(given[0]))


def _composed_type(templates: Templates, given: Given) -> object:
    arguments = list(given) or list(templates)
    if len(arguments) != 3:
        raise LayoutError("expected ComposedLayout<LayoutA, Offset, LayoutB>")
    return _make_composed((), arguments)


def _make_composed(_: Templates, given: Given) -> Composed:
    outer = given[0] if isinstance(given[0], Swizzle) else a_layout(given[0])
    inner = given[2] if isinstance(given[2], Composed) else a_layout(given[2])
    return Composed(outer, integer(given[1]), inner)


def _composition(_: Templates, given: Given) -> object:
    first, last = given[0], given[-1]
    if isinstance(first, Swizzle):
        if isinstance(last, Swizzle):
            return merged(first, last)
        inner = last if isinstance(last, Composed) else a_layout(last)
        return swizzled(first, integer(given[1]) if len(given) == 3 else ZERO, inner)
    if len(given) == 3:
        return _make_composed((), given)
    if isinstance(first, Composed):
        return Composed(first.outer, first.offset, _layout_of(_composition((), [first.inner, last])))
    if isinstance(first, Strided) and isinstance(last, Composed):
        if last.offset != ZERO:
            raise LayoutError(f"Require offset == 0, got {last}")
        return _composition((), [_composition((), [first, last.outer]), last.inner])
    if isinstance(first, Strided) and isinstance(last, Swizzle):
        images = (integer(first(Static(mask))) for mask in (last.sources, last.targets))
        sources, targets = (image.value if isinstance(image, Static) else image for image in images)
        return swizzled(swizzle_of(sources, targets), ZERO, first)
    return _on_layout(composition)((), given)


def _layout_of(value: object) -> Strided | Composed:
    return value if isinstance(value, Composed) else a_layout(value)


def _complement(_: Templates, given: Given) -> Strided:
    layout = given[0].domain if isinstance(given[0], Composed) else given[0]
    layout = layout if isinstance(layout, Strided) else columnwise(term(layout))
    return complement(layout, shape_of(given[1]) if len(given) > 1 else None)


def _inverse(change: Callable[[Strided], Strided]) -> Callable[[Templates, Given], object]:
    def meaning(_: Templates, given: Given) -> object:
        value = given[0]
        if isinstance(value, Underscore | Swizzle):
            return value
        if isinstance(value, int | Static):
            return negated(value)
        if isinstance(value, Composed):
            if not isinstance(value.outer, Swizzle) or value.offset != ZERO:
                raise LayoutError(f"expected a swizzle at offset _0 to invert, not {value}")
            return _composition((), [change(a_layout(value.inner)), value.outer])
        return change(a_layout(value))

    return meaning


def _ceil_div(_: Templates, given: Given) -> Term:
    target, tiler = given
    if isinstance(tiler, Strided):
        return complement(tiler, shape_of(target)).shape
    if isinstance(target, ScaledBasis):
        return divided_up(target, integer(tiler))
    return ceil_div(shape_of(target), term(tiler))


def _cast(change: Callable[[Strided | Composed, int], object]) -> Callable[[Templates, Given], object]:
    def meaning(templates: Templates, given: Given) -> object:
        layout = given[0] if isinstance(given[0], Composed) else a_layout(given[0])
        return change(layout, places(templates)[0])

    return meaning


def _recast(templates: Templates, given: Given) -> Strided:
    old, new = (bits_of(str(name)) for name in templates)
    return recast(a_layout(given[0]), old, new)


def _swizzle(templates: Templates, given: Given) -> Swizzle:
    values = places(templates)
    if len(values) not in (2, 3):
        raise LayoutError("expected Swizzle<bits, base> or Swizzle<bits, base, shift>")
    return Swizzle(values[0], values[1], values[2] if len(values) == 3 else values[0])


def _make_swizzle(templates: Templates, given: Given) -> Swizzle:
    sources, targets = places(templates)
    return swizzle_of(sources, targets)


def _tile_to_shape(_: Templates, given: Given) -> object:
    shape = term(given[1])
    order = term(given[2]) if len(given) > 2 and given[2] not in (COLUMNS, ROWS) else None
    if len(given) > 2 and given[2] == ROWS:
        order = tuple(Static(k) for k in reversed(range(rank(shape))))
    return _on_layout(lambda layout: tile_to_shape(layout, shape, order))((), given[:1])


def _two(change: Callable[[Strided, Strided], object]) -> Callable[[Templates, Given], object]:
    return lambda _, given: change(a_layout(given[0]), a_layout(given[1]))


def _marker(name: str) -> Callable[[Templates, Given], object]:
    return lambda _, __: name


_TILINGS = (
    logical_divide,
    zipped_divide,
    tiled_divide,
    flat_divide,
    logical_product,
    zipped_product,
    tiled_product,
    flat_product,
)

LAYOUT_FUNCTIONS: tuple[CuteFunction, ...] = (
    CuteFunction(("GenColMajor", "LayoutLeft"), _marker(COLUMNS), 0, 0, constant=True),
    CuteFunction(("GenRowMajor", "LayoutRight"), _marker(ROWS), 0, 0, constant=True),
    CuteFunction(("Layout",), _layout_type, 0, 2, templated=True, constant=True),
    CuteFunction(("ComposedLayout",), _composed_type, 0, 3, templated=True, constant=True),
    CuteFunction(("Swizzle",), _swizzle, 0, 0, templated=True, constant=True),
    CuteFunction(("make_swizzle",), _make_swizzle, 0, 0, templated=True, parameters=2),
    CuteFunction(("make_layout",), _make_layout, 1, 64),
    CuteFunction(("make_ordered_layout",), _ordered, 2, 2),
    CuteFunction(("make_layout_like",), lambda _, g: layout_like(a_layout(g[0]))),
    CuteFunction(("make_identity_layout",), lambda _, g: Strided(shape_of(g[0]), basis_like(shape_of(g[0])))),
    CuteFunction(("make_composed_layout",), _make_composed, 3, 3),
    CuteFunction(("flatten",), _flatten),
    CuteFunction(("coalesce",), _on_layout(coalesce), 1, 2),
    CuteFunction(("filter",), _on_layout(filtered), 1, 2),
    CuteFunction(("composition",), _composition, 2, 3),
    CuteFunction(("complement",), _complement, 1, 2),
    CuteFunction(("right_inverse",), _inverse(right_inverse)),
    CuteFunction(("left_inverse",), _inverse(left_inverse)),
    CuteFunction(("nullspace",), lambda _, g: nullspace(a_layout(g[0]))),
    CuteFunction(("max_common_layout",), _two(max_common_layout), 2, 2),
    CuteFunction(("max_common_vector",), _two(max_common_vector), 2, 2),
    CuteFunction(("blocked_product",), _on_layout(blocked_product), 2, 2),
    CuteFunction(("raked_product",), _on_layout(raked_product), 2, 2),
    CuteFunction(("tile_to_shape",), _tile_to_shape, 2, 3),
    *(CuteFunction((change.__name__,), _on_layout(change), 2, 2) for change in _TILINGS),
    CuteFunction(("ceil_div",), _ceil_div, 2, 2),
    CuteFunction(("upcast",), _cast(upcast_any), templated=True, parameters=1),
    CuteFunction(("downcast",), _cast(downcast_any), templated=True, parameters=1),
    CuteFunction(("recast_layout",), _recast, templated=True, parameters=2),
    CuteFunction(("max_alignment",), lambda _, g: max_alignment(a_layout(g[0]))),
    CuteFunction(("domain_distribute",), lambda _, g: domain_distribute(shape_of(g[0]), integer(g[1])), 2, 2),
    CuteFunction(("evenly_divides",), lambda _, g: Static(int(evenly_divides(shape_of(g[0]), g[1]))), 2, 2),
)
