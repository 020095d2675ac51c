"""Tests of the tables of single dimensions against plain counts over devices, for random ranges."""

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.lowered_specs import lowered
from tapestry.costmodel.range_loops import all_owners, demands, kept_of_part, likes, overlaps
from tapestry.costmodel.resharding_loops import MeshArrays
from tapestry.costmodel.resharding_tables import mesh_arrays
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, Split
from tests.cases import examples

MESH = MeshShape.of(node=4, gpu=6)


def random_split(rng: np.random.Generator) -> tuple[Spec, np.ndarray]:
    """Return a spec of one dimension, split along some sub-axes in order of the mesh, and which these are."""
    is_split = rng.random(len(MESH.sub_axes)) < 0.5
    axes = tuple(s.name for s, split in zip(MESH.sub_axes, is_split, strict=True) if split)
    return Spec((Split(axes, int(rng.choice([1, 1, 3])) if axes else 1),)), is_split


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_tables_of_a_dimension_are_counts_over_devices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 60))
    (held, splits), (wanted, needed_splits) = random_split(rng), random_split(rng)
    mesh, specs = mesh_arrays(MESH), lowered([held, wanted], (size,), MESH)
    have, need = np.ascontiguousarray(specs.boxes[:1, :, 0]), np.ascontiguousarray(specs.boxes[1:, :, 0])
    lengths = overlaps(have, need, mesh.block)
    shares = np.array([prod(s.size for s, n in zip(MESH.sub_axes, needed_splits, strict=True) if n)])
    demand = demands(have, need, shares)[0, 0]
    alike = likes(splits[None], needed_splits[None], mesh)
    constant, granules = np.zeros(1, np.bool_), np.array([held.dims[0].granule])
    owned = all_owners(
        lengths, size, granules, splits[None], need, needed_splits[None], constant, alike, mesh
    )[0, 0]

    common = np.array([[common_length(a, b) for b in need[0]] for a in have[0]])
    assert demand.tolist() == (common.sum(axis=1) * int(shares[0]) // len(common)).tolist()
    kept = kept_of_part(lengths[0, 0, :, -1].copy(), splits, needed_splits, mesh)
    assert kept.tolist() == [
        sum(int(common[e, e]) for e in alike_but(mesh, d, needed_splits & ~splits))
        for d in range(len(common))
    ]
    for a, axis in enumerate(MESH.axes):
        mine = np.array([s.axis == axis[0] for s in MESH.sub_axes])
        faster = mesh.owner > a
        for d in range(len(common)):
            group = alike_but(mesh, d, (mine & splits & ~needed_splits) | faster)
            places = {tuple(mesh.coordinates[e, mine]) for e in group if common[e, d] > 0}
            assert owned[a, d] == min(len(places), 2)


def common_length(a: np.ndarray, b: np.ndarray) -> int:
    return max(0, int(min(a[1], b[1]) - max(a[0], b[0])))


def alike_but(mesh: MeshArrays, d: int, free: np.ndarray) -> list[int]:
    """Return the devices that differ from `d` along `free` sub-axes only."""
    differs = mesh.coordinates != mesh.coordinates[d]
    return np.flatnonzero(~(differs & ~free).any(axis=1)).tolist()
