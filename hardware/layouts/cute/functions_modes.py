"""Functions that measure layouts and tuples, and select, concatenate or reorder their modes."""

from collections.abc import Callable

from tapestry.hardware.layouts.cute.basis import Term, term
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.function import CuteFunction, Given, Templates, a_layout, places, shape_of
from tapestry.hardware.layouts.cute.integers import ONE, ZERO, Static
from tapestry.hardware.layouts.cute.methods import part
from tapestry.hardware.layouts.cute.recast import paired
from tapestry.hardware.layouts.cute.strided import Strided, extended, joined
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.tuples import (
    depth,
    opened,
    product,
    rank,
    shown,
    sliced,
    wrapped,
    zeros_filtered,
    zipped,
)
from tapestry.hardware.layouts.layout import LayoutError


def _size(templates: Templates, given: Given) -> object:
    return product(part(shape_of(given[0]), templates))


def _cosize(templates: Templates, given: Given) -> object:
    value = given[0].domain if isinstance(given[0], Composed) else a_layout(given[0])
    return _mode(value, templates).cosize


def _mode(layout: Strided, path: Templates) -> Strided:
    return Strided(part(layout.shape, path), part(layout.stride, path))


def _get(templates: Templates, given: Given) -> object:
    if isinstance(given[0], Strided):
        return _mode(given[0], templates)
    if isinstance(given[0], Composed):
        return given[0].on_inner(lambda layout: _mode(layout, templates))
    if isinstance(given[0], tuple):
        return _entry(given[0], places(templates))
    return part(term(given[0]), templates)


def _entry(value: object, path: tuple[int, ...]) -> object:
    """Return the entry at `path` of a tuple of anything (layouts of a tiler, say)."""
    for place in path:
        if not isinstance(value, tuple) or not 0 <= place < len(value):
            raise LayoutError(f"Index out of range: {place} of {shown(value)}")
        value = value[place]
    return value


def _shape(templates: Templates, given: Given) -> Term:
    return part(shape_of(given[0]), templates)


def _stride(templates: Templates, given: Given) -> Term:
    value = given[0].layout if isinstance(given[0], ImplicitTensor) else given[0]
    return part(a_layout(value).stride, templates)


def _take(templates: Templates, given: Given) -> object:
    begin, end = places(templates)
    return _picked(given[0], range(begin, end), "take: empty range error")


def _select(templates: Templates, given: Given) -> object:
    return _picked(given[0], places(templates), "select: expected modes")


def _picked(value: object, chosen: "range | tuple[int, ...]", empty: str) -> object:
    if isinstance(value, Strided):
        return Strided(_chosen(value.shape, chosen, empty), _chosen(value.stride, chosen, empty))
    return _chosen(term(value), chosen, empty)


def _chosen(term: Term, chosen: "range | tuple[int, ...]", empty: str) -> Term:
    parts = wrapped(term)
    if not len(chosen):
        raise LayoutError(empty)
    if not all(0 <= k < len(parts) for k in chosen):
        raise LayoutError(f"range out of bounds: modes {list(chosen)} of {shown(term)}")
    return tuple(parts[k] for k in chosen)


def _group(templates: Templates, given: Given) -> object:
    begin, end = places(templates)

    def grouped(term: Term) -> Term:
        parts = wrapped(term)
        last = len(parts) if end == -1 else end
        middle: tuple[Term, ...] = (parts[begin:last],) if begin < last else ()
        return parts[:begin] + middle + parts[last:]

    if isinstance(given[0], Strided):
        return Strided(grouped(given[0].shape), grouped(given[0].stride))
    return grouped(term(given[0]))


def _append(templates: Templates, given: Given) -> object:
    if isinstance(given[0], Strided):
        extra = a_layout(given[1]) if len(given) > 1 else Strided(ONE, ZERO)
        return extended(given[0], places(templates)[0] if templates else given[0].rank + 1, extra)
    if len(given) < 2:
        raise LayoutError(f"expected what to add to {shown(given[0])}")
    parts = wrapped(term(given[0]))
    missing = places(templates)[0] - len(parts) if templates else 1
    return given[0] if missing == 0 else parts + (term(given[1]),) * missing


def _prepend(templates: Templates, given: Given) -> object:
    if isinstance(given[0], Strided):
        extra = a_layout(given[1]) if len(given) > 1 else Strided(ONE, ZERO)
        count = places(templates)[0] - given[0].rank if templates else 1
        return joined((extra,) * count + given[0].modes) if count else given[0]
    if len(given) < 2:
        raise LayoutError(f"expected what to add to {shown(given[0])}")
    parts = wrapped(term(given[0]))
    missing = places(templates)[0] - len(parts) if templates else 1
    return given[0] if missing == 0 else (term(given[1]),) * missing + parts


def _replace(templates: Templates, given: Given) -> object:
    place = places(templates)[0]

    def replaced(whole: Term, new: Term) -> Term:
        parts = wrapped(whole)
        if not 0 <= place < len(parts):
            raise LayoutError(f"Index out of range: {place} of {shown(whole)}")
        return (*parts[:place], new, *parts[place + 1 :])

    if isinstance(given[0], Strided):
        new = a_layout(given[1])
        return Strided(replaced(given[0].shape, new.shape), replaced(given[0].stride, new.stride))
    return replaced(term(given[0]), term(given[1]))


def _reverse(_: Templates, given: Given) -> object:
    if isinstance(given[0], Strided):
        return given[0]
    whole = opened(term(given[0]))
    return tuple(reversed(whole)) if isinstance(whole, tuple) else whole


def _sliced(kept: bool) -> Callable[[Templates, Given], object]:
    def meaning(_: Templates, given: Given) -> object:
        coordinate, value = given
        if isinstance(value, Strided):
            return value.slice(coordinate) if kept else value.dice(coordinate)
        return sliced(coordinate, term(value), kept)

    return meaning


def _zip(_: Templates, given: Given) -> object:
    if len(given) == 2 and isinstance(given[0], Strided):
        return paired(given[0], a_layout(given[1]))
    if isinstance(given[0], Strided):
        return Strided(zipped(given[0].shape), zipped(given[0].stride))
    return zipped(tuple(map(term, given)) if len(given) > 1 else term(given[0]))


def _filter_zeros(_: Templates, given: Given) -> object:
    if isinstance(given[0], Strided):
        return given[0].zeros_filtered
    return zeros_filtered(term(given[0]), term(given[-1]))


MODE_FUNCTIONS: tuple[CuteFunction, ...] = (
    CuteFunction(("size",), _size, templated=True),
    CuteFunction(("rank",), lambda t, g: Static(rank(part(shape_of(g[0]), t))), templated=True),
    CuteFunction(("depth",), lambda t, g: Static(depth(part(shape_of(g[0]), t))), templated=True),
    CuteFunction(("shape",), _shape, templated=True),
    CuteFunction(("stride",), _stride, templated=True),
    CuteFunction(("cosize",), _cosize, templated=True),
    CuteFunction(("coshape",), lambda t, g: _mode(a_layout(g[0]), t).coshape, templated=True),
    CuteFunction(("coprofile",), lambda t, g: _mode(a_layout(g[0]), t).coprofile, templated=True),
    CuteFunction(("get", "layout"), _get, templated=True),
    CuteFunction(("take",), _take, templated=True, parameters=2),
    CuteFunction(("select",), _select, templated=True),
    CuteFunction(("group",), _group, templated=True, parameters=2),
    CuteFunction(("append",), _append, 1, 2, templated=True),
    CuteFunction(("prepend",), _prepend, 1, 2, templated=True),
    CuteFunction(("replace",), _replace, 2, 2, templated=True, parameters=1),
    CuteFunction(("reverse",), _reverse),
    CuteFunction(("filter_zeros",), _filter_zeros, 1, 2),
    CuteFunction(("slice",), _sliced(True), 2, 2),
    CuteFunction(("dice",), _sliced(False), 2, 2),
    CuteFunction(("zip",), _zip, 1, 8),
)
