"""Small programs that tests share: one to break, and random ones."""

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph, TensorType
from tapestry.teg.validate import validate

DATA_TYPES = (
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "int8",
    "int64",
    "uint16",
    "bool",
    "complex64",
)


def small_program() -> Graph:
    """Build `y = relu(x @ w)`, and a counter whose next value is carried: eight blocks, `w` with its values."""
    b = GraphBuilder("small")
    x = b.source("x", (4, 6), "float32")
    w = b.source("w", (6, 3), "float32", "parameter", np.arange(18, dtype=np.float32).reshape(6, 3))
    (product,) = b.apply(
        "contract", (x, w), site="product", labels=(("m", "k"), ("k", "n")), output=("m", "n")
    )
    (y,) = cell(b, ("relu", ("input", 0)), product, site="y")
    count = b.source("count", (), "int64", "buffer")
    (following,) = cell(b, ("add", ("input", 0), ("const", 1)), count, site="following")
    b.sink(y, site="result")
    b.sink(following, site="next", carries="count")
    return b.build()


def cell(b: GraphBuilder, expr: tuple[object, ...], tensor: str, *, site: str) -> tuple[str, ...]:
    """Add an elementwise block over one tensor."""
    shape, dtype = b.tensors[tensor].type
    names = tuple(f"d{k}" for k in range(len(shape)))
    dims = tuple(zip(names, shape, strict=True))
    return b.apply("cell", (tensor,), site=site, expr=expr, labels=(names,), dims=dims, dtype=dtype)


def values_of(kind: TensorType, seed: int) -> np.ndarray:
    """Build repeatable values of any element type."""
    raw = np.random.default_rng(seed).integers(0, 2 if kind.dtype == "bool" else 50, kind.shape)
    return raw.astype(getattr(ml_dtypes, kind.dtype, kind.dtype))


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    """Draw random programs of a dozen blocks: cells, contractions, views, reductions, values of all element types."""
    b = GraphBuilder(draw(st.sampled_from(["", "a program", "Größe \U0001f9f5 \"quoted\" 'too'"])))
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    tensors = [b.source("x", shape, "float32")]
    for k, dtype in enumerate(draw(st.lists(st.sampled_from(DATA_TYPES), max_size=3))):
        kind = TensorType(tuple(draw(st.lists(st.integers(0, 3), max_size=2))), dtype)
        name = b.source(f"constant {k}", *kind, "constant", values_of(kind, k))
        b.sink(name)
    for k in range(draw(st.integers(0, 6))):
        grow = draw(st.sampled_from([_scaled, _squared, _transposed, _summed]))
        tensors.append(grow(draw, b, draw(st.sampled_from(tensors)), f"step{k}"))
    b.sink(tensors[-1], site="result")
    return b.build()


def _scaled(draw: st.DrawFn, b: GraphBuilder, tensor: str, site: str) -> str:
    factor = draw(st.floats() | st.integers(-(2**62), 2**62) | st.sampled_from([-0.0, 1.0, float("nan")]))
    return cell(b, ("mul", ("input", 0), ("const", factor)), tensor, site=site)[0]


def _squared(_: st.DrawFn, b: GraphBuilder, tensor: str, site: str) -> str:
    left = tuple(f"d{k}" for k in range(len(b.tensors[tensor].shape)))
    right = (*left[:-1], "other") if left else ()
    rest = (left[-1], "other") if left else ()
    output = (*left[:-1], *rest)
    return b.apply("contract", (tensor, tensor), site=site, labels=(left, right), output=output)[0]


def _transposed(_: st.DrawFn, b: GraphBuilder, tensor: str, site: str) -> str:
    shape = b.tensors[tensor].shape
    rank = len(shape)
    reverse = tuple((rank - 1 - k, -1, n - 1) for k, n in enumerate(shape))
    return b.apply("view", (tensor,), site=site, map=reverse, shape=shape[::-1])[0]


def _summed(draw: st.DrawFn, b: GraphBuilder, tensor: str, site: str) -> str:
    names = tuple(f"d{k}" for k in range(len(b.tensors[tensor].shape)))
    monoid = draw(st.sampled_from(["sum", "max"]))
    return b.apply("reduce", (tensor,), site=site, monoid=monoid, labels=names, output=names[1:], keep=())[0]


def issues_of(graph: Graph) -> list[tuple[str, str]]:
    """Return the kinds and paths of a graph's issues."""
    return [(issue.kind, issue.path) for issue in validate(graph)]
