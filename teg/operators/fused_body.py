"""The body of a fused block: steps over numbered values, read from attributes and checked.

Values are numbered: first the inputs of the block, then the results of the steps in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.teg.graph import Attributes, Definition, TensorType
from tapestry.teg.operators.operator import Operator
from tapestry.teg.operators.reading import settings

FUSED = "fused"


class FusedStep(NamedTuple):
    """One application inside a body: the numbers of the values it reads and makes."""

    operator: Operator
    definition: Definition
    reads: tuple[int, ...]
    makes: tuple[int, ...]


class FusedBody(NamedTuple):
    """The computation of a fused block: `types` of all values, steps in order, the numbers of its outputs."""

    inputs: tuple[TensorType, ...]
    types: tuple[TensorType, ...]
    steps: tuple[FusedStep, ...]
    outputs: tuple[int, ...]

    def producers(self) -> dict[int, tuple[int, int]]:
        """Map each value that a step makes to the step's number and the position among its results."""
        return {v: (s, k) for s, step in enumerate(self.steps) for k, v in enumerate(step.makes)}


def read_body(attrs: Attributes, known: Mapping[str, Operator]) -> FusedBody:
    """Parse the body from the attributes of a fused block; `known` are the operators it may use.

    Raises:
        ValueError: it is malformed, a step does not fit, or a step cannot stand inside a block; it says which.
    """
    given = settings(attrs, ("body", "results", "types"))
    inputs = _types(given["types"])
    if not isinstance(given["body"], tuple) or not given["body"]:
        raise ValueError(f"attribute 'body' must be a tuple of at least one step, not {given['body']!r}")
    types, steps = list(inputs), []
    for k, specified in enumerate(given["body"]):
        step, made = _step(k, specified, types, known)
        steps.append(step)
        types += made
    body = FusedBody(inputs, tuple(types), tuple(steps), _outputs(given["results"], len(inputs), len(types)))
    check_use(body)
    return body


def _types(specified: Any) -> tuple[TensorType, ...]:
    good = isinstance(specified, tuple) and all(
        isinstance(t, tuple) and len(t) == 2 and isinstance(t[0], tuple) and isinstance(t[1], str)
        for t in specified
    )
    if not good:
        raise ValueError(f"attribute 'types' must be a tuple of (shape, element type), not {specified!r}")
    return tuple(TensorType(shape, dtype) for shape, dtype in specified)


def _step(
    k: int, specified: Any, types: Sequence[TensorType], known: Mapping[str, Operator]
) -> tuple[FusedStep, tuple[TensorType, ...]]:
    if not isinstance(specified, tuple) or len(specified) != 3:
        raise ValueError(f"step {k} must be (operator, attributes, reads), not {specified!r}")
    name, attrs, reads = specified
    if name == FUSED:
        raise ValueError(f"step {k} is a fused block itself; write its steps in its place")
    operator = known.get(name) if isinstance(name, str) else None
    if operator is None:
        raise ValueError(f"step {k} applies {name!r}, which is no known operator")
    if operator.meaningless:
        raise ValueError(f"step {k} applies {name!r}, whose values come from outside the program")
    if not isinstance(reads, tuple) or any(type(v) is not int or not 0 <= v < len(types) for v in reads):
        raise ValueError(f"step {k} may read values 0 to {len(types) - 1}, made before it, not {reads!r}")
    try:
        inferred = operator.infer(attrs, [types[v] for v in reads])
    except (ValueError, TypeError) as error:
        raise ValueError(f"step {k} ({name}): {error}") from error
    if inferred.signature is None:
        raise ValueError(f"step {k} applies {name!r}, a fixed block: it has no parts and cannot be streamed")
    makes = tuple(range(len(types), len(types) + len(inferred.outputs)))
    return FusedStep(operator, Definition(name, attrs, inferred.signature), reads, makes), inferred.outputs


def _outputs(specified: Any, inputs: int, count: int) -> tuple[int, ...]:
    good = (
        isinstance(specified, tuple)
        and specified
        and all(type(v) is int and inputs <= v < count for v in specified)
    )
    if not good or len(set(specified)) != len(specified):
        raise ValueError(
            f"attribute 'results' must list results of steps, {inputs} to {count - 1}, each once, not {specified!r}"
        )
    return tuple(specified)


def check_use(body: FusedBody) -> None:
    """Check that every input is read and that every step is needed.

    Raises:
        ValueError: which input or step is not needed.
    """
    read = {v for step in body.steps for v in step.reads}
    idle = [v for v in range(len(body.inputs)) if v not in read]
    if idle:
        raise ValueError(f"no step reads inputs {idle}; leave them out")
    for k, step in enumerate(body.steps):
        if not any(v in read or v in body.outputs for v in step.makes):
            raise ValueError(f"nobody uses what step {k} ({step.definition.operator}) makes; leave it out")
