"""Tests of the toolbox: a user's own selection and variation take part in a search, repeatably."""

from __future__ import annotations

import random

import numpy as np
import pytest
from deap import base, tools

from tapestry.optimizer.archive.fronts import crowding_weights
from tapestry.optimizer.placement.toolbox import Individual, completed, default_toolbox, described
from tapestry.optimizer.run.snapshot import Snapshot
from tapestry.teg.faults import ArgumentError
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import frontier, search


def mutated(individual: Individual, share: float = 0.2) -> tuple[Individual]:
    """Give a share of the genes a strategy at random."""
    for gene, most in enumerate(individual.choices):
        if random.random() < share:
            individual[gene] = random.randrange(int(most))
    return (individual,)


class Mutation:
    """A mutation that is an object, shown by its share."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, individual: Individual) -> tuple[Individual]:
        return mutated(individual, self.share)

    def __repr__(self) -> str:
        return f"Mutation({self.share})"

    def mutate(self, individual: Individual) -> tuple[Individual]:
        return self(individual)


class Operators(base.Toolbox):
    """A toolbox with an operator as a method, and values of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.share = 0.3

    def mutate(self, individual: Individual) -> tuple[Individual]:
        return mutated(individual, self.share)


def test_operators_that_a_toolbox_lacks_are_the_default_ones() -> None:
    given = base.Toolbox()
    given.register("select", tools.selBest)
    found = completed(given)
    assert (found.select.func, found.weigh.func) == (tools.selBest, crowding_weights)
    assert not hasattr(given, "weigh"), "the user's toolbox stays as it was"
    assert described(completed(base.Toolbox())) == described(completed(None)) == described(default_toolbox())
    assert described(completed(Operators()))["mutate"] == f"{__name__}.Operators.mutate"


def test_a_plain_toolbox_of_deap_searches_like_the_default_one() -> None:
    graph = GRAPHS["perceptron"]()
    assert frontier(search(graph, toolbox=base.Toolbox())) == frontier(search(graph))


@pytest.mark.parametrize(
    ("operator", "description"),
    [
        (mutated, "mutated"),
        (lambda one: (one,), "<lambda>"),
        (Mutation(0.5), "Mutation Mutation(0.5)"),
        (Mutation(0.5).mutate, "Mutation.mutate"),
    ],
)
def test_every_callable_can_be_described(operator: object, description: str) -> None:
    toolbox = base.Toolbox()
    toolbox.mutate = operator
    assert described(toolbox) == {"mutate": f"{__name__}.{description}"}
    toolbox.register("mutate", operator, helper=mutated)
    found = described(toolbox)["mutate"]
    assert found == f"{__name__}.{description} () {{'helper': <function mutated>}}", "no address in memory"


@pytest.mark.slow
def test_a_function_set_as_an_operator_takes_part_in_checkpoints() -> None:
    toolbox, kept = base.Toolbox(), list[Snapshot]()
    toolbox.mutate = mutated
    graph = GRAPHS["perceptron"]()
    result = search(graph, toolbox=toolbox, on_checkpoint=kept.append, checkpoint_s=0)
    again = search(graph, toolbox=toolbox, resume=kept[0].checkpoint())
    assert frontier(again) == frontier(result)


def test_operators_that_no_search_calls_are_refused() -> None:
    toolbox = default_toolbox()
    toolbox.register("crossover", tools.cxTwoPoint)
    toolbox.register("mutat", mutated)
    toolbox.mate = 3
    with pytest.raises(ArgumentError) as caught:
        search(toolbox=toolbox)
    assert caught.value.faults == (
        "toolbox: there is no operator 'crossover'; known are weigh, select, mate (crossover), mutate",
        "toolbox: there is no operator 'mutat'; did you mean mutate or mate?",
        "toolbox.mate: expected a function, not 3",
    )


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
