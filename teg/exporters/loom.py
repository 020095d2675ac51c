"""Export of a graph as Loom JSON: tensors, operations and shards; in an abstract graph one shard per operation.

Kernels are called `teg:` and the operator's name, their parameters are its attributes, so that reading
the export gives the same program. Tensors' values are not written: the format has no place for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from tapestry.teg.encoding import encode_value
from tapestry.teg.graph import Block, Graph
from tapestry.teg.importers.loom.model import NODES, TAGS, IpfSignature, range_json, signature_json
from tapestry.teg.issues import listing
from tapestry.teg.sharding.external_graphs import is_explicit, verify_external
from tapestry.teg.signature import PARALLEL
from tapestry.teg.zspace import ZRange


def to_loom(graph: Graph) -> dict[str, Any]:
    """Convert a graph to the JSON values of a Loom graph, which `teg.importers.from_loom` reads back.

    Ids are derived from names, so equal graphs give equal documents. Operations whose windows extend beyond
    their tensors have no IPFSignature: a selection is inside its tensor.

    Of an explicit graph the program that it shards is written, with an Application per shard. Shards of a part of
    a reduction have no form there, since every element is made once; such an operation stays whole.

    Raises:
        ValueError: an explicit graph whose shards do not verify.
    """
    if not is_explicit(graph):
        return _Writing(graph, {}).run()
    found = verify_external(graph)
    if found.abstract is None:
        raise ValueError(listing(f"the shards of graph {graph.name!r} do not verify", found.issues))
    return _Writing(found.abstract, found.indices).run()


class _Writing:
    def __init__(self, graph: Graph, indices: Mapping[str, Sequence[ZRange]]) -> None:
        self.graph, self.indices = graph, indices

    def run(self) -> dict[str, Any]:
        nodes = []
        for tensor in self.graph.tensors.values():
            body = {"dtype": tensor.dtype, "range": range_json(ZRange.of_shape(tensor.shape))}
            nodes.append(self._node("Tensor", tensor.site, body, tensor.site))
        for block in self.graph.blocks:
            if block.inputs or block.outputs:
                nodes += self._operation(block)
        return {"id": self._id("graph", self.graph.name), "nodes": nodes}

    def _operation(self, block: Block) -> list[dict[str, Any]]:
        ends = {"source": "op:import", "sink": "op:export"}
        operator = block.operator
        definition = block.definition
        body: dict[str, Any] = {"kernel": ends.get(operator, f"teg:{operator}")}
        specified = ("shape", "dtype") if operator == "source" else ()  # its tensor says these
        params = {k: encode_value(v, f"$.params.{k}") for k, v in definition.attributes if k not in specified}
        if params:
            body["params"] = params
        sides = {
            "inputs": self._ports(block.inputs, "input"),
            "outputs": self._ports(block.outputs, "output"),
        }
        tags, index = self._tags(block)
        label = block.site if operator in ends else body["kernel"]
        operation = self._node("Operation", f"op {block.site}", {**body, **sides}, label, tags)
        parts = self._parts(block) if index else []
        if not parts:
            shard = {"operationId": operation["id"], **sides}
            return [operation, self._node("Application", f"shard {block.site}", shard, None, index)]
        return [operation, *(self._shard(block, operation["id"], part) for part in parts)]

    def _parts(self, block: Block) -> Sequence[ZRange]:
        """Return the index ranges of the shards, where each makes its own elements; none if the block stays whole."""
        assert block.signature is not None
        reduced = [k for k, d in enumerate(block.signature.dims) if d.kind != PARALLEL]
        whole = block.signature.index_range
        parts = self.indices.get(block.site, ())
        is_split = any(
            (p.start[k], p.end[k]) != (whole.start[k], whole.end[k]) for p in parts for k in reduced
        )
        return () if is_split else parts

    def _shard(self, block: Block, operation: str, part: ZRange) -> dict[str, Any]:
        assert block.signature is not None
        inputs, outputs = block.signature.project(part)
        body = {
            "operationId": operation,
            "inputs": self._ports(block.inputs, "input", inputs),
            "outputs": self._ports(block.outputs, "output", outputs),
        }
        return self._node(
            "Application", f"shard {block.site} {part}", body, None, {f"{TAGS}/IPFIndex": range_json(part)}
        )

    def _tags(self, block: Block) -> tuple[dict[str, Any], dict[str, Any]]:
        tags: dict[str, Any] = {}
        if any(block.site in point.after for point in self.graph.sequence_points):
            tags[f"{TAGS}/IOSequencePoint"] = {}
        signature = block.signature
        if signature is None:
            return tags, {}
        boxes = signature.project(signature.index_range)
        specified = [*zip(block.inputs, boxes[0], strict=True), *zip(block.outputs, boxes[1], strict=True)]
        if any(box != ZRange.of_shape(self.graph.tensors[t].shape) for t, box in specified):
            return tags, {}
        ports = IpfSignature(
            {"input": signature.inputs} if signature.inputs else {},
            {"output": signature.outputs} if signature.outputs else {},
        )
        index = {f"{TAGS}/IPFIndex": range_json(signature.index_range)}
        return {**tags, f"{TAGS}/IPFSignature": signature_json(ports), **index}, index

    def _ports(
        self, tensors: Sequence[str], name: str, boxes: Sequence[ZRange] | None = None
    ) -> dict[str, Any]:
        whole = boxes or [ZRange.of_shape(self.graph.tensors[t].shape) for t in tensors]
        listed = [
            {"tensorId": self._id("Tensor", t), "range": range_json(box)}
            for t, box in zip(tensors, whole, strict=True)
        ]
        return {name: listed} if listed else {}

    def _node(
        self,
        kind: str,
        name: str,
        body: dict[str, Any],
        label: str | None,
        tags: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        node: dict[str, Any] = {"id": self._id(kind, name), "type": f"{NODES}/{kind}"}
        if label is not None:
            node["label"] = label
        node["body"] = body
        return {**node, "tags": tags} if tags else node

    def _id(self, kind: str, name: str) -> str:
        return str(uuid5(NAMESPACE_URL, f"{self.graph.name}/{kind}/{name}"))
