"""Descriptors of Hopper's tensor memory accelerator: the tensor that a TMA instruction addresses, and the limits on
it.

Sources: NVIDIA CUDA driver API, `cuTensorMapEncodeTiled` (limits); NVIDIA/cutlass
include/cute/atom/copy_traits_sm90_tma.hpp (from a layout) and copy_traits_sm90_tma_swizzle.hpp (swizzles).
Dimensions are innermost first, as in the descriptor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term, basis
from tapestry.hardware.layouts.cute.composed import Composed, Swizzle, upcast_swizzle
from tapestry.hardware.layouts.cute.coordinates import compact
from tapestry.hardware.layouts.cute.integers import ZERO, Static, number
from tapestry.hardware.layouts.cute.iterators import CoordinateIterator
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor, zero_coordinate
from tapestry.hardware.layouts.cute.tuples import integer, leaves, wrapped
from tapestry.hardware.layouts.layout import LayoutError

HIGHEST_RANK = 5
LARGEST_SIZE = 1 << 32
LARGEST_BOX = 256
LARGEST_ELEMENT_STRIDE = 8
STRIDE_LIMIT_BYTES = 1 << 40


@dataclass(frozen=True)
class ElementType:
    """An element that a descriptor can name; `floating`: out-of-bounds elements may be filled with NaN."""

    name: str
    size_bytes: int
    floating: bool = False


ELEMENT_TYPES: tuple[ElementType, ...] = (
    ElementType("uint8", 1),
    ElementType("uint16", 2),
    ElementType("uint32", 4),
    ElementType("int32", 4),
    ElementType("uint64", 8),
    ElementType("int64", 8),
    ElementType("float16", 2, True),
    ElementType("bfloat16", 2, True),
    ElementType("float32", 4, True),
    ElementType("float32_ftz", 4, True),
    ElementType("tfloat32", 4, True),
    ElementType("tfloat32_ftz", 4, True),
    ElementType("float64", 8, True),
)


@dataclass(frozen=True)
class SwizzleMode:
    """A swizzle of shared memory: over bytes, and the widest box (bytes of its innermost dimension; 0 = any)."""

    name: str
    span_bytes: int
    swizzle: Swizzle


SWIZZLE_MODES: tuple[SwizzleMode, ...] = (
    SwizzleMode("none", 0, Swizzle(0, 4, 3)),
    SwizzleMode("32B", 32, Swizzle(1, 4, 3)),
    SwizzleMode("64B", 64, Swizzle(2, 4, 3)),
    SwizzleMode("128B", 128, Swizzle(3, 4, 3)),
)
INTERLEAVES = (("none", 1), ("16B", 16), ("32B", 32))
"""Interleaved layouts (NC/8HWC8, NC/16HWC16) and the alignment they ask of strides, in bytes."""
FILLS = ("zero", "nan")


def swizzle_mode(name: str) -> SwizzleMode:
    """Return the swizzle mode of this name."""
    for mode in SWIZZLE_MODES:
        if mode.name == name:
            return mode
    raise LayoutError(f"expected a swizzle of {[m.name for m in SWIZZLE_MODES]}, not {name!r}")


def swizzle_mode_of(swizzle: Swizzle) -> SwizzleMode:
    """Find the mode that swizzles bytes of shared memory as `swizzle` does.

    Raises `LayoutError` ("Unsupported layout swizzle") if there is none.
    """
    for mode in SWIZZLE_MODES:
        if mode.swizzle == swizzle:
            return mode
    known = ", ".join(str(mode.swizzle) for mode in SWIZZLE_MODES)
    raise LayoutError(f"Unsupported layout swizzle {swizzle} for SM90 TMA; expected one of {known}")


def element_type(name: str) -> ElementType:
    """Find an element type by its name, ours (`f16`), numpy's (`float16`) or CuTe's (`half_t`)."""
    for element in ELEMENT_TYPES:
        if element.name == _long_name(name):
            return element
    raise LayoutError(f"expected an element type of {[e.name for e in ELEMENT_TYPES]}, not {name!r}")


def _long_name(name: str) -> str:
    short = name.removesuffix("_t")
    aliases = {
        "half": "float16", "bfloat16": "bfloat16", "bf16": "bfloat16", "tf32": "tfloat32", "float": "float32",
        "double": "float64", "int": "int32", "int8": "uint8", "float_e4m3": "uint8", "float_e5m2": "uint8",
        "f8e4m3": "uint8", "f8e5m2": "uint8", "s8": "uint8", "bool": "uint8", "int16": "uint16", "s16": "uint16",
    }  # fmt: skip
    for prefix, long in (("f", "float"), ("u", "uint"), ("s", "int")):
        if short[:1] == prefix and short[1:].isdigit():
            return aliases.get(short, long + short[1:])
    return aliases.get(short, short)


@dataclass(frozen=True)
class TmaDescriptor:
    """A tensor of global memory as TMA addresses it, and the box that one instruction copies.

    `sizes` and `box` in elements, `strides_bytes` of all dimensions but the innermost, whose elements are adjacent;
    `element_strides`: steps through the box (the innermost one is ignored without interleave). `LayoutError` is raised
    with every limit of Hopper that is broken.
    """

    element: ElementType
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: SwizzleMode = SWIZZLE_MODES[0]
    fill: str = "zero"
    base_address: int = 0

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.sizes))
        issues = list(_rank_issues(self)) or list(_issues(self))
        if issues:
            raise LayoutError("a TMA descriptor is impossible: " + "; ".join(issues))

    @property
    def rank(self) -> int:
        """The number of dimensions, 1 to 5."""
        return len(self.sizes)

    @property
    def loaded(self) -> tuple[int, ...]:
        """The number of elements that a copy writes in each dimension: ceil(box / element stride)."""
        first = (self.box[0],) if self.interleave == "none" else (-(-self.box[0] // self.element_strides[0]),)
        steps = zip(self.box[1:], self.element_strides[1:], strict=True)
        return first + tuple(-(-extent // step) for extent, step in steps)

    @property
    def box_bytes(self) -> int:
        """The number of bytes that one copy brings to shared memory, filled elements included."""
        count = self.element.size_bytes
        for extent in self.loaded:
            count *= extent
        return count

    @property
    def shared_layout(self) -> Strided | Composed:
        """The layout of the box in shared memory, innermost dimension first; a swizzle's rows fill its span."""
        shape = tuple(map(Static, self.loaded))
        span = self.swizzle.span_bytes // self.element.size_bytes
        if not span:
            return Strided(shape, compact(shape))
        layout = Strided(shape, (Static(1), *wrapped(compact(shape[1:], Static(span)))))
        return Composed(upcast_swizzle(self.swizzle.swizzle, self.element.size_bytes), ZERO, layout)

    @property
    def coordinates(self) -> ImplicitTensor:
        """The tensor of TMA coordinates (`get_tma_tensor`): `ArithTuple(_0,_0) o (M,N):(_1@0,_1@1)`."""
        layout = Strided(self.sizes, tuple(basis(k) for k in range(self.rank)))
        return ImplicitTensor(CoordinateIterator(zero_coordinate(self.sizes)), layout)


def _rank_issues(found: TmaDescriptor) -> Iterator[str]:
    if not 1 <= found.rank <= HIGHEST_RANK:
        yield f"expected 1 to {HIGHEST_RANK} dimensions, not {found.rank}"
    lengths = (len(found.box), len(found.element_strides), len(found.strides_bytes) + 1)
    for name, length in zip(
        ("box", "element_strides", "strides_bytes + the innermost"), lengths, strict=True
    ):
        if length != found.rank:
            yield f"expected {found.rank} entries of {name}, not {length}"
    if found.interleave not in dict(INTERLEAVES):
        yield f"expected an interleave of {[name for name, _ in INTERLEAVES]}, not {found.interleave!r}"
    if found.fill not in FILLS:
        yield f"expected a fill of {list(FILLS)}, not {found.fill!r}"


def _issues(found: TmaDescriptor) -> Iterator[str]:
    alignment = max(16, dict(INTERLEAVES)[found.interleave])
    if found.base_address % alignment:
        yield f"the address {found.base_address:#x} must be {alignment}B-aligned"
    yield from _outside("sizes", found.sizes, 1, LARGEST_SIZE)
    yield from _outside("box", found.box, 1, LARGEST_BOX)
    yield from _outside("element_strides", found.element_strides, 1, LARGEST_ELEMENT_STRIDE)
    for k, stride in enumerate(found.strides_bytes):
        if not 0 <= stride < STRIDE_LIMIT_BYTES or stride % alignment:
            yield f"strides_bytes[{k}]: expected a multiple of {alignment} below 2^40, not {stride}"
    inner = found.box[0] * found.element.size_bytes
    span = found.swizzle.span_bytes
    if found.interleave == "none":
        if inner % 16:
            yield f"box[0]: expected a multiple of 16 bytes, not {found.box[0]} elements of {inner} bytes"
        if span and inner > span:
            yield f"box[0]: expected at most {span} bytes with the swizzle {found.swizzle.name}, not {inner}"
    else:
        if found.rank < 3:
            yield f"expected 3 dimensions or more with the interleave {found.interleave}, not {found.rank}"
        if found.interleave == "32B" and found.swizzle.name != "32B":
            yield f"expected the swizzle 32B with the interleave 32B, not {found.swizzle.name}"
    if found.fill == "nan" and not found.element.floating:
        yield f"a fill with NaN needs a floating-point element, not {found.element.name}"


def _outside(name: str, values: Sequence[int], low: int, high: int) -> Iterator[str]:
    for k, value in enumerate(values):
        if not low <= value <= high:
            yield f"{name}[{k}]: expected {low} to {high}, not {value}"


def descriptor_of(
    layout: Strided, dtype: str, box: Sequence[int], swizzle: str = "none"
) -> tuple[TmaDescriptor, ImplicitTensor]:
    """Build the descriptor of a tensor in global memory, and the tensor that gives its TMA coordinates.

    `layout` has integer strides in elements; `box` has one extent for each leaf of its shape, in the layout's order.
    TMA's dimensions are the leaves by ascending stride, without those of extent 1 or stride 0 (such a leaf adds
    nothing to a coordinate). Raises `LayoutError` if no stride is 1 or a limit is broken.
    """
    element = element_type(dtype)
    shapes = [number(integer(s)) for s in leaves(layout.shape)]
    strides = [number(integer(d)) for d in leaves(layout.stride)]
    if len(box) != len(shapes):
        raise LayoutError(f"expected a box of {len(shapes)} extents for {layout}, not {list(box)}")
    seen = sorted((k for k, d in enumerate(strides) if shapes[k] != 1 and d), key=lambda k: strides[k])
    if not seen:
        seen, strides = [0], [1, *strides[1:]]
    if strides[seen[0]] != 1:
        raise LayoutError(
            f"Majorness of smem doesn't match majorness of gmem: expected a stride of 1 in {layout}, "
            f"the smallest is {strides[seen[0]]}"
        )
    descriptor = TmaDescriptor(
        element,
        tuple(shapes[k] for k in seen),
        tuple(strides[k] * element.size_bytes for k in seen[1:]),
        tuple(box[k] for k in seen),
        swizzle=swizzle_mode(swizzle),
    )
    places = {k: place for place, k in enumerate(seen)}
    flat = [basis(places[k]) if k in places else ZERO for k in range(len(shapes))]
    tensor = ImplicitTensor(
        descriptor.coordinates.iterator, Strided(layout.shape, _like(layout.shape, iter(flat)))
    )
    return descriptor, tensor


def _like(shape: Term, flat: Iterator[ScaledBasis | Static]) -> Term:
    if isinstance(shape, tuple):
        return tuple(_like(part, flat) for part in shape)
    return next(flat)


__all__ = [
    "ELEMENT_TYPES",
    "SWIZZLE_MODES",
    "TmaDescriptor",
    "descriptor_of",
    "element_type",
    "swizzle_mode",
    "swizzle_mode_of",
]
