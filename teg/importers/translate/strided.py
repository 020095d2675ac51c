"""Elements at affine positions of one dimension as views: slices, and the strided windows of `as_strided`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tapestry.teg.importers.translate.laws import AffineIndex
from tapestry.teg.importers.translate.translation import Translation, plain_labels


def strided(
    t: Translation, site: str, table: str, output: str, axis: int, law: AffineIndex, shape: Sequence[int]
) -> bool:
    """Emit `table` read along `axis` at the positions that `law` gives at `shape`; return False if that is no view."""
    value = t.value(table)
    before, size, after = value.shape[:axis], value.shape[axis], value.shape[axis + 1 :]
    law_inside = law.within(shape, size)
    if law_inside is None:
        return False
    if len(law_inside.along) < 2:
        _one_line(t, site, table, output, axis, law_inside, shape)
        return True
    order = sorted(law_inside.along, key=lambda d: -law_inside.strides[d])
    digits = _digits(size, [law_inside.strides[d] for d in order])
    spans = None if digits is None else _spans(law_inside.start, digits, [shape[d] for d in order])
    if digits is None or spans is None:
        return False
    split = t.reshape(f"{site}.digits", table, f"{output}.digits", (*before, *digits, *after))
    ranges = [*map(range, before), *spans, *map(range, after)]
    part = t.slice(f"{site}.part", split, f"{output}.part", ranges)
    _spread(t, site, part, output, axis, order, len(digits), shape)
    return True


def _one_line(
    t: Translation, site: str, table: str, output: str, axis: int, law: AffineIndex, shape: Sequence[int]
) -> None:
    """Emit a slice; the dimensions along which nothing changes are broadcast."""
    value = t.value(table)
    step = law.strides[law.along[0]] if law.along else 1
    count = shape[law.along[0]] if law.along else 1
    span = range(law.start, law.start + step * count, step)
    ranges = [span if k == axis else range(s) for k, s in enumerate(value.shape)]
    part = t.slice(f"{site}.part", table, f"{output}.part", ranges)
    _spread(t, site, part, output, axis, list(law.along), 1, shape)


def _digits(size: int, strides: Sequence[int]) -> list[int] | None:
    """Return the sizes of a dimension split at these strides, outermost first; None if they do not nest."""
    borders = [size, *strides, *([1] if strides[-1] != 1 else [])]
    if min(strides) < 1 or any(a % b or a == b for a, b in pairwise(borders[1:])):
        return None
    return [a // b for a, b in pairwise(borders)] if size % strides[0] == 0 else None


def _spans(start: int, digits: Sequence[int], counts: Sequence[int]) -> list[range] | None:
    """Return the part of each digit that is read; None if a part runs over into the next digit."""
    spans = []
    for k, size in enumerate(digits):
        inner = math.prod(digits[k + 1 :])
        first, start = divmod(start, inner)
        count = counts[k] if k < len(counts) else 1
        if first + count > size:
            return None
        spans.append(range(first, first + count))
    return spans


def _spread(
    t: Translation,
    site: str,
    part: str,
    output: str,
    axis: int,
    order: Sequence[int],
    width: int,
    shape: Sequence[int],
) -> None:
    """Move the `width` dimensions at `axis`, which run along the dimensions `order` of `shape`, to their places."""
    sizes = t.value(part).shape
    labels = plain_labels(len(sizes))
    places = {d: labels[axis + k] for k, d in enumerate(order)}
    source = tuple(
        "" if axis <= k < axis + width and d not in places.values() else d for k, d in enumerate(labels)
    )
    target = (*labels[:axis], *(places.get(d, "") for d in range(len(shape))), *labels[axis + width :])
    t.relabel(site, part, output, source, target, (*sizes[:axis], *shape, *sizes[axis + width :]))
