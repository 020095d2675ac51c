"""Programs of one operator each, in sizes from the caches to the memory: what calibration times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tapestry.hardware.calibration.fused_probes import (
    activated_product,
    attention,
    copied,
    gated,
    normalized,
    transposed,
)
from tapestry.teg.graph import Graph
from tapestry.teg.programs import program

ROW = 1024  # elements of the rows of most probes
ROWS = (4, 16, 64, 256, 1024, 2048, 4096, 8192, 16384)  # 16 KiB to 64 MiB of float32
ROW_LENGTHS = (32, 256, 8192)  # rows of other lengths, with as many elements as 2048 rows have
# ProbeSizes m, n and k of matrix products, and how many there are of each
PRODUCTS = (
    *((n, n, n, 1) for n in (64, 256, 512, 1024, 2048, 4096)),
    *((1, 4096, 4096, 1), (16, 4096, 1024, 1), (32, 1024, 1024, 1), (128, 4096, 1024, 1)),
    *((128, 128, 8192, 1), (4096, 64, 1024, 1)),
    *((128, 128, 64, 96), (512, 64, 512, 12), (32, 32, 32, 1024)),
)
CONVOLUTIONS = (
    *((1, 64, 56, 64, 3), (8, 64, 56, 64, 3), (8, 256, 14, 256, 3), (8, 512, 28, 128, 1)),
    *((1, 64, 56, 256, 1), (1, 1024, 14, 256, 1), (1, 512, 7, 512, 3), (1, 3, 224, 64, 7)),
)

# Channels that are each convolved by itself: batch, channels, side, taps and stride; windows of pools alike
DEPTHWISE = (
    *((1, 32, 112, 3, 1), (8, 96, 56, 3, 1), (8, 144, 56, 3, 2), (8, 192, 28, 3, 1), (8, 384, 14, 3, 1)),
    *((1, 240, 28, 5, 1), (1, 672, 14, 5, 1), (1, 1152, 7, 5, 1)),
)
POOLS = ((1, 64, 112, 3, 2), (1, 192, 28, 3, 1), (1, 512, 14, 3, 1), (8, 64, 56, 2, 2), (1, 512, 7, 7, 7))

# Moves, gated activations and fused rows: fewer sizes than of the classes from which they would inherit
FEWER_ROWS = (16, 256, 1024, 4096, 16384)
FUSED: dict[str, Callable[[int, int], Graph]] = {
    "copy": copied,
    "transposition": transposed,
    "gated": gated,
    "rms_norm": normalized,
}
FUSED_PRODUCTS = ((64, 256, 256), (128, 1024, 1024), (512, 512, 512), (1024, 1024, 1024), (16, 4096, 1024))
ATTENTIONS = ((1, 12, 64, 64), (1, 12, 256, 64), (1, 8, 1024, 64), (8, 12, 128, 64), (1, 16, 512, 128))


class ProbeSizes(NamedTuple):
    """The sizes of probes: rows of most of them, and of each operator that does not work along rows."""

    rows: tuple[int, ...] = ROWS
    fewer_rows: tuple[int, ...] = FEWER_ROWS
    products: tuple[tuple[int, int, int, int], ...] = PRODUCTS
    convolutions: tuple[tuple[int, int, int, int, int], ...] = CONVOLUTIONS
    depthwise: tuple[tuple[int, int, int, int, int], ...] = DEPTHWISE
    pools: tuple[tuple[int, int, int, int, int], ...] = POOLS
    fused_products: tuple[tuple[int, int, int], ...] = FUSED_PRODUCTS
    attentions: tuple[tuple[int, int, int, int], ...] = ATTENTIONS


PROCESSOR_SIZES = ProbeSizes()
# GPUs need more work to be busy: they get these sizes beside those of processors.
GPU_SIZES = ProbeSizes(
    rows=(*ROWS, 32768),
    fewer_rows=(*FEWER_ROWS, 32768),
    products=(
        *PRODUCTS,
        *((8192, 8192, 8192, 1), (512, 4096, 4096, 1), (2048, 8192, 2048, 1), (16384, 1024, 4096, 1)),
        *((1024, 1024, 64, 96), (2048, 64, 2048, 32), (32, 8192, 8192, 1)),
    ),
    convolutions=(
        *CONVOLUTIONS,
        (32, 64, 56, 64, 3),
        (64, 256, 14, 256, 3),
        (64, 512, 28, 128, 1),
        (32, 3, 224, 64, 7),
    ),
    depthwise=(*DEPTHWISE, (64, 96, 56, 3, 1), (64, 144, 56, 3, 2), (64, 384, 14, 3, 1), (32, 96, 56, 7, 1)),
    pools=(*POOLS, (64, 64, 112, 3, 2), (64, 192, 28, 3, 1), (64, 512, 7, 7, 7)),
    fused_products=(*FUSED_PRODUCTS, (4096, 4096, 4096), (8192, 4096, 1024)),
    attentions=(*ATTENTIONS, (8, 16, 512, 64), (8, 12, 1024, 64), (2, 32, 2048, 128)),
)


class Probe(NamedTuple):
    """A program, and a name that says what it computes and of which size."""

    name: str
    graph: Graph


def _unary(function: Callable[[Any], Any]) -> Callable[[int, int], Graph]:
    def build(rows: int, row: int) -> Graph:
        with program("probe") as p:
            p.output("y", function(p.input("x", row=rows, column=row)))
        return p.graph

    return build


def _add(rows: int, row: int) -> Graph:
    with program("probe") as p:
        p.output("y", p.input("a", row=rows, column=row) + p.input("b", row=rows, column=row))
    return p.graph


def _gather(rows: int, row: int) -> Graph:
    with program("probe") as p:
        table = p.parameter("table", word=max(rows, 2), column=row)
        p.output("y", table.gather(p.input("ids", row=rows, dtype="int64"), "word"))
    return p.graph


BY_ROWS: dict[str, Callable[[int, int], Graph]] = {
    "add": _add,
    "scale": _unary(lambda x: x * 2.0),
    "relu": _unary(lambda x: x.relu()),
    "exp": _unary(lambda x: x.exp()),
    "gelu": _unary(lambda x: x.gelu()),
    "sum": _unary(lambda x: x.sum("column")),
    "max": _unary(lambda x: x.max("row")),
    "softmax": _unary(lambda x: x.softmax("column")),
    "layer_norm": _unary(lambda x: x.layer_norm("column")),
    "transpose": _unary(lambda x: x.transpose("column", "row") + 0.0),
    "cumsum": _unary(lambda x: x.cumsum("column")),
    "gather": _gather,
}
SORTED_ROWS = (16, 256, 2048)  # sorting takes long


def _product(m: int, n: int, k: int, batch: int, dtype: str) -> Graph:
    with program("probe") as p:
        x = p.input("x", batch=batch, m=m, k=k, dtype=dtype)
        make = p.input if batch > 1 else p.parameter  # of attention, or of a layer
        p.output("y", x @ make("w", batch=batch, k=k, n=n, dtype=dtype))
    return p.graph


def _convolution(batch: int, channels: int, side: int, out: int, taps: int) -> Graph:
    with program("probe") as p:
        x = p.input("x", batch=batch, channel=channels, y=side, x=side)
        w = p.parameter("w", out=out, channel=channels, tap_y=taps, tap_x=taps)
        p.output("y", x.conv(w, pads="same"))
    return p.graph


def _depthwise(batch: int, channels: int, side: int, taps: int, stride: int) -> Graph:
    with program("probe") as p:
        x = p.input("x", batch=batch, channel=channels, y=side, x=side)
        w = p.parameter("w", out=channels, each=1, tap_y=taps, tap_x=taps)
        p.output("y", x.conv(w, pads="same", strides=stride, groups=channels))
    return p.graph


def _pool(kind: str, batch: int, channels: int, side: int, window: int, stride: int) -> Graph:
    with program("probe") as p:
        x = p.input("x", batch=batch, channel=channels, y=side, x=side)
        p.output("y", (x.max_pool if kind == "max" else x.average_pool)(window, strides=stride))
    return p.graph


def _argsort(rows: int, row: int) -> Graph:
    return _unary(lambda x: x.argsort("column"))(rows, row)


# Operator of a probe -> its program by the sizes in the probe's name, and by the element type if that is in it.
PROGRAMS: dict[str, Callable[..., Graph]] = {
    **BY_ROWS,
    **FUSED,
    "argsort": _argsort,
    "activated_product": activated_product,
    "attention": attention,
    "product": lambda batch, m, n, k, dtype: _product(m, n, k, batch, dtype),
    "convolution": _convolution,
    "depthwise": _depthwise,
    "max_pool": partial(_pool, "max"),
    "average_pool": partial(_pool, "average"),
}


def probe_named(name: str) -> Probe:
    """Build the probe of a name, such as `softmax 64x1024` or `product 1x512x512x512 float32`, of whatever size.

    Raises:
        ValueError: no operator is called so, or sizes are missing or left over.
    """
    operator, _, rest = name.partition(" ")
    sizes, *dtypes = rest.split(" ")
    try:
        return Probe(name, PROGRAMS[operator](*map(int, sizes.split("x")), *dtypes))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"expected an operator with its sizes, such as 'softmax 64x1024', not {name!r}"
        ) from error


def probes(dtypes: tuple[str, ...] = ("float32",), chosen: ProbeSizes = PROCESSOR_SIZES) -> Iterator[Probe]:
    """Yield all probes of the chosen sizes; matrix products in each of `dtypes`, all else in float32."""
    for name, build in BY_ROWS.items():
        lengths = ROW_LENGTHS if name in ("sum", "softmax", "layer_norm", "cumsum") else ()
        for rows, row in [*((n, ROW) for n in chosen.rows), *((2048 * ROW // n, n) for n in lengths)]:
            yield Probe(f"{name} {rows}x{row}", build(rows, row))
    for rows in SORTED_ROWS:
        yield Probe(f"argsort {rows}x{ROW}", _argsort(rows, ROW))
    for name, build in FUSED.items():
        for rows in chosen.fewer_rows:
            yield Probe(f"{name} {rows}x{ROW}", build(rows, ROW))
    for product in chosen.fused_products:
        yield Probe(f"activated_product {'x'.join(map(str, product))}", activated_product(*product))
    for heads in chosen.attentions:
        yield Probe(f"attention {'x'.join(map(str, heads))}", attention(*heads))
    for dtype in dtypes:
        for m, n, k, batch in chosen.products:
            yield Probe(f"product {batch}x{m}x{n}x{k} {dtype}", _product(m, n, k, batch, dtype))
    for convolved in chosen.convolutions:
        yield Probe(f"convolution {'x'.join(map(str, convolved))}", _convolution(*convolved))
    for sizes in chosen.depthwise:
        yield Probe(f"depthwise {'x'.join(map(str, sizes))}", _depthwise(*sizes))
    for kind in ("max", "average"):
        for sizes in chosen.pools:
            yield Probe(f"{kind}_pool {'x'.join(map(str, sizes))}", _pool(kind, *sizes))
