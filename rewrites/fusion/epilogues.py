"""Cells fused into the product or reduction that they follow or precede, as in any library's kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

from tapestry.rewrites.cell_form import INPUT, any_cell, flops_of
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.fusion.fitting import estimated
from tapestry.rewrites.regions import fuse
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, op, rest
from tapestry.teg.graph import Graph
from tapestry.teg.operators.fused_examples import EXAMPLES
from tapestry.teg.signature import PARALLEL, IndexDim

SOURCE = "epilogue fusion (CUTLASS, epilogue visitor trees; Chen et al., TVM, 2018, section 3)"
PROLOGUE_SOURCE = "injective producers are computed inside their reader (Chen et al., TVM, 2018, section 3)"

# Operators whose kernels take cells behind their result, and before their operands.
FOLLOWED = ("contract", "conv", "reduce", "fused")
PRECEDED = ("contract", "conv", "reduce", "softmax", "layer_norm")

# Products compute a cell before an operand anew for every tile that reads it: cheap ones only.
CHEAP_FLOPS = 8.0

Example = Callable[[ExampleSizes], Graph]


def _own_dims(m: Match, site: str) -> tuple[IndexDim, ...]:
    """Return the index dimensions of the producer of a tensor; none if it has no signature."""
    signature = m.edited.producers[site].signature
    return () if signature is None else signature.dims


def _follows(m: Match) -> bool:
    """Return whether the cell follows the result element by element, and the result splits as before."""
    if math.prod(m.shape("y")) != math.prod(m.result().shape):
        return False
    found, own = estimated(m), _own_dims(m, m["y"])
    parallel = sum(d.kind == PARALLEL and d.size > 1 for d in own)
    return found is not None and found.parallel == parallel and (parallel == 0 or found.streams)


def _precedes(m: Match) -> bool:
    """Return whether the cell precedes an operand element by element, and all dimensions stay."""
    root = m.roots[0]
    if (
        root.operator in ("contract", "conv")
        and flops_of(m.edited.producers[m["y"]].definition) > CHEAP_FLOPS
    ):
        return False
    found, own = estimated(m), _own_dims(m, root.outputs[0])
    return found is not None and [(d.size, d.kind) for d in found.dims] == [(d.size, d.kind) for d in own]


def _following(operator: str) -> Example:
    """Return a builder of an example: a cell with a bias after the result of the operator."""

    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(f"fuse_after_{operator}")
        y = _made(b, operator, size)
        letters = "abcd"[: len(b.shape(y))]
        bias = b.tensor("bias", b.shape(y)[-1])
        tanh = ("tanh", ("add", ("input", 0), ("input", 1)))
        return b.result(b.cell(tanh, {y: letters, bias: letters[-1]}))

    return example


def _made(b: ExampleBuilder, operator: str, size: ExampleSizes) -> str:
    """Build a result of the operator."""
    if operator == "reduce":
        x = b.tensor("x", size(4), size(3, least=2), size(2))
        return b.op("reduce", x, monoid="max", labels=("a", "b", "c"), output=("b", "c"))
    if operator == "conv":
        x, w = b.tensor("x", 2, 3, size(5, least=3)), b.tensor("w", size(4), 3, 2)
        return b.op("conv", x, w, strides=(1,), pads=(1, 0), dilations=(1,), groups=1)
    if operator == "fused":
        biased = EXAMPLES[0]
        operands = [b.tensor(f"x{k}", *kind.shape) for k, kind in enumerate(biased.inputs)]
        return b.add("fused", operands, biased.attributes, site="made")[0]
    return b.contract("mk,kn->mn", b.tensor("x", size(3, least=2), 4), b.tensor("w", 4, size(5)))


def _preceding(operator: str) -> Example:
    """Return a builder of an example: a cell that only one operator reads."""

    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(f"fuse_before_{operator}")
        half = ("mul", INPUT, ("const", 0.5))
        shape = (2, 3, size(5, least=3)) if operator == "conv" else (size(4, least=2), size(3, least=2))
        letters = "abc"[: len(shape)]
        y = b.cell(half, {b.tensor("x", *shape): letters})
        if operator == "conv":
            w = b.tensor("w", size(4), 3, 2)
            return b.result(b.op("conv", y, w, strides=(1,), pads=(1, 0), dilations=(1,), groups=1))
        if operator == "reduce":
            return b.result(b.op("reduce", y, monoid="sum", labels=("a", "b"), output=("b",)))
        if operator == "contract":
            return b.result(b.contract("mk,kn->mn", y, b.tensor("w", shape[1], size(5, least=2))))
        if operator == "softmax":
            return b.result(b.op("softmax", y, axes=(1,)))
        return b.result(b.op("layer_norm", y, axes=(1,), eps=0.5))

    return example


def _after(operator: str) -> Rule:
    inner = op(operator, rest("xs")).named("y").only_here()
    return Rule(
        name=f"fuse_after_{operator}",
        left=op("cell", rest("before"), inner, rest("after")),
        right=fuse(),
        when=_follows,
        doc=f"""
        A cell is computed where the {operator} before it makes its elements.

        cell({operator}(xs), z)  ->  fused(xs, z)
        Where nobody else reads the result and the cell has its shape, so the block splits as before. The same
        steps on the same numbers; the result itself stays out of memory.
        """,
        source=SOURCE,
        example=_following(operator),
    )


def _before(operator: str) -> Rule:
    inner = any_cell(rest("ys")).named("y").only_here()
    return Rule(
        name=f"fuse_before_{operator}",
        left=op(operator, rest("before"), inner, rest("after")),
        right=fuse(),
        when=_precedes,
        doc=f"""
        A cell is computed where the {operator} behind it reads its elements.

        {operator}(cell(ys), z)  ->  fused(ys, z)
        Where nobody else reads the cell and no dimension is lost; before a product only a cheap cell, since every
        tile computes it anew. The same steps on the same numbers.
        """,
        source=PROLOGUE_SOURCE,
        example=_preceding(operator),
    )


EPILOGUES: tuple[Rule, ...] = (*map(_after, FOLLOWED), *map(_before, PRECEDED))
