"""Carried state: the outputs that are next values of a program's parameters, buffers and optimizer state.

If a program does not specify them, they are found by its dataflow. The rule:

* An output is a *candidate* for a state (an input of role parameter, buffer or optimizer_state) of its shape and
  element type if the state is a term of it: additions, subtractions, products with a constant or a scalar, choices,
  clippings and casts, element by element, lead from one to the other (p - lr * g; b * m + (1 - b) * g; max(v, w)),
  or the output is the state after some of its elements were overwritten.
* It must be an *update*: the state's coefficient is not one, or the rest is constant, or the rest depends on the
  state too (as a gradient does), or elements were overwritten. A bias that is added to activations is none.
* Each state takes the output that it is nearest to, the nearest pairs first.
* Parameters change only in a training step: half of them must be updated. Then terms that look like no update count
  too (a gradient may happen not to depend on its parameter). Other states are taken one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Compute, Reshape, Step, StepProgram, inputs_of, outputs_of

STATES = ("parameter", "buffer", "optimizer_state")
# Values looked at for one output: an update is short, a sum of all gradients of a long program need not be.
LONGEST_SEARCH = 1000


class ExpressionTerm(NamedTuple):
    """An input of an expression that is a term of it; `scaled`: its coefficient is not one."""

    position: int
    depth: int
    scaled: bool


class CarriedStateCandidate(NamedTuple):
    """A state that an output may update, `doubtful` without signs of an update; smaller is better."""

    doubtful: bool
    depth: int
    output: str
    state: str


def with_carried_state(program: StepProgram, specified: Mapping[str, str] | None = None) -> StepProgram:
    """Add `carries` to a program: those in `specified` (output -> state), or found by its dataflow if `specified` is
    None.

    The program's own entries stay.

    Raises:
        ImportFailure: `specified` names no output or no input, or shapes or types differ.
    """
    if specified is not None:
        return replace(program, carries={**program.carries, **_checked(program, specified)})
    stated = program.carries
    states = [n for n, e in program.entries.items() if e.role in STATES and n not in stated.values()]
    if not states:
        return program
    candidates = sorted(_candidates(program, states))
    updates = _nearest([c for c in candidates if not c.doubtful])
    parameters = {s for s in states if program.entries[s].role == "parameter"}
    if 2 * len(parameters.intersection(updates.values())) >= len(parameters):
        return replace(program, carries={**stated, **_nearest(candidates)})
    return replace(program, carries={**stated, **{o: s for o, s in updates.items() if s not in parameters}})


def _checked(program: StepProgram, specified: Mapping[str, str]) -> dict[str, str]:
    for output, state in specified.items():
        where = f"{program.name}: output {output!r} is said to be the next value of {state!r}"
        if output not in program.outputs or state not in program.entries:
            missing = "output" if output not in program.outputs else "input"
            raise ImportFailure(f"{where}, but there is no such {missing}")
        old, new = program.entries[state].value, program.values[program.outputs[output]]
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ImportFailure(
                f"{where}, but that is {old.dtype}{list(old.shape)}, not {new.dtype}{list(new.shape)}"
            )
    return dict(specified)


def _nearest(candidates: list[CarriedStateCandidate]) -> dict[str, str]:
    """Match outputs to states (output -> state), the first candidates first, each at most once."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for candidate in candidates:
        if candidate.output not in found and candidate.state not in taken:
            found[candidate.output] = candidate.state
            taken.add(candidate.state)
    return found


def _candidates(program: StepProgram, states: list[str]) -> Iterator[CarriedStateCandidate]:
    producers = {name: step for step in program.steps for name in outputs_of(step)}
    sources = _sources(program)
    kinds = {(program.values[s].shape, program.values[s].dtype) for s in states}
    for output, value in program.outputs.items():
        wanted = program.values[value]
        if output in program.carries or (wanted.shape, wanted.dtype) not in kinds:
            continue
        walk = _walk(program, producers, sources, value)
        for name, (depth, scaled) in walk.reached.items():
            own = program.values[name]
            if name not in states or not depth or (own.shape, own.dtype) != (wanted.shape, wanted.dtype):
                continue
            rest = walk.rest
            for other in walk.reached:
                rest |= sources[other] if other != name else 0
            update = scaled or not rest or rest & sources[name]
            yield CarriedStateCandidate(not update, depth, output, name)


def _sources(program: StepProgram) -> dict[str, int]:
    """Compute for each value the entries it depends on, as a set of bits."""
    sources = {name: 1 << k for k, name in enumerate(program.entries)}
    for step in program.steps:
        bits = 0
        for name in inputs_of(step):
            bits |= sources.get(name, 0)
        for name in outputs_of(step):
            sources[name] = bits
    return sources


class _Walk(NamedTuple):
    """The entries that are terms (depth, and whether scaled or overwritten), and those the other terms depend on."""

    reached: dict[str, tuple[int, bool]]
    rest: int


def _walk(
    program: StepProgram, producers: Mapping[str, Step], sources: Mapping[str, int], output: str
) -> _Walk:
    """Search from an output back along its terms, nearest first."""
    reached: dict[str, tuple[int, bool]] = {}
    rest, seen = 0, {output}
    queue = deque([(output, 0, False)])
    while queue and len(seen) < LONGEST_SEARCH:
        name, depth, updated = queue.popleft()
        if name in program.entries:
            reached.setdefault(name, (depth, updated))
            continue
        step = producers.get(name)
        terms = [] if step is None else list(_terms(program, step))
        for term in terms:
            assert step is not None
            inner = inputs_of(step)[term.position]
            if inner not in seen:
                seen.add(inner)
                queue.append((inner, depth + term.depth, updated or term.scaled))
        others = [] if step is None else inputs_of(step)
        for position, inner in enumerate(others):
            if position not in {t.position for t in terms}:
                rest |= sources.get(inner, 0)
    return _Walk(reached, rest)


def _terms(program: StepProgram, step: Step) -> Iterator[ExpressionTerm]:
    """Yield the inputs of a step that are terms of its output, element by element."""
    if isinstance(step, Reshape):
        yield ExpressionTerm(0, 1, False)
    elif isinstance(step, Compute) and step.operator == "scatter" and step.attributes.get("monoid") == "last":
        yield ExpressionTerm(0, 1, True)
    elif isinstance(step, Compute) and step.operator == "cell":
        scalars = {k for k, n in enumerate(step.inputs) if _is_factor(program, n, step.output)}
        for term in _terms_of(step.attributes["expr"], scalars, 1, False):
            if step.input_labels[term.position] == step.output_labels:
                yield term


def _is_factor(program: StepProgram, name: str, output: str) -> bool:
    """Return whether a value may be multiplied with a state: known, or one number for all elements."""
    return name in program.literals or program.values[name].size == 1 < program.values[output].size


def _terms_of(expr: Any, scalars: set[int], depth: int, scaled: bool) -> Iterator[ExpressionTerm]:
    name, *parts = expr
    if name == "input":
        yield ExpressionTerm(parts[0], depth, scaled)
    elif name in ("add", "sub", "min", "max"):
        yield from _all_terms(parts, scalars, depth + 1, scaled)
    elif name in ("neg", "identity"):
        yield from _terms_of(parts[0], scalars, depth + 1, scaled or name == "neg")
    elif name == "cast":
        yield from _terms_of(parts[1], scalars, depth + 1, scaled)
    elif name == "where":
        yield from _all_terms(parts[1:], scalars, depth + 1, scaled)
    elif name == "mul":
        for one, other in (parts, parts[::-1]):
            if _is_number(other, scalars):
                yield from _terms_of(one, scalars, depth + 1, True)
    elif name == "div" and _is_number(parts[1], scalars):
        yield from _terms_of(parts[0], scalars, depth + 1, True)


def _all_terms(parts: list[Any], scalars: set[int], depth: int, scaled: bool) -> Iterator[ExpressionTerm]:
    for part in parts:
        yield from _terms_of(part, scalars, depth, scaled)


def _is_number(expr: Any, scalars: set[int]) -> bool:
    """Return whether an expression is one number, or known."""
    if expr[0] == "input":
        return expr[1] in scalars
    return expr[0] == "const" or (
        expr[0] != "index" and all(_is_number(p, scalars) for p in expr[1:] if isinstance(p, tuple))
    )
