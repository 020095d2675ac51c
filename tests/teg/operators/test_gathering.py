from itertools import product

import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators import operator_named
from tapestry.teg.zspace import ZRange


def defined(table, indices, axis):
    types = [TensorType(a.shape, a.dtype.name) for a in (table, indices)]
    return (*define("gather", attributes(axis=axis), types), types)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_a_gather_picks_slices_of_its_table(axis, shape, rng):
    table, indices = rng.standard_normal((3, 4, 5)), rng.integers(-3, 3, shape)
    definition, outputs, _ = defined(table, indices, axis)

    got = run_block(definition, None, (table, indices), outputs)[0]

    assert got.shape == (*table.shape[:axis], *shape, *table.shape[axis + 1 :])
    for point in product(*map(range, got.shape)):
        chosen = int(indices[point[axis : axis + len(shape)]])
        assert got[point] == table[(*point[:axis], chosen, *point[axis + len(shape) :])]


def test_shards_of_the_vocabulary_add_up(rng):
    table, indices = rng.standard_normal((10, 4)).astype(np.float32), rng.integers(-10, 10, (2, 3))
    definition, outputs, _ = defined(table, indices, 0)
    whole = run_block(definition, None, (table, indices), outputs)[0]

    parts = [
        run_block(definition, ZRange((0, 0, 0, start), (2, 3, 4, end)), (table, indices), outputs)[0]
        for start, end in ((0, 4), (4, 8), (8, 10))
    ]

    assert [d.kind for d in definition.signature.dims] == ["parallel"] * 3 + ["sum"]
    np.testing.assert_array_equal(sum(parts), whole)
    # Each position is found in exactly one shard.
    assert np.array_equal(sum((p != 0).any(axis=-1).astype(int) for p in parts), np.ones((2, 3)))


def test_a_gather_reads_the_rows_it_picks():
    """Check the case that the convention "declared reads" of `docs/sharding.md` names."""
    table, indices = np.zeros((50257, 768), np.float32), np.zeros((1, 1024), np.int64)
    definition, outputs, types = defined(table, indices, 0)

    work = operator_named("gather").work(definition, types, outputs)

    sizes = {d.name: d.size for d in definition.signature.dims}
    assert np.prod([sizes[name] for name in work.reads[0]]) == 1024 * 768


def test_a_gather_says_what_is_wrong():
    table, indices = np.zeros((4, 2), np.float32), np.array([4])
    definition, outputs, _ = defined(table, indices, 0)

    with pytest.raises(ValueError, match="indices must lie in \\[-4, 4\\), not in \\[4, 4\\]"):
        run_block(definition, None, (table, indices), outputs)
    with pytest.raises(ValueError, match="indices must be integers, not float32"):
        defined(table, indices.astype(np.float32), 0)
