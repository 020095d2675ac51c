"""Parsing of what CuTe prints and of the C++ that builds it: layouts in memory, implicit tensors, tilers.

`ptr[16b] o (4,5):(1,4)`, `counting_iter(42) o (4,5):(_1,4)`, `ArithTuple(0,0) o (4,5):(_1@0,_1@1)`, `(_8:_1,_16:_1)`,
`make_tile(Layout<_8>{}, Layout<_16>{})`; the elements that `print_tensor` writes below a tensor are compared.
"""

import re

from tapestry.hardware.layouts.cute.basis import ArithmeticTuple, ScaledBasis
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.elements import bits_of
from tapestry.hardware.layouts.cute.expressions import evaluate
from tapestry.hardware.layouts.cute.implicit import ImplicitLayout, tiler_of
from tapestry.hardware.layouts.cute.integers import Static
from tapestry.hardware.layouts.cute.iterators import CoordinateIterator, CountingIterator, Pointer
from tapestry.hardware.layouts.cute.layout import CuteLayout, bound
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor, printed
from tapestry.hardware.layouts.cute.text import Reader
from tapestry.hardware.layouts.cute.tuples import leaves, shown
from tapestry.hardware.layouts.layout import LayoutError

_DECLARED = r"(auto|Tensor|Layout)\s+(const\s*)?&?\s*[A-Za-z]\w*\s*="
_EXPRESSION = rf"\s*({_DECLARED}|(cute::)?(make_|print_tensor)\w*\s*\(|Layout\s*<)"
_START = re.compile(
    r"\s*(((gmem|smem|rmem)_)?ptr\[|Sw<|ArithTuple|counting_iter|([a-rt-z]\w* +)?\(*(_?-?\d|Sw<)|"
    + f"{_EXPRESSION})",
    re.ASCII,
)
_IS_EXPRESSION = re.compile(_EXPRESSION, re.ASCII)
WRITE = "write shape:stride, such as (4,5):(_1,4)"


def recognizes(text: str) -> bool:
    """Return whether a text begins as CuTe's layouts, tensors and tilers do, or as C++ that builds them."""
    return _START.match(text[:256]) is not None


def parse(text: str, dtype: str | None = None) -> CuteLayout | ImplicitLayout:
    """Parse a layout, an implicit tensor, a tiler, or an expression of one.

    In memory: `ptr[16b] o shape:stride`, `f16 shape:stride` or `shape:stride` (elements of `dtype`, f32 if None). A
    swizzle may stand before it: `smem_ptr[16b] o Sw<3,4,3> o _0 o (8,64):(64,1)`. Raises `LayoutError` with the
    character and what was expected.
    """
    bits = bits_of(dtype or "f32")
    if _IS_EXPRESSION.match(text):
        value = evaluate(text)
        return parse(value, dtype) if isinstance(value, str) else _built(value, bits)
    reader = Reader(text)
    if re.match(r"\s*(ArithTuple|counting_iter)", text, re.ASCII):
        return _implicit(reader)
    if _is_tuple(text):
        return _tiler(reader)
    space = ""
    if pointer := reader.taken(r"((gmem|smem|rmem)_)?ptr\["):
        space = pointer.removesuffix("ptr[").rstrip("_")
        bits = int(reader.need(r"\d{1,3}(?=b\])", "the bits of an element and 'b]', such as 16b]"))
        if not 1 <= bits <= 128:
            place = reader.place - len(str(bits))
            raise LayoutError(f"at character {place}: expected elements of 1 to 128 bits, not {bits}")
        reader.need(r"b\](\(\w*\))?", "'b]'")
        reader.need("o", "'o' between the pointer and the layout")
    elif name := reader.taken(r"[a-rt-z]\w*"):
        bits = _named_bits(name, reader.place - len(name))
    layout = reader.any_layout()
    reader.finish()
    return _of_layout(layout, bits) if not space and not pointer else bound(layout, bits, space)


def _of_layout(layout: Strided | Composed, bits: int) -> CuteLayout | ImplicitLayout:
    """Build the layout in memory, or the implicit one where strides are basis elements."""
    inner = layout.domain if isinstance(layout, Composed) else layout
    if any(isinstance(step, ScaledBasis | ArithmeticTuple) for step in leaves(inner.stride)):
        return ImplicitLayout.of(layout)
    return bound(layout, bits)


def _built(value: object, bits: int) -> CuteLayout | ImplicitLayout:
    """Build the layout of an expression's value."""
    if isinstance(value, Strided | Composed):
        return _of_layout(value, bits)
    if isinstance(value, ImplicitTensor):
        if isinstance(value.iterator, Pointer):
            return bound(value.layout, value.iterator.bits, value.iterator.space)
        return ImplicitLayout.of(value)
    if isinstance(value, tuple) and value:
        return ImplicitLayout.of(tiler_of(value))
    raise LayoutError(f"at character 0: the value {_named(value)}, not a layout; {WRITE}")


def _named(value: object) -> str:
    """Name the kind of a value that is no layout."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        ((ArithmeticTuple, tuple), "a tuple of integers (a shape, a stride or a coordinate)"),
        (ScaledBasis, "a basis element (one stride)"),
        ((CountingIterator, CoordinateIterator, Pointer), "an iterator without a layout"),
        ((int, Static), "an integer"),
    )
    kind = next((name for types, name in kinds if isinstance(value, types)), "a value")
    return f"{shown(value)} is {kind}"


def _implicit(reader: Reader) -> ImplicitLayout:
    """Parse `iterator o layout`, and below it the elements as `print_tensor` prints them, if they are there."""
    iterator = reader.iterator()
    reader.taken("")
    if reader.place == len(reader.text):
        raise LayoutError(
            f"at character 0: {_named(iterator)}, not a layout; write {iterator} o (4,5):(_1,4)"
        )
    reader.need("o", "'o' between the iterator and the layout")
    tensor = ImplicitTensor(iterator, reader.any_layout())
    if reader.taken(":"):
        below = reader.text[reader.place :]
        if below.split() and below.split() != printed(tensor, header=False).split():
            raise LayoutError(
                f"at character {reader.place}: expected the elements of {tensor}, or nothing, after ':'"
            )
    else:
        reader.finish()
    return ImplicitLayout.of(tensor)


def _is_tuple(text: str) -> bool:
    """Return whether a text is one parenthesized tuple, or one term without a stride."""
    bare, depth = text.strip(), 0
    if not bare.startswith("("):
        return re.fullmatch(r"_?-?\d+(@\d+)*", bare, re.ASCII) is not None
    for place, character in enumerate(bare):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(bare) - 1
    return False


def _tiler(reader: Reader) -> ImplicitLayout:
    """Parse `(shape:stride,shape:stride)`, the layouts of a tile by mode."""
    if ":" not in reader.text:
        value = reader.term()
        reader.finish()
        raise LayoutError(f"at character 0: {_named(value)}, not a layout; {WRITE}")
    reader.need(r"\(", "'('")
    modes = [reader.mode()]
    while not reader.taken(r"\)"):
        reader.need(",", "',' or ')'")
        modes.append(reader.mode())
    reader.finish()
    return ImplicitLayout.of(tiler_of(modes))


def _named_bits(name: str, place: int) -> int:
    try:
        return bits_of(name)
    except LayoutError as refusal:
        raise LayoutError(f"at character {place}: {refusal}") from None
