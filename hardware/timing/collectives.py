"""Seconds of exchanges between devices: latency and bandwidth by kind of collective and topology.

A copy is a few rounds, each a collective on one mesh axis. The rounds of its two phases, reductions and then the fetch,
work on pieces one after another: while one piece is on a fast axis, the one before it is on a slow axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.timing.units import Floats, Ticks, ticks
from tapestry.teg.sharding.copies import Round

RAMPS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 0, "fetch": 0}  # bulk phases
STEP_KINDS = tuple(RAMPS)
REDUCTIONS = ("reduce_scatter", "all_reduce")  # the phase of a copy before its fetch


def _rounds_and_load(axis: MeshAxis, kind: str, members: int, stride: int) -> tuple[int, float]:
    """Return (latencies paid in sequence, bytes on the busiest link per byte received), by topology."""
    scattered = kind in {"all_to_all", "fetch"}  # who sends to whom is not a ring's neighborhood
    phases = 2 if kind == "all_reduce" else 1
    if axis.topology == "switch":
        return phases, 1.0
    if axis.topology == "fully_connected":  # every other member is behind a link of its own
        return phases, 1.0 if kind == "fetch" else 1 / (members - 1)
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
    tensor that is (p-1)/p n for `all_gather` and `reduce_scatter`, and 2(p-1)/p n for `all_reduce`. In `all_to_all`
    and `fetch` the senders are not known here: the bytes are taken as coming evenly from all members. `stride` is the
    distance on the axis between neighbors of a group (2 for every second device); the groups in between share the
    links of a ring, torus or line. Zero bytes, or one member, take 0 ticks.

    alpha-beta: latency per round + bytes on the busiest link / bandwidth; rounds and load per topology:
    switch: one round per phase (fits measurements better than log2 p or p-1). fully connected: likewise, the bytes
    over p-1 links, but those of a fetch over one. ring, one way: p-1 rounds,
    scattered load p/2. line: p-1 rounds, scattered load floor(p/2) ceil(p/2) / (p-1). torus, two ways: half
    of a line's loads, p/2 rounds. tree: log2 p rounds, all-reduce 2n. A group that does not reach around the
    axis (members x stride < size) is a line on a torus; one that does, whatever its stride, is a ring.

    Whatever the figures of an axis, half an all-reduce takes no longer than the whole, and pieces from other members
    no less than an all-gather of the same bytes, of which one among two devices is a send and a receive.

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
    return ticks(np.where(received == 0, 0.0, _step_s(axis, kind, members, received, stride)))


def _step_s(axis: MeshAxis, kind: str, members: int, received: Floats, stride: int) -> Floats:
    """Compute the seconds of one step, with the order among kinds that `step_ticks` states."""
    time_s = _alpha_beta_s(axis, kind, members, received, stride)
    if kind == "all_gather" and members == 2:
        time_s = np.minimum(time_s, _alpha_beta_s(axis, "fetch", members, received, stride))
    if kind in {"all_gather", "reduce_scatter"}:
        return np.minimum(time_s, _alpha_beta_s(axis, "all_reduce", members, 2 * received, stride))
    if kind in {"all_to_all", "fetch"}:
        return np.maximum(time_s, _step_s(axis, "all_gather", members, received, stride))
    return time_s


def _alpha_beta_s(axis: MeshAxis, kind: str, members: int, received: Floats, stride: int) -> Floats:
    """Compute the seconds of one step from the figures of the axis."""
    rounds, load = _rounds_and_load(axis, kind, members, stride)
    efficiency = axis.efficiency
    if kind == "all_reduce" and members == axis.size and axis.all_reduce_efficiency is not None:
        efficiency = axis.all_reduce_efficiency
    busy_s = RAMPS[kind] * axis.ramp_s + load * received / (axis.bandwidth_bytes_per_s * efficiency)
    if axis.small_message_bytes_per_s is not None:
        busy_s = np.minimum(busy_s, load * received / axis.small_message_bytes_per_s)
    return np.asarray(rounds * axis.latency_s + busy_s)


def copy_ticks(
    mesh: Mesh,
    rounds: Sequence[Round],
    max_received_bytes: ArrayLike,
    slow: Mapping[str, float] = MappingProxyType({}),
) -> Ticks:
    """Compute the ticks of the rounds of a copy.

    `max_received_bytes` `(..., rounds)` is the most that any device receives in each of them. The reductions are one
    phase and the rest another. A phase takes the latency of every round, and then as long as the mesh axis that takes
    longest: axes have links of their own and work on different pieces at one time, while the rounds of one axis share
    its links. `slow` lengthens what crosses an axis by a factor.

    Returns:
        int64 array of shape `(...)`.

    Raises:
        ValueError: as for `step_ticks`.
    """
    received = np.asarray(max_received_bytes, dtype=np.int64)
    total = np.zeros(received.shape[:-1], dtype=np.int64)
    for reduces in (True, False):
        longest = np.zeros_like(total)
        by_axis: dict[str, Ticks] = {}
        for k, (axis, kind, members, stride) in enumerate(rounds):
            if (kind in REDUCTIONS) != reduces:
                continue
            least = step_ticks(mesh.axis(axis), kind, members, 1, stride)
            taken = step_ticks(mesh.axis(axis), kind, members, received[..., k], stride)
            if axis in slow:
                least, taken = (np.ceil(each * slow[axis]).astype(np.int64) for each in (least, taken))
            least = np.minimum(least, taken)
            total += least
            by_axis[axis] = by_axis.get(axis, 0) + taken - least
            longest = np.maximum(longest, by_axis[axis])
        total += longest
    return total
