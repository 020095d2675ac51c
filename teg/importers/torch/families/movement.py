"""Operators that only move elements: shapes, dimension orders, parts, concatenations; most become views and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.translation import plain_labels


def _view(t: Tracer, x: Value, *_: Any, **__: Any) -> Value:
    """Reshape to the recorded shape, whatever mixture of sizes and -1 was requested."""
    return t.reshape(x, t.shape)


def _expand(t: Tracer, x: Value, *_: Any, **__: Any) -> Value:
    return t.expand(x, t.shape)


def _permute(t: Tracer, x: Value, dims: Sequence[int]) -> Value:
    return t.permute(x, [t.axis(d, len(x.shape)) for d in dims])


def _transpose(t: Tracer, x: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(x.shape)))
    a, b = t.axis(dim0, len(order)), t.axis(dim1, len(order))
    if order:
        order[a], order[b] = order[b], order[a]
    return t.permute(x, order)


def _turn(t: Tracer, x: Value) -> Value:
    return t.permute(x, range(len(x.shape))[::-1])


def _matrix_turn(t: Tracer, x: Value) -> Value:
    return _transpose(t, x, -2, -1)


def _move(t: Tracer, x: Value, source: Any, destination: Any) -> Value:
    rank = len(x.shape)
    from_, to = ([t.axis(d, rank) for d in ([g] if isinstance(g, int) else g)] for g in (source, destination))
    rest = iter([k for k in range(rank) if k not in from_])
    places = dict(zip(to, from_, strict=True))
    return t.permute(x, [places[k] if k in places else next(rest) for k in range(rank)])


def _unsqueeze(t: Tracer, x: Value, dim: int) -> Value:
    return t.unsqueeze(x, t.axis(dim, len(x.shape) + 1))


def _squeeze(t: Tracer, x: Value, dim: Any = None) -> Value:
    """Remove dimensions of size 1; dimensions of another size stay."""
    axes = (
        range(len(x.shape))
        if dim is None
        else [t.axis(d, len(x.shape)) for d in ([dim] if isinstance(dim, int) else dim)]
    )
    return t.squeeze(x, *(k for k in axes if x.shape and x.shape[k] == 1))


def span(size: int, start: int | None, end: int | None, step: int = 1) -> range:
    """Return the coordinates of a slice, as Python counts them."""
    return range(*slice(start, end, step).indices(size))


def _slice(t: Tracer, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    axis = t.axis(dim, len(x.shape))
    return t.part(x, axis, span(x.shape[axis], start, end, step))


def _narrow(t: Tracer, x: Value, dim: int, start: int, length: int) -> Value:
    axis = t.axis(dim, len(x.shape))
    first = start % max(x.shape[axis], 1)
    return t.part(x, axis, range(first, first + length))


def _select(t: Tracer, x: Value, dim: int, index: int) -> Value:
    axis = t.axis(dim, len(x.shape))
    at = index % x.shape[axis]
    return t.squeeze(t.part(x, axis, range(at, at + 1)), axis)


def _unbind(t: Tracer, x: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(_select(t, x, dim, k) for k in range(x.shape[t.axis(dim, len(x.shape))]))


def _split_with_sizes(t: Tracer, x: Value, split_sizes: Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    axis, parts, start = t.axis(dim, len(x.shape)), [], 0
    for size in split_sizes:
        parts.append(t.part(x, axis, range(start, start + size)))
        start += size
    return tuple(parts)


def _split(t: Tracer, x: Value, split_size: int, dim: int = 0) -> tuple[Value, ...]:
    total = x.shape[t.axis(dim, len(x.shape))]
    sizes = [min(split_size, total - at) for at in range(0, total, split_size)] if split_size else [0]
    return _split_with_sizes(t, x, sizes or [0], dim)


def _chunk(t: Tracer, x: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    return _split(t, x, -(-x.shape[t.axis(dim, len(x.shape))] // chunks), dim)


def _cat(t: Tracer, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Concatenate tensors; as in torch, an empty vector can be concatenated with anything."""
    parts = [v for v in tensors if v.shape != (0,)] or list(tensors)[:1]
    axis = t.axis(dim, len(parts[0].shape))
    filled = [v for v in parts if v.shape[axis]] or parts[:1]
    return t.concat([t.cast(v, t.dtype) for v in filled], axis)


def _stack(t: Tracer, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = t.axis(dim, len(tensors[0].shape) + 1)
    return t.concat([t.unsqueeze(t.cast(v, t.dtype), axis) for v in tensors], axis)


def _flip(t: Tracer, x: Value, dims: Any) -> Value:
    axes = t.axes(dims, len(x.shape)) if dims or isinstance(dims, int) else []
    return t.slice(x, [range(s)[::-1] if k in axes else range(s) for k, s in enumerate(x.shape)])


def _roll(t: Tracer, x: Value, shifts: Any, dims: Any = ()) -> Value:
    shifts, dims = ([g] if isinstance(g, int) else list(g) for g in (shifts, dims))
    if not dims:
        return t.reshape(_roll(t, t.reshape(x, (math.prod(x.shape),)), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = t.axis(dim, len(x.shape))
        size = x.shape[axis]
        if size and (at := shift % size):
            x = t.concat([t.part(x, axis, range(size - at, size)), t.part(x, axis, range(size - at))], axis)
    return x


def _repeat(t: Tracer, x: Value, repeats: Sequence[int]) -> Value:
    """Repeat the whole tensor, as a broadcast of new outer factors."""
    repeats = [*(1 for _ in range(len(x.shape) - len(repeats))), *repeats]
    lead = len(repeats) - len(x.shape)
    if lead:
        x = t.unsqueeze(x, *range(lead))
    labels = plain_labels(len(repeats))
    wide = [n for pair in zip(repeats, x.shape, strict=True) for n in pair]
    opened = t.relabel(x, labels, tuple(d for label in labels for d in ("", label)), wide)
    return t.reshape(opened, [a * b for a, b in zip(wide[::2], wide[1::2], strict=True)])


def _repeat_interleave(t: Tracer, x: Value, repeats: Any, dim: int | None = None, **_: Any) -> Value:
    """Repeat each element several times in place."""
    if isinstance(repeats, Value):
        known = t.known(repeats)
        if known is None or known.array.size != 1:
            raise t.refuse("is supported only where all elements are repeated equally often")
        repeats = int(known.array.reshape(()))
    if dim is None:
        x, dim = t.reshape(x, (math.prod(x.shape),)), 0
    axis = t.axis(dim, len(x.shape))
    wide = [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]]
    opened = t.expand(t.unsqueeze(x, axis + 1), wide)
    return t.reshape(opened, [s * repeats if k == axis else s for k, s in enumerate(x.shape)])


def _pixel_shuffle(t: Tracer, x: Value, upscale_factor: int) -> Value:
    r, (*lead, c, h, w) = upscale_factor, x.shape
    opened = t.reshape(x, (*lead, c // r**2, r, r, h, w))
    n = len(lead)
    turned = t.permute(opened, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return t.reshape(turned, (*lead, c // r**2, h * r, w * r))


def _pixel_unshuffle(t: Tracer, x: Value, downscale_factor: int) -> Value:
    r, (*lead, c, h, w) = downscale_factor, x.shape
    opened = t.reshape(x, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    turned = t.permute(opened, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return t.reshape(turned, (*lead, c * r**2, h // r, w // r))


def _channel_shuffle(t: Tracer, x: Value, groups: int) -> Value:
    n, c, *rest = x.shape
    opened = t.reshape(x, (n, groups, c // groups, *rest))
    return t.reshape(t.permute(opened, [0, 2, 1, *range(3, len(rest) + 3)]), x.shape)


def _copy(t: Tracer, x: Value, src: Value, *_: Any) -> Value:
    return t.expand(t.cast(src, t.dtype), t.shape)


def _broadcast_tensors(t: Tracer, tensors: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(t.expand(v, t.shape) for v in tensors)


def _meshgrid(t: Tracer, tensors: Sequence[Value], indexing: str = "ij") -> tuple[Value, ...]:
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    results = []
    for k, value in enumerate(tensors):
        shape = [math.prod(value.shape) if j == order[k] else 1 for j in range(len(order))]
        results.append(t.expand(t.reshape(value, shape), t.recorded(k).shape))
    return tuple(results)


_VIEWS = (
    "view",
    "_unsafe_view",
    "reshape",
    "view_copy",
    "_reshape_alias",
    "flatten.using_ints",
    "unflatten.int",
)
MOVEMENT: tuple[TorchOperator, ...] = (
    TorchOperator(aten(*_VIEWS, "view_as", "reshape_as", "ravel"), _view),
    TorchOperator(aten("expand", "expand_as", "broadcast_to", "expand_copy"), _expand),
    TorchOperator(aten("permute", "permute_copy"), _permute),
    TorchOperator(aten("transpose.int", "swapaxes", "swapdims", "transpose_copy.int"), _transpose),
    TorchOperator(aten("t", "numpy_T"), _turn),
    TorchOperator(aten("mT", "adjoint"), _matrix_turn),
    TorchOperator(aten("movedim.int", "movedim.intlist", "moveaxis.int"), _move),
    TorchOperator(aten("unsqueeze", "unsqueeze_copy"), _unsqueeze),
    TorchOperator(aten("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dims"), _squeeze),
    TorchOperator(aten("slice.Tensor", "slice_copy.Tensor"), _slice),
    TorchOperator(aten("narrow", "narrow_copy"), _narrow),
    TorchOperator(aten("select.int", "select_copy.int"), _select),
    TorchOperator(aten("unbind.int", "unbind_copy.int"), _unbind),
    TorchOperator(aten("split_with_sizes", "split_with_sizes_copy", "split.sizes"), _split_with_sizes),
    TorchOperator(aten("split.Tensor", "split_copy.Tensor"), _split),
    TorchOperator(aten("chunk"), _chunk),
    TorchOperator(aten("cat", "concat", "concatenate"), _cat),
    TorchOperator(aten("stack"), _stack),
    TorchOperator(aten("flip"), _flip),
    TorchOperator(aten("fliplr"), lambda t, x: _flip(t, x, 1)),
    TorchOperator(aten("roll"), _roll),
    TorchOperator(aten("repeat", "tile"), _repeat),
    TorchOperator(aten("repeat_interleave.self_int", "repeat_interleave.self_Tensor"), _repeat_interleave),
    TorchOperator(aten("pixel_shuffle"), _pixel_shuffle),
    TorchOperator(aten("pixel_unshuffle"), _pixel_unshuffle),
    TorchOperator(aten("channel_shuffle", "native_channel_shuffle"), _channel_shuffle),
    TorchOperator(aten("copy"), _copy),
    TorchOperator(aten("broadcast_tensors"), _broadcast_tensors),
    TorchOperator(aten("meshgrid", "meshgrid.indexing"), _meshgrid),
)
