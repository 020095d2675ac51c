"""A hunt for holes in the seconds of plans: no copy or block gets faster by doing more of the same.

A search finds whatever a model of time gets wrong, so what is tried is drawn at random: shardings and shapes on meshes
of the catalog, and collectives of any size on their axes. What is moved is counted by the simulator, from other code
than the table that is tried.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.resharding_tables import copy_table
from tapestry.hardware import Mesh, MeshAxis, load_mesh, mesh_names
from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.simulator.rounds import CopyCounts
from tapestry.hardware.simulator.storage import ShardStorage
from tapestry.hardware.simulator.work import block_work
from tapestry.hardware.timing import TICKS_PER_S, copy_ticks, step_ticks
from tapestry.hardware.timing.collectives import is_measured, is_measured_among
from tapestry.teg.sharding.copies import Round, plan_copy
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.cases import examples
from tests.hardware.simulator.programs import random_placements, random_program
from tests.teg.sharding.specs import random_needed, random_spec

pytestmark = pytest.mark.slow

MESHES = (
    *(
        "dgx-h100",
        "dgx-h200",
        "dgx-b200",
        "p3-16xlarge",
        "mi300x-8",
        "gb200-nvl72",
        "2x-dgx-h100",
        "2x-aws-p4d",
    ),
    *("2x-aws-p5", "8x-azure-nd-a100-v4", "t3000", "tpu-v4-2x2x2", "n300"),
)
NETWORKED = tuple(name for name in mesh_names() if load_mesh(name).network is not None)
BYTES = 4
RECEIVED = st.integers(2, 2**33)


class Copied(NamedTuple):
    """A copy: what the table says that it takes, its rounds, and the bytes that the simulator counts."""

    ticks: int
    rounds: tuple[Round, ...]
    size_bytes: tuple[int, ...]
    counts: CopyCounts


def random_copies(rng: np.random.Generator, mesh: Mesh) -> list[Copied]:
    """Draw shardings of tensors of a few sizes, and cost the copies between them."""
    mesh_shape, rank = MeshShape(mesh.axis_sizes), int(rng.integers(1, 4))
    found = []
    shape = tuple(int(n) for n in rng.integers(1, 33, rank))
    for _ in range(3):
        shape = tuple(n * int(rng.integers(1, 5)) for n in shape)
        made = [random_spec(rng, rank, mesh_shape, partial=True) for _ in range(3)]
        needed = [random_needed(rng, shape, mesh_shape) for _ in range(3)]
        table = copy_table(shape, BYTES, made, needed, mesh, mesh_shape)
        for (p, n), ticks in np.ndenumerate(table.ticks):
            plan = plan_copy(made[p], needed[n], shape, mesh_shape)
            if plan is not None:
                found.append(copied(int(ticks), count_copy(plan, shape, mesh_shape, BYTES, False)))
    return found


def copied(ticks: int, counts: CopyCounts) -> Copied:
    """Describe a copy by its rounds and its bytes: received in each of them, kept, and packed."""
    received = [int(exchange.received_bytes.max()) for exchange in counts.exchanges]
    moved = [int(counts.kept_bytes.max()), sum(int(packed.max()) for packed in counts.packed_bytes)]
    packs = len(counts.packed_bytes)
    return Copied(ticks, tuple(e.round for e in counts.exchanges), (*received, *moved, packs), counts)


@pytest.mark.parametrize("name", MESHES)
@settings(max_examples=examples(12))
@given(st.integers(0, 2**32 - 1))
def test_no_copy_gets_faster_by_moving_more_of_the_same(name: str, seed: int) -> None:
    groups: dict[tuple[Round, ...], list[Copied]] = defaultdict(list)
    for copy in random_copies(np.random.default_rng(seed), load_mesh(name)):
        groups[copy.rounds].append(copy)
    for copies in groups.values():
        for less in copies:
            for more in copies:
                if np.all(np.array(less.size_bytes) <= more.size_bytes):
                    assert less.ticks <= more.ticks, (less, more)


@settings(max_examples=examples(12))
@given(st.integers(0, 2**32 - 1))
def test_nothing_crosses_hosts_faster_than_their_network(seed: int) -> None:
    mesh = load_mesh("2x-dgx-h100")
    network, hosts = mesh.axes[0], MeshShape(mesh.axis_sizes).axis_coordinates[:, 0]
    for copy in random_copies(np.random.default_rng(seed), mesh):
        links = copy.counts.link_bytes
        assert links is not None
        between = np.where(hosts[:, None] != hosts[None, :], links, 0)
        least_s = int(between.sum(axis=0).max()) / network.bandwidth_bytes_per_s
        assert copy.ticks >= least_s * TICKS_PER_S


@settings(max_examples=examples(20))
@given(st.integers(0, 2**32 - 1))
def test_no_block_gets_faster_by_doing_more_of_the_same(seed: int) -> None:
    rng, mesh = np.random.default_rng(seed), load_mesh("dgx-h100")
    graph, mesh_shape = random_program(rng), MeshShape(mesh.axis_sizes)
    whole = expand(graph, Placements({}), mesh_shape)
    split = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    alone, shared = (
        {
            slot.step.site: block_work(program, slot.step, mesh.device, ShardStorage(mesh.device))
            for slot in program.slots
        }
        for program in (whole, split)
    )
    for site, work in shared.items():
        grows = (work.flops <= alone[site].flops) & (work.accessed_bytes <= alone[site].accessed_bytes)
        assert (work.ticks <= alone[site].ticks)[grows].all(), site


def groups_of(axis: MeshAxis) -> list[tuple[int, int]]:
    """Return members and distance of every regular group on an axis."""
    strides = [s for s in range(1, axis.size) if axis.size % s == 0]
    return [(p, s) for s in strides for p in range(2, axis.size // s + 1) if axis.size // s % p == 0]


@given(name=st.sampled_from(mesh_names()), received=RECEIVED)
def test_kinds_keep_their_order(name: str, received: int) -> None:
    for axis in load_mesh(name).axes:
        for members, stride in groups_of(axis):
            once, twice = received, 2 * received
            ticks = {
                kind: int(step_ticks(axis, kind, members, once, stride))
                for kind in ("all_gather", "reduce_scatter", "fetch", "all_to_all", "broadcast")
            }
            both = int(step_ticks(axis, "all_reduce", members, twice, stride))
            assert ticks["reduce_scatter"] <= both
            assert ticks["all_gather"] <= both
            assert ticks["fetch"] >= ticks["all_gather"]
            halves = any(is_measured(axis, kind) for kind in ("all_gather", "reduce_scatter"))
            in_halves = ticks["all_gather"] + ticks["reduce_scatter"]
            if is_measured(axis, "all_reduce") and not halves:
                assert in_halves >= both - 2
            is_inferred = members == 2 or bool(axis.collectives)
            if is_inferred and not is_measured_among(axis, "all_reduce", members):
                assert in_halves >= both - 2
            links = {"fully_connected": members - 1, "torus": 2, "line": 2}.get(axis.topology, 1)
            if axis.all_reduce_efficiency is None:
                assert both * links * axis.bandwidth_bytes_per_s >= twice * TICKS_PER_S * (1 - 1e-9)
            others = (members - 1) * once  # an all-gather in which every member sends as much
            assert ticks["broadcast"] <= int(step_ticks(axis, "all_gather", members, others, stride))
            if not is_measured(axis, "all_to_all"):
                assert ticks["all_to_all"] >= ticks["all_gather"]


@given(name=st.sampled_from(NETWORKED), received=RECEIVED)
def test_hosts_exchange_no_faster_than_the_devices_of_one(name: str, received: int) -> None:
    between, inside, *_ = load_mesh(f"8x-{name}").axes
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "fetch", "all_to_all", "broadcast"):
        for members in (2, 4, 8):
            if members <= inside.size and not is_measured(between, kind):
                near = int(step_ticks(inside, kind, members, received))
                assert int(step_ticks(between, kind, members, received)) >= near


@pytest.mark.parametrize("name", ["2x-dgx-h100", "2x-aws-p4d", "2x-aws-p5", "4x-coreweave-a100"])
@given(size=st.integers(2**10, 2**33))
def test_nothing_over_two_axes_is_faster_than_the_collective_over_both(name: str, size: int) -> None:
    mesh = load_mesh(name)
    slow, fast = mesh.axes

    def taken(kind: str, share: int = 1, axes: tuple[MeshAxis, ...] = (fast, slow)) -> int:
        """Return what an exchange of `share * size` bytes takes that each device ends up with, or has."""
        left = {fast.name: share * size, slow.name: share * size // fast.size}
        received = [left[axis.name] * (axis.size - 1) // axis.size for axis in axes]
        return int(copy_ticks(mesh, [Round(axis.name, kind, axis.size, 1) for axis in axes], received))

    gathered, reduced = taken("all_gather"), taken("all_reduce", 2)
    rounding = 8
    assert taken("fetch") >= gathered
    assert taken("all_gather", axes=(fast,)) + taken("all_gather", axes=(slow,)) >= gathered - rounding
    assert taken("all_reduce", 2, axes=(fast,)) + taken("all_reduce", 2, axes=(slow,)) >= reduced - rounding


def test_few_bytes_take_no_less_than_the_latency_of_a_link() -> None:
    for name in ("dgx-a100", "dgx-h100", "2x-aws-p4d", "4x-coreweave-a100"):
        for axis in load_mesh(name).axes:
            for kind in ("all_reduce", "all_gather", "fetch", "all_to_all", "broadcast"):
                least_s = min(
                    [axis.latency_s, *(t.seconds[0] / 2 for t in axis.collectives if t.inside == 1)]
                )
                assert int(step_ticks(axis, kind, axis.size, 1)) >= least_s * TICKS_PER_S
