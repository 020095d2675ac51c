"""External data: values of sources that a document names by content instead of bringing them along.

As in ONNX, whose external data lies in another file: a document then has the size of its program. The values are
found by the name of the whole tensor or by its content hash, and supplied by `teg.binding.bind_values`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tapestry.teg.zspace import ZRange

MOST_NAMED = 5
INLINE_BYTES = 1024
"""Values up to this size stay in a document that names larger ones by content."""


@dataclass(frozen=True)
class ExternalData:
    """The part `box` of the whole tensor called `tensor`, whose type and content hash are given."""

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    box: ZRange

    def part(self, box: ZRange) -> ExternalData:
        """Return the part of this part in a box that counts from its start."""
        return replace(self, box=box.translate(self.box.start))

    def whole_of(self, box: ZRange, shape: tuple[int, ...]) -> ExternalData:
        """Return the part of this shape of which this part is the `box`."""
        start = tuple(a - b for a, b in zip(self.box.start, box.start, strict=True))
        return replace(self, box=ZRange.build(start, shape=shape))


def content_hash(array: np.ndarray) -> str:
    """Return the SHA-256 of a whole tensor as a hexadecimal text: of `float32[64,256]`, a line feed, and its bytes.

    The bytes are little-endian and row-major, as a document writes them.
    """
    digest = hashlib.sha256(f"{array.dtype.name}[{','.join(map(str, array.shape))}]\n".encode())
    dense = np.ascontiguousarray(array)
    if sys.byteorder == "big":
        dense = dense.byteswap()
    digest.update(dense.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def absence(external: Mapping[str, ExternalData]) -> str:
    """Describe which whole tensors a graph names by content without their values, and the cure."""
    names = dict.fromkeys(named.tensor for named in external.values())
    some = ", ".join(map(repr, list(names)[:MOST_NAMED]))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"it names the values of {some}{more} by content and does not hold them: supply these whole tensors by "
        "tapestry.teg.binding.bind_values"
    )
