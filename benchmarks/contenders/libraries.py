"""Optimizers of other libraries, each with the same two calls: `propose` vectors, `receive` what they cost.

Objectives are logarithms, less is better; a plan with a violation above zero breaks a bound. All of them change each
variable of a child with probability 1 / variables, to any of its choices, and cross parents over uniformly: choices of
strategies have no order. What is not stated here is the library's default.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from deap import tools

from benchmarks.contenders.encoding import TiedEncoding
from tapestry.optimizer.placement.toolbox import Individual

# With four objectives and seven divisions there are 120 reference directions; NSGA-II gets as many individuals.
POPULATION, DIVISIONS, CROSSOVER = 120, 7, 0.9
# Added to every objective of a plan that breaks a bound, for a library that knows no bounds.
PENALTY = 1e3


class Optimizer(Protocol):
    """An optimizer of one variant."""

    def propose(self) -> np.ndarray:
        """Return vectors to evaluate `(n, variables)`."""

    def receive(self, values: np.ndarray, violations: np.ndarray) -> None:
        """Take the log objectives `(n, m)` and violations `(n,)` of the vectors proposed last."""


Factory = Callable[[TiedEncoding, np.ndarray, np.random.Generator], Optimizer]


class RandomVectors:
    """Vectors drawn evenly."""

    def __init__(self, encoding: TiedEncoding, first: np.ndarray, rng: np.random.Generator) -> None:
        self._encoding, self._rng = encoding, rng

    def propose(self) -> np.ndarray:
        return self._encoding.random(POPULATION, self._rng)

    def receive(self, values: np.ndarray, violations: np.ndarray) -> None:
        pass


class DeapOptimizer:
    """The usual loop over DEAP's operators: parents, `cxUniform`, `mutUniformInt`, survivors."""

    def __init__(
        self,
        encoding: TiedEncoding,
        first: np.ndarray,
        rng: np.random.Generator,
        reference: np.ndarray | None,
    ) -> None:
        self._choices, self._reference = encoding.choices, reference
        self._children, self._population = first.tolist(), list[Individual]()
        random.seed(int(rng.integers(1 << 62)))

    def propose(self) -> np.ndarray:
        if self._population:
            self._children = self._varied()
        return np.array(self._children, np.int64)

    def _varied(self) -> list[list[int]]:
        usable = POPULATION - POPULATION % 4
        if self._reference is None:
            parents = tools.selTournamentDCD(self._population, usable)
        else:
            parents = tools.selRandom(self._population, usable)
        children = [list(parent) for parent in parents]
        most, share = (self._choices - 1).tolist(), 1.0 / len(self._choices)
        for one, other in zip(children[::2], children[1::2], strict=True):
            if random.random() < CROSSOVER:
                tools.cxUniform(one, other, 0.5)
        for child in children:
            tools.mutUniformInt(child, 0, most, share)
        return children

    def receive(self, values: np.ndarray, violations: np.ndarray) -> None:
        penalized = values + np.where(violations > 0.0, PENALTY + violations, 0.0)[:, None]
        children = [
            Individual(genes, value, self._choices, self._choices)
            for genes, value in zip(self._children, penalized, strict=True)
        ]
        both = [*self._population, *children]
        if self._reference is None:
            self._population = tools.selNSGA2(both, min(POPULATION, len(both)))
        else:
            self._population = tools.selNSGA3(both, min(POPULATION, len(both)), self._reference)


def deap_nsga2(encoding: TiedEncoding, first: np.ndarray, rng: np.random.Generator) -> Optimizer:
    """Build NSGA-II of DEAP."""
    return DeapOptimizer(encoding, first, rng, None)


def deap_nsga3(encoding: TiedEncoding, first: np.ndarray, rng: np.random.Generator) -> Optimizer:
    """Build NSGA-III of DEAP."""
    objectives = len(encoding.variant.submesh.goal.epsilon)
    return DeapOptimizer(encoding, first, rng, tools.uniform_reference_points(objectives, DIVISIONS))


class PymooOptimizer:
    """An algorithm of pymoo, driven from outside."""

    def __init__(
        self, encoding: TiedEncoding, first: np.ndarray, rng: np.random.Generator, is_third: bool
    ) -> None:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.algorithms.moo.nsga3 import NSGA3
        from pymoo.core.problem import Problem
        from pymoo.core.termination import NoTermination
        from pymoo.util.ref_dirs import get_reference_directions

        objectives = len(encoding.variant.submesh.goal.epsilon)
        options = {"pop_size": POPULATION, "sampling": first, **_pymoo_operators(encoding.choices)}
        if is_third:
            directions = get_reference_directions("das-dennis", objectives, n_partitions=DIVISIONS)
            self._algorithm = NSGA3(directions, **options)
        else:
            self._algorithm = NSGA2(**options)
        most = encoding.choices - 1
        self._problem = Problem(len(most), objectives, n_ieq_constr=1, xl=0, xu=most, vtype=int)
        self._algorithm.setup(
            self._problem, termination=NoTermination(), seed=int(rng.integers(1 << 31)), verbose=False
        )

    def propose(self) -> np.ndarray:
        self._individuals = self._algorithm.ask()
        return np.asarray(self._individuals.get("X"), np.int64)

    def receive(self, values: np.ndarray, violations: np.ndarray) -> None:
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        Evaluator().eval(StaticProblem(self._problem, F=values, G=violations[:, None]), self._individuals)
        self._algorithm.tell(infills=self._individuals)


def _pymoo_operators(choices: np.ndarray) -> dict[str, Any]:
    """Return pymoo's uniform crossover, and a mutation that draws variables again."""
    from pymoo.core.mutation import Mutation
    from pymoo.operators.crossover.ux import UniformCrossover

    class Reset(Mutation):
        """A mutation that sets variables to any of their choices."""

        def _do(
            self, problem: Any, X: np.ndarray, *_: Any, random_state: Any = None, **__: Any
        ) -> np.ndarray:
            rng = random_state if random_state is not None else np.random.default_rng()
            changed = rng.random(X.shape) < 1.0 / X.shape[1]
            return np.where(changed, np.floor(rng.random(X.shape) * choices).astype(X.dtype), X)

    return {"crossover": UniformCrossover(prob=CROSSOVER), "mutation": Reset(prob=1.0)}


class OptunaOptimizer:
    """Optuna's NSGA-II, a generation of trials at a time."""

    def __init__(self, encoding: TiedEncoding, first: np.ndarray, rng: np.random.Generator) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        names = [f"v{k:05}" for k in range(len(encoding.choices))]
        self._ranges = {
            name: optuna.distributions.IntDistribution(0, int(most) - 1)
            for name, most in zip(names, encoding.choices, strict=True)
        }
        sampler = optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=int(rng.integers(1 << 31)))
        objectives = len(encoding.variant.submesh.goal.epsilon)
        self._study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
        for row in first.tolist():
            self._study.enqueue_trial(dict(zip(names, row, strict=True)))

    def propose(self) -> np.ndarray:
        self._trials = [self._study.ask(self._ranges) for _ in range(POPULATION)]
        return np.array([[trial.params[name] for name in self._ranges] for trial in self._trials], np.int64)

    def receive(self, values: np.ndarray, violations: np.ndarray) -> None:
        for trial, value, violation in zip(self._trials, values, violations, strict=True):
            trial.set_constraint("bounds", float(violation))
            self._study.tell(trial, value.tolist())


# By name: the library, and how its optimizer is built.
FACTORIES: Mapping[str, tuple[str, Factory]] = {
    "random": ("numpy", RandomVectors),
    "NSGA-II (DEAP)": ("deap", deap_nsga2),
    "NSGA-III (DEAP)": ("deap", deap_nsga3),
    "NSGA-II (pymoo)": ("pymoo", partial(PymooOptimizer, is_third=False)),
    "NSGA-III (pymoo)": ("pymoo", partial(PymooOptimizer, is_third=True)),
    "NSGA-II (Optuna)": ("optuna", OptunaOptimizer),
}


def missing(library: str) -> str | None:
    """Return the reason why a library cannot be used; None where it can."""
    if importlib.util.find_spec(library) is not None:
        return None
    return f"{library} is not installed: pip install {library}"
