"""Collectives between the devices of a program that is split by hand, and the region that they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.devices import Collective, DevicePrograms, ManualMesh, Rows
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import RegionTranslator, Runner

OUTSIDE = (
    "is in no region that is split by hand (sdy.manual_computation), so its devices are unknown; import the program "
    "before it is partitioned"
)
# From the values that the members of a group have to those that they have afterwards.
GroupForm = Callable[[Runner, Operation, Sequence[Value]], list[Value]]


def _manual(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Translate a region that is split by hand as the programs of all devices, and what they send each other."""
    e = runner.emitter
    given, made = operation.get("in_shardings"), operation.get("out_shardings")
    names = {s.mesh for s in (*given, *made)}
    axes = runner.module.meshes.get(names.pop(), None) if len(names) == 1 else None
    if axes is None:
        raise e.refuse("is not split over one mesh that the module states, with its devices in order")
    left = [name for name, size in axes.items() if size > 1 and name not in operation.get("manual_axes")]
    if left:
        raise e.refuse(f"leaves axis {left[0]!r} to the compiler; split the program over all axes by hand")
    mesh = ManualMesh(e, axes)
    parts = [mesh.parts(value, sharding) for value, sharding in zip(operands, given, strict=True)]
    programs = DevicePrograms(runner, len(mesh.places), BY_COLLECTIVE)
    arguments = [[part[device] for part in parts] for device in range(len(mesh.places))]
    results = programs.run(operation.regions[0], arguments)
    e.resume(operation)
    return [
        mesh.whole([own[k] for own in results], sharding, kind.shape)
        for k, (sharding, kind) in enumerate(zip(made, operation.types, strict=True))
    ]


def _groups(e: Emitter, operation: Operation, count: int) -> list[list[int]]:
    """Return the devices of each group.

    Raises:
        ImportFailure: groups are of replicas, or a device is in none or in several.
    """
    if operation.short != "all_to_all" and "use_global_device_ids" not in operation.attributes:
        raise e.refuse("has groups of replicas; expected groups of devices (use_global_device_ids)")
    groups = [[int(d) for d in group if d >= 0] for group in operation.get("replica_groups")]
    members = sorted(d for group in groups for d in group)
    if members != list(range(count)):
        raise e.refuse(f"has groups {groups}; expected each of {count} devices in one of them")
    return groups


def _in_groups(form: GroupForm, runner: Runner, operation: Operation, operands: Rows) -> Rows:
    """Apply to the operands of each group a function from the members' values to theirs after."""
    found: Rows = [[] for _ in operands]
    for group in _groups(runner.emitter, operation, len(operands)):
        for k in range(len(operands[0])):
            made = form(runner, operation, [operands[d][k] for d in group])
            for device, value in zip(group, made, strict=True):
                found[device].append(value)
    return found


def _gathered(runner: Runner, operation: Operation, values: Sequence[Value]) -> list[Value]:
    joined = runner.emitter.concat(values, int(operation.get("all_gather_dim")))
    return [joined] * len(values)


def _combined(runner: Runner, operation: Operation, values: Sequence[Value]) -> Value:
    """Combine the members' terms by the body, in the order of the group."""
    body = operation.regions[0]
    return reduce(lambda a, b: runner.elementwise(body, [a, b])[0], values)


def _reduced(runner: Runner, operation: Operation, values: Sequence[Value]) -> list[Value]:
    return [_combined(runner, operation, values)] * len(values)


def _scattered(runner: Runner, operation: Operation, values: Sequence[Value]) -> list[Value]:
    axis = int(operation.get("scatter_dimension"))
    return _cut(runner.emitter, _combined(runner, operation, values), axis, len(values))


def _exchanged(runner: Runner, operation: Operation, values: Sequence[Value]) -> list[Value]:
    e = runner.emitter
    cut, joined = int(operation.get("split_dimension")), int(operation.get("concat_dimension"))
    rows = [_cut(e, value, cut, len(values)) for value in values]
    return [e.concat([row[k] for row in rows], joined) for k in range(len(values))]


def _cut(e: Emitter, value: Value, axis: int, count: int) -> list[Value]:
    size = value.shape[axis] // count
    return [e.part(value, axis, range(k * size, (k + 1) * size)) for k in range(count)]


def _permute(runner: Runner, operation: Operation, operands: Rows) -> Rows:
    """Send values along pairs of devices; who receives nothing has zeros."""
    pairs = np.asarray(operation.get("source_target_pairs")).reshape(-1, 2).tolist()
    senders = {target: source for source, target in pairs}
    if len(senders) < len(pairs) or len({source for source, _ in pairs}) < len(pairs):
        raise runner.emitter.refuse(f"has pairs {pairs}; expected each device to send and to receive once")
    if not all(0 <= device < len(operands) for pair in pairs for device in pair):
        raise runner.emitter.refuse(f"has pairs {pairs}; expected numbers of {len(operands)} devices")
    (value,) = operands[0]
    zero = runner.emitter.full(value.shape, 0, value.dtype)
    return [operands[senders[device]] if device in senders else [zero] for device in range(len(operands))]


def _partition(runner: Runner, operation: Operation, _: Sequence[Value]) -> Value:
    if runner.device is None:
        raise runner.emitter.refuse(OUTSIDE)
    return runner.emitter.know(np.array(runner.device, np.uint32), ())


def _outside(runner: Runner, _: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    raise runner.emitter.refuse(OUTSIDE)


COLLECTIVES = (
    Collective(("stablehlo.all_gather",), partial(_in_groups, _gathered)),
    Collective(("stablehlo.all_reduce",), partial(_in_groups, _reduced)),
    Collective(("stablehlo.reduce_scatter",), partial(_in_groups, _scattered)),
    Collective(("stablehlo.all_to_all",), partial(_in_groups, _exchanged)),
    Collective(("stablehlo.collective_permute",), _permute),
)
BY_COLLECTIVE = {name: collective for collective in COLLECTIVES for name in collective.operations}
MANUAL: tuple[RegionTranslator, ...] = (
    RegionTranslator(("sdy.manual_computation",), _manual),
    RegionTranslator(("stablehlo.partition_id",), _partition),
    RegionTranslator(tuple(BY_COLLECTIVE), _outside),
)
