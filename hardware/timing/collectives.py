"""Seconds of exchanges between devices: latency and bandwidth by kind of collective and topology.

A copy is a few rounds, each a collective on one mesh axis. The rounds of its two phases, reductions and then the fetch,
work on pieces one after another: while one piece is on a fast axis, the one before it is on a slow axis. More pieces
overlap more and start more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tapestry.hardware.collective_tables import CollectiveTable, error_of, nearest_table
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.timing.quantiles import quantile_factor
from tapestry.hardware.timing.units import Floats, Ticks, seconds, ticks
from tapestry.teg.sharding.copies import Round

# Step kind -> its bulk phases.
RAMPS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "broadcast": 1, "all_to_all": 0, "fetch": 0}
SEND = "send"  # what goes from one part of a mesh to another: a fetch by pairs of devices, on the whole axis
STEP_KINDS = (*RAMPS, SEND)
SETTLING = 8  # times that the start of a step is taken from a curve that follows from it
TINY_S = 1e-15  # less than a tick; its logarithm is finite
REDUCTIONS = ("reduce_scatter", "all_reduce")  # the phase of a copy before its fetch


Route = tuple[int, float]
"""The latencies that a step pays in sequence, and its bytes on the busiest link per byte received."""


def _routes(axis: MeshAxis, kind: str, members: int, stride: int) -> tuple[Route, ...]:
    """Return the routes that a step may take, by topology; the faster one counts.

    A broadcast sends one device's bytes from member to member, piece by piece, so that its links carry what each
    device receives, as those of an all-gather. With links between all members, it sends all bytes to each, or
    scatters pieces that they exchange. Around a torus, either all bytes go both ways and meet in the middle, or half
    of them go all the way round.
    """
    if kind == "broadcast" and members > 2 and axis.topology == "fully_connected":
        return (1, 1.0), (2, 1 / (members - 1))
    if kind == "broadcast" and axis.topology == "torus" and members * stride == axis.size:
        return (ceil(members / 2) * stride, 1.0 * stride), ((members - 1) * stride, 0.5 * stride)
    return (_rounds_and_load(axis, kind, members, stride),)


def _rounds_and_load(axis: MeshAxis, kind: str, members: int, stride: int) -> Route:
    """Return the one route of a step, or that of an all-gather for a broadcast."""
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

    `max_received_bytes`, any shape, is the most that any device receives in the step. For n bytes of full tensor that
    is (p-1)/p n for `all_gather` and `reduce_scatter`, 2(p-1)/p n for `all_reduce`, and n for `broadcast`, which comes
    from one member. In `all_to_all` and `fetch` the senders are not known here: the bytes are taken as coming evenly
    from all members. A `send` is a fetch on the whole axis, of which `axis` may be a part. `stride` is the distance on
    the axis between neighbors of a group (2 for every second device); the groups in between share the links of a ring,
    torus or line. Zero bytes, or one member, take 0 ticks.

    alpha-beta: latency per round + bytes on the busiest link / bandwidth; rounds and load per topology:
    switch: one round per phase (fits measurements better than log2 p or p-1). fully connected: likewise, the bytes
    over p-1 links, but those of a fetch over one. ring, one way: p-1 rounds,
    scattered load p/2. line: p-1 rounds, scattered load floor(p/2) ceil(p/2) / (p-1). torus, two ways: half
    of a line's loads, p/2 rounds. tree: log2 p rounds, all-reduce 2n. A group that does not reach around the
    axis (members x stride < size) is a line on a torus; one that does, whatever its stride, is a ring. broadcast: as
    an all-gather by which each device receives as much, but fully connected two rounds, or one over one link, and on a
    torus p-1 rounds, or p/2 with twice the load.

    Whatever the figures of an axis, half an all-reduce takes no longer than the whole, nor does a broadcast that is not
    measured; where all-reduces are measured and halves are not, no less than half of the whole; and an all-reduce
    that follows from other measurements, or is among two, takes no longer than both halves. Through a switch, kinds
    that are not measured take no less than on the next faster axis among as many of its devices. Pieces from other
    members take no less than an all-gather of the same bytes. An all-gather or a broadcast among two devices is a send
    and a receive, where these are measured or neither is. No device receives faster than all of its links together.

    Returns:
        int64 array of the shape of `max_received_bytes`.

    Raises:
        ValueError: unknown kind, or a group that does not fit on the axis.

    Sources: Thakur et al. 2005 section 5; nccl-tests PERFORMANCE.md (bytes); scaling-book, sharding chapter
    (torus); tt-metal CCL_bandwidth report (line, and a ring that halves it).
    """
    if kind not in STEP_KINDS:
        raise ValueError(f"expected a step kind among {', '.join(STEP_KINDS)}, not {kind!r}")
    if kind == SEND:
        axis, kind = axis.whole, "fetch"
    if members < 1 or stride < 1 or members * stride > axis.size:
        raise ValueError(
            f"{members} members at distance {stride} do not fit on axis {axis.name!r} of size {axis.size}"
        )
    received = np.asarray(max_received_bytes, dtype=np.float64)
    if members == 1:
        return np.zeros(received.shape, np.int64)
    return ticks(np.where(received == 0, 0.0, _step_s(axis, kind, members, received, stride)))


def _step_s(axis: MeshAxis, kind: str, members: int, received: Floats, stride: int) -> Floats:
    """Compute the seconds of one step, within the bounds that `step_ticks` states."""
    kinds = (kind, "all_gather") if kind in {"fetch", "all_to_all"} else (kind,)
    least_s = _link_s(axis, kind, members, received) * max(_late(axis, each, members) for each in kinds)
    if axis.inner is not None and axis.topology == "switch" and not is_measured(axis, kind):
        near = min(members, axis.inner.size)
        least_s = np.maximum(least_s, _step_s(axis.inner, kind, near, received, 1))
    return np.maximum(_ordered_s(axis, kind, members, received, stride), least_s)


def _link_s(axis: MeshAxis, kind: str, members: int, received: Floats) -> Floats:
    """Compute the seconds that all links of a device together take at full rate; links that reduce send sums once."""
    links = {"fully_connected": members - 1, "torus": 2, "line": 2}.get(axis.topology, 1)
    phases = 2 if kind == "all_reduce" and _reduces(axis, members) else 1
    return np.asarray(received / (phases * links * axis.bandwidth_bytes_per_s))


def _ordered_s(axis: MeshAxis, kind: str, members: int, received: Floats, stride: int) -> Floats:
    """Compute the seconds of one step, with the order among kinds that `step_ticks` states."""
    time_s = _calibrated_s(axis, kind, members, received, stride)
    is_own = is_measured(axis, kind)
    is_sent = kind in {"all_gather", "broadcast"} and members == 2 and not is_own
    if is_sent:
        sent_s = _calibrated_s(axis, "fetch", members, received, stride)
        if is_measured(axis, "fetch"):
            time_s = sent_s
        elif step_table(axis, kind, members) is None:
            time_s = np.minimum(time_s, sent_s)
    if kind in {"all_gather", "reduce_scatter"}:
        whole_s = _calibrated_s(axis, "all_reduce", members, 2 * received, stride)
        is_known = is_own or not is_measured(axis, "all_reduce")
        if is_sent and is_measured(axis, "fetch"):
            is_known = not is_measured_among(axis, "all_reduce", members)
        return np.minimum(time_s if is_known else np.maximum(time_s, whole_s / 2), whole_s)
    is_inferred = members == 2 or bool(axis.collectives)
    if kind == "all_reduce" and is_inferred and not is_measured_among(axis, kind, members):
        halves = ("reduce_scatter", "all_gather")
        return np.minimum(
            time_s, sum(_ordered_s(axis, each, members, received / 2, stride) for each in halves)
        )
    if kind == "broadcast" and not is_own:  # an all-reduce with nothing from the other members is one
        reduced = received * received_share("all_reduce", members)
        return np.minimum(time_s, _calibrated_s(axis, "all_reduce", members, reduced, stride))
    if kind == "fetch" or (kind == "all_to_all" and not is_own):
        return np.maximum(time_s, _ordered_s(axis, "all_gather", members, received, stride))
    return time_s


def is_measured(axis: MeshAxis, kind: str) -> bool:
    """Return whether the axis has measurements of a step kind, among however many devices, or groups over two axes."""
    known = (table for table in axis.collectives if table.inside == 1 or axis.inner is not None)
    return any(table.kind == measured_kind(kind) for table in known)


def is_measured_among(axis: MeshAxis, kind: str, members: int) -> bool:
    """Return whether the axis has measurements of a step kind among exactly so many devices."""
    table = step_table(axis, measured_kind(kind), members)
    return table is not None and (table.kind, table.members) == (measured_kind(kind), members)


def followed_kind(axis: MeshAxis, kind: str, members: int) -> str:
    """Return the measured kind from whose tables a step's time follows, or from those nearest to it.

    An all-gather or a broadcast among two devices, if none is measured, is a send and a receive.
    """
    is_sent = kind in {"all_gather", "broadcast"} and members == 2 and not is_measured(axis, kind)
    return measured_kind("fetch" if is_sent and is_measured(axis, "fetch") else kind)


def measured_kind(kind: str) -> str:
    """Return what a step kind is called where it is measured: a fetch among pairs is a send and a receive."""
    return "send_recv" if kind == "fetch" else kind


def _calibrated_s(axis: MeshAxis, kind: str, members: int, received: Floats, stride: int) -> Floats:
    """Compute the seconds of one step from the figures of the axis, corrected by the nearest measurements of it.

    They are the median, or the axis's `quantile`.
    """
    time_s = _alpha_beta_s(axis, kind, members, received, stride)
    curve = _curve(axis, kind, members)
    median_s = time_s if curve is None else curve.corrected(time_s)
    return median_s * _late(axis, kind, members)


def _late(axis: MeshAxis, kind: str, members: int) -> float:
    """Return the axis's quantile of the time of a step over its median; 1 for medians."""
    return 1.0 if axis.quantile is None else _step_factor(axis, kind, members)


def _reduces(axis: MeshAxis, members: int) -> bool:
    """Return whether the links themselves reduce: for the whole axis only."""
    return members == axis.size and axis.all_reduce_efficiency is not None


@lru_cache(maxsize=4096)
def _step_factor(axis: MeshAxis, kind: str, members: int) -> float:
    """Compute the axis's quantile of the time of a step over its median."""
    return quantile_factor(axis.quantile, step_error(axis, measured_kind(kind), members))


def step_table(axis: MeshAxis, measured: str, members: int) -> CollectiveTable | None:
    """Return the measurements from which the time of a step on an axis follows, given a kind that is measured."""
    return nearest_table(axis.collectives, measured, members, _inside(axis))


def step_error(axis: MeshAxis, measured: str, members: int) -> float:
    """Return the error of the time of a step that follows from measurements of a kind, or from those nearest to it."""
    return error_of(step_table(axis, measured, members), measured, members, _inside(axis))


def _inside(axis: MeshAxis) -> int:
    return 1 if axis.inner is None else axis.inner.size


class Curve(NamedTuple):
    """Measured times by the times that alpha-beta gives for the same exchanges, logarithms of both ascending.

    A correction by time rather than by size serves other groups and kinds too: where alpha-beta has one exchange take
    longer than another, it still does so afterwards.
    """

    computed: Floats
    measured: Floats

    def corrected(self, time_s: Floats) -> Floats:
        """Interpolate between logarithms; beyond the first and the last measurement the ratio stays.

        Below the first one it is 1 at least, as far as that takes no longer than what was measured: latencies do not
        shrink with the bytes. Between two equal measurements all times are the same, to the last bit.
        """
        computed = np.log(np.maximum(time_s, TINY_S))
        inside = np.clip(computed, self.computed[0], self.computed[-1])
        found = np.interp(inside, self.computed, self.measured) + (computed - inside)
        below = np.maximum(found, np.minimum(computed, self.measured[0]))
        return np.asarray(np.exp(np.where(computed < self.computed[0], below, found)))

    @staticmethod
    def of(computed_s: Floats, measured_s: ArrayLike) -> Curve:
        """Build a curve from times, ascending both; equal computed ones count once, as the last of them."""
        last = np.append(np.diff(computed_s) > 0, True)
        return Curve(np.log(computed_s[last]), np.log(np.asarray(measured_s, dtype=np.float64)[last]))


@lru_cache(maxsize=4096)
def _curve(axis: MeshAxis, kind: str, members: int) -> Curve | None:
    """Build the curve of the nearest measurements on an axis; None if there are none."""
    table = step_table(axis, measured_kind(kind), members)
    if table is None:
        return None
    if table.inside > 1 and axis.inner is not None:
        return _curve_of_groups(axis.whole, axis.inner, table)
    as_step = "fetch" if table.kind == "send_recv" else table.kind
    received = np.array(table.bytes) * received_share(table.kind, table.members)
    return Curve.of(_alpha_beta_s(axis.whole, as_step, table.members, received, 1), table.seconds)


def _curve_of_groups(slow: MeshAxis, fast: MeshAxis, table: CollectiveTable) -> Curve:
    """Build the curve of what groups over two axes, measured as one, take on the slow one.

    A time is that by which the pieces on both axes, one after another as in `pipelined_ticks`, take what was measured.
    """
    fast = replace(fast, size=max(fast.size, table.inside))
    crossing, *others = group_rounds(table, slow.name, fast.name, np.array(table.bytes))
    own, least = np.zeros((2, len(table.bytes)), np.int64)
    for each, received in others:
        own += step_ticks(fast, each.kind, each.members, received)
        least += start_ticks(fast, each.kind, each.members)
    least = np.minimum(own, least)
    computed = _alpha_beta_s(slow, table.kind, table.members, crossing[1], 1)
    single_s = _alpha_beta_s(slow, table.kind, table.members, np.ones(1), 1)
    whole, curve = ticks(table.seconds), Curve.of(computed, computed)
    for _ in range(SETTLING):
        start = ticks(curve.corrected(single_s))
        low, high = np.zeros_like(whole), whole.copy()
        while (high - low).max() > 1:
            middle = (low + high) // 2
            starts = np.minimum(middle, start)
            taken = pipelined_ticks(np.stack([own - least, middle - starts], axis=-1), least + starts)
            low, high = np.where(taken < whole, middle, low), np.where(taken < whole, high, middle)
        curve = Curve.of(computed, seconds(np.maximum.accumulate(np.maximum(high, 1))))
    return curve


def group_rounds(group: CollectiveTable, slow: str, fast: str, sizes: Floats) -> list[tuple[Round, Floats]]:
    """Return the rounds of a collective of so many bytes over two axes, and what each device receives in each.

    Kind and members are those of `group`; the round that crosses the slow axis comes first.
    """
    rounds = [
        (
            Round(slow, group.kind, group.members, 1),
            sizes / group.inside * received_share(group.kind, group.members),
        ),
        (Round(fast, group.kind, group.inside, 1), sizes * received_share(group.kind, group.inside)),
    ]
    if group.kind == "broadcast":  # what crosses the slow axis in slices is gathered on the fast one
        gathered = sizes * received_share("all_gather", group.inside)
        rounds.append((Round(fast, "all_gather", group.inside, 1), gathered))
    return rounds


def received_share(kind: str, members: int) -> float:
    """Return the bytes that a device receives per byte that the measurement of a collective counts.

    Source: nccl-tests PERFORMANCE.md.
    """
    if kind in {"send_recv", "fetch", "broadcast"}:
        return 1.0
    return (2 if kind == "all_reduce" else 1) * (members - 1) / members


def _alpha_beta_s(axis: MeshAxis, kind: str, members: int, received: Floats, stride: int) -> Floats:
    """Compute the seconds of one step from the figures of the axis."""
    efficiency = axis.efficiency
    if kind == "all_reduce" and _reduces(axis, members) and axis.all_reduce_efficiency is not None:
        efficiency = axis.all_reduce_efficiency
    times = []
    for rounds, load in _routes(axis, kind, members, stride):
        busy_s = RAMPS[kind] * axis.ramp_s + load * received / (axis.bandwidth_bytes_per_s * efficiency)
        if axis.small_message_bytes_per_s is not None:
            busy_s = np.minimum(busy_s, load * received / axis.small_message_bytes_per_s)
        times.append(rounds * axis.latency_s + busy_s)
    return np.asarray(np.minimum.reduce(times))


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
        mine = (k for k, each in enumerate(rounds) if (each.kind in REDUCTIONS) == reduces)
        phase = [k for k in mine if received[..., k].any()]
        shape = (*total.shape, len(mesh.axes))
        taken, least = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k in phase:
            axis, kind, members, stride = rounds[k]
            own = step_ticks(mesh.axis(axis), kind, members, received[..., k], stride)
            start = np.minimum(own, start_ticks(mesh.axis(axis), kind, members, stride))
            if axis in slow:
                own, start = (np.ceil(each * slow[axis]).astype(np.int64) for each in (own, start))
            at = mesh.axes.index(mesh.axis(axis))
            taken[..., at] += own
            least[..., at] += start
        total += pipelined_ticks(taken - least, least.sum(axis=-1))
    return total


@lru_cache(maxsize=65536)
def start_ticks(axis: MeshAxis, kind: str, members: int, stride: int = 1) -> int:
    """Compute the ticks of a step that moves a single byte: what does not shrink with the pieces it is cut in."""
    return int(step_ticks(axis, kind, members, 1, stride))


def pipelined_ticks(work: Ticks, start: Ticks) -> Ticks:
    """Compute the ticks of stages that work on the pieces of one thing, each after the stage before.

    `work`, `(..., stages)`, is what each takes for the whole, and `start`, `(...)`, what all of them together add per
    piece. k pieces take as long as the slowest stage, 1/k of the others before and after it, and k starts: the least
    over k is 2 sqrt(others x start) - start more than the slowest, where the others take longer than a start. One
    piece (k = 1) takes the sum.

    Returns:
        int64 array of shape `(...)`.
    """
    slowest = work.max(axis=-1, initial=0)
    others = work.sum(axis=-1) - slowest
    cut = np.ceil(2 * np.sqrt(others.astype(np.float64) * start)).astype(np.int64) - start
    return np.asarray(start + slowest + np.where(others > start, cut, others))
