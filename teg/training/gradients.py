"""Reverse-mode differentiation: blocks that compute the gradients of a program's tensors, appended to its builder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.graph import Block
from tapestry.teg.operators import body_of
from tapestry.teg.operators.fused_body import FUSED
from tapestry.teg.training.elementwise import accumulate, cell, waypoint
from tapestry.teg.training.movement import (
    assemble,
    concat,
    dilate,
    flat_slice,
    gather,
    interleave,
    pad,
    reshape,
    scatter,
    view,
)
from tapestry.teg.training.products import contract, conv, fft, linalg
from tapestry.teg.training.reductions import layer_norm, log_softmax, pool, reduce, scan, softmax
from tapestry.teg.training.rule import BlockGradients, NotDifferentiable, Rule
from tapestry.teg.training.writing import GradientWriter


def fused(b: BlockGradients) -> Sequence[str | None]:
    """Compute the steps again, and differentiate them: what is between them is not stored."""
    w, body = b.writer, body_of(b.block.definition)
    tensors = list(b.inputs)
    first = len(w.builder.blocks)
    for step in body.steps:
        operator, attrs = step.definition.operator, step.definition.attributes
        tensors += w.builder.add(
            operator, [tensors[k] for k in step.reads], attrs, site=f"{b.block.site}.again"
        )
    seeds = {tensors[k]: g for k, g in zip(body.outputs, b.gradients, strict=True) if g is not None}
    wanted = [t for t, is_wanted in zip(b.inputs, b.wanted, strict=True) if is_wanted]
    again = w.builder.blocks[first:]
    found = differentiate(w.builder, again, seeds, wanted)
    # An input that is read twice has one gradient.
    return [found.pop(t, None) for t in b.inputs]


RULES: Mapping[str, Rule] = {
    "accumulate": accumulate,
    "assemble": assemble,
    "cell": cell,
    "concat": concat,
    "contract": contract,
    "conv": conv,
    "dilate": dilate,
    "fft": fft,
    "flat_slice": flat_slice,
    FUSED: fused,
    "gather": gather,
    "interleave": interleave,
    "layer_norm": layer_norm,
    "linalg": linalg,
    "log_softmax": log_softmax,
    "pad": pad,
    "pool": pool,
    "reduce": reduce,
    "reshape": reshape,
    "scan": scan,
    "scatter": scatter,
    "softmax": softmax,
    "view": view,
    "waypoint": waypoint,
}


def has_gradients(dtype: str) -> bool:
    """Return whether elements of a type have gradients: floats and complex numbers do."""
    return is_float(dtype) or numpy_dtype(dtype).kind == "c"


def differentiate(
    builder: GraphBuilder, blocks: Sequence[Block], seeds: Mapping[str, str], wanted: Collection[str]
) -> dict[str, str]:
    """Append the blocks that compute gradients of the `wanted` tensors, and return these by tensor.

    `blocks` are those of the builder to go back through, in program order; `seeds` are the gradients of some of their
    outputs. Tensors on which no seed depends are left out: their gradient is zero.

    Raises:
        NotDifferentiable: a block on the way has no rule; it is named.
    """
    active = _active(builder, blocks, wanted)
    terms: dict[str, list[str]] = {tensor: [g] for tensor, g in seeds.items()}
    for block in reversed(blocks):
        needed = tuple(t in active for t in block.inputs)
        if not any(needed) or not any(t in terms for t in block.outputs):
            continue
        writer = GradientWriter(builder, f"{block.site}.grad")
        found = tuple(writer.total(terms.pop(t)) if t in terms else None for t in block.outputs)
        gradients = _rule_of(block)(BlockGradients(writer, block, found, needed))
        for tensor, gradient, is_needed in zip(block.inputs, gradients, needed, strict=True):
            if gradient is not None and is_needed:
                terms.setdefault(tensor, []).append(gradient)
    return {
        tensor: GradientWriter(builder, f"{tensor}.grad").total(terms[tensor])
        for tensor in wanted
        if tensor in terms
    }


def _active(builder: GraphBuilder, blocks: Sequence[Block], wanted: Collection[str]) -> set[str]:
    """Return the tensors that depend on a wanted one by way of numbers that have gradients."""
    active = set(wanted)
    for block in blocks:
        if any(t in active for t in block.inputs):
            active.update(t for t in block.outputs if has_gradients(builder.tensors[t].dtype))
    return active


def _rule_of(block: Block) -> Rule:
    operator = block.operator
    if operator not in RULES:
        raise NotDifferentiable(f"block {block.site!r} ({operator}) has no rule of differentiation")

    def rule(b: BlockGradients) -> Sequence[str | None]:
        try:
            return RULES[operator](b)
        except NotDifferentiable as error:
            reason = str(error)
            named = reason if reason.startswith("block ") else f"block {block.site!r} ({operator}): {reason}"
            raise NotDifferentiable(named) from error

    return rule
