"""The coordinator of a search: islands over variants, one round after the other.

Rounds are synchronous. In a round every island runs an epoch on one variant; meanwhile the coordinator
tries a structural move. Everything a round does follows from the seed, the number of islands and the
evaluations so far, so a run is reproduced by its reported evaluations on any executor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from optimizer.fronts import hypervolume, merge, nondominated, weigh_parents
from optimizer.island import new_statistics
from optimizer.plan import Budget, Progress
from optimizer.stream import new_stream
from optimizer.structure import StructuralSearch, try_child
from optimizer.variants import (
    Machine,
    Settings,
    Variant,
    load_compiled,
    make_room,
    new_variant,
    plant,
    plant_seeds,
)
from optimizer.variation import RULES as PLACEMENT_RULES
from optimizer.workers import Epoch, EpochResult, VariantFile, run, write_variant
from teg.graph import Graph

STRUCTURAL_SLOTS = 256
LARGEST_VARIANTS = 8
STALE_ROUNDS = 24
LEAST_GAIN = 1e-4
RULE_WEIGHT = np.array([2.0, 3.0, 1.5, 2.0, 2.0, 1.0, 1.0, 1.0, 0.4])


class Coordinator:
    """Holds the variants with their fronts and drives the rounds.

    Attributes: `variants`, `evaluations`, `history` (a report per round), `timings` in seconds, `stopped`
    ("seeds", "budget", "converged", "cancelled" or "interrupted").
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        settings: Settings,
        structural: StructuralSearch,
        islands: int,
        seed: int,
        folder: Path,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.machines, self.settings, self.structural = machines, settings, structural
        self.islands, self.seed, self.folder, self.on_progress = islands, seed, folder, on_progress
        self.rng = np.random.default_rng(seed)
        self.variants: list[Variant] = []
        self.files: dict[int, VariantFile] = {}
        self.statistics = new_statistics()
        self.evaluations = 0
        self.rounds = 0
        self.timings = {"compile_s": 0.0, "seeds_s": 0.0, "search_s": 0.0}
        self.stopped = "seeds"
        self.history: list[Progress] = []
        self.reference: np.ndarray | None = None

    def start(self, graph: Graph, seeds: bool, limit: int | None) -> None:
        """Compile the graph, simplified, for every machine, and as given for the whole one; plant the seeds.

        `limit` bounds the evaluations spent on seeds.
        """
        began = time.perf_counter()
        self._report("compiling")
        simple, moves = self.structural.simplified(graph)
        if not self.settings.keeps_pins(simple):
            simple, moves = graph, ()
        self.structural.known.update({graph.structural_hash, simple.structural_hash})
        starts = [(machine, simple, moves) for machine in self.machines]
        if moves:
            starts.append((self.machines[0], graph, ()))
        for machine, program, history in starts:
            self._admit(new_variant(len(self.variants), machine, program, history, self.settings))
        self._lap("compile_s", began)
        began = time.perf_counter()
        self._report("seeding")
        for variant in self.variants:
            if seeds:
                self.evaluations += plant_seeds(variant, None if limit is None else limit - self.evaluations)
            else:
                self.evaluations += plant(variant, variant.space.abstract_genes().strategies[None, :])
            weigh_parents(variant.archive)
        self._lap("seeds_s", began)

    def _lap(self, name: str, began: float) -> None:
        self.timings[name] += time.perf_counter() - began

    def _admit(self, variant: Variant) -> None:
        self.variants.append(variant)
        token = f"{self.folder.name}-{variant.number}"
        self.files[variant.number] = write_variant(self.folder, token, variant.space.space, variant.search)

    def loop(self, budget: Budget, executor: Executor, should_stop: Callable[[], bool]) -> None:
        """Rounds until the budget is spent, the front stands still, or somebody asks to stop."""
        try:
            self._warm_up(executor)
            self.stopped = self._rounds(budget, executor, should_stop)
        except KeyboardInterrupt:
            self.stopped = "interrupted"

    def _warm_up(self, executor: Executor) -> None:
        """Load compiled code in this process, then in the workers, before the clock starts."""
        began = time.perf_counter()
        first = self.variants[0]
        empty = self._epoch(first, 0)
        run(empty)
        load_compiled(first)
        for future in [executor.submit(run, empty) for _ in range(self.islands)]:
            future.result()
        self._lap("compile_s", began)

    def _rounds(self, budget: Budget, executor: Executor, should_stop: Callable[[], bool]) -> str:
        began = time.perf_counter()
        stale, best = 0, 0.0
        while True:
            self.timings["search_s"] = time.perf_counter() - began
            left = None if budget.evaluations is None else budget.evaluations - self.evaluations
            out_of_time = budget.seconds is not None and self.timings["search_s"] >= budget.seconds
            if out_of_time or (left is not None and left <= 0):
                return "budget"
            if should_stop():
                return "cancelled"
            self._round(executor, left)
            self.timings["search_s"] = time.perf_counter() - began
            volume = self._progress(budget)
            stale = 0 if volume - best > LEAST_GAIN * best else stale + 1
            best = max(best, volume)
            if stale >= STALE_ROUNDS:
                return "converged"

    def _epoch(self, variant: Variant, evaluations: int) -> Epoch:
        return Epoch(
            self.files[variant.number],
            variant.archive,
            variant.machine.goal,
            RULE_WEIGHT,
            new_stream(self.rng),
            evaluations,
        )

    def _round(self, executor: Executor, left: int | None) -> None:
        tasks: list[tuple[Variant, Epoch]] = []
        planned = 0
        for variant in [self._choose_variant() for _ in range(self.islands)]:
            amount = epoch_evaluations(variant)
            if left is not None:
                amount = min(amount, left - planned)
            if amount > 0:
                tasks.append((variant, self._epoch(variant, amount)))
                planned += amount
        futures = [executor.submit(run, task) for _, task in tasks]
        child = None
        if self.rounds % structural_period(self.variants[0]) == 0 and (left is None or left > planned):
            child = self._structural_move()
        # All first: an executor may write a waiting epoch's archive out only when a worker is free for it.
        results = [future.result() for future in futures]
        for (variant, _), result in zip(tasks, results, strict=True):
            self._take_in(variant, result)
        if child is not None:
            self._consider(*child)
        make_room(self.variants)
        for variant in self.variants:
            weigh_parents(variant.archive)
        self.rounds += 1

    def _take_in(self, variant: Variant, result: EpochResult) -> None:
        merge(variant.archive, result.archive, variant.machine.goal.epsilon)
        self.evaluations += result.evaluations
        self.statistics.applied[:] += result.statistics.applied
        self.statistics.improved[:] += result.statistics.improved

    def _choose_variant(self) -> Variant:
        """Variants in proportion to what they hold of the common front, each at least now and then.

        A machine of one device has a single plan per graph: nothing to search, only to rewrite.
        """
        share = np.array([1.0 + 2.0 * s for s in self._shares()])
        choice = np.array([len(v.search.slot_classes) > 0 for v in self.variants])
        share = np.where(choice, share, 0.0) if choice.any() else share
        return self.variants[int(self.rng.choice(len(self.variants), p=share / share.sum()))]

    def _shares(self) -> list[int]:
        values, owner = self.all_values()
        mask = nondominated(values)
        return [int((mask & (owner == k)).sum()) for k in range(len(self.variants))]

    def all_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Objective values of all variants' fronts `(n, m)`, and the variant of each row."""
        parts = [v.archive.value[: int(v.archive.size[0])] for v in self.variants]
        owner = np.concatenate([np.full(len(p), k) for k, p in enumerate(parts)])
        return np.concatenate(parts), owner

    def _structural_move(self) -> tuple[Variant, str] | None:
        number = max(v.number for v in self.variants) + 1
        parent = self._choose_variant()
        child, rule, spent = try_child(self.structural, parent, number, self.settings, self.rng)
        self.evaluations += spent
        return None if child is None else (child, rule)

    def _consider(self, child: Variant, rule: str) -> None:
        """Keep a child that adds to the common front; a variant that holds nothing of it makes room."""
        values, _ = self.all_values()
        n = int(child.archive.size[0])
        both = np.concatenate([values, child.archive.value[:n]])
        if n == 0 or not nondominated(both)[len(values) :].any():
            return
        self.structural.improved[rule] += 1
        self._admit(child)
        if len(self.variants) > LARGEST_VARIANTS:
            shares = self._shares()
            weakest = min(range(1, len(self.variants) - 1), key=lambda k: (shares[k], -k))
            if shares[weakest] == 0:
                del self.variants[weakest]

    def _progress(self, budget: Budget) -> float:
        values, _ = self.all_values()
        if len(values) == 0:
            self._report("searching", fraction=self._fraction(budget))
            return 0.0
        if self.reference is None:
            self.reference = values.max(axis=0) * 1.1 + 1e-9
        volume = hypervolume(values, self.reference)
        self._report("searching", volume, self._fraction(budget), values)
        return volume

    def _fraction(self, budget: Budget) -> float:
        spent = self.timings["search_s"] / budget.seconds if budget.seconds else 0.0
        evaluated = self.evaluations / budget.evaluations if budget.evaluations else 0.0
        return min(1.0, max(spent, evaluated))

    def _report(
        self, phase: str, volume: float = 0.0, fraction: float = 0.0, values: np.ndarray | None = None
    ) -> None:
        best = () if values is None else tuple(float(v) for v in values.min(axis=0))
        size = 0 if values is None else int(nondominated(values).sum())
        report = Progress(phase, self.timings["search_s"], self.evaluations, size, volume, best, fraction)
        if phase == "searching":
            self.history.append(report)
        if self.on_progress is not None:
            self.on_progress(report)

    def rule_statistics(self) -> dict[str, tuple[int, int]]:
        """Per rule that was used: times applied, times a plan or variant entered the front."""
        placed = zip(PLACEMENT_RULES, self.statistics.applied, self.statistics.improved, strict=True)
        rules = {name: (int(a), int(b)) for name, a, b in placed}
        structural = self.structural.applied.items()
        return rules | {name: (a, self.structural.improved[name]) for name, a in structural if a}


def structural_period(variant: Variant) -> int:
    """Rounds between structural moves: compiling a large graph takes about as long as several epochs."""
    return 2 + len(variant.space.slots) // STRUCTURAL_SLOTS


def epoch_evaluations(variant: Variant) -> int:
    """Evaluations of an epoch, about half a second's worth: a function of the space alone."""
    slots, classes = len(variant.space.slots), len(variant.space.space.classes)
    estimate_ns = 8000 + slots * (16 + 3 * classes)
    return int(np.clip(0.4e9 / estimate_ns, 256, 16384))
