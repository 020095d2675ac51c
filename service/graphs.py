"""Summaries of programs: what is in them, for people and for the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tapestry.costmodel.resources import FIGURES
from tapestry.teg import structure
from tapestry.teg.costs import Amount, total
from tapestry.teg.flops import block_flops
from tapestry.teg.graph import Block, Graph, index_sizes
from tapestry.teg.loading import LoadCost, load_of
from tapestry.teg.pruning import observed
from tapestry.teg.sharding.external_graphs import is_explicit, verify_external

# Blocks of a sharded program that are verified when it comes in, and issues that are reported then.
MOST_VERIFIED = 50_000
MOST_ISSUES = 10


@dataclass(frozen=True)
class SourceSummary:
    """One input of a program: `logical_shape` is the shape stated in the program, `shape` the factored one.

    `load` is what loading it takes, where the program states that.
    """

    site: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    logical_shape: tuple[int, ...]
    load: LoadCost | None = None

    @property
    def is_factored(self) -> bool:
        return self.shape != self.logical_shape


@dataclass(frozen=True)
class GraphSummary:
    """A summary of an imported program; fixed blocks are those without a signature, which cannot be sharded.

    `is_explicit`: it is sharded and pinned to devices already; then `shards` states on how many devices, and whether
    they verify (not tried where they are very many). `unobserved` blocks are left out of a search.
    `named_costs`: the program's own costs, unsharded, summed by resource. `layers` is the length of the longest path,
    `components` the number of parts without a connection, `bottlenecks` are the blocks that every path passes.
    """

    name: str
    blocks: int
    fixed_blocks: int
    tensors: int
    operators: Mapping[str, int]
    parameters: int
    parameter_bytes: int
    flops: int
    shardable_flops: int
    sources: tuple[SourceSummary, ...]
    sinks: tuple[str, ...]
    is_explicit: bool = False
    shards: Mapping[str, Any] | None = None
    unobserved: int = 0
    named_costs: Mapping[str, Amount] = field(default_factory=dict)
    layers: int = 0
    components: int = 0
    bottlenecks: tuple[str, ...] = ()

    @property
    def shardable_share(self) -> float:
        """The share of all flops that is in blocks that can be sharded; 1 where there are none."""
        return self.shardable_flops / self.flops if self.flops else 1.0

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "blocks": self.blocks,
            "fixed_blocks": self.fixed_blocks,
            "tensors": self.tensors,
            "operators": dict(self.operators),
            "parameters": self.parameters,
            "parameter_bytes": self.parameter_bytes,
            "flops": self.flops,
            "shardable_flops": self.shardable_flops,
            "shardable_share": self.shardable_share,
            "sources": [
                {
                    "site": s.site,
                    "role": s.role,
                    "dtype": s.dtype,
                    "shape": list(s.shape),
                    "logical_shape": list(s.logical_shape),
                    "load": None if s.load is None else s.load.to_json(),
                }
                for s in self.sources
            ],
            "sinks": list(self.sinks),
            "is_explicit": self.is_explicit,
            "shards": None if self.shards is None else dict(self.shards),
            "unobserved": self.unobserved,
            "named_costs": dict(self.named_costs),
            "layers": self.layers,
            "components": self.components,
            "bottlenecks": list(self.bottlenecks),
        }


def summarize(graph: Graph) -> GraphSummary:
    """Summarize a program."""
    parameters = [
        graph.tensors[s.outputs[0]] for s in graph.sources if s.definition.get("role") == "parameter"
    ]
    flops = {block.site: block_flops(graph, block) for block in graph.blocks}
    return GraphSummary(
        name=graph.name,
        blocks=len(graph.blocks),
        fixed_blocks=sum(1 for block in graph.blocks if block.signature is None),
        tensors=len(graph.tensors),
        operators=dict(Counter(block.operator for block in graph.blocks).most_common()),
        parameters=sum(prod(t.shape) for t in parameters),
        parameter_bytes=sum(t.type.size_bytes for t in parameters),
        flops=sum(flops.values()),
        shardable_flops=sum(
            flops[b.site] for b in graph.blocks if b.signature is not None and b.signature.dims
        ),
        sources=tuple(_source(graph, source) for source in graph.sources),
        sinks=tuple(sink.site for sink in graph.sinks),
        is_explicit=is_explicit(graph),
        shards=_shards(graph) if is_explicit(graph) else None,
        unobserved=len(graph.blocks) - len(observed(graph)),
        named_costs=named_costs(graph),
        layers=len(structure.layers(graph)),
        components=len(structure.components(graph)),
        bottlenecks=tuple(structure.bottlenecks(graph)),
    )


def named_costs(graph: Graph) -> dict[str, Amount]:
    """Sum the costs supplied with a program by resource."""
    tables = ((b.definition.costs, index_sizes(b)) for b in graph.blocks)
    return total(table.price(sizes) for table, sizes in tables if table is not None)


def priced_resources(summary: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the resources that a summarized program prices itself, which a search may minimize and bound."""
    return tuple(name for name in (summary or {}).get("named_costs", {}) if name not in FIGURES)


def _shards(graph: Graph) -> dict[str, Any]:
    devices = {b.device for b in graph.blocks if b.device is not None}
    reported: dict[str, Any] = {"devices": len(devices), "verified": None, "issues": []}
    if len(graph.blocks) <= MOST_VERIFIED:
        issues = verify_external(graph).issues
        reported |= {"verified": not issues, "issues": [str(issue) for issue in issues[:MOST_ISSUES]]}
    return reported


def _source(graph: Graph, source: Block) -> SourceSummary:
    tensor = graph.tensors[source.outputs[0]]
    logical = tuple(source.definition.get("logical_shape", tensor.shape))
    role, load = str(source.definition["role"]), load_of(dict(source.definition.attributes))
    return SourceSummary(source.site, role, tensor.dtype, tensor.shape, logical, load)
