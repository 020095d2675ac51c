"""The document of an explicit graph or a part of it: written slot by slot, its larger values named by content."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from tapestry.teg.external_data import INLINE_BYTES, ExternalData, content_hash
from tapestry.teg.serialization import stream_document
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.explicit_parts import GraphPart, TypedBlock, part_nodes
from tapestry.teg.sharding.materialize import ExplicitNodes, origin_of, part_of
from tapestry.teg.zspace import ZRange

WHOLE = GraphPart()


def explicit_document(explicit: ExplicitGraph, part: GraphPart = WHOLE) -> Iterator[str]:
    """Write the TEG document of an explicit graph in portions of text, as they are taken.

    Values of whole tensors above `INLINE_BYTES` bytes are external data: `teg.binding.bind_values` supplies them.

    Raises:
        ValueError: a block has no index points at all.
        PartError: a device, layer or block does not exist.
    """
    values = _SourceValues(explicit)
    nodes = part_nodes(ExplicitNodes(explicit), part)
    return stream_document(explicit.abstract.name, values.watch(nodes), values.data())


class _SourceValues:
    """The values of the sources among the blocks that pass, by local tensor."""

    def __init__(self, explicit: ExplicitGraph) -> None:
        self.abstract = explicit.abstract
        self.parts: dict[str, ZRange] = {}

    def watch(self, blocks: Iterator[TypedBlock]) -> Iterator[TypedBlock]:
        """Pass blocks on, and note the parts that are sources with values."""
        for block, outputs in blocks:
            if block.operator == "source" and block.index is not None:
                (tensor,) = block.outputs
                site = origin_of(tensor)
                if site in self.abstract.data or site in self.abstract.external:
                    self.parts[tensor] = block.index
            yield block, outputs

    def data(self) -> Iterator[tuple[str, np.ndarray | ExternalData]]:
        """Yield the values of the noted sources; a whole tensor is hashed once."""

        @cache
        def named(site: str) -> ExternalData:
            value = self.abstract.data[site]
            box = ZRange.of_shape(value.shape)
            return ExternalData(site, value.dtype.name, value.shape, content_hash(value), box)

        for tensor, box in self.parts.items():
            site = origin_of(tensor)
            if site in self.abstract.external:
                yield tensor, self.abstract.external[site].part(box)
            elif self.abstract.data[site].nbytes <= INLINE_BYTES:
                yield tensor, part_of(self.abstract.data[site], box)
            else:
                yield tensor, named(site).part(box)
