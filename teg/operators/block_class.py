"""The class of operators that a block belongs to; what is learned of moves is kept by it."""

from __future__ import annotations

from functools import lru_cache

from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.kernel_classes import operator_class
from tapestry.teg.operators.operator import work_of


def class_of_block(graph: Graph, block: Block) -> str:
    """Return which of `OPERATOR_CLASSES` the kernel of a block belongs to."""
    return _class(block.definition, tuple(graph.input_types(block)), tuple(graph.output_types(block)))


@lru_cache(maxsize=1 << 14)
def _class(definition: Definition, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> str:
    work = work_of(operator_named(definition.operator), definition, inputs, outputs)
    return operator_class(work.kernel_class)
