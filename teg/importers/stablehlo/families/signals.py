"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.dtypes import COMPLEX_DTYPES
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, Expr, X, cast
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator
from tapestry.teg.importers.translate.translation import plain_labels


def _fft(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Translate a Fourier transform, one dimension after the other.

    Transforms of real numbers keep (or complete) half of the last one.
    """
    kind, lengths = operation.get("fft_type"), operation.get("fft_length")
    value, rank = operands[0], len(operands[0].shape)
    axes = list(range(rank - len(lengths), rank))
    if kind == "RFFT":
        value = e.cast(value, COMPLEX_DTYPES[value.dtype])
    if kind == "IRFFT":
        for axis in axes[:-1]:
            value = transformed(e, value, axis, inverse=True)
        full = transformed(e, _completed(e, value, axes[-1], lengths[-1]), axes[-1], inverse=True)
        real: Expr = cast(operation.types[0].dtype, ("real", X))
        return e.cell(real, full, dtype=operation.types[0].dtype)
    for axis in reversed(axes):
        value = transformed(e, value, axis, inverse=kind == "IFFT")
        if kind == "RFFT" and axis == axes[-1]:
            value = e.part(value, axis, range(lengths[-1] // 2 + 1))
    return value


def transformed(e: Emitter, value: Value, axis: int, inverse: bool) -> Value:
    """Compute the Fourier transform along one dimension."""
    labels = plain_labels(len(value.shape))
    attributes = {"axis": labels[axis], "inverse": inverse}
    whole = frozenset((labels[axis],))
    return e.compute("fft", [value], [labels], labels, value.dtype, attributes, whole)


def _completed(e: Emitter, value: Value, axis: int, size: int) -> Value:
    """Append the other half of a real signal's spectrum: conjugates, in reverse order.

    The first element is real, and so is the one in the middle of an even number of them.
    """
    half = size // 2 + 1
    value = e.part(value, axis, range(half))
    labels = plain_labels(len(value.shape))
    place: Expr = ("index", labels[axis])
    ends: Expr = ("eq", place, ("const", 0))
    if size % 2 == 0:
        ends = ("or", ends, ("eq", place, ("const", half - 1)))
    straight = e.cell(("where", ends, cast(value.dtype, ("real", X)), X), value)
    others = size - half
    if not others:
        return straight
    mirrored = e.part(straight, axis, range(others, 0, -1))
    return e.concat([straight, e.cell(("conj", X), mirrored)], axis)


SIGNALS: tuple[HloTranslator, ...] = (HloTranslator(("stablehlo.fft",), _fft),)
