"""The coordinator of a search: islands over variants, one round after the other.

Rounds are synchronous. In a round every island runs an epoch on one variant; meanwhile the coordinator
publishes the state from before the round and tries a structural move. Everything a round does follows from the
seed, the number of islands and the evaluations so far, so a run is reproduced by its reported evaluations on
any executor, and resumes from a checkpoint as if it had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from deap import base

from tapestry.costmodel.compiled import stoppable
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import merge, set_parent_weights
from tapestry.optimizer.archive.goal import insert_plans_of, refilter
from tapestry.optimizer.archive.rows import used_rows
from tapestry.optimizer.placement.credits import FADING, new_statistics, odds_of, place_shares, yields
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.toolbox import PARENTS, children, varies
from tapestry.optimizer.run.clock import OutOfTime
from tapestry.optimizer.run.diversification import excursion
from tapestry.optimizer.run.first_plans import insert_plans
from tapestry.optimizer.run.micro_batches import PERIOD, another_number
from tapestry.optimizer.run.plan import WORKERS_LOST, Budget, Progress
from tapestry.optimizer.run.proven_gap import is_bound_met
from tapestry.optimizer.run.reserve import Reserve
from tapestry.optimizer.run.snapshot import Publisher
from tapestry.optimizer.run.starts import begin
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.stopping import StopRequested, await_all, stop_check
from tapestry.optimizer.run.variant_arrays import VariantArrays, write_variant
from tapestry.optimizer.run.variants import (
    FRONT_CAPACITY,
    LARGEST_VARIANTS,
    POOL_CAPACITY,
    Begun,
    Child,
    Variant,
    coarsen_grids,
    load_compiled,
)
from tapestry.optimizer.run.workers import Answer, Epoch, EpochResult, WorkersLost, results_of, run
from tapestry.optimizer.run.worth import Economics
from tapestry.optimizer.structure.search import try_child
from tapestry.teg.stopping import CheckStop, never_stop

STRUCTURAL_SLOTS = 256
# Epochs of the first rounds are short and double every few rounds, so that rewrites of a small graph are tried before
# it is placed to the last detail.
FIRST_EVALUATIONS, OPENING_ROUNDS = 256, 3
# While there are starts other than further views epochs are shorter: those bring more, and need some of a small budget.
# A start takes time in proportion to the program's slots. So do epochs beside it, of such a share of a budget at most.
STARTING_EVALUATIONS, STARTING_SLOTS, STARTING_SHARE = 64, 32, 1 / 32
# A child whose plans, so much better, would add to the front is near: it stays for so many epochs, if no more are near.
NEAR, PROBATION, MOST_ON_PROBATION = 0.95, 3, 3


class Coordinator:
    """A driver of the rounds of an initialized search; the variants for the workers are stored in `folder`."""

    def __init__(
        self,
        state: SearchState,
        budget: Budget,
        folder: Path,
        publisher: Publisher,
        on_progress: Callable[[Progress], None] | None,
        toolbox: base.Toolbox,
        reserve: Reserve,
        economics: Economics | None = None,
    ) -> None:
        self.state, self.budget, self.folder, self.reserve = state, budget, folder, reserve
        self.economics = economics
        self.publisher, self.on_progress, self.toolbox = publisher, on_progress, toolbox
        self.files: dict[int, VariantArrays] = {}
        self.check_stop: CheckStop = never_stop

    def loop(self, executor: Executor, should_stop: Callable[[], bool]) -> None:
        """Run rounds until the budget is spent, the front stops improving, or a stop is requested."""
        self.state.stopped, self.check_stop = "", stop_check(should_stop)
        try:
            self._warm_up(executor)
            self.state.stopped = self._rounds(executor, should_stop)
        except OutOfTime:
            self.state.stopped = self.state.clock.reason
        except StopRequested:
            self.state.stopped = "cancelled"
        except WorkersLost:
            self.state.stopped = WORKERS_LOST
        except KeyboardInterrupt:
            self.state.stopped = "interrupted"

    def finish(self) -> None:
        """Publish the state that the search ends with."""
        self.publisher.publish_if_due(self.state, self._rng_state(), self.budget, is_last=True)

    def _rng_state(self) -> Mapping[str, Any]:
        return dict(self.state.rng.bit_generator.state)

    def _warm_up(self, executor: Executor) -> None:
        """Load compiled code in this process, then in the workers, so that the rounds are of one length."""
        began, check = time.perf_counter(), self.state.clock.check(self.check_stop)
        check()
        first = self.state.variants[0]
        empty = self._epoch(first, 0, self.state.first_random_state)
        with stoppable(self.check_stop):
            run(empty)
            load_compiled(first)
        await_all([executor.submit(run, empty) for _ in range(self.state.islands)], check)
        self.state.timings["compile_s"] += time.perf_counter() - began

    def _rounds(self, executor: Executor, should_stop: Callable[[], bool]) -> str:
        state, budget = self.state, self.budget
        began, round_s = time.perf_counter() - state.timings["search_s"], 0.0
        while not state.is_converged:
            if reason := self._enough():
                return reason
            left = None if budget.evaluations is None else budget.evaluations - state.evaluations
            if left is not None and left <= 0:
                return "budget"
            # More of the next round would be after the end than before it.
            if state.clock.ends_within(round_s / 2):
                return state.clock.reason
            if should_stop():
                return "cancelled"
            round_s = -time.perf_counter()
            self._round(executor, left)
            round_s += time.perf_counter()
            state.timings["search_s"] = time.perf_counter() - began
            report = state.note_round(budget)
            if self.on_progress is not None:
                self.on_progress(report)
        return "converged"

    def _enough(self) -> str:
        """Return why what has been found is good enough; empty where it is not, or views have not been tried."""
        state, gap = self.state, self.state.options.gap
        if state.starts:
            return ""
        if gap is not None and is_bound_met(state, gap):
            return "bound met"
        is_worth_it = self.economics is None or self.economics.is_worth_it(state.history)
        return "" if is_worth_it else "not worth it"

    def _epoch(self, variant: Variant, evaluations: int, random_state: np.ndarray) -> Epoch:
        state, space = self.state, variant.space.space
        shares = state.parts.shares(place_shares(variant.search, bool(space.has_dimension_orders)))
        recent = state.recent if state.parts.learning else new_statistics()
        odds = odds_of(recent, state.first_odds, shares)
        # What the goal notes meanwhile in this process is none of the epoch's business.
        goal = variant.submesh.goal.own_best()
        archive, capacity = used_rows(variant.archive, copied=False), (FRONT_CAPACITY, POOL_CAPACITY)
        return Epoch(self._file(variant), archive, capacity, goal, odds, random_state, evaluations)

    def _file(self, variant: Variant) -> VariantArrays:
        """Return the file of a variant's arrays for the workers, written when it is first needed."""
        if variant.number not in self.files:
            self.files[variant.number] = write_variant(self.folder, variant.space.space, variant.search)
        return self.files[variant.number]

    def _round(self, executor: Executor, left: int | None) -> None:
        between, evaluated = self._rng_state(), self.state.evaluations
        tasks = self._tasks(left)
        planned = sum(task.evaluated_before + task.evaluations for _, task in tasks)
        futures: list[Future[Answer]] = []
        try:
            futures += [executor.submit(run, task) for _, task in tasks]
            self.publisher.publish_if_due(self.state, between, self.budget)
            self.reserve.measure_if_due()
            made = self._children(None if left is None else left - planned)
            check = self.state.clock.check(self.check_stop)
            results = results_of(executor, [task for _, task in tasks], futures, check)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        found = [(variant, result) for (variant, _), result in zip(tasks, results, strict=True)]
        self.state.tighten(found)
        self.state.recent.fade()
        for variant in self.state.variants:
            variant.spent, variant.gained = FADING * variant.spent, FADING * variant.gained
        for (variant, task), (_, result) in zip(tasks, found, strict=True):
            self._take_in(variant, task, result)
        self._credit_structures(found)
        self._end_probation([variant for variant, _ in tasks])
        for child in made:
            refilter(child.variant.archive, child.variant.submesh.goal)
            self._consider(child)
        if varies(self.toolbox):
            self._vary(tasks, None if left is None else left - (self.state.evaluations - evaluated))
        self.state.tighten()
        coarsen_grids(self.state.variants)
        for variant in self.state.variants:
            set_parent_weights(variant.archive, self.toolbox.weigh)
        self.state.rounds += 1

    def _tasks(self, left: int | None) -> list[tuple[Variant, Epoch]]:
        """Build the epochs of a round, at most `left` evaluations together; apart where the front stands still."""
        tasks: list[tuple[Variant, Epoch]] = []
        planned, turn = 0, self.state.turn
        islands = self.state.islands if self.state.parts.placement else 0
        for variant in [self._choose_variant() for _ in range(islands)]:
            if not variant.has_choice:
                continue
            first = self._starting_evaluations(variant) if self._is_starting else FIRST_EVALUATIONS
            amount = min(epoch_evaluations(variant), opening_evaluations(self.state.rounds, first))
            if left is not None:
                amount = min(amount, left - planned)
            if amount > 0:
                task = self._epoch(variant, amount, new_rng(self.state.rng))
                tasks.append((variant, task if turn is None else self._apart(variant, task, turn)))
                planned += amount
        return tasks

    def _starting_evaluations(self, variant: Variant) -> int:
        """Return the evaluations of an epoch beside a start."""
        most = STARTING_EVALUATIONS * max(1, len(variant.space.slots) // STARTING_SLOTS)
        if self.budget.evaluations is None:
            return most
        return max(STARTING_EVALUATIONS, min(most, int(STARTING_SHARE * self.budget.evaluations)))

    def _apart(self, variant: Variant, task: Epoch, turn: int) -> Epoch:
        """Give an epoch an archive and a goal of its own; plans evaluated for that are some of its evaluations."""
        begun = excursion(turn, variant, task.evaluations, self.state.rng)
        left = task.evaluations - begun.evaluations
        apart = replace(task, archive=used_rows(begun.archive, copied=False), goal=begun.goal, is_apart=True)
        return replace(apart, evaluations=left, evaluated_before=begun.evaluations)

    def _take_in(self, variant: Variant, task: Epoch, result: EpochResult) -> None:
        """Merge the plans of an epoch; those of one apart improve on its own archive, not on the variant's."""
        if task.is_apart:
            insert_plans_of(variant.archive, result.archive, variant.submesh.goal)
            self.state.statistics.applicable[:] += result.statistics.applicable
            self.state.statistics.applied[:] += result.statistics.applied
        else:
            merge(variant.archive, result.archive, variant.submesh.goal.epsilon)
            self.state.statistics.add(result.statistics)
            self.state.recent.add(result.statistics)
            variant.spent += result.evaluations
            variant.gained += float(result.statistics.credit.sum())
        self.state.evaluations += task.evaluated_before + result.evaluations

    def _credit_structures(self, found: Sequence[tuple[Variant, EpochResult]]) -> None:
        """Credit the structural moves that led to the plans which have entered the front in a round."""
        entered = [float(result.statistics.credit.sum()) for _, result in found]
        for (variant, _), count in zip(found, entered, strict=True):
            if count:
                self.state.structural.credits.credit(variant.moves, count / sum(entered))

    def _vary(self, tasks: Sequence[tuple[Variant, Epoch]], left: int | None) -> None:
        """Insert the children of the toolbox's own operators into the variants of this round, at most `left`."""
        state = self.state
        for variant in {id(variant): variant for variant, _ in tasks}.values():
            search = variant.search
            tied = np.zeros(variant.space.gene_count, np.int64)
            sizes = np.diff(search.gene_start)
            tied[search.gene_members] = np.repeat(np.arange(len(sizes)), sizes)
            counts = variant.space.space.strategy_count
            most = PARENTS if left is None else min(PARENTS, left)
            genes = children(self.toolbox, variant.archive, counts, tied, most, state.rng)
            state.evaluations += len(genes)
            made, entered = state.varied
            state.varied = (made + len(genes), entered + insert_plans(variant, genes))
            left = None if left is None else left - len(genes)

    def _choose_variant(self) -> Variant:
        """Choose a variant at random by its share of the common front and what its evaluations have brought lately.

        Each is chosen at least now and then.
        A mesh of one device has a single plan per graph: nothing to search, only to rewrite.
        """
        variants = self.state.variants
        share = np.array([1.0 + 2.0 * s for s in self.state.shares()])
        if self.state.parts.learning:
            share = np.sqrt(share) * yields([v.spent for v in variants], [v.gained for v in variants])
        choice = np.array([v.has_choice for v in variants])
        share = np.where(choice, share, 0.0) if choice.any() else share
        return variants[int(self.state.rng.choice(len(variants), p=share / share.sum()))]

    def begin_all(self) -> None:
        """Begin all that there is to begin, without rounds."""
        while self.state.starts and (
            self.budget.evaluations is None or self.state.evaluations < self.budget.evaluations
        ):
            for child in self._begin(self.budget.evaluations):
                self._consider(child)
        coarsen_grids(self.state.variants)

    def _children(self, left: int | None) -> Begun:
        """Begin the next start, or try a structural move, with `left` evaluations.

        Views of the mesh that are not the best one take turns with structural moves.
        """
        state = self.state
        if left is not None and left <= 0:
            return []
        turn, is_idle = divmod(state.rounds, structural_period(state.variants[0], state.rounds))
        is_next = self._is_starting or (bool(state.starts) and turn % 2 == 0 and not is_idle)
        if is_next:
            return self._begin(None if left is None else state.evaluations + left)
        return self._structural_move(left) if state.parts.structure and not is_idle else []

    @property
    def _is_starting(self) -> bool:
        return any(start.kind != "view" for start in self.state.starts[:1])

    def _begin(self, limit: int | None) -> Begun:
        """Begin the next start; the search may evaluate so many plans in all."""
        state = self.state
        try:
            return begin(state, state.starts[0], limit, state.clock.check(self.check_stop))
        except StopRequested:
            return []

    def _structural_move(self, left: int | None) -> Begun:
        state = self.state
        parent = self._choose_variant()
        turn = state.rounds // structural_period(state.variants[0], state.rounds)
        if turn % PERIOD == PERIOD - 1 and len({submesh.rounds for submesh in state.submeshes}) > 1:
            return self._change_rounds(parent, left)
        try:
            child, rule, spent = try_child(
                *(
                    state.structural,
                    parent,
                    state.new_number(),
                    state.options,
                    state.rng,
                    left,
                    state.parts.exact,
                ),
                state.clock.check(self.check_stop),
            )
        except StopRequested:  # the round ends without a child, and is the last one
            return []
        state.evaluations += spent
        return [] if child is None else [Child(child, rule)]

    def _change_rounds(self, parent: Variant, left: int | None) -> Begun:
        """Run a variant's program in another number of rounds, with `left` evaluations."""
        state = self.state
        limit = None if left is None else state.evaluations + left
        try:
            child = another_number(state, parent, limit, state.clock.check(self.check_stop))
        except StopRequested:
            return []
        return [] if child is None else [Child(child)]

    def _consider(self, child: Child) -> None:
        """Keep a child that adds to the common front or is near it; take in further plans of a known variant.

        As long as no plan keeps all bounds, a child is kept that breaks them by less than any other.
        """
        state, new = self.state, child.variant
        for variant in state.variants:
            if variant.number == new.number:
                merge(variant.archive, new.archive, variant.submesh.goal.epsilon)
                return
        values, _ = state.all_values()
        own = new.archive.value[: int(new.archive.size[0])]
        is_closer = not len(values) and new.least_violation < state.least_violation
        is_better = _adds(own, values) if len(own) else is_closer
        is_near = new.has_choice and _adds(NEAR * own, values)
        if not (is_better or is_near or child.must_stay):
            return
        if is_better and child.rule:
            state.structural.improve(child.rule, new.moves)
        new.probation = 0 if is_better or child.must_stay else PROBATION
        state.variants.append(new)
        self._drop([v for v in state.variants if v.has_choice == new.has_choice], LARGEST_VARIANTS)
        self._drop([v for v in state.variants if v.probation], MOST_ON_PROBATION)

    def _drop(self, alike: Sequence[Variant], most: int) -> None:
        """Drop a variant that holds nothing of the common front if there are too many; never the first nor the last."""
        state = self.state
        if len(alike) <= most:
            return
        shares = dict(zip([v.number for v in state.variants], state.shares(), strict=True))
        droppable = [v for v in alike if v is not state.variants[0] and v is not state.variants[-1]]
        weakest = min(droppable, key=lambda v: (shares[v.number], -v.number), default=None)
        if weakest is not None and shares[weakest.number] == 0:
            state.variants = [v for v in state.variants if v is not weakest]

    def _end_probation(self, searched: Sequence[Variant]) -> None:
        """End the probation of variants that hold some of the common front; drop those that have used theirs up."""
        state = self.state
        tried = [v.number for v in searched if v.probation]
        if not tried:
            return
        for variant, share in zip(state.variants, state.shares(), strict=True):
            if share:
                variant.probation = 0
            elif variant.number in tried:
                variant.probation -= 1
                if not variant.probation:
                    state.variants = [v for v in state.variants if v is not variant]


def _adds(own: np.ndarray, values: np.ndarray) -> bool:
    """Return whether any row of `own` is not dominated by rows of `values`, nor by its own."""
    return bool(nondominated(np.concatenate([values, own]))[len(values) :].any())


def structural_period(variant: Variant, rounds: int) -> int:
    """Return the rounds between structural moves: compiling a large graph takes about as long as several epochs.

    While epochs are still shorter than the graph warrants, every round has one.
    """
    if not variant.has_choice or opening_evaluations(rounds) < epoch_evaluations(variant):
        return 1
    return 2 + len(variant.space.slots) // STRUCTURAL_SLOTS


def opening_evaluations(rounds: int, first: int = FIRST_EVALUATIONS) -> int:
    """Return the maximum evaluations of an epoch after so many rounds: they double every few rounds."""
    return first << min(rounds // OPENING_ROUNDS, 16)


def epoch_evaluations(variant: Variant) -> int:
    """Estimate the evaluations of an epoch, about half a second's worth: a function of the space alone."""
    slots, classes = len(variant.space.slots), len(variant.space.space.classes)
    estimate_ns = 8000 + slots * (16 + 3 * classes)
    return int(np.clip(0.4e9 / estimate_ns, 256, 16384))
