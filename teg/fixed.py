"""Fixed blocks: those without a signature, because their operator has none or because the program takes it away."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import with_signature


def is_made_fixed(definition: Definition, inputs: Sequence[TensorType]) -> bool:
    """Return whether a block is fixed although its operator infers a signature for these inputs."""
    if definition.signature is not None:
        return False
    return with_signature(operator_named(definition.operator), definition, inputs).signature is not None
