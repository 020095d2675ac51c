"""The index dimensions of a block by what reads them: sums, weights, and what all factors of a product have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.strategy import read_of
from tapestry.teg.signature import PARALLEL

WEIGHTS = "parameter"
NAMED_SHARE = 0.1  # of the work, from which on a way to split it is named


@dataclass(frozen=True)
class OperandDims:
    """For each operand of a block the `roots` that it reads, whether that `is_weight`, and its dimensions (`reads`).

    `summed` are the dimensions that are added up. All dimensions are numbers of index dimensions.
    """

    roots: tuple[str, ...]
    is_weight: tuple[bool, ...]
    reads: tuple[frozenset[int], ...]
    summed: frozenset[int]

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """The operands that are multiplied and added up."""
        return tuple(k for k, dims in enumerate(self.reads) if dims & self.summed)

    @cached_property
    def of_all_factors(self) -> frozenset[int]:
        """The dimensions that all factors have: products that stand side by side."""
        return frozenset.intersection(*(self.reads[k] for k in self.factors)) if self.factors else frozenset()

    @cached_property
    def of_weights(self) -> frozenset[int]:
        """The dimensions of weights: those among the factors, else all."""
        operands = self.factors or range(len(self.reads))
        return frozenset().union(*(self.reads[k] for k in operands if self.is_weight[k]))


def operand_dims(graph: Graph, block: Block) -> OperandDims:
    """Return the dimensions of a block that has a signature."""
    assert block.signature is not None
    dims, inputs = block.signature.dims, block.signature.inputs
    roots = tuple(read_of(graph, block.site, k).root for k in range(len(block.inputs)))
    return OperandDims(
        roots,
        tuple(graph.producers[root].definition.get("role") == WEIGHTS for root in roots),
        tuple(
            frozenset(k for k in range(len(dims)) if any(row[k] for row in each.start.matrix))
            for each in inputs
        ),
        frozenset(k for k, dim in enumerate(dims) if dim.kind != PARALLEL),
    )
