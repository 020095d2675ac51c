"""A tensor program: interned blocks over named tensors, in program order.

All nodes are of one kind: a `Block` applies an operator to tensors. Sources and sinks are blocks,
selectors are blocks whose operator is a view, sequence points are blocks without inputs and outputs. Edges
are sites (stable names), so a rewrite leaves all other nodes alone and graphs share what they have in common.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapestry.teg.brief import brief, counted, listed, shown
from tapestry.teg.costs import CostTable
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.external_data import ExternalData
from tapestry.teg.faults import ArgumentError, expected
from tapestry.teg.graph_card import graph_card
from tapestry.teg.intern import InternedValue
from tapestry.teg.signature import Signature
from tapestry.teg.stored_values import StoredValue
from tapestry.teg.zspace import ZRange

if TYPE_CHECKING:
    import networkx as nx

Attributes = tuple[tuple[str, Any], ...]

ROOTS = ("sink", "sequence_point")
ROLES = ("activation", "parameter", "buffer", "constant", "optimizer_state")


class TensorType(NamedTuple):
    """The shape and element type of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * item_bytes(self.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Tensor(InternedValue):
    """A logical tensor: site, shape, element type; produced by exactly one block.

    `names` name its dimensions, all of them or (empty) none: for people, no rewrite or schedule depends on them.
    """

    site: str
    shape: tuple[int, ...]
    dtype: str
    names: tuple[str, ...] = ()

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def __repr__(self) -> str:
        return shown("Tensor", (f"{brief(self.site)}: {self.dtype}[{brief(self.dims_text, 80)}]",))

    @property
    def dims_text(self) -> str:
        """The shape as text: `4, 6`, or with names `batch=4, features=6`."""
        if len(self.names) != len(self.shape):
            return ", ".join(map(str, self.shape))
        return ", ".join(f"{name}={size}" for name, size in zip(self.names, self.shape, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class Definition(InternedValue):
    """The computation of a block, independent of its place in a graph: operator, attributes, signature.

    A definition without signature is fixed: its block cannot be re-sharded. `costs` are those supplied with the
    program; they go with every part of the block.
    """

    operator: str
    attributes: Attributes
    signature: Signature | None
    costs: CostTable | None = None

    @property
    def is_view(self) -> bool:
        """True if its block moves no data; a fixed view is computed whole, like any fixed block."""
        return self.operator == "view" and self.signature is not None

    @property
    def carries(self) -> bool:
        """True if its block is a sink that carries state: what it reads is the next value of a source."""
        return self.operator == "sink" and self.get("carries") is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute `name`, or `default`."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default

    def __repr__(self) -> str:
        fixed = "fixed" if self.signature is None else ""
        return shown("Definition", (self.operator, *(brief(f"{k}={v!r}") for k, v in self.attributes), fixed))

    def __getitem__(self, name: str) -> Any:
        for key, value in self.attributes:
            if key == name:
                return value
        raise KeyError(
            f"operator {self.operator!r} has no attribute {name!r} here; it has {[k for k, _ in self.attributes]}"
        )


@dataclass(frozen=True, eq=False, slots=True)
class Block(InternedValue):
    """One application of a definition: tensors in, tensors out; in an explicit graph also its device and part.

    `index` is the part of the index space this block computes (None: all of it); `device` pins it. `after`
    names sequence points or blocks that run before it (blocks as if through a sequence point of its own).
    `repetition` counts how many times an earlier block has computed the same: blocks that differ in it stay apart.
    """

    site: str
    definition: Definition
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    index: ZRange | None = None
    device: int | None = None
    after: tuple[str, ...] = ()
    repetition: int = 0

    @property
    def operator(self) -> str:
        return self.definition.operator

    def __repr__(self) -> str:
        part = "" if self.device is None else f"device {self.device}"
        call = f"{brief(self.site)}: {self.operator}({listed(self.inputs)}) -> {listed(self.outputs)}"
        return shown("Block", (call, part))

    @property
    def signature(self) -> Signature | None:
        return self.definition.signature

    @property
    def is_view(self) -> bool:
        return self.definition.is_view


@dataclass(frozen=True, eq=False)
class Graph:
    """Blocks in program order (a topological order) over tensors by site; `data` holds values of sources.

    `external` names values of sources by content that the graph does not hold.
    `values` are intermediate values by the imported program's names: not compared, and a rewritten graph has none.
    """

    name: str
    blocks: tuple[Block, ...]
    tensors: Mapping[str, Tensor]
    data: Mapping[str, np.ndarray] = field(default_factory=dict)
    external: Mapping[str, ExternalData] = field(default_factory=dict)
    values: Mapping[str, StoredValue] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Return whether name, blocks, tensors and data are equal, values compared bit by bit."""
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            (self.name, self.blocks) == (other.name, other.blocks)
            and dict(self.tensors) == dict(other.tensors)
            and dict(self.external) == dict(other.external)
            and self.data.keys() == other.data.keys()
            and all(_same_bits(v, other.data[k]) for k, v in self.data.items())
        )

    def __hash__(self) -> int:
        return hash((self.name, self.blocks))

    @cached_property
    def by_site(self) -> Mapping[str, Block]:
        """The blocks by site."""
        return {b.site: b for b in self.blocks}

    @cached_property
    def producers(self) -> Mapping[str, Block]:
        """The producing block of each tensor."""
        return {t: b for b in self.blocks for t in b.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[tuple[Block, int], ...]]:
        """The `(block, input position)` readers of each tensor in program order."""
        readers: dict[str, list[tuple[Block, int]]] = {t: [] for t in self.tensors}
        for b in self.blocks:
            for k, t in enumerate(b.inputs):
                readers[t].append((b, k))
        return {t: tuple(r) for t, r in readers.items()}

    @cached_property
    def sources(self) -> tuple[Block, ...]:
        return tuple(b for b in self.blocks if b.operator == "source")

    @cached_property
    def sinks(self) -> tuple[Block, ...]:
        return tuple(b for b in self.blocks if b.operator == "sink")

    @cached_property
    def carriers(self) -> Mapping[str, Block]:
        """The source whose next value a sink takes, by the site of the sink."""
        named = ((b.site, b.definition.get("carries")) for b in self.sinks)
        return {site: self.by_site[name] for site, name in named if name in self.by_site}

    @cached_property
    def fixed_state(self) -> frozenset[str]:
        """The sites of carried state that is never split: its source or its sink has no signature."""
        pairs = ((self.by_site[sink], source) for sink, source in self.carriers.items())
        fixed = (pair for pair in pairs if any(block.signature is None for block in pair))
        return frozenset(block.site for pair in fixed for block in pair)

    @cached_property
    def carried(self) -> frozenset[str]:
        """The tensors of sources whose next value a sink takes: the old value is not needed after its last reader."""
        return frozenset(t for source in self.carriers.values() for t in source.outputs)

    @cached_property
    def sequence_points(self) -> tuple[Block, ...]:
        return tuple(b for b in self.blocks if b.operator == "sequence_point")

    @cached_property
    def kept(self) -> dict[Hashable, Any]:
        """The results that functions of the graph keep with it, under keys of their own; they are not compared."""
        return {}

    @property
    def roots(self) -> tuple[Block, ...]:
        """The blocks that make the others observable: sinks and sequence points, in program order."""
        return tuple(b for b in self.blocks if b.operator in ROOTS)

    def input_types(self, block: Block) -> tuple[TensorType, ...]:
        return tuple(self.tensors[t].type for t in block.inputs)

    def output_types(self, block: Block) -> tuple[TensorType, ...]:
        return tuple(self.tensors[t].type for t in block.outputs)

    @cached_property
    def structural_hash(self) -> str:
        """A hash of the observed program: equal for graphs that differ in site names only."""
        digests: dict[str, bytes] = {}
        block_digests: dict[str, bytes] = {}
        roots = hashlib.sha256()
        for b in self.blocks:
            h = hashlib.sha256(_definition_digest(b.definition) + repr((b.index, b.device)).encode())
            for t in b.inputs:
                h.update(digests[t])
            if b.operator == "source":
                tensor = self.tensors[b.outputs[0]]
                h.update(repr((b.site, tensor.shape, tensor.dtype)).encode())
                if b.outputs[0] in self.data:
                    h.update(self._data_digests[b.outputs[0]])
                if b.outputs[0] in self.external:
                    h.update(repr(self.external[b.outputs[0]]).encode())
            for site in b.after:
                h.update(b"after" + block_digests[site])
            if b.repetition:
                h.update(b"repetition" + repr(b.repetition).encode())
            block_digests[b.site] = h.digest()
            for k, t in enumerate(b.outputs):
                digests[t] = hashlib.sha256(h.digest() + k.to_bytes(4, "little")).digest()
            if b.operator == "sink":
                roots.update(repr(b.site).encode() + h.digest())
            elif b.operator in ROOTS:
                roots.update(h.digest())
        return roots.hexdigest()

    @cached_property
    def _data_digests(self) -> dict[str, bytes]:
        return {site: hashlib.sha256(a.tobytes()).digest() for site, a in self.data.items()}

    def __repr__(self) -> str:
        sides = (counted(len(self.sources), "source"), counted(len(self.sinks), "sink"))
        return shown("Graph", (repr(brief(self.name)), counted(len(self.blocks), "block"), *sides))

    def _repr_html_(self) -> str:
        """Show figures, diagram and operators in a notebook, layers that repeat folded."""
        return graph_card(self)

    def to_networkx(self) -> nx.MultiDiGraph:
        """Convert to networkx: a node per block by its site, an edge per tensor read or order stated.

        A node has the attribute `block`; an edge from a producer to a reader has `tensor`, `position` (of the input)
        and `size_bytes`, an edge of `after` has none of them. The graph's attributes are `name`, `tensors`, `data` and
        `external`.
        `teg.structure` has layers, components and bottlenecks; `docs/language.md` shows dominators and cuts.
        """
        result = import_module("networkx").MultiDiGraph(
            name=self.name, tensors=dict(self.tensors), data=dict(self.data), external=dict(self.external)
        )
        result.add_nodes_from((block.site, {"block": block}) for block in self.blocks)
        for block in self.blocks:
            for position, tensor in enumerate(block.inputs):
                size_bytes = self.tensors[tensor].type.size_bytes
                read = {"tensor": tensor, "position": position, "size_bytes": size_bytes}
                result.add_edge(self.producers[tensor].site, block.site, **read)
            result.add_edges_from((site, block.site) for site in block.after)
        return result

    @staticmethod
    def from_networkx(source: nx.MultiDiGraph) -> Graph:
        """Convert back from `to_networkx`: blocks in topological order, nearest to the order of the nodes.

        Edges say in which order blocks stand; what a block reads is stated by the block itself.

        Raises:
            ArgumentError: no graph of networkx.
            ValueError: a node without a `block`, a tensor without a producer or a type, or a cycle.
        """
        nx = import_module("networkx")
        if not isinstance(source, nx.DiGraph):
            raise ArgumentError(expected("source", "a directed graph of networkx", source))
        place = {site: k for k, site in enumerate(source.nodes)}
        blocks: dict[Any, Block] = {}
        for site, values in source.nodes(data=True):
            block = values.get("block")
            if not isinstance(block, Block) or block.site != site:
                raise ValueError(f"node {site!r} has no attribute 'block' with the Block of that site")
            blocks[site] = block
        try:
            order = list(nx.lexicographical_topological_sort(source, key=place.__getitem__))
        except nx.NetworkXUnfeasible:
            around = " -> ".join(repr(edge[0]) for edge in nx.find_cycle(source))
            raise ValueError(f"the nodes {around} form a cycle; a program has none") from None
        known, produced = source.graph.get("tensors", {}), set[str]()
        for site in order:
            for tensor in blocks[site].inputs:
                if tensor not in produced:
                    raise ValueError(
                        f"block {site!r} reads tensor {tensor!r}, which no block before it produces"
                    )
            for tensor in blocks[site].outputs:
                if tensor not in known:
                    raise ValueError(
                        f"tensor {tensor!r} has no type: the graph's attribute 'tensors' lacks it"
                    )
            produced.update(blocks[site].outputs)
        data = {site: array for site, array in source.graph.get("data", {}).items() if site in produced}
        named = {site: one for site, one in source.graph.get("external", {}).items() if site in produced}
        tensors = {tensor: known[tensor] for site in order for tensor in blocks[site].outputs}
        name = str(source.graph.get("name", ""))
        return Graph(name, tuple(blocks[s] for s in order), tensors, data, named)

    def replace(
        self,
        blocks: Iterable[Block],
        tensors: Iterable[Tensor] = (),
        data: Mapping[str, np.ndarray] | None = None,
    ) -> Graph:
        """Return the graph with other blocks and these tensors added; tensors without a producer are dropped."""
        ordered = tuple(blocks)
        known = {**self.tensors, **{t.site: t for t in tensors}}
        made = {t: known[t] for b in ordered for t in b.outputs}
        kept = {k: v for k, v in (self.data if data is None else data).items() if k in made}
        named = {k: v for k, v in self.external.items() if k in made and k not in kept}
        values = {name: value for name, value in self.values.items() if value.tensor in made}
        changed = Graph(self.name, ordered, made, kept, named, values)
        # Weights are hashed once, not once per candidate.
        if data is None and "_data_digests" in self.__dict__:
            changed.__dict__["_data_digests"] = self._data_digests
        return changed


def index_sizes(block: Block) -> dict[str, int]:
    """Return the extents of a block's index space, by dimension: of its part where it has an index."""
    if block.signature is None:
        return {}
    index = block.signature.index_range if block.index is None else block.index
    return dict(zip((d.name for d in block.signature.dims), index.shape, strict=True))


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@lru_cache(maxsize=4096)
def _definition_digest(definition: Definition) -> bytes:
    signature = definition.signature
    text: Any = "fixed"
    if signature is not None:
        dims = [(d.name, d.size, d.kind) for d in signature.dims]
        text = (dims, signature.inputs, signature.outputs)
    parts: tuple[Any, ...] = (definition.operator, freeze(definition.attributes), text)
    if definition.costs is not None:
        parts += (definition.costs.resources,)
    return hashlib.sha256(repr(parts).encode()).digest()


def attributes(**values: Any) -> Attributes:
    """Build attributes in canonical order, lists converted to tuples."""
    return tuple(sorted((k, freeze(v)) for k, v in values.items() if v is not None))


def freeze(value: Any) -> Any:
    """Convert lists to tuples and NumPy scalars to Python numbers, at every level."""
    if isinstance(value, (list, tuple)):
        return tuple(freeze(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return value
