"""Lowering of labeled steps other than cells: each becomes one block that reads stored tensors by its labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.lowering.indexed import axiswise, gather, scatter
from tapestry.teg.importers.lowering.storage import Generator, LoweredStorage, Rep, flat, names_of
from tapestry.teg.importers.program import Compute
from tapestry.teg.views import identity

Factors = tuple[tuple[int, ...], ...]
Lower = Callable[[LoweredStorage, Compute, Sequence[Rep], Sequence[Factors], Factors], Rep]


def _contract(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    wanted = names_of(step.output_labels, target)
    names = [names_of(labels, own) for labels, own in zip(step.input_labels, factors, strict=True)]
    reads = [storage.read(rep, own) for rep, own in zip(reps, names, strict=True)]
    covered = {n for _, own in reads for n in own}
    lost = [k for k, own in enumerate(names) if any(n and n not in covered and n not in wanted for n in own)]
    for k in lost:  # summing over a broadcast dimension counts it
        reads[k] = storage.read(Rep(storage.whole(reps[k]), identity(reps[k].view.shape)), names[k])
    covered = {n for _, own in reads for n in own}
    output = tuple(n for n in wanted if n in covered)
    labels = tuple(own for _, own in reads)
    key = storage.emit("contract", [r for r, _ in reads], step.site, labels=labels, output=output)
    return storage.named(key, output, wanted, flat(target))


def _reduce(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    names, wanted = names_of(step.input_labels[0], factors[0]), names_of(step.output_labels, target)
    root, labels = storage.read(reps[0], names)
    if any(
        n and n not in labels and n not in wanted for n in names
    ):  # reducing a broadcast dimension counts it
        root, labels = storage.read(Rep(storage.whole(reps[0]), identity(reps[0].view.shape)), names)
    output = tuple(n for n in wanted if n in labels)
    keep = tuple(
        k for k, n in enumerate([n for n in wanted if n in labels or n not in names]) if n not in labels
    )
    scale = step.attributes["scale"]
    if len(output) == len(labels) and not keep and scale == 1.0:
        return storage.named(root, labels, wanted, flat(target))
    attrs = (
        {"monoid": step.attributes["monoid"], "scale": scale}
        if scale != 1.0
        else {"monoid": step.attributes["monoid"]}
    )
    attrs |= {"keep": keep} if keep else {}
    key = storage.emit("reduce", (root,), step.site, labels=labels, output=output, **attrs)
    stored = tuple(n for n in wanted if n in labels or n not in names)
    return storage.named(key, stored, wanted, flat(target))


def _softmax(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    names = names_of(step.input_labels[0], factors[0])
    axes = _axis_names(step, factors[0])
    if not axes:
        key = storage.defer(
            step.site, Generator(step.site, ("const", 1.0), (), (), storage.roots[reps[0].root].dtype)
        )
        return storage.named(key, (), names, flat(target))
    root, labels = storage.read(reps[0], names)
    if not axes <= set(labels):
        root, labels = storage.whole(reps[0]), names
    key = storage.emit(
        step.operator, (root,), step.site, axes=tuple(k for k, n in enumerate(labels) if n in axes)
    )
    return storage.named(key, labels, names, flat(target))


def _axis_names(step: Compute, factors: Factors) -> set[str]:
    by_label = dict(zip(step.input_labels[0], factors, strict=True))
    return {n for label in step.attributes["axes"] for n in names_of((label,), (by_label[label],))}


def _layer_norm(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower a layer norm: axes must be last and in the order of scale and bias; a view corrects another order."""
    names = names_of(step.input_labels[0], factors[0])
    axes = _axis_names(step, factors[0])
    tail = tuple(n for n in names if n in axes)
    if not tail:
        raise ImportFailure(f"node {step.site!r} (LayerNormalization) normalizes dimensions of size 1")
    root, labels = storage.read(reps[0], names)
    if labels[len(labels) - len(tail) :] != tail:
        root, labels = storage.whole(reps[0]), names
    rest = [storage.whole(rep) for rep in reps[1:]]
    positions = tuple(range(len(labels) - len(tail), len(labels)))
    key = storage.emit("layer_norm", (root, *rest), step.site, axes=positions, eps=step.attributes["eps"])
    return storage.named(key, labels, names, flat(target))


def _pad(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    names, wanted = names_of(step.input_labels[0], factors[0]), names_of(step.output_labels, target)
    root, labels = storage.read(reps[0], names)
    given = step.attributes
    padded = {n for n in given["low"] if given["low"][n] or given["high"][n]}
    if not padded <= set(labels):
        root, labels = storage.whole(reps[0]), names
    low, high = (tuple(given[side].get(n, 0) for n in labels) for side in ("low", "high"))
    key = storage.emit("pad", (root,), step.site, low=low, high=high, value=given["value"])
    return storage.named(key, [f"{n}p" if n in padded else n for n in labels], wanted, flat(target))


def _positional(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower a step that reads dimensions by position, such as one with windows."""
    key = storage.emit(step.operator, [storage.whole(rep) for rep in reps], step.site, **step.attributes)
    assert math.prod(storage.roots[key].shape) == math.prod(flat(target))
    return Rep(key, identity(storage.roots[key].shape))


LOWER: dict[str, Lower] = {
    "contract": _contract,
    "reduce": _reduce,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "layer_norm": _layer_norm,
    "gather": gather,
    "scatter": scatter,
    "scan": axiswise,
    "fft": axiswise,
    "dilate": axiswise,
    "interleave": axiswise,
    "arg_reduce": axiswise,
    "arg_sort": axiswise,
    "pad": _pad,
    "conv": _positional,
    "pool": _positional,
}


def lower_compute(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower one labeled step to one block."""
    lower = _positional if step.positional else LOWER[step.operator]
    return lower(storage, step, reps, factors, target)
