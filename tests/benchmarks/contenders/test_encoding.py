"""Tests that vectors of tied decisions are plans of the search, and cost what the search says they do."""

import numpy as np
import pytest

from benchmarks.contenders.encoding import TINY, TiedEncoding, variant_front
from benchmarks.contenders.peers import first_vectors, propagated
from benchmarks.contenders.recorder import FrontRecorder
from tapestry.costmodel.plan_space import Genes
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.goal import objective_values
from tests.costmodel.programs import layers


@pytest.fixture(scope="module")
def encoding() -> TiedEncoding:
    state = propagated(layers(2), load_mesh("dgx-h100"), 0, FrontRecorder(60.0))
    return TiedEncoding(state.variants[0])


def test_a_vector_becomes_a_plan_and_a_vector_again(encoding: TiedEncoding) -> None:
    rows = encoding.random(20, np.random.default_rng(1))
    assert np.array_equal(encoding.encode(*encoding.decode(rows)), rows)


def test_tied_layers_get_the_same_genes(encoding: TiedEncoding) -> None:
    search = encoding.variant.search
    genes, _, _ = encoding.decode(encoding.random(1, np.random.default_rng(2)))
    for c in search.slot_classes:
        members = search.gene_members[search.gene_start[c] : search.gene_start[c + 1]]
        assert len(set(genes[0, members].tolist())) == 1


def test_vectors_cost_what_the_plan_space_says(encoding: TiedEncoding) -> None:
    rows = encoding.random(5, np.random.default_rng(3))
    values, violations = encoding.evaluate(rows)
    space, goal = encoding.variant.space, encoding.variant.submesh.goal
    for k, plan in enumerate(zip(*encoding.decode(rows), strict=True)):
        raw = space.evaluate(Genes(*(part.astype(np.int64) for part in plan)))
        expected = np.zeros(len(goal.epsilon))
        assert violations[k] == objective_values(goal, raw, expected)
        assert np.allclose(values[k], np.log(expected + TINY))


def test_a_first_population_has_the_plans_of_propagation(encoding: TiedEncoding) -> None:
    rows = first_vectors(encoding, np.random.default_rng(4))
    front = {tuple(row) for row in encoding.front().tolist()}
    assert front and front <= {tuple(row) for row in rows.tolist()}
    genes, _, _ = variant_front(encoding.variant)
    assert genes.shape == (int(encoding.variant.archive.size[0]), encoding.variant.space.gene_count)
