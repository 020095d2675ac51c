"""The search: islands over variants, one coordinator, one executor.

Rounds are synchronous. In a round every island runs an epoch on one variant; meanwhile the coordinator
tries a structural move. Everything a round does follows from the seed, the number of islands and the
evaluations so far, so a run is reproduced by its reported evaluations on any executor.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from costmodel.objectives import require_objectives
from costmodel.view import default_view
from hardware.mesh import Mesh
from optimizer.constraints import Constraint, all_constraints
from optimizer.fronts import hypervolume, merge, nondominated, weigh_parents
from optimizer.island import new_statistics
from optimizer.plan import Budget, Progress, Result, Shortfall
from optimizer.report import costs_of, goal_of, plan_of
from optimizer.rules import choose_rules
from optimizer.stream import new_stream
from optimizer.structure import StructuralSearch, try_child
from optimizer.variants import Settings, load_compiled, Variant, new_variant, plant, plant_seeds
from optimizer.variation import RULES as PLACEMENT_RULES
from optimizer.workers import Epoch, EpochResult, InlineExecutor, VariantFile, run, write_variant
from teg.graph import Graph
from teg.sharding.mesh import MeshShape
from teg.validate import check

DEFAULT_OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
EPSILON = 0.005
LARGEST_FRONTIER = 64
STRUCTURAL_SLOTS = 256
LARGEST_VARIANTS = 4
STALE_ROUNDS = 24
LEAST_GAIN = 1e-4
RULE_WEIGHT = np.array([2.0, 3.0, 1.5, 2.0, 2.0, 1.0, 1.0, 1.0, 0.4])


def optimize(
    graph: Graph,
    mesh: Mesh,
    objectives: Sequence[str] = DEFAULT_OBJECTIVES,
    *,
    budget: Budget,
    seed: int = 0,
    constraints: Sequence[str | Constraint] = (),
    islands: int | None = None,
    executor: Executor | None = None,
    rules: Sequence[str] | None = None,
    pins: Mapping[str, str] | None = None,
    compute_dtype: str | None = None,
    search: bool = True,
    seeds: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Result:
    """Search the plans of `graph` on `mesh`; returns the frontier over `objectives`.

    Deterministic in `seed`, `islands` and the evaluations done; `budget.seconds` counts the search alone
    and stops between epochs. `search=False` returns the seeds' frontier, `seeds=False` starts from the
    abstract plan alone. Ctrl-C keeps the frontier found (`stopped` is "interrupted").

    Raises:
        ValueError: an unknown objective, constraint, rule or pin, or an objective the device lacks data for.
        InvalidGraph: the graph breaks a rule of the language.
    """
    check(graph)
    chosen = require_objectives(objectives, mesh.device)
    bounds = all_constraints(constraints, mesh)
    for bound in bounds:
        require_objectives([bound.objective], mesh.device)
    _known_pins(graph, pins or {})
    settings = Settings(
        mesh,
        default_view(MeshShape(mesh.axis_sizes)),
        goal_of(chosen, bounds, mesh, EPSILON),
        compute_dtype=compute_dtype,
        pins=dict(pins or {}),
    )
    count = islands if islands is not None else os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="tapestry-") as folder:
        run = _Search(
            graph, settings, count, seed, StructuralSearch(choose_rules(rules)), Path(folder), on_progress
        )
        run.start(seeds)
        if search:
            own = None
            if executor is None and count > 1:
                own = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
            try:
                run.loop(budget, executor or own or InlineExecutor(), should_stop or (lambda: False))
            finally:
                if own is not None:
                    own.shutdown(wait=False, cancel_futures=True)
        return run.result(graph, mesh, chosen, bounds, seed)


def _known_pins(graph: Graph, pins: Mapping[str, str]) -> None:
    for site in pins:
        if site not in graph.by_site:
            raise ValueError(f"pin {site!r}: the graph has no block of that site")
        if graph.by_site[site].operator == "view":
            raise ValueError(f"pin {site!r}: a view has no placement; pin the block it views")


@dataclass
class _Search:
    graph: Graph
    settings: Settings
    islands: int
    seed: int
    structural: StructuralSearch
    folder: Path
    on_progress: Callable[[Progress], None] | None
    variants: list[Variant] = field(default_factory=list)
    files: dict[int, VariantFile] = field(default_factory=dict)
    evaluations: int = 0
    rounds: int = 0
    compiled_s: float = 0.0
    searched_s: float = 0.0
    seeded_s: float = 0.0
    stopped: str = "seeds"
    history: list[Progress] = field(default_factory=list)
    reference: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.statistics = new_statistics()

    def start(self, seeds: bool) -> None:
        """Compile the graph as given and as simplified, and plant the seeds."""
        began = time.perf_counter()
        self._report("compiling", 0.0)
        simple, moves = self.structural.simplified(self.graph)
        self.structural.known.update({self.graph.structural_hash, simple.structural_hash})
        starts = [(self.graph, ())] if not moves else [(simple, moves), (self.graph, ())]
        for graph, history in starts:
            self._admit(new_variant(len(self.variants), graph, history, self.settings))
        self.compiled_s = time.perf_counter() - began
        began = time.perf_counter()
        for variant in self.variants:
            if seeds:
                self.evaluations += plant_seeds(variant, self.settings.goal)
            else:
                abstract = variant.space.abstract_genes().strategies[None, :]
                self.evaluations += plant(variant, self.settings.goal, abstract)
            weigh_parents(variant.archive)
        self.seeded_s = time.perf_counter() - began

    def _admit(self, variant: Variant) -> None:
        self.variants.append(variant)
        token = f"{self.folder.name}-{variant.number}"
        self.files[variant.number] = write_variant(self.folder, token, variant.space.space, variant.search)

    def loop(self, budget: Budget, executor: Executor, should_stop: Callable[[], bool]) -> None:
        """Rounds until the budget is spent, the front stands still, or somebody asks to stop."""
        self._warm_up(executor)
        began = time.perf_counter()
        stale, last = 0, 0.0
        self.stopped = "budget"
        try:
            while True:
                self.searched_s = time.perf_counter() - began
                left = None if budget.evaluations is None else budget.evaluations - self.evaluations
                if (left is not None and left <= 0) or (
                    budget.seconds is not None and self.searched_s >= budget.seconds
                ):
                    break
                if should_stop():
                    self.stopped = "cancelled"
                    break
                self._round(executor, left)
                volume = self._progress(budget)
                stale = stale + 1 if volume - last <= LEAST_GAIN * max(last, 1e-12) else 0
                last = max(last, volume)
                if stale >= STALE_ROUNDS:
                    self.stopped = "converged"
                    break
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        self.searched_s = time.perf_counter() - began

    def _warm_up(self, executor: Executor) -> None:
        """Load compiled code in this process, then in the workers, before the clock starts."""
        began = time.perf_counter()
        first = self.variants[0]
        empty = self._epoch(first, 0)
        run(empty)
        load_compiled(first, self.settings.goal)
        for future in [executor.submit(run, empty) for _ in range(self.islands)]:
            future.result()
        self.compiled_s += time.perf_counter() - began

    def _epoch(self, variant: Variant, evaluations: int) -> Epoch:
        return Epoch(
            self.files[variant.number],
            variant.archive,
            self.settings.goal,
            RULE_WEIGHT,
            new_stream(self.rng),
            evaluations,
        )

    def _round(self, executor: Executor, left: int | None) -> None:
        chosen = [self._choose_variant() for _ in range(self.islands)]
        tasks: list[tuple[Variant, Epoch]] = []
        for variant in chosen:
            amount = epoch_evaluations(variant)
            if left is not None:
                amount = min(amount, left - sum(t.evaluations for _, t in tasks))
            if amount > 0:
                tasks.append((variant, self._epoch(variant, amount)))
        futures = [executor.submit(run, task) for _, task in tasks]
        child = None
        if self.rounds % structural_period(self.variants[0]) == 0:
            child = self._structural_move(left, sum(t.evaluations for _, t in tasks))
        for (variant, _), future in zip(tasks, futures, strict=True):
            self._take_in(variant, future.result())
        if child is not None:
            self._consider(*child)
        for variant in self.variants:
            weigh_parents(variant.archive)
        self.rounds += 1

    def _take_in(self, variant: Variant, result: EpochResult) -> None:
        merge(variant.archive, result.archive, self.settings.goal.epsilon)
        self.evaluations += result.evaluations
        self.statistics.applied[:] += result.statistics.applied
        self.statistics.improved[:] += result.statistics.improved

    def _choose_variant(self) -> Variant:
        """Variants in proportion to what they hold of the common front, each at least now and then."""
        share = np.array([1.0 + 2.0 * s for s in self._shares()])
        return self.variants[int(self.rng.choice(len(self.variants), p=share / share.sum()))]

    def _shares(self) -> list[int]:
        values, owner = self._all_values()
        mask = nondominated(values)
        return [int((mask & (owner == k)).sum()) for k in range(len(self.variants))]

    def _all_values(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [v.archive.value[: int(v.archive.size[0])] for v in self.variants]
        owner = np.concatenate([np.full(len(p), k) for k, p in enumerate(parts)])
        return np.concatenate(parts), owner

    def _structural_move(self, left: int | None, planned: int) -> tuple[Variant, str] | None:
        if left is not None and left - planned <= 0:
            return None
        number = max(v.number for v in self.variants) + 1
        parent = self._choose_variant()
        child, rule, spent = try_child(self.structural, parent, number, self.settings, self.rng)
        self.evaluations += spent
        return None if child is None else (child, rule)

    def _consider(self, child: Variant, rule: str) -> None:
        """Keep a child that adds to the common front; the least useful variant makes room."""
        values, _ = self._all_values()
        n = int(child.archive.size[0])
        both = np.concatenate([values, child.archive.value[:n]])
        if n == 0 or not nondominated(both)[len(values) :].any():
            return
        self.structural.improved[rule] += 1
        self._admit(child)
        if len(self.variants) > LARGEST_VARIANTS:
            shares = self._shares()
            weakest = min(range(len(self.variants) - 1), key=lambda k: (shares[k], -k))
            if shares[weakest] == 0:
                del self.variants[weakest]

    def _progress(self, budget: Budget) -> float:
        values, _ = self._all_values()
        if self.reference is None:
            if len(values) == 0:
                return 0.0
            self.reference = values.max(axis=0) * 1.1 + 1e-9
        volume = hypervolume(values, self.reference)
        done = max(
            self.searched_s / budget.seconds if budget.seconds else 0.0,
            self.evaluations / budget.evaluations if budget.evaluations else 0.0,
        )
        self._report("searching", volume, min(done, 1.0), values)
        return volume

    def _report(
        self, phase: str, volume: float, fraction: float = 0.0, values: np.ndarray | None = None
    ) -> None:
        best: dict[str, float] = {}
        if values is not None and len(values):
            best = {str(k): float(v) for k, v in enumerate(values.min(axis=0))}
        size = 0 if values is None else int(nondominated(values).sum())
        report = Progress(phase, self.searched_s, self.evaluations, size, volume, best, fraction)
        if phase == "searching":
            self.history.append(report)
        if self.on_progress is not None:
            self.on_progress(report)

    def result(self, graph: Graph, mesh: Mesh, objectives, constraints, seed: int) -> Result:
        """The common front, thinned evenly to a readable size with its extremes, as plans."""
        began = time.perf_counter()
        members = [(k, i) for k, v in enumerate(self.variants) for i in range(int(v.archive.size[0]))]
        values, _ = self._all_values()
        kept = thin(values, LARGEST_FRONTIER)
        plans = [plan_of(self.variants[members[r][0]], members[r][1], mesh, constraints) for r in kept]
        rules = {name: (int(a), int(b)) for name, a, b in zip(PLACEMENT_RULES, *self.statistics, strict=True)}
        rules |= {n: (a, self.structural.improved[n]) for n, a in self.structural.applied.items() if a}
        timings = {
            "compile_s": self.compiled_s,
            "seeds_s": self.seeded_s,
            "search_s": self.searched_s,
            "report_s": time.perf_counter() - began,
        }
        return Result(
            graph,
            mesh,
            objectives,
            constraints,
            tuple(plans),
            self.evaluations,
            self.searched_s,
            seed,
            self.islands,
            self.stopped,
            timings,
            rules,
            tuple(self.history),
            None if plans else self._shortfall(mesh, constraints),
        )

    def _shortfall(self, mesh: Mesh, constraints: Sequence[Constraint]) -> Shortfall | None:
        """The nearest infeasible plan and the bound it breaks most."""
        best: tuple[float, Variant, int] | None = None
        for v in self.variants:
            for i in range(int(v.archive.size[1])):
                found = (float(v.archive.pool_violation[i]), v, i)
                best = found if best is None or found[0] < best[0] else best
        if best is None:
            return None
        _, variant, i = best
        archive = variant.archive
        for target, source in (
            (archive.genes, archive.pool_genes),
            (archive.prefetch, archive.pool_prefetch),
            (archive.regather, archive.pool_regather),
            (archive.raw, archive.pool_raw),
        ):
            target[0] = source[i]
        cost = costs_of(archive.raw[0], mesh)
        worst = max(constraints, key=lambda c: cost[c.objective] / c.bound if c.bound else np.inf)
        return Shortfall(worst, cost[worst.objective], plan_of(variant, 0, mesh, constraints))


def structural_period(variant: Variant) -> int:
    """Rounds between structural moves: compiling a large graph takes about as long as several epochs."""
    return 2 + len(variant.space.slots) // STRUCTURAL_SLOTS


def epoch_evaluations(variant: Variant) -> int:
    """Evaluations of an epoch, about half a second's worth: a function of the space alone."""
    slots, classes = len(variant.space.slots), len(variant.space.space.classes)
    estimate_ns = 8000 + slots * (16 + 3 * classes)
    return int(np.clip(0.4e9 / estimate_ns, 256, 16384))


def thin(values: np.ndarray, limit: int) -> list[int]:
    """Rows of the non-dominated front, at most `limit`: extremes first, then the most isolated ones."""
    rows = np.flatnonzero(nondominated(values))
    if len(rows) <= limit:
        return sorted(rows.tolist(), key=lambda r: tuple(values[r]))
    scaled = np.log(values[rows] + 1e-9)
    scaled = (scaled - scaled.min(axis=0)) / np.maximum(scaled.max(axis=0) - scaled.min(axis=0), 1e-12)
    chosen = list(dict.fromkeys(int(k) for k in scaled.argmin(axis=0)))
    distance = np.linalg.norm(scaled[:, None] - scaled[chosen][None], axis=2).min(axis=1)
    while len(chosen) < limit:
        k = int(distance.argmax())
        chosen.append(k)
        distance = np.minimum(distance, np.linalg.norm(scaled - scaled[k], axis=1))
    return sorted((int(rows[k]) for k in chosen), key=lambda r: tuple(values[r]))
