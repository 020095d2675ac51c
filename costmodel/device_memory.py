"""The terms of `device_memory_bytes`: what one device holds beside the tensors of a plan."""

from __future__ import annotations

from collections.abc import Mapping

from tapestry.hardware.device import Device

TENSORS, WHOLE = "peak_memory_bytes", "device_memory_bytes"
FIXED = (
    "context_bytes",
    "workspace_bytes",
    "allocator_bytes",
)  # figures of the device that are terms as they are
BUFFERS = "communicator_bytes"


def device_memory_terms(cost: Mapping[str, float], device: Device) -> dict[str, int]:
    """Return what the fullest device holds under a plan of this cost, in bytes by term of the objective's expression.

    The buffers of collectives are those of all axes of the mesh that the plan uses. Empty for a device that lacks a
    figure, and for a cost that an earlier release stored without the sum.
    """
    fixed = {name: getattr(device, name) for name in FIXED}
    if WHOLE not in cost or None in fixed.values():
        return {}
    tensors, whole = int(cost[TENSORS]), int(cost[WHOLE])
    return {TENSORS: tensors, **fixed, BUFFERS: whole - tensors - sum(fixed.values())}
