"""Selection and variation as a `deap.base.Toolbox`, in which users register operators of their own.

Compiled placement moves (`optimizer.placement.variation`) make most children; what is registered here decides whose
children they are, and adds others between the rounds. Imported by the coordinator, and by users of `optimize()`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from deap import base, tools

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.fronts import Fitness, crowding_weights
from tapestry.teg.faults import ArgumentError, expected, no_such

# Individuals that the registered operators vary in a round.
PARENTS = 32
# The operators that a search calls, as a message lists them; DEAP's name for crossover is `mate`.
OPERATORS = {"weigh": "weigh", "select": "select", "mate": "mate (crossover)", "mutate": "mutate"}
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Individual(list[int]):
    """A plan as DEAP's operators vary it: per gene the number of a strategy, with the objectives as `fitness`.

    Gene g is one of `choices[g]` strategies; `tied[g]` is the class of genes of equal layers that it belongs to.
    """

    def __init__(
        self, genes: Sequence[int], values: Sequence[float], choices: np.ndarray, tied: np.ndarray
    ) -> None:
        super().__init__(int(gene) for gene in genes)
        self.fitness = Fitness(values)
        self.choices, self.tied = choices, tied

    def __deepcopy__(self, memo: dict[int, Any]) -> Individual:
        """Copy the genes; what describes them is shared."""
        return Individual(self, self.fitness.values, self.choices, self.tied)


def default_toolbox() -> base.Toolbox:
    """Return the operators of a search: register others under these names, and `mate` or `mutate` to add your own.

    - `weigh(values)` gives each front member, `(n, m)` objectives, its weight `(n,)` as a parent of compiled moves;
      by default NSGA-II's crowding distance.
    - `select(individuals, k)` chooses the parents of registered variation; by default NSGA-II's selection. It runs
      only where `mate` or `mutate` is registered: `weigh` decides about the parents of compiled moves.
    - `mate(one, other)` and `mutate(individual)` change copies of parents in place and return them as tuples, as
      all of `deap.tools` do. Neither is registered by default. Genes out of range are an error.

    Any `deap.base.Toolbox` will do: operators that it lacks are these. A search refuses operators of other names, and
    works on a copy, so that what is registered later belongs to the next search.

    DEAP's operators draw from Python's `random`; it is seeded from the search's generator around each call, so that a
    run with operators of `deap.tools` repeats. Operators must not depend on anything else.
    """
    toolbox = base.Toolbox()
    toolbox.register("weigh", crowding_weights)
    toolbox.register("select", tools.selNSGA2)
    return toolbox


def toolbox_faults(toolbox: base.Toolbox) -> tuple[str, ...]:
    """Return the faults of a toolbox: operators that no search calls, and operators that are no functions."""
    others = set(dir(toolbox)) - OPERATORS.keys() - set(dir(base.Toolbox()))
    unknown = (
        name for name in sorted(others) if not name.startswith("_") and callable(getattr(toolbox, name))
    )
    faults = [f"toolbox: {no_such('operator', name, OPERATORS, OPERATORS.values())}" for name in unknown]
    return (
        *faults,
        *(
            expected(f"toolbox.{name}", "a function", getattr(toolbox, name))
            for name in OPERATORS
            if hasattr(toolbox, name) and not callable(getattr(toolbox, name))
        ),
    )


def completed(toolbox: base.Toolbox | None) -> base.Toolbox:
    """Return a copy of a toolbox in which the operators that it lacks are the default ones.

    Raises:
        ArgumentError: the toolbox has operators that no search calls, or that are no functions; it lists all of them.
    """
    default = default_toolbox()
    if toolbox is None:
        return default
    if faults := toolbox_faults(toolbox):
        raise ArgumentError(*faults)
    result = copy(toolbox)
    for name, operator in vars(default).items():
        if not hasattr(result, name):
            setattr(result, name, operator)
    return result


def described(toolbox: base.Toolbox) -> dict[str, str]:
    """Describe the registered operators by their functions and arguments: a search with others is another search."""
    return {name: _described(getattr(toolbox, name)) for name in OPERATORS if hasattr(toolbox, name)}


def _described(operator: Callable[..., Any]) -> str:
    """Describe a function, a partial one as `register` makes it, or another callable, the same in every process."""
    if isinstance(operator, partial):
        return f"{_described(operator.func)} {_repr(operator.args)} {_repr(operator.keywords)}"
    if name := getattr(operator, "__qualname__", ""):
        return f"{operator.__module__}.{name}"
    return f"{type(operator).__module__}.{type(operator).__qualname__} {_repr(operator)}"


def _repr(value: object) -> str:
    """Return the `repr` of a value without addresses in memory, which change from process to process."""
    return ADDRESS.sub("", repr(value))


def varies(toolbox: base.Toolbox) -> bool:
    """Return whether a user has registered variation."""
    return hasattr(toolbox, "mate") or hasattr(toolbox, "mutate")


def children(
    toolbox: base.Toolbox,
    archive: Archive,
    choices: np.ndarray,
    tied: np.ndarray,
    most: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Vary members of a front by the registered operators; return the changed plans' genes `(k, genes)`, k <= most.

    Raises:
        ValueError: an operator returned something else than individuals, or genes out of range.
    """
    count = int(archive.size[0])
    population = [
        Individual(genes, value, choices, tied)
        for genes, value in zip(archive.genes[:count], archive.value[:count], strict=True)
    ]
    if not population or most < 1:
        return np.zeros((0, len(choices)), np.int16)
    with _seeded(rng):
        chosen = toolbox.select(population, min(PARENTS, most, count))
        offspring = [toolbox.clone(parent) for parent in chosen]
        if hasattr(toolbox, "mate"):
            for k in range(1, len(offspring), 2):
                offspring[k - 1 : k + 1] = _checked("mate", toolbox.mate(*offspring[k - 1 : k + 1]), 2)
        if hasattr(toolbox, "mutate"):
            offspring = [_checked("mutate", toolbox.mutate(one), 1)[0] for one in offspring]
    parents = {tuple(parent) for parent in population}
    fresh = dict.fromkeys(tuple(one) for one in offspring if tuple(one) not in parents)
    return np.array([_genes(one, choices) for one in fresh], np.int16).reshape(-1, len(choices))


def _checked(name: str, result: Any, count: int) -> Sequence[Individual]:
    if not isinstance(result, tuple) or len(result) != count:
        raise ValueError(
            f"toolbox.{name} must return a tuple of {count} individual{'s'[: count - 1]}, as operators of deap.tools "
            f"do; it returned {type(result).__name__}"
        )
    return result


def _genes(individual: Sequence[int], choices: np.ndarray) -> list[int]:
    if len(individual) != len(choices):
        raise ValueError(
            f"an individual has {len(choices)} genes; an operator of the toolbox made it {len(individual)}"
        )
    for place, (gene, most) in enumerate(zip(individual, choices, strict=True)):
        if not 0 <= gene < most:
            raise ValueError(
                f"gene {place} is {gene}: an operator of the toolbox must keep it from 0 to {most - 1} (`choices`)"
            )
    return list(individual)


@contextmanager
def _seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed Python's `random`, which DEAP's operators draw from, and restore it afterwards."""
    before = random.getstate()
    random.seed(int(rng.integers(1 << 62)))
    try:
        yield
    finally:
        random.setstate(before)
