"""Strides of arrays without tiles, in bytes, and the steps of tiling as XLA's documentation tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hardware.layouts.xla.fields import XlaFields, check_for_shape
from hardware.layouts.xla.tiling import Bounds, Tile, cut
from hardware.layouts.xla.types import type_bits


def byte_strides(dtype: str, shape: Sequence[int], fields: XlaFields) -> Bounds:
    """Bytes between neighbours along each dimension: `ShapeUtil::ByteStrides`."""
    check_for_shape(fields, shape)
    strides, step = [0] * len(shape), type_bits(dtype) // 8
    for dim in fields.minor_to_major:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def is_major_to_minor(strides: Sequence[int], shape: Sequence[int], dtype: str) -> bool:
    """Whether strides in bytes are those of the descending layout: `LayoutUtil::ByteStridesIsMajorToMinor`."""
    step = type_bits(dtype) // 8
    for stride, size in zip(reversed(strides), reversed(shape), strict=True):
        if stride != step:
            return False
        step *= size
    return True


class Steps(NamedTuple):
    """Tiling as three steps: pad to `pad`, reshape to `reshape`, transpose by `transpose_perm` to `final`."""

    pad: Bounds
    reshape: Bounds
    transpose_perm: Bounds
    final: Bounds


def pad_reshape_transpose(shape: Bounds, tile: Tile) -> Steps:
    """The steps that lay an array out by one tile."""
    step = cut(shape, tile)
    return Steps(step.padded, step.split, step.permutation, step.result)
