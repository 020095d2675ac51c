"""Tests that predictions equal the simulator's counts, and that this catches every deliberately wrong predictor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import FLOPS, PEAK, PEAK_FLOPS, TIME, TOTAL, TRAFFIC, CompiledSpace
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import Execution, simulate
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.sharding.expand import expand
from tests.cases import one_in
from tests.costmodel.mutants import MUTANTS, Mutant
from tests.costmodel.programs import GRAPHS, product_of, random_genes
from tests.hardware.simulator.programs import cell

FIELDS = {"peak": PEAK, "total": TOTAL, "traffic": TRAFFIC, "time": TIME}
PLANS = 6


@dataclass(frozen=True)
class Case:
    """A plan with the simulator's counts for it: peak and total memory, traffic, time."""

    name: str
    space: PlanSpace
    genes: Genes
    run: Execution

    @property
    def counted(self) -> dict[str, int]:
        peaks = self.run.peak_memory_bytes
        return {
            "peak": int(peaks.max()),
            "total": int(peaks.sum()),
            "traffic": self.run.traffic_bytes,
            "time": self.run.makespan_ticks,
        }


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Build cases: every hand-made graph on one node and on two, under abstract and random plans; one scatter."""
    rng = np.random.default_rng(7)
    found = []
    for name, make in GRAPHS.items():
        for mesh_name in ("dgx-h100", "2x-dgx-h100"):
            space = PlanSpace(make(), load_mesh(mesh_name))
            plans = (space.abstract_genes(), *(random_genes(rng, space) for _ in range(PLANS)))
            found += [case_of(f"{name} on {mesh_name}", space, genes) for genes in plans]
    return [*found, large_state(), scatter_over_nodes()]


def case_of(name: str, space: PlanSpace, genes: Genes) -> Case:
    program = expand(space.graph, space.placements(genes), space.mesh_shape)
    return Case(name, space, genes, simulate(program, space.mesh, dry=True))


def scatter_over_nodes() -> Case:
    """Build a product on sixteen devices whose terms are summed straight into sixteen parts: two steps, two slices."""
    space = PlanSpace(product_of(64, 16, 64), load_mesh("2x-dgx-h100"))
    genes = space.abstract_genes()
    everywhere = "node.0*gpu.0*gpu.1*gpu.2"
    for site, text in (("y", f"(-, -, {everywhere})"), ("y.out", f"({everywhere}, -)")):
        gene = space.gene_of[site]
        genes.strategies[gene] = [str(s) for s in space.families[gene].strategies].index(text)
    return case_of("scatter over nodes", space, genes)


def large_state() -> Case:
    """Build a state that is split, and a next value that is not: every device cuts its part out, which takes time."""
    b = GraphBuilder("state")
    state = b.source("s", (8192, 8192), "float32")
    b.sink(cell(b, "new", ("tanh", ("input", 0)), (state,)), site="next", carries="s")
    space = PlanSpace(b.build(), load_mesh("dgx-h100"))
    genes = space.abstract_genes()
    gene = space.gene_of["s"]
    strategies = [str(each) for each in space.families[gene].strategies]
    genes.strategies[gene] = strategies.index("(gpu.0*gpu.1*gpu.2, -)")
    return case_of("large state", space, replace(genes, strategies=space.with_state(genes.strategies)))


def differences(mutant: Mutant, cases: list[Case]) -> Iterator[tuple[Case, set[str]]]:
    """Yield each case with the counts that the mutant's prediction misses."""
    spaces: dict[int, CompiledSpace] = {}
    for case in cases:
        if id(case.space) not in spaces:
            spaces[id(case.space)] = mutant.arrays(case.space)
        predicted = mutant.predict(case.space, spaces[id(case.space)], case.genes)
        yield case, {name for name, k in FIELDS.items() if misses(name, predicted[k], case.counted[name])}


def misses(name: str, predicted: int, counted: int) -> bool:
    """Return whether a prediction is wrong: by one byte, or by a hundredth of the time."""
    return predicted != pytest.approx(counted, rel=0.01) if name == "time" else predicted != counted


@pytest.mark.slow
def test_the_honest_predictor_equals_the_simulator(cases: list[Case]) -> None:
    for case, missed in differences(Mutant(""), cases):
        predicted = case.space.evaluate(case.genes)
        assert missed == set(), case.name
        assert predicted[FLOPS] == case.run.flops.sum()
        assert predicted[PEAK_FLOPS] == case.run.flops.max()


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(3, MUTANTS))
def test_a_wrong_predictor_is_caught(name: str, cases: list[Case]) -> None:
    mutant = MUTANTS[name]
    caught: set[str] = set()
    for _, missed in differences(mutant, cases):
        caught |= missed
    assert caught >= set(mutant.caught_by.split())


@pytest.mark.slow
def test_a_wrong_predictor_goes_unnoticed_where_there_is_nothing_to_forget(cases: list[Case]) -> None:
    """Check that each mutant is wrong about one thing: without copies the wrong tables are never read."""
    copies = ("staging", "slice", "partials", "gathers", "exchanges", "halo", "shares", "again", "prefetched")
    abstract = cases[: -2 : PLANS + 1]
    for name in (n for n in MUTANTS if any(word in n for word in copies)):
        for case, missed in differences(MUTANTS[name], abstract):
            assert not case.genes.strategies.any()
            assert missed == set(), f"{name} on {case.name}"
