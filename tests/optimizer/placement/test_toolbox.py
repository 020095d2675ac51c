"""Tests of the toolbox: a user's own selection and variation take part in a search, repeatably."""

from __future__ import annotations

import random

import numpy as np
import pytest
from deap import tools

from tapestry.optimizer.placement.toolbox import Individual, default_toolbox
from tests.optimizer.searches import frontier, search


def mutated(individual: Individual, share: float = 0.2) -> tuple[Individual]:
    """Give a share of the genes a strategy at random."""
    for gene, most in enumerate(individual.choices):
        if random.random() < share:
            individual[gene] = random.randrange(int(most))
    return (individual,)


@pytest.mark.slow
def test_the_default_toolbox_is_the_search_as_it_is() -> None:
    assert frontier(search(evaluations=20_000)) == frontier(
        search(toolbox=default_toolbox(), evaluations=20_000)
    )


@pytest.mark.slow
def test_registered_operators_make_plans_of_the_frontier() -> None:
    toolbox = default_toolbox()
    toolbox.register("mate", tools.cxTwoPoint)
    toolbox.register("mutate", mutated, share=0.1)
    result = search(toolbox=toolbox, evaluations=20_000)
    applied, improved = result.rules["toolbox"]
    assert applied > 50 and improved > 0
    assert result.evaluations >= 20_000
    assert frontier(result) == frontier(search(toolbox=toolbox, evaluations=20_000))


@pytest.mark.slow
def test_python_s_random_is_left_as_it_was() -> None:
    toolbox = default_toolbox()
    toolbox.register("mutate", mutated)
    random.seed(7)
    search(toolbox=toolbox, evaluations=15_000)
    assert random.random() == random.Random(7).random()


@pytest.mark.slow
def test_own_selection_sees_the_front_and_decides() -> None:
    seen: list[tuple[int, int]] = []

    def weigh(values: np.ndarray) -> np.ndarray:
        seen.append(values.shape)
        return np.where(values[:, 0] == values[:, 0].min(), 1.0, 1e-9)

    toolbox = default_toolbox()
    toolbox.register("weigh", weigh)
    other = search(toolbox=toolbox, evaluations=20_000)
    assert seen and all(shape[1] == 4 for shape in seen)
    assert frontier(other) != frontier(search(evaluations=20_000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "operator", "message"),
    [
        ("mutate", lambda one: one, "toolbox.mutate must return a tuple of 1 individual,"),
        ("mate", lambda one, other: (one,), "toolbox.mate must return a tuple of 2 individuals,"),
        (
            "mutate",
            lambda one: (one.__setitem__(0, 10**6) or one,),
            "gene 0 is 1000000: an operator of the toolbox",
        ),
        ("mutate", lambda one: (one.append(0) or one,), "an operator of the toolbox made it"),
        ("weigh", lambda values: np.zeros(len(values)), "a finite weight above zero"),
    ],
)
def test_operators_that_break_their_word_are_reported(name: str, operator, message: str) -> None:
    toolbox = default_toolbox()
    toolbox.register(name, operator)
    with pytest.raises(ValueError, match=message):
        search(toolbox=toolbox, evaluations=15_000)
