"""Programs of exchanges: a tensor is made in one sharding and read in another, and the copy between is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import RankGroup, Systems, group_of
from benchmarks.measurements.workload import COMMUNICATION, DTYPES, UnpredictedError, Workload, stated, whole
from tapestry.hardware.mesh import Mesh
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators.selectors import reversed_along, sliced, view_attributes
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy

LINK_BUFFER_BYTES = 512 * 2**20  # nvbandwidth's default buffer (its README, option --bufferSize)


class CollectiveCase(NamedTuple):
    """An exchange among the devices of a mesh: `elements` of the tensor that the benchmark counts bytes of."""

    mesh: Mesh
    elements: int
    dtype: str

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(s.name for s in MeshShape(self.mesh.axis_sizes).sub_axes)


def _placed(*splits: Sequence[str]) -> Placement:
    return Placement(Strategy(tuple(Split(tuple(axes)) if axes else WHOLE for axes in splits)))


def _copied(x: CollectiveCase, shape: tuple[int, ...], made: Placement, read: Placement) -> Workload:
    """Build the program of a source that is read in another sharding."""
    b = GraphBuilder("exchange")
    b.source("x", shape, x.dtype)
    b.sink("x", site="y")
    return Workload(b.build(), Placements({"x": made, "y": read}), x.mesh, COMMUNICATION)


def _reduced(x: CollectiveCase, read: Placement) -> Workload:
    """Build the program of partial sums, one term of the tensor on each device, that are read as sums."""
    b = GraphBuilder("exchange")
    b.source("terms", (x.mesh.device_count, x.elements), x.dtype)
    b.apply("reduce", ("terms",), site="sum", monoid="sum", labels=("d", "i"), output=("i",))
    b.sink("sum", site="y")
    graph = b.build()
    signature = graph.by_site["sum"].signature
    assert signature is not None
    placements = {
        "terms": _placed(x.axes, ()),
        "sum": _placed(*(x.axes if dim.name == "d" else () for dim in signature.dims)),
        "y": read,
    }
    return Workload(graph, Placements(placements), x.mesh, COMMUNICATION)


def _all_reduce(x: CollectiveCase) -> Workload:
    return _reduced(x, _placed(()))


def _reduce_scatter(x: CollectiveCase) -> Workload:
    return _reduced(x, _placed(x.axes))


def _all_gather(x: CollectiveCase) -> Workload:
    return _copied(x, (x.elements,), _placed(x.axes), _placed(()))


def _all_to_all(x: CollectiveCase) -> Workload:
    """Build the exchange of `elements` that each device holds, in equal pieces for all."""
    return _copied(x, (x.mesh.device_count, x.elements), _placed(x.axes, ()), _placed((), x.axes))


def _broadcast(x: CollectiveCase) -> Workload:
    """Build the read, by all devices, of the part that the first one holds."""
    return _sent(x, x.axes, x.mesh.device_count)


def _send_recv(x: CollectiveCase) -> Workload:
    """Build the sending of `elements` from each device of the slower half to its peer in the faster one."""
    sub_axes = MeshShape(x.mesh.axis_sizes).sub_axes
    if not sub_axes or sub_axes[0].size != 2:
        raise UnpredictedError(f"send_recv among {x.mesh.device_count} ranks is no set of pairs")
    return _sent(x, x.axes[:1], 2)


def _sent(x: CollectiveCase, along: Sequence[str], parts: int) -> Workload:
    """Build the read of the first of `parts` along these sub-axes; what runs across them has an exchange each."""
    across = tuple(name for name in x.axes if name not in along)
    beside = x.mesh.device_count // parts
    b = GraphBuilder("exchange")
    shape = (beside, parts * x.elements)
    b.source("x", shape, x.dtype)
    b.apply("view", ("x",), site="sent", **dict(view_attributes(sliced(shape, (0, 0), (beside, x.elements)))))
    b.sink("sent", site="y")
    placements = {"x": _placed(across, along), "y": _placed(across, ())}
    return Workload(b.build(), Placements(placements), x.mesh, COMMUNICATION)


# Operation -> its program, and bytes that cross the busiest bus per byte that the benchmark counts, for p ranks
# (nccl-tests, doc/PERFORMANCE.md).
EXCHANGES: Mapping[str, tuple[Callable[[CollectiveCase], Workload], Callable[[int], float]]] = {
    "all_reduce": (_all_reduce, lambda p: 2 * (p - 1) / p),
    "reduce_scatter": (_reduce_scatter, lambda p: (p - 1) / p),
    "all_gather": (_all_gather, lambda p: (p - 1) / p),
    "all_to_all": (_all_to_all, lambda p: (p - 1) / p),
    "broadcast": (_broadcast, lambda p: 1.0),
    "send_recv": (_send_recv, lambda p: 1.0),
}


def collective(question: Question, systems: Systems) -> Workload:
    """Build the workload of a collective among ranks, or of pairs that send and receive.

    Bytes are those of the unsharded tensor (gathered, to be reduced), in `all_to_all` those of one device, in
    `send_recv` those of one message.

    Raises:
        UnpredictedError: an unknown operation or machine, or inputs that are not stated.
    """
    operation = str(stated(question.inputs, "op", "operator"))
    if operation not in EXCHANGES:
        raise UnpredictedError(f"unknown collective {operation!r}; known are {', '.join(EXCHANGES)}")
    return exchange(question, systems, operation, group_of(question), whole(question.inputs, "bytes"))


def exchange(
    question: Question, systems: Systems, operation: str, group: RankGroup, size_bytes: int
) -> Workload:
    """Build the workload of one collective of so many bytes among a group."""
    build, bus_factor = EXCHANGES[operation]
    mesh = systems.joined(question, group)
    dtype = DTYPES.get(str(question.inputs.get("dtype", "fp16")), "float16")
    if size_bytes % item_bytes(dtype):
        dtype = "float8_e4m3fn"
    workload = build(CollectiveCase(mesh, size_bytes // item_bytes(dtype), dtype))
    ranks = group.nodes * group.ranks_per_node
    amounts = {"bus_bandwidth": bus_factor(ranks) * size_bytes, "algorithm_bandwidth": float(size_bytes)}
    return Workload(workload.graph, workload.placements, mesh, COMMUNICATION, amounts)


def link_bandwidth(question: Question, systems: Systems) -> Workload:
    """Build the workload of two devices of a node that read from each other; both directions count."""
    mesh = systems.joined(question, RankGroup(1, 2))
    axes = CollectiveCase(mesh, 0, "").axes
    b = GraphBuilder("exchange")
    shape = (2, LINK_BUFFER_BYTES)
    b.source("x", shape, "uint8")
    b.apply("view", ("x",), site="swapped", **dict(view_attributes(reversed_along(shape, (0,)))))
    b.sink("swapped", site="y")
    placements = Placements({"x": _placed(axes, ()), "y": _placed(axes, ())})
    amounts = {question.quantity: 2.0 * LINK_BUFFER_BYTES}
    return Workload(b.build(), placements, mesh, COMMUNICATION, amounts)
