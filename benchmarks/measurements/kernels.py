"""Programs of kernels: one block on one device, from the sizes and the operation that a question states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import Systems
from benchmarks.measurements.workload import COMPUTE, DTYPES, UnpredictedError, Workload, stated, whole
from tapestry.hardware.mesh import Mesh
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.faults import value_text
from tapestry.teg.graph import attributes
from tapestry.teg.operators.cells import CELL_FUNCTIONS
from tapestry.teg.sharding.placement import Placements

Shape = tuple[int, ...]

_X, _Y = ("input", 0), ("input", 1)
SCALAR = ("const", 1.5)  # the second operand of `addu`, `mulu`, ...: one number for all elements
STREAM_ELEMENTS = 2**25  # of each array of BabelStream, double precision (its README, option --arraysize)
ATTENTION_WIDTH = (
    2048  # heads x head_dim of FlashAttention's own benchmark (benchmarks/benchmark_flash_attention.py)
)
# Passes of Tenstorrent's matrix units by math fidelity -> the precision whose peak is stated for as many.
FIDELITIES = {"HiFi4": "bf16", "HiFi2": "bfp8", "LoFi": "bfp4"}


def dtype_of(question: Question, default: str | None = None) -> str:
    """Return the element type of the inputs, as graphs name it.

    Raises:
        UnpredictedError: none is stated, or an unknown one.
    """
    name = str(question.inputs.get("dtype") or default or stated(question.inputs, "dtype"))
    if name not in DTYPES:
        raise UnpredictedError(f"unknown dtype {name!r}; known are {', '.join(DTYPES)}")
    return DTYPES[name]


def block_workload(
    builder: GraphBuilder, results: Sequence[str], mesh: Mesh, amounts: Mapping[str, float]
) -> Workload:
    """Return the workload of a program's blocks on one device."""
    for result in results:
        builder.sink(result)
    return Workload(builder.build(), Placements(), mesh, COMPUTE, amounts)


def gemm(question: Question, systems: Systems) -> Workload:
    """Build the workload of a product of matrices, or of `batch` of them.

    Raises:
        UnpredictedError: sizes, dtype, math fidelity or device that are not stated or unknown.
    """
    sizes = {key: whole(question.inputs, key) for key in ("M", "N", "K")}
    batch = whole(question.inputs, "batch") if "batch" in question.inputs else 1
    return product(question, systems, batch, sizes["M"], sizes["N"], sizes["K"])


def product(question: Question, systems: Systems, batch: int, m: int, n: int, k: int) -> Workload:
    """Build the workload of `batch` products of an `m` x `k` and a `k` x `n` matrix."""
    mesh, dtype, many = systems.alone(question), dtype_of(question), ("b",) if batch > 1 else ()
    b = GraphBuilder("product")
    sizes = (batch,) if batch > 1 else ()
    b.source("a", (*sizes, m, k), dtype)
    b.source("w", (*sizes, k, n), dtype, "activation" if many else "parameter")
    labels = ((*many, "m", "k"), (*many, "k", "n"))
    b.apply("contract", ("a", "w"), site="product", labels=labels, output=(*many, "m", "n"))
    flops = 2.0 * batch * m * n * k
    found = block_workload(b, ("product",), mesh, {"achieved_flops": flops})
    fidelity = question.inputs.get("math_fidelity")
    if not isinstance(fidelity, str | None):
        raise UnpredictedError(f"unknown math fidelity {value_text(fidelity)}")
    if fidelity is None:
        precision = "tf32" if question.inputs.get("dtype") == "tf32" else None
        return replace(found, compute_dtype=precision)
    if fidelity not in FIDELITIES:
        raise UnpredictedError(f"unknown math fidelity {fidelity!r}; known are {', '.join(FIDELITIES)}")
    return Workload(found.graph, found.placements, mesh, COMPUTE, found.amounts, FIDELITIES[str(fidelity)])


def cell_block(builder: GraphBuilder, expr: Any, inputs: Sequence[str], shape: Shape, dtype: str) -> str:
    """Append an element-wise block over inputs of one shape; return its tensor."""
    names = tuple(f"d{k}" for k in range(len(shape)))
    builder.apply(
        "cell",
        tuple(inputs),
        site="cells",
        expr=expr,
        labels=(names,) * len(inputs),
        dims=tuple(zip(names, shape, strict=True)),
        dtype=dtype,
    )
    return "cells"


def elementwise(expr: Any, inputs: int) -> Callable[[GraphBuilder, Shape, str], str]:
    """Return how a program of one element-wise block is built."""

    def build(builder: GraphBuilder, shape: Shape, dtype: str) -> str:
        sources = [builder.source(f"x{k}", shape, dtype) for k in range(inputs)]
        return cell_block(builder, expr, sources, shape, dtype)

    return build


def _softmax(builder: GraphBuilder, shape: Shape, dtype: str) -> str:
    builder.source("x", shape, dtype)
    return builder.apply("softmax", ("x",), site="softmax", axes=(len(shape) - 1,))[0]


def _layer_norm(builder: GraphBuilder, shape: Shape, dtype: str) -> str:
    builder.source("x", shape, dtype)
    vectors = [builder.source(name, shape[-1:], dtype, "parameter") for name in ("scale", "bias")]
    axes = (len(shape) - 1,)
    return builder.apply("layer_norm", ("x", *vectors), site="norm", axes=axes, eps=1e-5)[0]


def _rms_norm(builder: GraphBuilder, shape: Shape, dtype: str) -> str:
    """Build the division of rows by their root mean square, and their scaling, as one fused block."""
    builder.source("x", shape, dtype)
    builder.source("scale", shape[-1:], dtype, "parameter")
    names = tuple(f"d{k}" for k in range(len(shape)))
    rows, dims = names[:-1], tuple(zip(names, shape, strict=True))
    outer = tuple(zip(rows, shape[:-1], strict=True))

    def cells(expr: Any, labels: Any, sizes: Any) -> Any:
        return "cell", attributes(expr=expr, labels=labels, dims=sizes, dtype=dtype)

    mean = ("add", ("mul", _X, ("const", 1.0 / shape[-1])), ("const", 1e-5))
    scaled = ("mul", ("mul", _X, _Y), ("input", 2))
    body = (
        (*cells(("square", _X), (names,), dims), (0,)),
        ("reduce", attributes(monoid="sum", labels=names, output=rows), (2,)),
        (*cells(("rsqrt", mean), (rows,), outer), (3,)),
        (*cells(scaled, (names, rows, names[-1:]), dims), (0, 4, 1)),
    )
    types = ((shape, dtype), (shape[-1:], dtype))
    return builder.apply("fused", ("x", "scale"), site="norm", body=body, types=types, results=(5,))[0]


def _sum_rows(builder: GraphBuilder, shape: Shape, dtype: str) -> str:
    builder.source("x", shape, dtype)
    names = tuple(f"d{k}" for k in range(len(shape)))
    return builder.apply("reduce", ("x",), site="sum", monoid="sum", labels=names, output=names[:-1])[0]


ROWWISE: Mapping[str, Callable[[GraphBuilder, Shape, str], str]] = {
    "softmax": _softmax,
    "layernorm": _layer_norm,
    "layer_norm": _layer_norm,
    "ln": _layer_norm,
    "rmsnorm": _rms_norm,
    "rms_norm": _rms_norm,
    "sum": _sum_rows,
    "reduce_sum": _sum_rows,
}


def program_of(operation: str) -> Callable[[GraphBuilder, Shape, str], str]:
    """Return how the program of an operation is built: along rows, or on each element.

    A name of a function of cells is that function; with a `u` at the end its second operand is one number.

    Raises:
        UnpredictedError: an unknown operation.
    """
    if operation in ROWWISE:
        return ROWWISE[operation]
    scalar = operation.removesuffix("u")
    if operation in CELL_FUNCTIONS and CELL_FUNCTIONS[operation].arity <= 2:
        arity = CELL_FUNCTIONS[operation].arity
        return elementwise((operation, _X, _Y)[: arity + 1], arity)
    if scalar in CELL_FUNCTIONS and CELL_FUNCTIONS[scalar].arity == 2:
        return elementwise((scalar, _X, SCALAR), 1)
    raise UnpredictedError(f"unknown operation {operation!r}")


# Operators of transformer layers as inference engines profile them (Vidur): the residual sum, the norm before a
# part, and the gated activation of the two halves of the up projection.
LAYER_OPERATORS: Mapping[str, Callable[[GraphBuilder, Shape, str], str]] = {
    "add": elementwise(("add", _X, _Y), 2),
    "input_layernorm": _rms_norm,
    "post_attention_layernorm": _rms_norm,
    "mlp_act": elementwise(("mul", ("silu", _X), _Y), 2),
}


def memory_bound(question: Question, systems: Systems) -> Workload:
    """Build the workload of an operation on each element or along rows.

    Raises:
        UnpredictedError: an operation, sizes, dtype or device that are not stated or unknown.
    """
    inputs = question.inputs
    if "operator" in inputs and "num_tokens" in inputs:
        name = str(inputs["operator"])
        if name not in LAYER_OPERATORS:
            raise UnpredictedError(f"unknown operator {name!r}; known are {', '.join(LAYER_OPERATORS)}")
        build = LAYER_OPERATORS[name]
        shared = whole(inputs, "tensor_parallel") if "tensor_parallel" in inputs else 1
        width = whole(inputs, "ffn") // shared if name == "mlp_act" else whole(inputs, "hidden")
        shape: Shape = (whole(inputs, "num_tokens"), width)
    else:
        build = program_of(str(stated(inputs, "op", "operator")))
        elements = inputs.get("elements")
        shape = (
            (whole(inputs, "elements"),) if elements is not None else (whole(inputs, "M"), whole(inputs, "N"))
        )
    return on_elements(question, systems, build, shape)


def on_elements(
    question: Question,
    systems: Systems,
    build: Callable[[GraphBuilder, Shape, str], str],
    shape: Shape,
) -> Workload:
    """Build the workload of a program on a tensor of this shape."""
    mesh, dtype, b = systems.alone(question), dtype_of(question), GraphBuilder("kernel")
    elements = 1.0
    for size in shape:
        elements *= size
    return block_workload(b, (build(b, shape, dtype),), mesh, {"throughput_elements_per_s": elements})


def attention(question: Question, systems: Systems) -> Workload:
    """Build the workload of streaming attention forward; heads default to a width of 2048, causal flops are half.

    Raises:
        UnpredictedError: sizes or device that are not stated or unknown, or another kernel.
    """
    inputs = question.inputs
    if "backward" in str(inputs.get("kernel", "")).lower():
        raise UnpredictedError(f"unknown kernel {inputs['kernel']!r}")
    batch, length, width = whole(inputs, "batch"), whole(inputs, "seq_len"), whole(inputs, "head_dim")
    heads = whole(inputs, "heads") if "heads" in inputs else max(1, ATTENTION_WIDTH // width)
    dtype, b = dtype_of(question, "fp16"), GraphBuilder("attention")
    shape = (batch, heads, length, width)
    for name in ("q", "k", "v"):
        b.source(name, shape, dtype)
    causal = bool(inputs.get("causal", "causal" in str(inputs.get("kernel", "")).lower()))
    scale: Any = ("mul", _X, ("const", width**-0.5))
    if causal:
        scale = ("where", ("le", ("index", "t"), ("index", "s")), scale, ("const", -1e9))
    dims = (("b", batch), ("h", heads), ("s", length), ("t", length))
    scores, names = ("b", "h", "s", "t"), ("b", "h", "s", "d")
    body = (
        ("contract", attributes(labels=(names, ("b", "h", "t", "d")), output=scores), (0, 1)),
        ("cell", attributes(expr=scale, labels=(scores,), dims=dims, dtype=dtype), (3,)),
        ("softmax", attributes(axes=(3,)), (4,)),
        ("contract", attributes(labels=(scores, ("b", "h", "t", "e")), output=("b", "h", "s", "e")), (5, 2)),
    )
    b.apply("fused", ("q", "k", "v"), site="attention", body=body, types=((shape, dtype),) * 3, results=(6,))
    flops = (2.0 if causal else 4.0) * batch * heads * length * length * width
    return block_workload(b, ("attention",), systems.alone(question), {"achieved_flops": flops})


# Kernels of BabelStream -> expression, arrays read, arrays read and written.
STREAMS: Mapping[str, tuple[Any, int, int]] = {
    "copy": (_X, 1, 2),
    "mul": (("mul", _X, SCALAR), 1, 2),
    "add": (("add", _X, _Y), 2, 3),
    "triad": (("add", _X, ("mul", _Y, SCALAR)), 2, 3),
}


def stream(question: Question, systems: Systems) -> Workload:
    """Build the workload of a kernel of BabelStream on arrays of its default size.

    Raises:
        UnpredictedError: an unknown kernel or device.
    """
    kernel, b = str(stated(question.inputs, "kernel", "op")), GraphBuilder("stream")
    elements = whole(question.inputs, "elements") if "elements" in question.inputs else STREAM_ELEMENTS
    dtype = dtype_of(question, "fp64")
    if kernel == "dot":
        made, arrays = _dot(b, elements, dtype), 2
    elif kernel in STREAMS:
        expr, read, arrays = STREAMS[kernel]
        made = elementwise(expr, read)(b, (elements,), dtype)
    else:
        raise UnpredictedError(f"unknown kernel {kernel!r}; known are {', '.join((*STREAMS, 'dot'))}")
    item = b.tensors[made].type.size_bytes // (1 if kernel == "dot" else elements)
    amounts = {"achieved_bandwidth": float(arrays * elements * item)}
    return block_workload(b, (made,), systems.alone(question), amounts)


def _dot(builder: GraphBuilder, elements: int, dtype: str) -> str:
    """Build the sum of the products of two arrays as one fused block."""
    for name in ("x", "y"):
        builder.source(name, (elements,), dtype)
    dims = (("i", elements),)
    body = (
        (
            "cell",
            attributes(expr=("mul", _X, _Y), labels=(("i",), ("i",)), dims=dims, dtype=dtype),
            (0, 1),
        ),
        ("reduce", attributes(monoid="sum", labels=("i",), output=()), (2,)),
    )
    types = (((elements,), dtype),) * 2
    return builder.apply("fused", ("x", "y"), site="dot", body=body, types=types, results=(3,))[0]
