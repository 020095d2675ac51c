"""Methods of layouts, tensors and basis elements in expressions: `layout.shape<0>()`, `tensor.data()`."""

from tapestry.hardware.layouts.cute.algebra import composition
from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term, term
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.coordinates import converted, linear_index, strided_coordinate_of
from tapestry.hardware.layouts.cute.integers import ONE, Static
from tapestry.hardware.layouts.cute.strided import Strided, columnwise
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.tiling import tiled_divide
from tapestry.hardware.layouts.cute.tuples import integer, product, shown, wrapped
from tapestry.hardware.layouts.layout import LayoutError


def method_of(value: object, name: str, templates: tuple[object, ...], given: list[object]) -> object:
    """Evaluate `value.name<templates>(given)`; raise `LayoutError` if the value has no such method."""
    if isinstance(value, ScaledBasis) and name == "value":
        return value.value
    if isinstance(value, ImplicitTensor):
        if name == "data":
            return value.iterator
        if name in ("compose", "tile", "with_shape"):
            return value.relaid(lambda layout: _relaid(layout, name, given))
        value = value.layout
        if name == "layout":
            return value
    if isinstance(value, Composed):
        if name in ("compose", "tile", "with_shape"):
            return value.on_inner(lambda layout: _relaid(layout, name, given))
        return _composed_method(value, name)
    if not isinstance(value, Strided):
        raise LayoutError(f"{shown(value)} has no method {name!r}; expected a layout or a tensor")
    if name in ("shape", "stride"):
        return part(value.shape if name == "shape" else value.stride, templates)
    if name == "size":
        return product(part(value.shape, templates))
    if not given:
        raise LayoutError(f"expected a method of a layout with its arguments, not {name}()")
    return _applied_method(value, name, given)


def _applied_method(layout: Strided, name: str, given: list[object]) -> object:
    if name in ("compose", "tile", "with_shape"):
        return _relaid(layout, name, given)
    argument = given[0] if len(given) == 1 else tuple(given)
    position = strided_coordinate_of(integer(argument), layout.shape, layout.stride)
    if name == "get_hier_coord":
        return position
    if name == "get_1d_coord":
        return linear_index(position, layout.shape)
    if name == "get_flat_coord":
        ones: Term = (ONE,) * layout.rank if layout.rank > 1 else ONE
        return converted(position, layout.shape, ones)
    raise LayoutError(
        f"a layout has no method {name!r}; expected shape, stride, compose, tile or get_hier_coord"
    )


def _relaid(layout: Strided, name: str, given: list[object]) -> Strided:
    argument = given[0] if len(given) == 1 else tuple(given)
    if name == "compose":
        return composition(layout, argument)
    return (
        tiled_divide(layout, argument) if name == "tile" else composition(layout, columnwise(term(argument)))
    )


def _composed_method(layout: Composed, name: str) -> object:
    parts = (
        ("layout_a", layout.outer),
        ("offset", layout.offset),
        ("layout_b", layout.inner),
        ("shape", layout.shape),
    )
    for known, value in parts:
        if name == known:
            return value
    raise LayoutError(
        f"a composed layout has no method {name!r}; expected layout_a, offset, layout_b or shape"
    )


def part(whole: Term, path: tuple[object, ...]) -> Term:
    """Compute `get<I, ...>`: the part of a term that a path of positions leads to."""
    for step in path:
        place = step.value if isinstance(step, Static) else step
        parts = wrapped(whole)
        if not isinstance(place, int) or not 0 <= place < len(parts):
            raise LayoutError(f"Index out of range: {step} of {shown(whole)}")
        whole = parts[place]
    return whole
