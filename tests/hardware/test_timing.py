"""Tests of time, energy and price to the tick, against figures computed by hand; more work never takes less."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.hardware import (
    Device,
    MatrixTile,
    Mesh,
    MeshAxis,
    MissingFigureError,
    device_names,
    load_device,
    load_mesh,
    mesh_names,
)
from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.timing import (
    STEP_KINDS,
    TICKS_PER_S,
    block_ticks,
    copy_ticks,
    energy_pj,
    seconds,
    slowed_ticks,
    step_ticks,
    ticks,
)
from tapestry.hardware.timing.collectives import pipelined_ticks
from tapestry.teg.sharding.copies import Round

ROUND = Device(  # 1 Tflop/s of contractions, 0.1 Tflop/s of vectors, 1 TB/s of memory
    name="round",
    vendor="nobody",
    memory_bytes=10**9,
    memory_bytes_per_s=1e12,
    peak_flops_per_s={"fp32": 1e12, "bf16": 2e12},
    vector_flops_per_s=1e11,
    cores=4,
    tiles=(MatrixTile(16, 16, 16),),
    layouts=("row_major",),
    launch_overhead_s=0.0,
    contraction_overhead_s=0.0,
    contraction_efficiency=0.5,
    memory_efficiency=0.5,
    vector_efficiency=0.25,
    compute_dtype_default={"fp16": "bf16"},
    idle_power_w=100.0,
    joules_per_flop={"fp32": 4e-12, "bf16": 2e-12, "vector": 8e-12},
    joules_per_memory_byte=16e-12,
    joules_per_link_byte=32e-12,
    price_usd_per_hour=3.6,
)
AMOUNTS = st.integers(0, 2**40)
SIZES = st.integers(1, 4096)


def axis(topology: str, size: int = 8, **others: Any) -> MeshAxis:
    """Build a mesh axis with 1 byte per tick; a round costs 100 ticks."""
    return MeshAxis("a", size, topology, 1e12, 100e-12, **others)


@pytest.mark.parametrize(
    ("kind", "flops", "moved", "expected"),
    [
        ("contraction", 1000, 0, 2000),  # 1 flop per tick at peak, half of it reached
        ("contraction", 1000, 3000, 6000),  # memory-bound: 1 byte per tick, half of it reached
        ("vector", 100, 0, 4000),  # 0.1 flop per tick, a quarter of it reached
        ("vector", 0, 100, 400),
        ("move", 10**6, 100, 200),  # flops do not count
        ("none", 10**6, 10**6, 0),
        ("contraction", 0, 0, 0),
    ],
)
def test_the_roofline(kind: str, flops: int, moved: int, expected: int) -> None:
    assert block_ticks(ROUND, kind, flops, moved, "float32") == expected


def test_precision_follows_the_program_the_option_and_the_vendor() -> None:
    assert block_ticks(ROUND, "contraction", 1000, 0, "float32", compute_dtype="bf16") == 1000
    assert block_ticks(ROUND, "contraction", 1000, 0, "float16") == 1000
    with pytest.raises(MissingFigureError, match="float64"):
        block_ticks(ROUND, "contraction", 1000, 0, "float64")


def test_a_contraction_pays_for_whole_tiles_and_whole_waves() -> None:
    # Given tiles of 16 x 16 x 16 = 8192 flops on 4 cores of 1/8 flop per tick each: a wave takes 65,536 ticks.
    m, n, k, batch = np.array(
        [[16, 16, 16, 1], [64, 16, 16, 1], [65, 16, 16, 1], [1, 1, 17, 4], [16, 16, 16, 5]]
    ).T
    taken = block_ticks(ROUND, "contraction", 2 * m * n * k * batch, 0, "fp32", m=m, n=n, k=k, batch=batch)
    assert taken.tolist() == [65_536, 65_536, 131_072, 131_072, 131_072]


def test_the_best_tile_shape_is_taken() -> None:
    device = load_device("a100-80")
    few_rows, square = (
        block_ticks(device, "contraction", 2 * m * 512 * 4096, 0, "bf16", m=m, n=512, k=4096)
        for m in (8, 2048)
    )
    assert few_rows < square


def test_launches_are_paid_by_work_only() -> None:
    device = load_device("h100")
    idle, busy = block_ticks(device, "vector", [0, 1], [0, 8], "float32")
    assert idle == 0
    assert busy == ticks(device.launch_overhead_s + 8 / (3.35e12 * device.vector_efficiency))


@pytest.mark.parametrize(
    ("topology", "kind", "members", "received", "expected"),
    [
        ("switch", "all_gather", 8, 7000, 100 + 7000),
        ("switch", "all_reduce", 8, 14_000, 200 + 14_000),
        ("switch", "fetch", 8, 1000, 100 + 1000),
        ("ring", "all_gather", 8, 7000, 700 + 7000),
        ("ring", "all_reduce", 8, 14_000, 1400 + 14_000),
        ("ring", "all_to_all", 8, 7000, 700 + 4 * 7000),
        ("torus", "all_gather", 8, 7000, 400 + 3500),
        ("torus", "all_reduce", 8, 14_000, 800 + 7000),
        ("torus", "all_to_all", 8, 7000, 400 + 8000),  # 1 + 2 + 3 + 4/2 hops of 1000 bytes in each direction
        ("torus", "fetch", 4, 3000, 300 + 4000),
        ("torus", "all_gather", 5, 4000, 400 + 4000),
        ("line", "reduce_scatter", 8, 7000, 700 + 7000),
        ("line", "all_to_all", 8, 7000, 700 + 16_000),  # 16 pairs of 1000 bytes cross the middle link
        ("torus", "all_gather", 4, 3000, 300 + 3000),  # half a torus is a line
        ("switch", "broadcast", 8, 8000, 100 + 8000),
        ("ring", "broadcast", 8, 8000, 700 + 8000),
        ("line", "broadcast", 8, 8000, 700 + 8000),
        ("tree", "broadcast", 8, 8000, 300 + 8000),
        ("torus", "broadcast", 8, 8000, 700 + 4000),  # half of the bytes each way round
        ("torus", "broadcast", 8, 100, 400 + 100),  # all bytes both ways, half round
        ("torus", "broadcast", 4, 8000, 300 + 8000),
        (
            "fully_connected",
            "broadcast",
            8,
            7000,
            200 + 1000,
        ),  # a seventh to each member, which they exchange
        ("fully_connected", "broadcast", 8, 70, 100 + 70),  # all bytes to each
        ("tree", "all_gather", 8, 7000, 300 + 7000),
        ("tree", "all_reduce", 8, 14_000, 600 + 16_000),  # 2 n, n = 8000
    ],
)
def test_alpha_beta_by_topology(topology: str, kind: str, members: int, received: int, expected: int) -> None:
    assert step_ticks(axis(topology), kind, members, received) == expected


@given(name=st.sampled_from(mesh_names()), received=AMOUNTS)
def test_a_broadcast_takes_no_longer_than_collectives_that_hold_it(name: str, received: int) -> None:
    """Check that an all-gather with as much from every member, and an all-reduce of the tensor, take as long or longer.

    A broadcast is an all-gather from which the pieces of the other members are left out.
    """
    for each in load_mesh(name).axes:
        sent = step_ticks(each, "broadcast", each.size, received)
        assert sent <= step_ticks(each, "all_gather", each.size, (each.size - 1) * received)
        if not any(table.kind == "broadcast" for table in each.collectives) and each.size > 1:
            whole = -(-2 * (each.size - 1) * received // each.size)
            assert sent <= step_ticks(each, "all_reduce", each.size, whole)


def test_a_broadcast_has_measurements_of_its_own() -> None:
    sent = measured(kind="broadcast", bytes=(8, 8000), seconds=(324e-12, 16_200e-12))
    known = axis("switch", collectives=(measured(), sent))
    assert step_ticks(known, "broadcast", 8, [8, 8000]).tolist() == [324, 16_200]
    pair = measured(kind="send_recv", members=2, bytes=(8, 8000), seconds=(150e-12, 8100e-12))
    known = axis("switch", collectives=(measured(), pair))
    assert step_ticks(known, "broadcast", 2, [8, 8000]).tolist() == [150, 8100]


def test_stages_work_on_as_many_pieces_as_take_the_least_time() -> None:
    start = np.full(4, 100)
    work = np.array([[900, 400], [900, 100], [0, 0], [400, 900]])
    taken = pipelined_ticks(work, start)
    assert taken.tolist() == [
        100 + 900 + 300,
        100 + 900 + 100,
        100,
        100 + 900 + 300,
    ]  # two pieces, one, none, two
    assert taken[0] == min(900 + 400 / k + 100 * k for k in range(1, 9))


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=3), st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_work_in_a_stage_never_takes_less(work: list[int], start: int, more: int) -> None:
    before = int(pipelined_ticks(np.array(work), np.array(start)))
    assert start + max(work) <= before <= start + sum(work)
    for stage in range(len(work)):
        longer = [n + more * (k == stage) for k, n in enumerate(work)]
        assert int(pipelined_ticks(np.array(longer), np.array(start))) >= before
    assert int(pipelined_ticks(np.array(work), np.array(start + more))) >= before


def test_interleaved_groups_share_a_line_but_not_a_switch() -> None:
    assert step_ticks(axis("line"), "all_gather", 4, 3000, stride=2) == 600 + 6000
    assert step_ticks(axis("switch"), "all_gather", 4, 3000, stride=2) == 100 + 3000


def busiest_link(size: int, stride: int) -> float:
    """Compute the busiest link's bytes in a two-way ring if every member of every group receives one byte in all."""
    links: dict[tuple[int, int], float] = {}
    starts = [(first, first + hop) for first in range(size) for hop in range(stride, size, stride)]
    for first, last in starts:
        for direction, hops in ((1, last - first), (-1, size - last + first)):
            share = 1.0 if 2 * hops < size else 0.5 if 2 * hops == size else 0.0
            for step in range(hops):
                link = (first + direction * step) % size, direction
                links[link] = links.get(link, 0.0) + share / (size // stride - 1)
    return max(links.values())


@pytest.mark.parametrize(
    ("size", "stride"), [(2, 1), (4, 1), (4, 2), (5, 1), (8, 1), (8, 2), (8, 4), (9, 3), (16, 2)]
)
def test_scattered_bytes_on_a_torus_are_those_of_every_pair_on_its_shorter_way(
    size: int, stride: int
) -> None:
    members = size // stride
    rounds = -(-members // 2) * stride
    taken = step_ticks(axis("torus", size), "all_to_all", members, 10**9, stride=stride)
    assert taken == pytest.approx(rounds * 100 + busiest_link(size, stride) * 10**9, abs=1)


@pytest.mark.parametrize("members", [2, 4, 8, 16])
def test_an_exchange_on_a_torus_tends_to_a_quarter_of_a_gather(members: int) -> None:
    # scaling-book, sharding, question 10, for an array of n bytes in all; exactly p / (p - 1) quarters of it
    bare = MeshAxis("a", members, "torus", 1e12, 0.0)
    n = 15 * 16 * 10**9
    gather = step_ticks(bare, "all_gather", members, n * (members - 1) // members)
    exchange = step_ticks(bare, "all_to_all", members, n // members * (members - 1) // members)
    assert exchange * 4 * (members - 1) == pytest.approx(gather * members, rel=1e-9)


def test_a_matrix_product_on_tensix_cores_by_hand() -> None:
    # 33 x 65 outputs are 2 x 3 tiles of 32 x 32, of k = 100 rounded up to 128: one wave of 64 cores.
    device = load_device("n150")
    taken = block_ticks(device, "contraction", 2 * 33 * 65 * 100, 0, "bf16", m=33, n=65, k=100)
    wave_s = 64 * 2 * 32 * 32 * 128 / (74e12 * device.figures("matrix_product", "bf16").efficiency)
    assert taken == ticks(device.launch_overhead_s + wave_s)


def test_a_strided_group_reaches_around_a_torus_and_a_block_of_neighbors_does_not() -> None:
    ring, block = axis("torus", 8), axis("torus", 8)
    assert step_ticks(ring, "all_gather", 4, 3000, stride=2) == 400 + 3000  # two groups share both directions
    assert step_ticks(block, "all_gather", 4, 3000) == 300 + 3000  # a line, three hops
    assert step_ticks(axis("ring", 8), "all_gather", 4, 3000, stride=2) == 600 + 6000


@pytest.mark.parametrize("axis_name", ["x", "y", "z"])
@pytest.mark.parametrize(
    ("kind", "received", "hops_s", "wire_s"),
    [
        # 64 MiB over one axis of a TPU v4 cube, links of 45 GB/s a way: n / (2 x 45e9) x 3/4 (scaling-book)
        ("all_gather", 48 * 2**20, 2e-6, 48 * 2**20 / 90e9),
        ("reduce_scatter", 48 * 2**20, 2e-6, 48 * 2**20 / 90e9),
        ("all_reduce", 96 * 2**20, 4e-6, 96 * 2**20 / 90e9),
        ("all_to_all", 48 * 2**20, 2e-6, 16 * 2**20 * 2 / 45e9),  # a link: 1 + 2/2 hops of 16 MiB
    ],
)
def test_the_axes_of_a_cube_by_hand(
    axis_name: str, kind: str, received: int, hops_s: float, wire_s: float
) -> None:
    cube = load_mesh("tpu-v4-4x4x4")
    assert step_ticks(cube.axis(axis_name), kind, 4, received) == ticks(hops_s + wire_s)


def test_the_axes_of_a_galaxy_by_hand() -> None:
    rows, columns = load_mesh("galaxy-4x8").axes
    reached = 4 * 12.5e9 * rows.efficiency  # four 100 Gb/s links per edge and direction
    mebibyte = 2**20
    assert step_ticks(columns, "all_gather", 8, 7 * mebibyte) == ticks(
        4 * columns.latency_s + 3.5 * mebibyte / reached
    )
    assert step_ticks(rows, "all_reduce", 4, 6 * mebibyte) == ticks(
        4 * rows.latency_s + 3 * mebibyte / reached
    )
    assert step_ticks(columns, "all_to_all", 8, 7 * mebibyte) == ticks(
        4 * columns.latency_s + 8 * mebibyte / reached
    )
    idle = load_mesh("galaxy-4x8").part((("x", 4), ("y", 4)))
    assert [each.topology for each in idle.axes] == ["torus", "line"]


def test_small_messages_take_the_protocol_without_a_ramp() -> None:
    two_protocols = axis("switch", ramp_s=900e-12, small_message_bytes_per_s=1e11)
    assert step_ticks(two_protocols, "all_gather", 8, [10, 100, 1000]).tolist() == [200, 1100, 2000]


def test_a_switch_that_reduces_does_so_for_the_whole_axis_only() -> None:
    reducing = axis("switch", efficiency=0.5, all_reduce_efficiency=1.0)
    assert step_ticks(reducing, "all_reduce", 8, 1000) == 200 + 1000
    assert step_ticks(reducing, "all_reduce", 4, 1000) == 200 + 2000


def measured(**others: Any) -> CollectiveTable:
    """Build measurements of an all-reduce among 8: twice what alpha-beta gives for 8 bytes, as much for 8000."""
    fields = {"kind": "all_reduce", "members": 8, "bytes": (8, 8000), "seconds": (428e-12, 14_200e-12)}
    return CollectiveTable(**{**fields, "error": 0.1, "source": "made up", **others})


def test_measurements_correct_alpha_beta() -> None:
    # Given 214 ticks computed and 428 measured for 8 bytes, 14,200 of both for 8000: between, the logarithms of both.
    known = axis("switch", collectives=(measured(),))
    taken = step_ticks(known, "all_reduce", 8, [7, 14, 14_000, 28_000])
    assert taken.tolist() == pytest.approx([2 * 207, 428, 14_200, 28_200], abs=1)
    share = np.log(1600 / 214) / np.log(14_200 / 214)
    assert step_ticks(known, "all_reduce", 8, 1400) == pytest.approx(428 * (14_200 / 428) ** share, abs=1)


def test_equal_measurements_are_one_time_between_them() -> None:
    flat = measured(bytes=(8, 8000), seconds=(17.03e-6, 17.03e-6))
    received = np.arange(14, 14_000)
    assert len({*step_ticks(axis("switch", collectives=(flat,)), "all_reduce", 8, received).tolist()}) == 1


@pytest.mark.parametrize("topology", ["switch", "fully_connected", "torus"])
def test_no_device_receives_faster_than_its_links(topology: str) -> None:
    # Given measurements of another machine, 100 times faster than the links of this one.
    known = axis(topology, collectives=(measured(seconds=(4e-12, 142e-12)),))
    links = {"switch": 1, "fully_connected": 7, "torus": 2}[topology]
    for kind in STEP_KINDS:
        least = 10**9 / (links * known.bandwidth_bytes_per_s) / (2 if kind == "all_reduce" else 1)
        assert seconds(step_ticks(known, kind, 8, 10**9)) >= least * (1 - 1e-9)


def test_other_groups_and_kinds_follow_from_the_nearest_measurements() -> None:
    pairs = measured(members=2, bytes=(8, 8000), seconds=(832e-12, 8200e-12))
    known = axis("switch", collectives=(measured(), pairs))
    assert step_ticks(known, "all_reduce", 8, 14_000) == 14_200
    assert step_ticks(known, "all_reduce", 4, 14_000) == 14_200  # as near to 8 as to 2: the larger group
    assert step_ticks(known, "all_reduce", 2, 8) == pytest.approx(832, abs=1)
    assert step_ticks(known, "reduce_scatter", 8, 114) == pytest.approx(
        428, abs=1
    )  # computed as for the 8 bytes


def test_measurements_of_a_network_hold_for_groups_over_both_axes() -> None:
    # Given two nodes of 8: 16 ticks more than 400 of latency computed for 8 bytes, 1500 measured.
    table = measured(members=2, inside=8, bytes=(8, 80_000), seconds=(1500e-12, 280_000e-12))
    network = MeshAxis("node", 2, "switch", 1e12, 100e-12, collectives=(table,))
    mesh = Mesh("two", ROUND, (network, axis("switch")))
    rounds = [Round("a", "all_reduce", 8, 1), Round("node", "all_reduce", 2, 1)]
    assert copy_ticks(mesh, rounds, [14, 1]) == pytest.approx(1500, rel=0.01)
    assert copy_ticks(mesh, rounds, [140_000, 10_000]) == pytest.approx(280_000, rel=0.01)
    alone = copy_ticks(
        mesh, rounds[1:], [10_000]
    )  # of 280 us, what the node does not take: 10_200 by its links
    assert 100_000 < alone < 280_000
    assert copy_ticks(mesh, rounds[:1], [140_000]) + alone >= 280_000


@given(st.integers(8, 10**9), st.integers(2, 1000), st.integers(1, 10**6), st.integers(1, 100))
def test_a_group_takes_what_was_measured(size: int, times: int, first_us: int, longer: int) -> None:
    """More bytes take no less on the slow axis: by what the fast one takes, times may exceed the table's."""
    known_s = (first_us * 1e-6, first_us * longer * 1e-6)
    table = measured(members=2, inside=8, bytes=(8 * size, 8 * times * size), seconds=known_s)
    network = MeshAxis("node", 2, "switch", 1e12, 1e-6, collectives=(table,))
    mesh = Mesh("two", ROUND, (network, axis("switch")))
    rounds = [Round("a", "all_reduce", 8, 1), Round("node", "all_reduce", 2, 1)]
    for moved, time_s in zip(table.bytes, table.seconds, strict=True):
        received = np.array([14 * moved // 8, moved // 8], np.int64)
        inside = int(copy_ticks(mesh, rounds[:1], received[:1]))
        taken, wanted = int(copy_ticks(mesh, rounds, received)), time_s * TICKS_PER_S
        assert wanted * 0.99 <= taken <= max(wanted, moved) * 1.01 + inside


def test_measurements_with_a_switch_that_reduces_can_be_left_out() -> None:
    ring = measured(algorithm="ring", seconds=(428e-12, 28_400e-12))
    known = axis("switch", all_reduce_efficiency=1.0, collectives=(measured(algorithm="in_switch"), ring))
    assert step_ticks(known, "all_reduce", 8, 14_000) == 14_200
    assert step_ticks(replace(known, in_switch=False), "all_reduce", 8, 14_000) == 28_400


def test_part_of_an_axis_keeps_its_measurements() -> None:
    mesh = Mesh("one", ROUND, (axis("torus", collectives=(measured(seconds=(2e-9, 9e-9)),)),))
    part = mesh.part((("a", 4),)).axes[0]
    assert part.topology == "line"
    assert step_ticks(part, "all_gather", 4, 3000) < step_ticks(axis("line", 4), "all_gather", 4, 3000) * 2


def test_nothing_received_takes_no_time() -> None:
    assert step_ticks(axis("ring"), "fetch", 8, [0, 0]).tolist() == [0, 0]
    assert step_ticks(axis("ring"), "fetch", 1, 99) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda: step_ticks(axis("ring"), "gather", 8, 1),
        lambda: step_ticks(axis("ring"), "fetch", 9, 1),
        lambda: step_ticks(axis("ring"), "fetch", 4, 1, stride=3),
        lambda: block_ticks(ROUND, "gemm", 1, 1, "fp32"),
        lambda: block_ticks(ROUND, "contraction", 1, 1, "fp32", m=1, n=1),
        lambda: ticks(-1.0),
        lambda: ticks(float("nan")),
        lambda: ticks(1e8),
    ],
)
def test_impossible_questions_are_refused(ask: object) -> None:
    with pytest.raises(ValueError, match=r"expected|fit|gives"):
        ask()  # type: ignore[operator]


def test_ticks_round_up_once_and_hold_hours() -> None:
    assert ticks([0.0, 1.5e-12, 3600.0]).tolist() == [0, 2, 3600 * 10**12]
    assert seconds(ticks(86_400.0)) == 86_400.0
    assert ticks(0.0).dtype == np.int64


def test_energy_by_hand() -> None:
    assert energy_pj(ROUND, "fp32", 10, 10, 10) == 40 + 160 + 320
    assert energy_pj(ROUND, "bfloat16", 10, 0, 0) == 20
    assert energy_pj(ROUND, "bfloat16", [10, 20], 0, 0, kind="vector").tolist() == [80, 160]


@given(kind=st.sampled_from(("contraction", "vector", "move")), flops=AMOUNTS, moved=AMOUNTS, more=AMOUNTS)
def test_more_work_never_takes_less_time_or_energy(kind: str, flops: int, moved: int, more: int) -> None:
    device = load_device("h100")
    less, *others = block_ticks(
        device, kind, [flops, flops + more, flops], [moved, moved, moved + more], "float32"
    )
    assert all(less <= other for other in others)
    assert energy_pj(device, "float32", flops, moved, 0) <= energy_pj(device, "float32", flops, moved, more)


@given(
    name=st.sampled_from(device_names()),
    m=SIZES,
    n=SIZES,
    k=SIZES,
    batch=st.integers(1, 64),
    more=SIZES,
)
def test_a_larger_contraction_never_takes_less_time(
    name: str, m: int, n: int, k: int, batch: int, more: int
) -> None:
    sizes = np.array([m, n, k, batch]) + more * np.vstack([np.zeros(4), np.eye(4)]).astype(int)
    m_, n_, k_, b_ = sizes.T
    taken = block_ticks(
        load_device(name), "contraction", 2 * sizes.prod(1), 0, "bf16", m=m_, n=n_, k=k_, batch=b_
    )
    assert all(taken[0] <= taken[1:])


@given(name=st.sampled_from(mesh_names()), kind=st.sampled_from(STEP_KINDS), received=AMOUNTS, more=AMOUNTS)
def test_more_bytes_never_take_less_time(name: str, kind: str, received: int, more: int) -> None:
    for each in load_mesh(name).axes:
        for members in range(2, each.size + 1):
            less, other = step_ticks(each, kind, members, [received, received + more])
            assert less <= other


@pytest.mark.parametrize(
    ("block", "copying", "expected"),
    [
        (600, 0, 600),
        (600, -50, 600),
        (
            600,
            400,
            700,
        ),  # 400 ticks at three cores of four, the remaining 300 ticks of four cores' work after it
        (600, 800, 800),  # all of it at three cores of four
        (600, 10**6, 800),
        (0, 10**6, 0),
    ],
)
def test_blocks_lack_the_cores_that_copies_take(block: int, copying: int, expected: int) -> None:
    device = replace(ROUND, communication_cores=1)
    assert int(slowed_ticks(device, block, copying)) == expected
    assert int(slowed_ticks(ROUND, block, copying)) == block


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 3), st.integers(0, 10**6))
def test_a_block_that_begins_later_beside_a_copy_does_not_end_sooner(
    block: int, copying: int, taken: int, later: int
) -> None:
    device = replace(ROUND, communication_cores=taken)
    end = int(slowed_ticks(device, block, copying))
    assert end <= later + int(slowed_ticks(device, block, copying - later))
    assert end <= int(slowed_ticks(device, block + 1, copying)) and end <= int(
        slowed_ticks(device, block, copying + 1)
    )
