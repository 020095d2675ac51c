"""The memory of a plan over time as JSON: a step curve per class of devices, and what lives when, by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.hardware import Mesh
from tapestry.hardware.simulator.memory_profile import (
    COPY,
    STAGING,
    Allocation,
    MemoryProfile,
    profile_memory,
)
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Plan
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.tensor_roles import TENSOR_ROLES, tensor_roles

COPIES, STAGED = "copies", "staging"
ROLES = (*TENSOR_ROLES, COPIES, STAGED)
MOST_SLOTS = 200_000
MOST_LIVE = 200  # of the largest at the peak that are listed with all that is known of them


class MemoryRefusal(ValueError):
    """Error raised for a plan whose memory is not counted slot by slot; the message gives the reason."""


def memory_document(plan: Plan, mesh: Mesh, compute_dtype: str | None = None) -> dict[str, Any]:
    """Count the memory of a plan, slot by slot, and convert it to JSON.

    Sizes are in bytes, times in seconds. Samples are numbered: 0 is before the first slot, 2 * k + 1 after the copies
    of slot k, 2 * k + 2 after its outputs. The copies are issued at `start_s`, the block begins at `block_s`. An
    allocation lives at the samples from `first` up to but not including `end`.

    Raises:
        MemoryRefusal: it has too many slots.
    """
    rounds = 1 if plan.placements.rounds is None else plan.placements.rounds.count
    if (slots := rounds * len(plan.graph.blocks)) > MOST_SLOTS:
        message = f"the plan runs up to {slots:,} blocks; the memory of at most {MOST_SLOTS:,} is counted one by one"
        raise MemoryRefusal(message)
    mesh_shape = MeshShape(mesh.axis_sizes)
    cache = ResultCache(mesh_shape.part(plan.placements.devices))
    program = expand(plan.graph, plan.placements, mesh_shape, cache)
    profile = profile_memory(program, mesh.part(program.axes), compute_dtype=compute_dtype, cache=cache)
    classes = profile.device_classes()
    roles = tensor_roles(plan.graph)
    numbers = {block.site: k for k, block in enumerate(plan.graph.blocks)}
    steps = [slot.step for slot in program.slots]
    peaks = [_peak(profile, devices[0]) for devices in classes]
    fullest = max(range(len(classes)), key=lambda k: peaks[k][1])
    return {
        "predicted_bytes": int(plan.cost["peak_memory_bytes"]),
        "counted_bytes": int(profile.execution.peak_memory_bytes.max()),
        "roles": list(ROLES),
        "blocks": [block.site for block in plan.graph.blocks],
        "slots": {
            "block": [numbers[step.site] for step in steps],
            "round": [step.round for step in steps],
            "stage": [step.stage for step in steps],
        },
        "end_s": profile.execution.makespan_ticks / TICKS_PER_S,
        "classes": [
            {
                "devices": list(devices),
                "capacity_bytes": int(profile.capacity_bytes[devices[0]]),
                "peak_bytes": peak,
                "peak_sample": sample,
                "start_s": (profile.slot_ticks[:, devices[0]] / TICKS_PER_S).tolist(),
                "block_s": (profile.block_ticks[:, devices[0]] / TICKS_PER_S).tolist(),
            }
            for devices, (sample, peak) in zip(classes, peaks, strict=True)
        ],
        "allocations": _columns(profile, program, roles, [devices[0] for devices in classes]),
        "peak": {
            "class": fullest,
            **_peak_document(profile, program, roles, classes[fullest][0], peaks[fullest][0]),
        },
    }


def _peak(profile: MemoryProfile, device: int) -> tuple[int, int]:
    """Return the first sample at which the most lives on a device, and those bytes."""
    live = profile.live_bytes(device)
    return int(live.argmax()), int(live.max())


def _role(each: Allocation, program: ExplicitGraph, roles: Mapping[str, str]) -> str:
    if each.kind in (COPY, STAGING):
        return COPIES if each.kind == COPY else STAGED
    return roles[program.buffers[each.buffer].tensor]


def _columns(
    profile: MemoryProfile, program: ExplicitGraph, roles: Mapping[str, str], devices: Sequence[int]
) -> dict[str, Any]:
    """Return the allocations that are not empty, as columns; sizes are those on one device of each class."""
    kept = [each for each in profile.allocations if each.size_bytes.any()]
    tensors = {tensor: k for k, tensor in enumerate(dict.fromkeys(_tensor(e, program) for e in kept))}
    sizes = np.array([each.size_bytes[list(devices)] for each in kept], dtype=np.int64)
    return {
        "tensors": [
            {
                "name": name,
                "role": roles[name],
                "dtype": program.abstract.tensors[name].dtype,
                "shape": list(program.abstract.tensors[name].shape),
                "made_by": program.abstract.producers[name].site,
            }
            for name in tensors
        ],
        "buffer": [each.buffer for each in kept],
        "tensor": [tensors[_tensor(each, program)] for each in kept],
        "role": [ROLES.index(_role(each, program, roles)) for each in kept],
        "first": [each.first for each in kept],
        "end": [each.end for each in kept],
        "bytes": sizes.reshape(-1, len(devices)).T.tolist(),
    }


def _tensor(each: Allocation, program: ExplicitGraph) -> str:
    return program.buffers[each.buffer].tensor


def _peak_document(
    profile: MemoryProfile, program: ExplicitGraph, roles: Mapping[str, str], device: int, sample: int
) -> dict[str, Any]:
    """Return what lives on a device at its peak: the bytes of each role, and the largest allocations."""
    live = [
        each for each in profile.allocations if each.first <= sample < each.end and each.size_bytes[device]
    ]
    live.sort(key=lambda each: (-int(each.size_bytes[device]), each.buffer))
    by_role = dict.fromkeys(ROLES, 0)
    for each in live:
        by_role[_role(each, program, roles)] += int(each.size_bytes[device])
    slot = None if sample == 0 else (sample - 1) // 2
    return {
        "device": device,
        "sample": sample,
        "slot": slot,
        "block": None if slot is None else program.slots[slot].step.site,
        "round": None if slot is None else program.slots[slot].step.round,
        "bytes": sum(by_role.values()),
        "roles": by_role,
        "live_count": len(live),
        "live": [
            {
                "buffer": each.buffer,
                "tensor": _tensor(each, program),
                "role": _role(each, program, roles),
                "of": roles[_tensor(each, program)],
                "bytes": int(each.size_bytes[device]),
                "spec": str(program.buffers[each.buffer].spec),
            }
            for each in live[:MOST_LIVE]
        ],
    }
