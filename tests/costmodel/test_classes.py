"""Tests of the convention "device classes" of `docs/sharding.md`.

Devices that no table distinguishes are costed once.
"""

import numpy as np

from tapestry.costmodel.kernel_arrays import PEAK_FLOPS, TOTAL
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.sharding.expand import expand
from tests.costmodel.programs import GRAPHS, product_of, random_genes


def test_sizes_that_divide_make_all_devices_equal() -> None:
    space = PlanSpace(product_of(64, 64, 64), load_mesh("2x-dgx-h100"))
    assert space.space.classes.tolist() == [16]
    assert space.device_class.tolist() == [0] * 16


def test_ragged_chunks_make_a_class_of_their_own() -> None:
    # 12 rows on 8 devices: chunks of 2 and two empty ones; on 4: 3 each; on 2: 6 each.
    space = PlanSpace(product_of(12, 64, 64), load_mesh("dgx-h100"))
    first, last = space.device_class[0], space.device_class[7]
    assert first != last
    assert space.device_class.tolist() == [first] * 6 + [last] * 2
    assert sorted(space.space.classes.tolist()) == [2, 6]


def test_classes_count_every_device_once_and_stand_for_it() -> None:
    """Check for random plans that the counts of each class are the simulator's for every one of its devices."""
    rng = np.random.default_rng(3)
    for name, make in GRAPHS.items():
        mesh = load_mesh("dgx-h100")
        space = PlanSpace(make(), mesh)
        counts = np.bincount(space.device_class, minlength=len(space.space.classes))
        assert counts.tolist() == space.space.classes.tolist()
        for _ in range(3):
            genes = random_genes(rng, space)
            run = simulate(expand(space.graph, space.placements(genes), space.mesh_shape), mesh, dry=True)
            for label in range(len(counts)):
                members = space.device_class == label
                assert len(np.unique(run.peak_memory_bytes[members])) == 1, name
                assert len(np.unique(run.flops[members])) == 1, name
            cost = space.evaluate(genes)
            assert cost[TOTAL] == run.peak_memory_bytes.sum()
            assert cost[PEAK_FLOPS] == run.flops.max()
