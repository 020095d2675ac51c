"""Functions that build iterators and tensors and print them."""

from tapestry.hardware.layouts.cute.basis import term
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.function import (
    CuteFunction,
    Given,
    Templates,
    a_layout,
    a_tensor,
    shape_of,
)
from tapestry.hardware.layouts.cute.functions_layouts import COLUMNS, ROWS
from tapestry.hardware.layouts.cute.integers import ZERO, number
from tapestry.hardware.layouts.cute.iterators import (
    CoordinateIterator,
    CountingIterator,
    Pointer,
    coordinate_iterator,
)
from tapestry.hardware.layouts.cute.strided import Strided, columnwise, rowwise
from tapestry.hardware.layouts.cute.tensor import (
    ImplicitTensor,
    identity_tensor,
    inner_partition,
    local_partition,
    local_tile,
    outer_partition,
    print_layout,
    printed,
)
from tapestry.hardware.layouts.cute.tuples import each_leaf, integer, shown
from tapestry.hardware.layouts.layout import LayoutError


def _make_tensor(_: Templates, given: Given) -> ImplicitTensor:
    iterator, rest = given[0], given[1:]
    if not isinstance(iterator, CountingIterator | CoordinateIterator | Pointer):
        raise LayoutError(f"expected an iterator, not {shown(iterator)}")
    if isinstance(rest[0], Strided | Composed):
        return ImplicitTensor(iterator, rest[0])
    shape = term(rest[0])
    if len(rest) == 1 or rest[1] == COLUMNS:
        return ImplicitTensor(iterator, columnwise(shape))
    return ImplicitTensor(iterator, rowwise(shape) if rest[1] == ROWS else Strided(shape, term(rest[1])))


def _domain_offset(_: Templates, given: Given) -> ImplicitTensor:
    tensor = a_tensor(given[1])
    if isinstance(tensor.layout, Composed):
        moved = tensor.layout.slice(each_leaf(tensor.shape, lambda _: ZERO), tensor.inner(term(given[0])))
        return ImplicitTensor(tensor.iterator, Composed(moved.outer, moved.offset, tensor.inner))
    return ImplicitTensor(tensor.iterator.moved(tensor.layout(term(given[0]))), tensor.layout)


def _local_tile(_: Templates, given: Given) -> ImplicitTensor:
    return local_tile(a_tensor(given[0]), given[1], given[2], given[3] if len(given) > 3 else None)


def _local_partition(_: Templates, given: Given) -> ImplicitTensor:
    projection = given[3] if len(given) > 3 else None
    return local_partition(a_tensor(given[0]), a_layout(given[1]), integer(given[2]), projection)


TENSOR_FUNCTIONS: tuple[CuteFunction, ...] = (
    CuteFunction(
        ("counting_iterator", "make_counting_iterator"),
        lambda _, g: CountingIterator(number(integer(g[0])) if g else 0),
        0,
        1,
        templated=True,
    ),
    CuteFunction(
        ("make_inttuple_iter", "ArithmeticTupleIterator"),
        lambda _, g: coordinate_iterator(*map(term, g)),
        1,
        64,
    ),
    CuteFunction(("make_tensor",), _make_tensor, 2, 3),
    CuteFunction(("make_identity_tensor",), lambda _, g: identity_tensor(shape_of(g[0]))),
    CuteFunction(("local_tile",), _local_tile, 3, 4),
    CuteFunction(("local_partition",), _local_partition, 3, 4),
    CuteFunction(("inner_partition",), lambda _, g: inner_partition(a_tensor(g[0]), g[1], g[2]), 3, 3),
    CuteFunction(("outer_partition",), lambda _, g: outer_partition(a_tensor(g[0]), g[1], g[2]), 3, 3),
    CuteFunction(("domain_offset",), _domain_offset, 2, 2),
    CuteFunction(("print",), lambda _, g: shown(g[0])),
    CuteFunction(("print_tensor",), lambda _, g: printed(a_tensor(g[0]))),
    CuteFunction(
        ("print_layout",),
        lambda _, g: print_layout(g[0] if isinstance(g[0], Composed) else a_layout(g[0])),
    ),
)
