"""The operator `swiglu`: two contractions of one tensor, one of them the gate of the other, in one kernel.

    swiglu(x, gate, up) = silu(x gate) * (x up),  silu(a) = a sigmoid(a)

N. Shazeer, GLU Variants Improve Transformer, 2020, equation 6 (beta 1, no biases). Labels say, as those of
`contract` do, which dimensions meet: ("m", "k") and ("n", "k") with output ("m", "n") is a layer whose weights
stand in rows. Summed dimensions are read whole, because the product of partial sums is no partial result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import accumulation, is_float
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import expect_inputs, settings
from tapestry.teg.signature import IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange

# Per element of the result: a silu (14, as in Tapestry's cells) and a multiplication.
GATE_FLOPS = 15.0


def _sizes(labels: Any, inputs: Sequence[TensorType]) -> dict[str, int]:
    """Return the size of every name; raise ValueError unless the weights have one type and every name one size."""
    x, gate, up = inputs
    if gate != up or x.dtype != gate.dtype or not is_float(x.dtype):
        raise ValueError(f"expected floats of one type, and weights of one shape, not {list(inputs)}")
    if not isinstance(labels, tuple) or [len(names) for names in labels] != [len(x.shape), len(gate.shape)]:
        raise ValueError(
            f"attribute 'labels' needs a name per dimension of x and of a weight, not {labels!r}"
        )
    sizes: dict[str, int] = {}
    for names, kind in zip(labels, (x, gate), strict=True):
        for name, size in zip(names, kind.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"name {name!r} has sizes {sizes[name]} and {size}")
    return sizes


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    """Infer the signature and type of silu(x gate) * (x up), contracted as the labels specify."""
    given = settings(attrs, ("labels", "output"))
    expect_inputs(inputs, ("x", "gate", "up"))
    sizes, output = _sizes(given["labels"], inputs), given["output"]
    if not isinstance(output, tuple) or not set(output) <= set(sizes) or len(set(output)) < len(output):
        raise ValueError(f"attribute 'output' must list names among {list(sizes)}, each once, not {output!r}")

    def rows(names: Sequence[str]) -> list[Row]:
        return [Row(output.index(n), 1, 0, 1) if n in output else Row(-1, 0, 0, sizes[n]) for n in names]

    x, weight = (projection(rows(names), len(output)) for names in given["labels"])
    signature = Signature(
        tuple(IndexDim(name, sizes[name]) for name in output),
        (x, weight, weight),
        (projection(rows(output), len(output)),),
    )
    return Inferred(signature, (TensorType(tuple(sizes[n] for n in output), inputs[0].dtype),))


def _evaluate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    """Compute the gate and the product in the type in which sums are accumulated, and round at the end."""
    dtype = xp.dtype_of(operands[0].array)
    x, gate, up = (xp.cast(o.array, accumulation(dtype)) for o in operands)
    labels, output = definition["labels"], definition["output"]
    gated = xp.elementwise("silu", xp.contract((x, gate), labels, output))
    return (xp.cast(gated * xp.contract((x, up), labels, output), dtype),)


def _work(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    """Compute the work of both contractions and the gate, per element of the result; the summed names are the k."""
    (x_names, _w), output = definition["labels"], definition["output"]
    sizes = _sizes(definition["labels"], inputs)
    summed = math.prod(size for name, size in sizes.items() if name not in output)
    roles = {name: "m" if name in x_names else "n" for name in output}
    return Work("contraction", flops=4.0 * summed + GATE_FLOPS, roles=roles, k_factor=max(1, summed))


def _example(
    text: str, x: tuple[int, ...], weight: tuple[int, ...], dtype: str = "float32"
) -> OperatorExample:
    """Build an example whose labels and output come from einsum's text with one letter per name."""
    left, right = text.split("->")
    labels = tuple(tuple(part) for part in left.split(","))
    kinds = (TensorType(x, dtype), TensorType(weight, dtype), TensorType(weight, dtype))
    return OperatorExample(attributes(labels=labels, output=tuple(right)), kinds)


SWIGLU = Operator(
    name="swiglu",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        _example("mk,nk->mn", (4, 6), (5, 6)),
        _example("bsk,kn->bsn", (2, 3, 4), (4, 5), "float64"),
        _example("bsk,hdk->bhsd", (2, 3, 4), (2, 3, 4), "bfloat16"),
    ),
)

OPERATORS: tuple[Operator, ...] = (SWIGLU,)
