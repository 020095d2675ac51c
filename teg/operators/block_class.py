"""The class of operators that a block belongs to; what is learned of moves is kept by it."""

from __future__ import annotations

from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.kernel_classes import operator_class
from tapestry.teg.operators.operator import work_of


def class_of_block(graph: Graph, block: Block) -> str:
    """Return which of `OPERATOR_CLASSES` the kernel of a block belongs to."""
    inputs, outputs = graph.input_types(block), graph.output_types(block)
    work = work_of(operator_named(block.operator), block.definition, inputs, outputs)
    return operator_class(work.kernel_class)
