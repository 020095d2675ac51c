"""Uses of a tensor: by the blocks that read it, itself or rearranged, and by the steps inside fused blocks."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators import body_of
from tapestry.teg.operators.fused_body import FUSED

REARRANGING = frozenset(("view", "reshape", "concat", "interleave", "pad", "dilate"))


class Use(NamedTuple):
    """The application of an operator to a tensor, which is its input at `position`."""

    definition: Definition
    position: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    def passes_on(self, combined: bool) -> bool:
        """Return whether the results are the tensor rearranged or changed element by element.

        `combined`: or combined with other tensors to integers.
        """
        alone = len(self.inputs) == 1 or (combined and numpy_dtype(self.outputs[0].dtype).kind in "iu")
        return self.definition.operator in REARRANGING or (self.definition.operator == "cell" and alone)


def uses(graph: Graph, site: str, combined: bool = False) -> Iterator[Use]:
    """Yield the uses of a tensor, itself or rearranged or changed element by element (`combined` as in `Use`)."""
    reached = [site]
    for tensor in reached:
        for block, position in graph.readers[tensor]:
            if block.operator == FUSED:
                passed = yield from _uses_inside(block, position, combined)
            else:
                use = Use(block.definition, position, graph.input_types(block), graph.output_types(block))
                yield use
                passed = block.outputs if use.passes_on(combined) else ()
            reached += [t for t in passed if t not in reached]


def _uses_inside(block: Block, position: int, combined: bool) -> Generator[Use, None, tuple[str, ...]]:
    """Yield the uses of an input by the steps of a fused block; return the outputs through which it passes."""
    body = body_of(block.definition)
    reached = {position}
    for step in body.steps:
        types = tuple(body.types[v] for v in step.reads), tuple(body.types[v] for v in step.makes)
        for k, value in enumerate(step.reads):
            if value in reached:
                use = Use(step.definition, k, *types)
                yield use
                reached.update(step.makes if use.passes_on(combined) else ())
    return tuple(t for t, value in zip(block.outputs, body.outputs, strict=True) if value in reached)
