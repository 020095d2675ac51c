"""Functions of expressions as values, with checks of their arguments."""

from collections.abc import Callable
from dataclasses import dataclass

from tapestry.hardware.layouts.cute.basis import Term, term
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.integers import number
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.tuples import integer, shown
from tapestry.hardware.layouts.layout import LayoutError

Templates = tuple[object, ...]
Given = list[object]


@dataclass(frozen=True)
class CuteFunction:
    """A function or type: its names, its meaning over (template arguments, arguments), and its number of arguments.

    `templated`: `<...>` may follow, with exactly `parameters` entries unless None; `constant`: a type, which stands
    for its value without arguments.
    """

    names: tuple[str, ...]
    meaning: Callable[[Templates, Given], object]
    fewest: int = 1
    most: int = 1
    templated: bool = False
    constant: bool = False
    parameters: int | None = None


def a_layout(value: object) -> Strided:
    """Return the value if it is a layout without a swizzle; a shape is not completed to its compact layout."""
    if isinstance(value, Strided):
        return value
    raise LayoutError(f"expected a layout, not {shown(value)}")


def a_tensor(value: object) -> ImplicitTensor:
    """Return the value if it is a tensor; raise `LayoutError` otherwise."""
    if isinstance(value, ImplicitTensor):
        return value
    raise LayoutError(f"expected a tensor, not {shown(value)}")


def shape_of(value: object) -> Term:
    """Return the shape of a layout or tensor; a term is its own."""
    return value.shape if isinstance(value, Strided | Composed | ImplicitTensor) else term(value)


def places(templates: Templates) -> tuple[int, ...]:
    """Convert template arguments to integers."""
    return tuple(number(integer(t)) for t in templates)


def plain(name: str, meaning: Callable[..., object], count: int, most: int | None = None) -> CuteFunction:
    """Build a function of terms only."""
    return CuteFunction(
        (name,), lambda _, given: meaning(*map(term, given)), count, count if most is None else most
    )
