"""Seconds of exchanges between devices: latency and bandwidth by kind of collective and topology."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from tapestry.hardware.mesh import MeshAxis
from tapestry.hardware.timing.units import Ticks, ticks

RAMPS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 0, "fetch": 0}  # bulk phases
STEP_KINDS = tuple(RAMPS)


def _rounds_and_load(axis: MeshAxis, kind: str, members: int, stride: int) -> tuple[int, float]:
    """Return (latencies paid in sequence, bytes on the busiest link per byte received), by topology."""
    scattered = kind in {"all_to_all", "fetch"}  # who sends to whom is not a ring's neighborhood
    phases = 2 if kind == "all_reduce" else 1
    if axis.topology == "switch":
        return phases, 1.0
    if axis.topology == "tree":
        rounds = phases * ceil(np.log2(members))
        return rounds, members / (members - 1) if kind == "all_reduce" else 1.0
    closed = (
        members * stride == axis.size
    )  # a group around the whole axis; its neighbors' groups share the links
    if axis.topology == "ring":
        shared = (
            1 if closed else 2
        )  # the way back from the last member to the first takes the other direction
        return phases * (members - 1) * stride, shared * stride * (members / 2 if scattered else 1.0)
    across = (members // 2) * ((members + 1) // 2) / (members - 1)
    if (
        axis.topology == "torus" and closed
    ):  # both directions: half of what a line carries, at half its distance
        return phases * ceil(members / 2) * stride, stride * (across / 2 if scattered else 0.5)
    return phases * (members - 1) * stride, stride * (across if scattered else 1.0)


def step_ticks(
    axis: MeshAxis, kind: str, members: int, max_received_bytes: ArrayLike, stride: int = 1
) -> Ticks:
    """Compute the ticks of one step of a collective or fetch among groups of `members` devices on one mesh axis.

    `max_received_bytes`, any shape, is the most that any device receives in the step. For n bytes of full
    tensor that is (p-1)/p n for `all_gather` and `reduce_scatter`, and 2(p-1)/p n for `all_reduce`, which
    is both phases. In `all_to_all` and `fetch` the senders are not known here: the bytes are taken as
    coming evenly from all members. `stride` is the distance on the axis between neighbors of a group (2
    for every second device); the groups in between share the links of a ring, torus or line. Zero bytes, or
    one member, take 0 ticks.

    alpha-beta: latency per round + bytes on the busiest link / bandwidth; rounds and load per topology:
    switch: one round per phase (fits measurements better than log2 p or p-1). ring, one way: p-1 rounds,
    scattered load p/2. line: p-1 rounds, scattered load floor(p/2) ceil(p/2) / (p-1). torus, two ways: half
    of a line's loads, p/2 rounds. tree: log2 p rounds, all-reduce 2n. A group that does not reach around the
    axis (members x stride < size) is a line on a torus; one that does, whatever its stride, is a ring.

    Returns:
        int64 array of the shape of `max_received_bytes`.

    Raises:
        ValueError: unknown kind, or a group that does not fit on the axis.

    Sources: Thakur et al. 2005 section 5; nccl-tests PERFORMANCE.md (bytes); scaling-book, sharding chapter
    (torus); tt-metal CCL_bandwidth report (line, and a ring that halves it).
    """
    if kind not in STEP_KINDS:
        raise ValueError(f"expected a step kind among {', '.join(STEP_KINDS)}, not {kind!r}")
    if members < 1 or stride < 1 or members * stride > axis.size:
        raise ValueError(
            f"{members} members at distance {stride} do not fit on axis {axis.name!r} of size {axis.size}"
        )
    received = np.asarray(max_received_bytes, dtype=np.float64)
    if members == 1:
        return np.zeros(received.shape, np.int64)
    rounds, load = _rounds_and_load(axis, kind, members, stride)
    efficiency = axis.efficiency
    if kind == "all_reduce" and members == axis.size and axis.all_reduce_efficiency is not None:
        efficiency = axis.all_reduce_efficiency
    busy_s = RAMPS[kind] * axis.ramp_s + load * received / (axis.bandwidth_bytes_per_s * efficiency)
    if axis.small_message_bytes_per_s is not None:
        busy_s = np.minimum(busy_s, load * received / axis.small_message_bytes_per_s)
    return ticks(np.where(received == 0, 0.0, rounds * axis.latency_s + busy_s))
