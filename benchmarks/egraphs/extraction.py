"""Extraction of a program from an e-graph: egglog's greedy extraction, and an acyclic integer program over all of it.

The integer program is tensat's (Yang et al., Equality Saturation for Tensor Graph Superoptimization, MLSys 2021,
section 4.2): one binary variable per e-node; the root is produced, the operands of every chosen e-node are produced,
and levels rise from operands to readers. Levels are required inside the strongly connected components of the
e-classes only: elsewhere there is no cycle to forbid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from egglog.bindings import CostModel, EGraph, Extractor, FrozenEGraph, TermApp, TermDag, UserDefined, Value
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Cost = Callable[[int], int]

# How often an integer program is tried until it had its CPU time, and the share of it that will do.
ATTEMPTS, ENOUGH = 3, 0.97


class Chosen(NamedTuple):
    """A program as e-nodes: kinds by number and operands by position; operands come first, the root last."""

    kinds: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]

    def total(self, cost: Cost) -> int:
        """Compute the additive cost, with every e-node counted once."""
        return sum(cost(kind) for kind in self.kinds)


class EClasses(NamedTuple):
    """An e-graph as arrays: the kind, the class and the operands' classes of each e-node; `root` is a class."""

    kinds: list[int]
    owner: list[int]
    operands: list[tuple[int, ...]]
    root: int

    def members(self) -> list[list[int]]:
        """Return the e-nodes of every class."""
        result: list[list[int]] = [[] for _ in range(max(self.owner) + 1)]
        for node, of in enumerate(self.owner):
            result[of].append(node)
        return result


class Solution(NamedTuple):
    """The result of the integer program: a program (None if none in time), the solver's status and its relative gap.

    `cpu_s` is the CPU time of building and solving it, without solver runs that were cut short.
    """

    chosen: Chosen | None
    status: str
    gap: float | None
    variables: int
    constraints: int
    cpu_s: float


def classes_of(egraph: EGraph, frozen: FrozenEGraph, root: str) -> EClasses:
    """Collect the e-nodes that the root can reach."""
    numbers: dict[Value, int] = {}
    rows: list[list[tuple[int, tuple[Value, ...]]]] = []
    top = None
    for name, function in frozen.functions.items():
        if function.is_let_binding:
            if name == root:
                top = function.rows[0].output
        elif function.output_sort == "T":
            for row in function.rows:
                of = numbers.setdefault(row.output, len(numbers))
                if of == len(rows):
                    rows.append([])
                rows[of].append((egraph.value_to_i64(row.inputs[0]), tuple(row.inputs[1:])))
    if top is None:
        raise ValueError(f"the e-graph has no term called {root!r}")
    kinds: list[int] = []
    owner: list[int] = []
    operands: list[tuple[int, ...]] = []
    reached = {numbers[top]: 0}
    waiting = [numbers[top]]
    while waiting:
        of = waiting.pop()
        for kind, values in rows[of]:
            places = []
            for value in values:
                number = numbers[value]
                if number not in reached:
                    reached[number] = len(reached)
                    waiting.append(number)
                places.append(reached[number])
            kinds.append(kind)
            owner.append(reached[of])
            operands.append(tuple(places))
    return EClasses(kinds, owner, operands, 0)


def greedy(egraph: EGraph, root: str, cost: Cost) -> Chosen:
    """Extract with egglog's own extraction by the cost of trees: a shared term counts as often as it is read."""
    model: Any = CostModel(
        lambda _, own, operands: own + sum(operands),
        lambda _, arguments: cost(egraph.value_to_i64(arguments[0])) if arguments else 0,
        lambda _, __, parts: sum(parts),
        lambda _, __: 0,
    )
    (command,) = egraph.parse_program(f"(extract {root})")
    assert isinstance(command, UserDefined)
    _, value = egraph.eval_expr(command.args[0])
    dag = TermDag()
    extractor: Any = Extractor(["T"], egraph, model)
    _, term = extractor.extract_best(egraph, dag, value, "T")
    return _chosen_terms(dag, term)


def _chosen_terms(dag: TermDag, root: int) -> Chosen:
    def look(term: int) -> tuple[int, tuple[int, ...]]:
        app = dag.get(term)
        assert isinstance(app, TermApp)
        kind: Any = dag.get(app.args[0])
        return kind.value.value, tuple(app.args[1:])

    return _in_order(root, look)


def _in_order(root: int, look: Callable[[int], tuple[int, tuple[int, ...]]]) -> Chosen:
    """Order the nodes that the root needs, depth first, operands before readers."""
    places: dict[int, int] = {}
    kinds: list[int] = []
    operands: list[tuple[int, ...]] = []
    waiting = [root]
    while waiting:
        name = waiting[-1]
        kind, parts = look(name)
        missing = [p for p in parts if p not in places]
        if name in places or not missing:
            waiting.pop()
            if name not in places:
                places[name] = len(kinds)
                kinds.append(kind)
                operands.append(tuple(places[p] for p in parts))
        else:
            waiting.extend(reversed(missing))
    return Chosen(tuple(kinds), tuple(operands))


def reduced(classes: EClasses, cost: Cost, most: int) -> EClasses:
    """Keep the e-nodes that a program of cost `most` or less may hold, without those never better than another one.

    Whatever needs an e-node costs at least the dearest chain of operands below it. An e-node is never worse than
    a dearer one of its class that reads all it reads.
    """
    own = [cost(k) for k in classes.kinds]
    least = _least_chains(classes, own)
    kept = [
        n for n, o in enumerate(classes.operands) if own[n] + max((least[c] for c in o), default=0) <= most
    ]
    by_class: dict[int, list[int]] = {}
    for n in sorted(kept, key=lambda n: (own[n], len(set(classes.operands[n])), n)):
        rivals = by_class.setdefault(classes.owner[n], [])
        if not any(set(classes.operands[r]) <= set(classes.operands[n]) for r in rivals):
            rivals.append(n)
    return _reachable(classes, by_class)


def _least_chains(classes: EClasses, own: Sequence[int]) -> list[float]:
    """Compute for each class a lower bound on the cost of any program that produces it."""
    least = [np.inf] * (max(classes.owner) + 1)
    readers: dict[int, list[int]] = {}
    for n, operands in enumerate(classes.operands):
        for c in set(operands):
            readers.setdefault(c, []).append(n)
    waiting = [(float(own[n]), n) for n, o in enumerate(classes.operands) if not o]
    heapify(waiting)
    open_operands = [len(set(o)) for o in classes.operands]
    while waiting:
        value, n = heappop(waiting)
        of = classes.owner[n]
        if least[of] < np.inf:
            continue
        least[of] = value
        for r in readers.get(of, ()):
            open_operands[r] -= 1
            if open_operands[r] == 0:
                heappush(waiting, (own[r] + max(least[c] for c in classes.operands[r]), r))
    return least


def _reachable(classes: EClasses, members: Mapping[int, Sequence[int]]) -> EClasses:
    """Return the classes that the root reaches through these e-nodes."""
    numbers = {classes.root: 0}
    waiting = [classes.root]
    kinds: list[int] = []
    owner: list[int] = []
    operands: list[tuple[int, ...]] = []
    while waiting:
        of = waiting.pop()
        for n in members.get(of, ()):
            for c in classes.operands[n]:
                if c not in numbers:
                    numbers[c] = len(numbers)
                    waiting.append(c)
            kinds.append(classes.kinds[n])
            owner.append(numbers[of])
            operands.append(tuple(numbers[c] for c in classes.operands[n]))
    return EClasses(kinds, owner, operands, 0)


def optimal(classes: EClasses, cost: Cost, seconds: float, most: int) -> Solution:
    """Find the cheapest acyclic program, every e-node counted once, as far as HiGHS gets in `seconds` CPU seconds.

    `most` is the cost of a program that is known: dearer ones are not looked for.
    """
    began = time.process_time()
    classes = reduced(classes, cost, most)
    nodes, count = len(classes.kinds), max(classes.owner) + 1
    inside = _components(classes)
    depth = float(max(np.bincount(inside)))
    own = np.array([cost(k) for k in classes.kinds], dtype=np.float64)
    scale = max(own.max(), 1.0) / 1e4
    matrix, lower = _constraints(classes, inside, depth)
    built_s = time.process_time() - began
    found, solved_s = _solved(
        seconds,
        c=np.concatenate([own / scale, np.zeros(2 * count)]),
        constraints=LinearConstraint(matrix, lower, np.inf),
        integrality=np.concatenate([np.ones(nodes), np.zeros(2 * count)]),
        bounds=Bounds(0, np.concatenate([np.ones(nodes + count), np.full(count, depth)])),
    )
    members = classes.members()
    chosen = None if found.x is None else _chosen_nodes(classes, members, found.x[:nodes] > 0.5)
    status = {0: "optimal", 1: "time limit", 2: "infeasible"}.get(found.status, found.message)
    gap = None if found.x is None else float(found.mip_gap)
    return Solution(chosen, status, gap, nodes, len(lower), built_s + solved_s)


def _solved(seconds: float, **model: Any) -> tuple[Any, float]:
    """Solve the model with HiGHS for at least `seconds` CPU seconds; return its answer and the CPU seconds taken.

    HiGHS's own limit is by the clock. Where other work kept it from the core it begins anew, with a longer limit.
    """
    clock_s = seconds
    for _ in range(ATTEMPTS):
        began = time.process_time()
        found = milp(**model, options={"time_limit": clock_s, "mip_rel_gap": 0.0})
        cpu_s = time.process_time() - began
        if found.status != 1 or cpu_s >= ENOUGH * seconds:
            break
        clock_s *= 1.1 * seconds / max(cpu_s, 0.1 * seconds)
    return found, cpu_s


def _constraints(classes: EClasses, inside: np.ndarray, depth: float) -> tuple[coo_array, np.ndarray]:
    """Build the rows of `matrix @ (e-nodes, classes, levels) >= lower`.

    A class is made by exactly one of its e-nodes, so all of them that read a class together need it at most once:
    one row per pair of classes says so, which bounds tighter than one per e-node.
    """
    nodes, count = len(classes.kinds), max(classes.owner) + 1
    rows: list[list[tuple[int, float]]] = []
    lower: list[float] = []
    readers: dict[tuple[int, int], list[int]] = {}
    for node, (of, operands) in enumerate(zip(classes.owner, classes.operands, strict=True)):
        for operand in dict.fromkeys(operands):
            readers.setdefault((of, operand), []).append(node)
    for (of, operand), reading in readers.items():
        if operand == of:
            rows.append([(n, -1.0) for n in reading])
            lower.append(0.0)
            continue
        rows.append([(nodes + operand, 1.0), *((n, -1.0) for n in reading)])
        lower.append(0.0)
        if inside[operand] == inside[of]:
            levels = [(nodes + count + of, 1.0), (nodes + count + operand, -1.0)]
            rows.append([*levels, *((n, -(depth + 1.0)) for n in reading)])
            lower.append(-depth)
    for of, making in enumerate(classes.members()):
        rows.append([*((n, 1.0) for n in making), (nodes + of, -1.0)])
        rows.append([*((n, -1.0) for n in making), (nodes + of, 1.0)])
        lower += [0.0, 0.0]
    rows.append([(nodes + classes.root, 1.0)])
    lower.append(1.0)
    return _matrix(rows, nodes + 2 * count), np.array(lower)


def _components(classes: EClasses) -> np.ndarray:
    """Compute the strongly connected component of each class."""
    edges = [(of, o) for of, operands in zip(classes.owner, classes.operands, strict=True) for o in operands]
    count = max(classes.owner) + 1
    start, end = np.array(edges or [(0, 0)]).T
    graph = coo_array((np.ones(len(start)), (start, end)), shape=(count, count))
    return np.asarray(connected_components(graph, connection="strong")[1])


def _matrix(rows: Sequence[Sequence[tuple[int, float]]], width: int) -> coo_array:
    row = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    column = np.array([c for r in rows for c, _ in r])
    value = np.array([v for r in rows for _, v in r])
    return coo_array((value, (row, column)), shape=(len(rows), width)).tocsr()


def _chosen_nodes(classes: EClasses, members: Sequence[Sequence[int]], taken: np.ndarray) -> Chosen:
    def look(of: int) -> tuple[int, tuple[int, ...]]:
        node = next(n for n in members[of] if taken[n])
        return classes.kinds[node], classes.operands[node]

    return _in_order(classes.root, look)
