"""The goal of a search in arrays: its objectives and bounds as forms of a plan's integer costs, all in numba.

A form is a constant and a weighted sum of the costs or, where that does not do, a postfix program over them
(`costmodel.expressions`), run for every plan by a small stack machine: what is not linear needs no Python in the
loop either, and behaves alike in every worker process.

A bound may be relative: a share of the least value that the run has found in its cost so far (`best`), by a plan that
keeps all absolute bounds. When a plan improves on that, the front is filtered before the plan is inserted, so that
none leaves it that still keeps the bound, and the plan that set it finds its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.expressions import (
    ADD,
    DIVIDE,
    LARGEST_COST,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    POWER,
    PUSH_COLUMN,
    PUSH_CONSTANT,
    SUBTRACT,
    Term,
    affine_weights,
    postfix,
    stack_depth,
)
from tapestry.optimizer.archive.archive import _move, insert, insert_infeasible

LEAST_OFFSET = 1e-12


class Goal(NamedTuple):
    """The minimized objectives, then the absolute bounds, then the relative ones: `forms` of a plan's integer costs.

    A form's program is `program[program_start[f]:program_start[f + 1]]`; an empty one means that its constant
    and weights count.
    """

    weights: np.ndarray  # (forms, columns)
    constants: np.ndarray  # (forms,): added to the weighted sums
    term_start: np.ndarray  # (forms + 1,): a form's weights that are not zero, by column
    term_column: np.ndarray
    term_weight: np.ndarray
    program_start: np.ndarray  # (forms + 1,)
    program: np.ndarray  # (steps, 2): code and operand of costmodel.expressions
    stack: np.ndarray  # work space of the programs
    epsilon: np.ndarray  # (objectives,)
    offset: np.ndarray  # (objectives,): about the least amount by which an objective can differ
    bounds: np.ndarray  # (absolute bounds,)
    shares: np.ndarray  # (relative bounds,): of the best value, from 1 up
    best: np.ndarray  # (relative bounds,): least value so far, infinite before any

    def own_best(self) -> Goal:
        """Return a copy that notes improvements for itself."""
        return self._replace(best=self.best.copy(), stack=self.stack.copy())


def new_goal(
    objectives: Sequence[Term],
    bounds: Sequence[tuple[Term, float]],
    shares: Sequence[tuple[Term, float]],
    columns: Sequence[str],
    epsilon: float,
) -> Goal:
    """Build a goal from terms over `columns`: objectives, bounds with their values, relative ones with their shares."""
    terms = [*objectives, *(term for term, _ in bounds), *(term for term, _ in shares)]
    weights, constants = np.zeros((len(terms), len(columns))), np.zeros(len(terms))
    programs: list[list[tuple[int, float]]] = []
    for f, term in enumerate(terms):
        constant, linear = affine_weights(term) or (-1.0, {})
        if not is_sum(term):
            programs.append(postfix(term, columns))
            continue
        programs.append([])
        constants[f] = constant
        for name, weight in linear.items():
            weights[f, columns.index(name)] = weight
    steps = [step for program in programs for step in program]
    least = np.where(weights > 0, weights, np.inf).min(axis=1, initial=np.inf)[: len(objectives)]
    forms, used = np.nonzero(weights)
    return Goal(
        weights,
        constants,
        np.searchsorted(forms, np.arange(len(terms) + 1)).astype(np.int64),
        used.astype(np.int64),
        weights[forms, used],
        np.cumsum([0, *map(len, programs)], dtype=np.int64),
        np.array(steps, dtype=np.float64).reshape(len(steps), 2),
        np.zeros(max(map(stack_depth, programs), default=0)),
        np.full(len(objectives), epsilon),
        np.where(np.isfinite(least), np.clip(least, LEAST_OFFSET, 1.0), LEAST_OFFSET),
        np.array([bound for _, bound in bounds], dtype=np.float64),
        np.array([share for _, share in shares], dtype=np.float64),
        np.full(len(shares), np.inf),
    )


def is_sum(term: Term) -> bool:
    """Return whether a term is a constant and a weighted sum of costs, none of them negative."""
    constant, linear = affine_weights(term) or (-1.0, {})
    return all(0 <= value <= LARGEST_COST for value in (constant, *linear.values()))


def narrowed(goal: Goal, objectives: Sequence[int], limits: Sequence[tuple[int, float]] = ()) -> Goal:
    """Return a goal of some of the objectives, by number, that bounds others absolutely, beside the bounds there are.

    It notes improvements for itself.
    """
    first, bounds = len(goal.epsilon), len(goal.bounds)
    absolute, relative = (
        range(first, first + bounds),
        range(first + bounds, len(goal.weights)),
    )
    forms = [*objectives, *absolute, *(limited for limited, _ in limits), *relative]
    weights = goal.weights[forms]
    rows, used = np.nonzero(weights)
    starts = zip(goal.program_start[forms], goal.program_start[1:][forms], strict=True)
    programs = [goal.program[start:end] for start, end in starts]
    chosen = list(objectives)
    return goal.own_best()._replace(
        weights=weights,
        constants=goal.constants[forms],
        term_start=np.searchsorted(rows, np.arange(len(forms) + 1)).astype(np.int64),
        term_column=used.astype(np.int64),
        term_weight=weights[rows, used],
        program_start=np.cumsum([0, *map(len, programs)], dtype=np.int64),
        program=np.concatenate(programs),
        epsilon=goal.epsilon[chosen],
        offset=goal.offset[chosen],
        bounds=np.concatenate([goal.bounds, [bound for _, bound in limits]]),
    )


@njit(_nrt=False)
def _run(goal, form, raw):
    """Run a form's postfix program on a plan's costs; the value is at least 0 and at most LARGEST_COST."""
    stack, top = goal.stack, 0
    for i in range(goal.program_start[form], goal.program_start[form + 1]):
        code, operand = np.int64(goal.program[i, 0]), goal.program[i, 1]
        if code == PUSH_CONSTANT:
            stack[top] = operand
            top += 1
            continue
        if code == PUSH_COLUMN:
            stack[top] = raw[np.int64(operand)]
            top += 1
            continue
        top -= 1
        a, b = stack[top - 1], stack[top]
        if code == ADD:
            a += b
        elif code == SUBTRACT:
            a -= b
        elif code == MULTIPLY:
            a *= b
        elif code == DIVIDE:
            a = a / b if b != 0.0 else np.inf
        elif code == POWER:
            a = a**b
        elif code == MINIMUM:
            a = min(a, b)
        elif code == MAXIMUM:
            a = max(a, b)
        stack[top - 1] = a
    value = stack[0]
    if not value <= LARGEST_COST:
        return LARGEST_COST
    return max(value, 0.0)


@njit(_nrt=False)
def _form(goal, form, raw):
    """Compute the value of a form."""
    if goal.program_start[form] < goal.program_start[form + 1]:
        return _run(goal, form, raw)
    total = goal.constants[form]
    for i in range(goal.term_start[form], goal.term_start[form + 1]):
        total += goal.term_weight[i] * raw[goal.term_column[i]]
    return total


@njit(_nrt=False)
def _excess(value, bound):
    """Compute by how much a value exceeds a bound, relative to it; for a bound of zero, one plus the value."""
    if value <= bound:
        return 0.0
    return value / bound - 1.0 if bound > 0 else 1.0 + value


@njit(_nrt=False)
def objective_values(goal, raw, value):
    """Fill `value` with the objectives; return by how much the bounds are broken (0: feasible)."""
    objectives, bounds = goal.epsilon.shape[0], goal.bounds.shape[0]
    for j in range(objectives):
        value[j] = _form(goal, j, raw)
    violation = 0.0
    for b in range(bounds):
        violation += _excess(_form(goal, objectives + b, raw), goal.bounds[b])
    for b in range(goal.shares.shape[0]):
        if goal.best[b] < np.inf:
            found = _form(goal, objectives + bounds + b, raw)
            violation += _excess(found, goal.best[b] * goal.shares[b])
    return violation


@njit(_nrt=False)
def _note_best(goal, raw):
    """Note the plan's values where they are the best so far and it keeps the absolute bounds; return True if any is."""
    first = goal.epsilon.shape[0]
    bounds = goal.bounds.shape[0]
    for b in range(bounds):
        if _form(goal, first + b, raw) > goal.bounds[b]:
            return False
    improved = False
    for b in range(goal.shares.shape[0]):
        found = _form(goal, first + bounds + b, raw)
        if found < goal.best[b]:
            goal.best[b] = found
            improved = True
    return improved


@njit()
def insert_one(archive, goal, raw, value, genes, prefetch, regather, digest):
    """Evaluate a costed plan's objectives and insert it in the front or the pool; return True for the front."""
    if goal.shares.shape[0] > 0 and _note_best(goal, raw):
        refilter(archive, goal)
    violation = objective_values(goal, raw, value)
    if violation > 0.0:
        insert_infeasible(archive, violation, raw, genes, prefetch, regather, digest)
        return False
    return insert(archive, value, goal.epsilon, raw, genes, prefetch, regather, digest)


@njit()
def insert_plans_of(target, source, goal):
    """Insert all plans of another archive, measured by this goal; return how many entered the front."""
    value, entered = np.empty(goal.epsilon.shape[0]), 0
    for i in range(source.size[0]):
        if insert_one(
            target,
            goal,
            source.raw[i],
            value,
            source.genes[i],
            source.prefetch[i],
            source.regather[i],
            source.digest[i],
        ):
            target.trail[target.size[0] - 1] = source.trail[i]
            entered += 1
    for i in range(source.size[1]):
        entered += insert_one(
            target,
            goal,
            source.pool_raw[i],
            value,
            source.pool_genes[i],
            source.pool_prefetch[i],
            source.pool_regather[i],
            source.pool_digest[i],
        )
    return entered


@njit()
def refilter(archive, goal):
    """Move the front's plans that break a bound to the pool, and measure those of the pool again."""
    value = np.empty(goal.epsilon.shape[0])
    for i in range(archive.size[1]):
        archive.pool_violation[i] = objective_values(goal, archive.pool_raw[i], value)
    kept = 0
    for i in range(archive.size[0]):
        violation = objective_values(goal, archive.raw[i], value)
        if violation > 0.0:
            insert_infeasible(
                archive,
                violation,
                archive.raw[i],
                archive.genes[i],
                archive.prefetch[i],
                archive.regather[i],
                archive.digest[i],
            )
            continue
        if kept != i:
            _move(archive, i, kept)
        kept += 1
    archive.size[0] = kept


@njit(_nrt=False, inline="always")
def score(goal, violation, value):
    """Compute what a descent or a best response lowers: the product of the objectives; broken bounds come first."""
    total = 1e3 * violation
    for j in range(value.shape[0]):
        total += np.log(value[j] + goal.offset[j])
    return total


@njit(_nrt=False)
def measure(goal, raw, value):
    """Fill `value` with the objectives of integer costs; return by how much bounds are broken, and the score."""
    violation = objective_values(goal, raw, value)
    return violation, score(goal, violation, value)
